"""Answers of people: which answers a question accepts, and how messages carry them.

In: a run's open questions, messages from its inbox. Out: the event of an answer, or why it does not fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Literal, cast

from callsheet.frontends.unseen import lookalikes
from callsheet.ir import JSON
from callsheet.ir.labels import read_label
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.lazy import dataclass, deferred
from callsheet.machine import Answered, Approval, Ask, Question, Verdict
from callsheet.machine.questions import Asked, approval_headline
from callsheet.passes.fitting import first_misfit
from callsheet.sealing.keys import is_nothing
from callsheet.sealing.masking import MaskedRepr, hidden
from callsheet.sealing.sealer import is_sealed
from callsheet.store.mailbox import Message
from callsheet.store.snapshots import AskTimes

if TYPE_CHECKING:
    from callsheet.runtime import precedents
    from callsheet.views.call_site import CallSite
else:
    precedents = deferred("callsheet.runtime.precedents")


@dataclass(frozen=True, slots=True, repr=False)
class Answer(MaskedRepr):
    """A person's answer to a question or an approval.

    `by` names the person and `note` is a comment; both are kept in the journal. `for_plan` approves also the
    further calls of the step in which everything is equal that decides what they do. `for_program`, the hash
    of the further calls of the plan that were shown, approves those.
    """

    verdict: Verdict
    value: JSON = None
    by: str = ""
    note: str = ""
    for_plan: bool = False
    for_program: str = ""

    @classmethod
    def approve(
        cls, *, by: str = "", note: str = "", for_plan: bool = False, for_program: str = ""
    ) -> Answer:
        """Yes: the call is made; for a question without options and schema the answer is `true`."""
        return cls(Verdict.APPROVE, None, by, note, for_plan, for_program)

    @classmethod
    def deny(cls, *, by: str = "", note: str = "") -> Answer:
        """No: the step fails."""
        return cls(Verdict.DENY, None, by, note)

    @classmethod
    def of(cls, value: JSON, *, by: str = "", note: str = "") -> Answer:
        """The answer to a question."""
        return cls(Verdict.ANSWER, value, by, note)


@dataclass(frozen=True, slots=True, repr=False)
class PendingAsk(MaskedRepr):
    """What a run waits for: the answer to a question, or the approval of a call.

    For a question: `prompt`, `options` (the only answers, if any) and `schema`. For an approval: `tool`,
    `args` (exactly those of the call), `inputs` of a model operation, and `plan_hash`; under a policy also
    the reasons `why`, and the `labels` of arguments that are not plain, with the steps they come from. If
    `answer` is not empty, the call was already made and its result is to be approved. `role` is the one that
    the run's policy demands of whoever answers, known while the run goes on: with one, only a server that
    knows its people takes an answer. `since` and `until` are
    wall times in seconds since 1970; `until` is None without a time limit. `digest` is a hash of everything
    that is asked, to which an answer is bound. `is_answered` means that an answer is in the inbox and has not
    been processed yet. `site` is where the call stands in the text of the plan: the conditions
    around it and its own lines, as they are written; None for a question, and where that text is not known.
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
    role: str = ""
    site: CallSite | None = None

    @property
    def headline(self) -> str:
        """What is asked, in one text."""
        if self.kind == "question":
            return self.prompt
        return approval_headline(self.tool_as_written, self.answer, self.why)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons to ask, which name the tool as the plan does."""
        return tuple(named_as_written(self.site, self.tool, why) for why in self.why)

    @property
    def tool_as_written(self) -> str:
        """The tool as the plan names it."""
        return f"@{self.tool}" if self.site is None else self.site.tool

    @property
    def answered_by(self) -> str:
        """Who has to answer, and how, where nobody present can."""
        if self.role:
            return f"somebody with the role {self.role} (at `callsheet serve --people FILE`)"
        return f"a person (callsheet inbox; callsheet approve {self.run_id} {self.key})"


def named_as_written(site: CallSite | None, tool: str, why: str) -> str:
    """A reason to ask about a call, with the tool as the plan names it."""
    return why if site is None else re.sub(rf"@{re.escape(tool)}\b", lambda _: site.tool, why)


def readable(asked: Asked) -> Asked:
    """The question without arguments that are secret by their labels."""
    if not isinstance(asked, Approval):
        return asked
    labels = cast("Mapping[str, Mapping[str, str]]", asked.labels)
    secret = {name for name, label in labels.items() if read_label(label["label"]).is_secret}
    args = {name: hidden(value) if name in secret else value for name, value in asked.args.items()}
    inputs = tuple(map(hidden, asked.inputs)) if secret - args.keys() else asked.inputs
    why = tuple(map(hidden, asked.why)) if secret else asked.why
    return asked._replace(args=args, inputs=inputs, why=why)


def pending(
    run_id: str,
    key: str,
    step: str,
    asked: Asked,
    posed: AskTimes,
    *,
    is_answered: bool = False,
    role: str = "",
    site: CallSite | None = None,
) -> PendingAsk:
    """The question as it is shown to people; a deep copy, so changing it does not affect the run."""
    match deepcopy(asked):
        case Question() as q:
            return PendingAsk(
                run_id, key, step, "question", q.digest, posed.since, posed.due,
                prompt=q.prompt, options=q.options, schema=q.schema, is_answered=is_answered, role=role,
            )  # fmt: skip
        case Approval() as a:
            return PendingAsk(
                run_id, key, step, "approval", a.digest, posed.since, posed.due, tool=a.tool,
                args=a.args, inputs=a.inputs, plan_hash=a.plan, is_answered=is_answered,
                why=a.why, labels=a.labels, answer=a.answer, role=role, site=site,
            )  # fmt: skip


def misfit(asked: Asked, answer: Answer) -> str | None:
    """Why an answer does not fit a question, None if it does."""
    if answer.verdict is Verdict.EXPIRE:
        return "a person can approve, deny or answer"
    if (answer.for_plan or answer.for_program) and (
        answer.verdict is not Verdict.APPROVE or not is_call(asked)
    ):
        return "only a call can be approved for the plan; a question, and a no, is for once"
    if answer.verdict is Verdict.DENY:
        return None
    if isinstance(asked, Approval):
        return "a call can be approved or denied, not answered" if answer.verdict is Verdict.ANSWER else None
    if answer.verdict is Verdict.APPROVE and not asked.options and asked.schema is None:
        return None
    wanted = "the answer must be " + (
        "one of " + ", ".join(json.dumps(option, ensure_ascii=False) for option in asked.options)
        if asked.options
        else "JSON that matches the schema of the step"
    )
    if answer.verdict is Verdict.APPROVE:
        return f"{wanted}; a plain approval is not enough"
    try:
        json.dumps(answer.value, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        return f"the answer is not JSON data: {error}"
    if asked.options:
        known = any(_same(option, answer.value) for option in asked.options)
        return None if known else f"{wanted}, and not {_shown(answer.value)}"
    return None if asked.schema is None else _schema_misfit(asked.schema, answer.value)


def is_call(asked: Asked) -> bool:
    """Whether this asks for the approval of a call that has not been made."""
    return isinstance(asked, Approval) and not asked.answer


def _schema_misfit(schema: Mapping[str, JSON], value: JSON) -> str | None:
    misfit = first_misfit(value, schema)
    if misfit is None:
        return None
    place = f"answer{misfit.path}"
    if misfit.wanted:
        return f"the {place} should be {misfit.wanted}"
    return f"the {place} is {'missing' if misfit.wrong.name == 'MISSING' else 'not known'}"


def _same(a: JSON, b: JSON) -> bool:
    return type(a) is type(b) and a == b


def _shown(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def read_answer(asked: PendingAsk, text: str) -> JSON:
    """The value of an answer given as text: an option by its text, else JSON, else the text itself."""
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


def message_payload(digest: str | None, answer: Answer) -> dict[str, JSON]:
    """The payload of a message with an answer; without a digest it answers any question under its key."""
    return {
        "digest": digest,
        "verdict": str(answer.verdict),
        "value": answer.value,
        "by": answer.by,
        "note": answer.note,
    }


def sealed_in(answer: Answer, options: tuple[JSON, ...] = ()) -> tuple[str, ...]:
    """The fields of an answer's message to be sealed: all free text, since it may contain secrets.

    Who answers does not know all the run's secrets. A yes, a no or one of the question's `options` reveals
    nothing beyond the question.
    """
    is_free = not (is_nothing(answer.value) or isinstance(answer.value, bool) or answer.value in options)
    return (*(("value",) if is_free else ()), *(("note",) if answer.note else ()))


def may_answer(message: Message, key: str, asked: Asked) -> bool:
    """Whether a message may answer a question; of a sealed message only key and digest can be checked."""
    if is_sealed(message.payload):
        return message.topic == key and message.payload.get("digest") == asked.digest
    return answers(message, key, asked) is not None


def answers(message: Message, key: str, asked: Asked) -> Answered | None:
    """The event for a message that answers this question under this key; None if it does not.

    A message without a digest was sent before the question: it can answer a question but not approve a call.
    A sealed message is not read.
    """
    payload = message.payload
    if is_sealed(payload):
        return None
    digest = payload.get("digest")
    if message.topic != key or (
        digest != asked.digest and (digest is not None or isinstance(asked, Approval))
    ):
        return None
    try:
        answer = Answer(
            Verdict(payload["verdict"]),
            payload.get("value"),
            str(payload.get("by", "")),
            str(payload.get("note", "")),
        )
    except (KeyError, ValueError):
        return None
    if misfit(asked, answer) is not None:
        return None
    return answered(key, asked, answer, message.msg_id)


def answered(key: str, asked: Asked, answer: Answer, msg_id: str = "") -> Answered:
    """The event of an answer."""
    return Answered(key, asked.digest, answer.verdict, answer.value, answer.by, answer.note, msg_id)


def find_answer(ask: Ask, posed: AskTimes, messages: Iterable[Message], now: float) -> Answered | None:
    """The answer to a question that arrived in time, its expiry, or None; `now` is a wall time in seconds."""
    for message in messages:
        if posed.due is None or message.ts < posed.due:
            event = answers(message, ask.key, ask.asked)
            if event is not None:
                return event
    if posed.due is not None and now >= posed.due:
        return Answered(ask.key, ask.asked.digest, Verdict.EXPIRE)
    return _standing(ask, messages)


def _standing(ask: Ask, messages: Iterable[Message]) -> Answered | None:
    """The event of an approval that was given for the whole plan and covers this call; None without one."""
    if not isinstance(ask.asked, Approval):
        return None
    for message in messages:
        shown = None if is_sealed(message.payload) else message.payload.get(precedents.PROGRAM)
        if shown is not None and precedents.covers_call(shown, ask.asked, ask.key):
            by = str(message.payload.get("by", ""))
            note = f"approved with the program at {message.payload.get('at', '')}"
            return Answered(ask.key, ask.asked.digest, Verdict.APPROVE, None, by, note, message.msg_id)
        covered = None if is_sealed(message.payload) else message.payload.get(precedents.STANDING)
        if isinstance(covered, dict) and precedents.covers(
            cast("dict[str, object]", covered), ask.asked, ask.step
        ):
            by = str(message.payload.get("by", ""))
            note = f"approved for this plan at {message.payload.get('at', '')}"
            return Answered(ask.key, ask.asked.digest, Verdict.APPROVE, None, by, note)
    return None


_MEANINGS = {
    "U/pub": "untrusted, public",
    "U/priv": "untrusted, private",
    "T/priv": "trusted, private",
    "U/retold": "untrusted, private, and a link in it may carry data",
    "U/secret": "untrusted, secret",
    "T/secret": "trusted, secret",
}


def misleading_letters(ask: PendingAsk) -> Iterator[str]:
    """A line for each argument or input with words that read as others than they are."""
    inputs = ((f"({number})", value) for number, value in enumerate(ask.inputs, start=1))
    for name, value in [*(ask.args or {}).items(), *inputs]:
        words = lookalikes(value)
        if words:
            yield f"{name} has letters that look like Latin ones: {', '.join(words)}"


def origins(ask: PendingAsk) -> Iterator[str]:
    """A line for each argument with a label that is recorded: its sources, and who may read it."""
    for name, origin in (ask.labels or {}).items():
        yield f"{name} {_origin(origin)}"


def _origin(origin: JSON) -> str:
    if not isinstance(origin, dict):
        return f"has the label {origin}"
    known = cast("dict[str, JSON]", origin)
    label, steps = str(known.get("label")), known.get("from")
    sources = ", ".join(map(str, steps)) if isinstance(steps, list) else ""
    came_from = f"comes from {sources}" if sources else "comes from outside of the plan"
    meaning = _MEANINGS.get(label)
    return f"{came_from}: {label}" if meaning is None else f"{came_from}: {meaning} ({label})"
