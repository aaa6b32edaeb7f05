"""Detects implicit flows through images: whether an image is loaded can tell its host about private data.

In: the labels of a plan. Out: objections to steps that show something. Images in the text of a guarded step
are judged with that step; this module covers images that arrive through a variable, file, note or fact.
Linear in the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from callsheet.ir import Call
from callsheet.ir.labels import Label, join
from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.reachability import literal_texts, reached, texts_in
from callsheet.policy.builtins import ANSWERS
from callsheet.policy.calls import Objection, Part, Rule
from callsheet.policy.links import images
from callsheet.policy.rules import answers
from callsheet.policy.rules.base import own_texts

_BEGINNINGS = ("!", "![x]")
"""Prefixes that turn a following link or address into an image."""
_LOADS = re.compile(r"\bsrc(?:set)?\s*=", re.IGNORECASE)
_HINT = "show it unconditionally, or answer with text"


def image_objections(
    labels: Labels, numbers: Iterable[int], last: Iterable[int]
) -> Iterator[tuple[int, Objection]]:
    """An ANSWER objection for each of these steps that shows a value whose private presence decides about an
    image.

    The results of the steps in `last` are the plan's implicit answer.
    """
    presence, web = labels.presence, labels.subject.web
    shown = [(number, _shown(labels, number)) for number in numbers]
    shown += [(number, [web.made[number]]) for number in last]
    decided = [
        (n, private) for n, values in shown if (private := [v for v in values if not presence[v].is_public])
    ]
    if not decided:
        return
    revealed = join(presence[value] for _, values in decided for value in values)
    steps = _may_say_images(labels)
    holding = reached(labels.subject, [number for number in steps if _names_image(labels, number, revealed)])
    beginning = reached(labels.subject, [number for number in steps if _begins_image(labels, number)])
    for number, values in decided:
        guilty = [value for value in values if value in holding]
        begun = [] if guilty else [value for value in values if value in beginning]
        if guilty or (begun and _completes_image(labels, number, begun, revealed)):
            name = web.values[(guilty or begun)[0]].name
            message = f"whether ${name} holds an image from outside tells its host about private data"
            yield number, Objection(Rule.ANSWER, message, None, _HINT)


def _may_say_images(labels: Labels) -> list[int]:
    """The steps whose texts may contain or begin an image; all steps if a constant may."""
    subject = labels.subject
    steps = subject.plan.steps
    texts = (text for value in subject.constants.values() for text in texts_in(value))
    if any(_is_sign(text) for text in texts):
        return list(range(len(steps)))
    return [number for number, step in enumerate(steps) if any(map(_is_sign, literal_texts(step)))]


def _is_sign(text: str) -> bool:
    return "!" in text or "<" in text or "url(" in text.casefold()


def _shown(labels: Labels, number: int) -> list[int]:
    """The values that a step shows to the user: in an answer, a question, or its failure message."""
    subject = labels.subject
    reading, seen = subject.readings[number], subject.web.seen[number]
    names = reading.failure
    if subject.prepared[number].tool in ANSWERS:
        names = (*names, *reading.outer(reading.arguments))
    return [seen[name] for name in names if name in seen]


def _completes_image(labels: Labels, number: int, values: list[int], revealed: Label) -> bool:
    """Whether the step's own text forms an image if one of these values is the beginning of one."""
    subject = labels.subject
    names = {subject.web.values[value].name for value in values}
    if subject.prepared[number].tool not in ANSWERS:
        return False
    for call in labels.calls(number):
        parts = answers.parts_of(call)
        own = "".join([_filled(part, names, "") for part in parts])
        if not answers.leads_outside(subject.judge.setting, own, revealed):
            continue
        beginnings = _BEGINNINGS if _LOADS.search(own) is None else (*_BEGINNINGS, "<img ")
        if any(images("".join([_filled(part, names, begun) for part in parts])) for begun in beginnings):
            return True
    return False


def _filled(part: Part, names: set[str], beginning: str) -> str:
    if isinstance(part, str):
        return part
    return beginning if part.name.partition(".")[0] in names else part.text or "x"


def _begins_image(labels: Labels, number: int) -> bool:
    """Whether a step's text contains a prefix that makes an image of what follows it."""
    if not isinstance(labels.subject.plan.steps[number].action, Call):
        return False
    own = [
        text for call in labels.calls(number) for argument in call.arguments for text in own_texts(argument)
    ]
    return any("![" in text or "<i" in text.casefold() or text.endswith("!") for text in own)


def _names_image(labels: Labels, number: int, revealed: Label) -> bool:
    """Whether a step's text contains an image on a host that may not learn data of this label."""
    step, tool = labels.subject.plan.steps[number], labels.subject.prepared[number].tool
    if not isinstance(step.action, Call) or tool in ANSWERS:
        return False
    judge = labels.subject.judge
    return any(
        answers.leaks_through_image(judge.setting, call.behind(revealed, repeats=False))
        for call in labels.calls(number)
    )
