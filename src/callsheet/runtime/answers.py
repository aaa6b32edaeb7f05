"""Answers of people: what may be answered, which answer fits a question, and which letter holds one.

In: what a run has asked, letters from its inbox. Out: the event of an answer, or why one does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, cast

from callsheet.ir import JSON
from callsheet.ir.labels import read_label
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine import Answered, Approval, Ask, Question, Verdict
from callsheet.machine.questions import Asked
from callsheet.passes.schema import literal_value, misfits
from callsheet.sealing.masking import hidden
from callsheet.sealing.opening import is_sealed
from callsheet.sealing.placeholders import is_nothing
from callsheet.sealing.veiled import Veiled
from callsheet.store.inbox import Letter
from callsheet.store.snapshots import Posed


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Veiled):
    """What a person says to a question or an approval.

    `by` names the person and `note` is what they want to be known beside it; both are kept in
    the journal.
    """

    verdict: Verdict
    value: JSON = None
    by: str = ""
    note: str = ""

    @classmethod
    def approve(cls, *, by: str = "", note: str = "") -> Answer:
        """Yes: the call is made; a question without options and schema gets `true`."""
        return cls(Verdict.APPROVE, None, by, note)

    @classmethod
    def deny(cls, *, by: str = "", note: str = "") -> Answer:
        """No: the step fails."""
        return cls(Verdict.DENY, None, by, note)

    @classmethod
    def of(cls, value: JSON, *, by: str = "", note: str = "") -> Answer:
        """The answer to a question."""
        return cls(Verdict.ANSWER, value, by, note)


@dataclass(frozen=True, slots=True, repr=False)
class PendingAsk(Veiled):
    """What a run waits for: the answer to a step's question, or a yes to a call.

    Of a question: `prompt`, `options` (the only answers, if any) and `schema`. Of a call: `tool`,
    `args` (exactly those that it is made with), `inputs` of a model operation, and `plan_hash`; under a
    policy `why` it asks, and the `labels` of the arguments that are not plain, with the steps they come from.
    Where `answer` has one, the call was made, and the yes is to what it gave.
    `since` and `until` are wall times in seconds since 1970; `until` is None for what waits for
    ever. `digest` is a hash of all that is asked: an answer is bound to it. `is_answered` says
    that an answer lies in the inbox and that the run has not gone on with it yet.
    """

    run_id: str
    key: str
    step: str
    kind: Literal["question", "approval"]
    digest: str
    since: float
    until: float | None = None
    prompt: str = ""
    options: tuple[JSON, ...] = ()
    schema: Mapping[str, JSON] | None = None
    tool: str = ""
    args: Mapping[str, JSON] | None = None
    inputs: tuple[JSON, ...] = ()
    plan_hash: str = ""
    is_answered: bool = False
    why: tuple[str, ...] = ()
    labels: Mapping[str, JSON] | None = None
    answer: tuple[JSON, ...] = ()


def readable(asked: Asked) -> Asked:
    """What is asked, without the arguments that nobody may read by their labels."""
    if not isinstance(asked, Approval):
        return asked
    labels = cast("Mapping[str, Mapping[str, str]]", asked.labels)
    secret = {name for name, told in labels.items() if read_label(told["label"]).is_secret}
    args = {name: hidden(value) if name in secret else value for name, value in asked.args.items()}
    inputs = tuple(map(hidden, asked.inputs)) if secret - args.keys() else asked.inputs
    why = tuple(map(hidden, asked.why)) if secret else asked.why
    return asked._replace(args=args, inputs=inputs, why=why)


def pending(
    run_id: str, key: str, step: str, asked: Asked, posed: Posed, *, is_answered: bool = False
) -> PendingAsk:
    """What is asked, as people are shown it; a copy, that may be changed without changing the run."""
    match deepcopy(asked):
        case Question() as q:
            return PendingAsk(
                run_id, key, step, "question", q.digest, posed.since, posed.due,
                prompt=q.prompt, options=q.options, schema=q.schema, is_answered=is_answered,
            )  # fmt: skip
        case Approval() as a:
            return PendingAsk(
                run_id, key, step, "approval", a.digest, posed.since, posed.due, tool=a.tool,
                args=a.args, inputs=a.inputs, plan_hash=a.plan, is_answered=is_answered,
                why=a.why, labels=a.labels, answer=a.answer,
            )  # fmt: skip


def misfit(asked: Asked, answer: Answer) -> str | None:
    """Why an answer does not fit what is asked, None if it does."""
    if answer.verdict is Verdict.EXPIRE:
        return "a person can approve, deny or answer"
    if answer.verdict is Verdict.DENY:
        return None
    if isinstance(asked, Approval):
        return "a call can be approved or denied, not answered" if answer.verdict is Verdict.ANSWER else None
    if answer.verdict is Verdict.APPROVE and not asked.options and asked.schema is None:
        return None
    wanted = "the answer must be " + (
        "one of " + ", ".join(json.dumps(option, ensure_ascii=False) for option in asked.options)
        if asked.options
        else "of the schema that the step gives"
    )
    if answer.verdict is Verdict.APPROVE:
        return f"{wanted}; a yes alone is none"
    try:
        json.dumps(answer.value, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        return f"the answer is not JSON data: {error}"
    if asked.options:
        known = any(_same(option, answer.value) for option in asked.options)
        return None if known else f"{wanted}, and not {_shown(answer.value)}"
    return None if asked.schema is None else _schema_misfit(asked.schema, answer.value)


def _schema_misfit(schema: Mapping[str, JSON], value: JSON) -> str | None:
    for found in misfits(literal_value(value), schema, schema):
        place = f"answer{found.path}"
        if found.wanted:
            return f"the {place} should be {found.wanted}"
        return f"the {place} is {'missing' if found.wrong.name == 'MISSING' else 'not known'}"
    return None


def _same(a: JSON, b: JSON) -> bool:
    return type(a) is type(b) and a == b


def _shown(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def read_answer(asked: PendingAsk, text: str) -> JSON:
    """The value that a text on a command line says: an option by its text, else JSON, else the text."""
    for option in asked.options:
        if text == option or text == json.dumps(option, ensure_ascii=False):
            return option
    try:
        value: JSON = read_json(text)
    except NotJson:
        return text
    if asked.schema is not None and _schema_misfit(asked.schema, value) is not None:
        return text if _schema_misfit(asked.schema, text) is None else value
    return value


def letter_payload(digest: str | None, answer: Answer) -> dict[str, JSON]:
    """What a letter says that holds an answer; without a digest it answers whatever is asked."""
    return {
        "digest": digest,
        "verdict": str(answer.verdict),
        "value": answer.value,
        "by": answer.by,
        "note": answer.note,
    }


def sealed_in(answer: Answer, options: tuple[JSON, ...] = ()) -> tuple[str, ...]:
    """The entries of a letter with this answer that are sealed: what was said freely, whatever it is.

    Who answers does not know all that the run knows to be secret. A yes, a no and one of the `options` of
    the question tell nothing that the question does not.
    """
    is_free = not (is_nothing(answer.value) or isinstance(answer.value, bool) or answer.value in options)
    return (*(("value",) if is_free else ()), *(("note",) if answer.note else ()))


def may_answer(letter: Letter, key: str, asked: Asked) -> bool:
    """Whether a letter holds an answer to what is asked, as far as can be told of one that is sealed."""
    if is_sealed(letter.payload):
        return letter.topic == key and letter.payload.get("digest") == asked.digest
    return answers(letter, key, asked) is not None


def answers(letter: Letter, key: str, asked: Asked) -> Answered | None:
    """The event of the answer that a letter holds to what is asked under this key; None if it is none.

    A letter without a digest was sent before the question: it answers questions, and approves
    no call. One that is sealed is none.
    """
    said = letter.payload
    if is_sealed(said):
        return None
    digest = said.get("digest")
    if letter.topic != key or (
        digest != asked.digest and (digest is not None or isinstance(asked, Approval))
    ):
        return None
    try:
        answer = Answer(
            Verdict(said["verdict"]), said.get("value"), str(said.get("by", "")), str(said.get("note", ""))
        )
    except (KeyError, ValueError):
        return None
    if misfit(asked, answer) is not None:
        return None
    return answered(key, asked, answer, letter.msg_id)


def answered(key: str, asked: Asked, answer: Answer, msg_id: str = "") -> Answered:
    """The event of an answer."""
    return Answered(key, asked.digest, answer.verdict, answer.value, answer.by, answer.note, msg_id)


def found(ask: Ask, posed: Posed, letters: Iterable[Letter], now: float) -> Answered | None:
    """What has become of a question by now: an answer that came in time, the end of its time, or nothing."""
    for letter in letters:
        if posed.due is None or letter.ts < posed.due:
            event = answers(letter, ask.key, ask.asked)
            if event is not None:
                return event
    if posed.due is not None and now >= posed.due:
        return Answered(ask.key, ask.asked.digest, Verdict.EXPIRE)
    return None
