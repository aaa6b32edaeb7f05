"""What one policy permits that another does not, in words: by tool, what passes, what asks, what is refused.

In: two policies, the tools. Out: sentences. Each tool is judged by the rules of both policies with calls of
the kinds that matter: public and private data, chosen by the plan or by strangers, for known and unknown
receivers. So what is said follows from the rules and not from how the policies are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from callsheet.api.policy_entries import bind_policy
from callsheet.ir.labels import LITERAL, TRUSTED, UNKNOWN, Label
from callsheet.policy.builtins import BUILTINS, CONTROL_WORDS, Traits
from callsheet.policy.calls import Argument, CallView, Hole
from callsheet.policy.canon import Difference, differences
from callsheet.policy.judge import Judge
from callsheet.policy.model import Policy
from callsheet.policy.rules.receivers import names_recipients
from callsheet.ports.tools import Registry, ToolSpec

_STRANGERS = Label(True)
_TOOL_PARTS = ("tools", "entries", "classes", "name")


class Outcome(IntEnum):
    """What becomes of a call, the strictest first."""

    REFUSED = 0
    ASKED = 1
    PERMITTED = 2

    @property
    def word(self) -> str:
        """The outcome as people say it."""
        return ("refused", "asked about", "permitted")[self]


class Shift(NamedTuple):
    """A kind of call of a tool that the policies treat differently."""

    tool: str
    kind: str
    before: Outcome
    now: Outcome

    @property
    def permits_more(self) -> bool:
        """Whether the new policy is less strict about it."""
        return self.now > self.before

    def __str__(self) -> str:
        return f"@{self.tool}, {self.kind}: {self.before.word} before, {self.now.word} now"


class Explanation(NamedTuple):
    """How a policy differs from another one: kinds of calls, and parts that concern no single tool."""

    shifts: tuple[Shift, ...]
    others: tuple[Difference, ...]

    def lines(self) -> Iterator[str]:
        """The explanation, what is newly permitted first."""
        for title, more in (("newly permitted or asked about", True), ("stricter than before", False)):
            found = [shift for shift in self.shifts if shift.permits_more is more]
            if found:
                yield f"{title}:"
                yield from (f"  {shift}" for shift in found)
        if self.others:
            yield "other parts that differ:"
            yield from (f"  {difference}" for difference in self.others)
        if not self.shifts and not self.others:
            yield "the policies permit the same"


def explanation(before: Policy, now: Policy, registry: Registry) -> Explanation:
    """How the policy `now` differs from the one `before`, for these tools and the built-in ones."""
    old, new = (Judge(bind_policy(policy, registry)[0]) for policy in (before, now))
    shifts: list[Shift] = []
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    for tool in dict.fromkeys((*specs, *sorted(BUILTINS.keys() - CONTROL_WORDS))):
        spec = specs.get(tool)
        known = [each for judge in (old, new) if (each := judge.traits(tool)) is not None]
        for kind, call in _calls(tool, spec, known, now):
            outcomes = _outcome(old, call), _outcome(new, call)
            if outcomes[0] is not outcomes[1]:
                shifts.append(Shift(tool, kind, *outcomes))
    parts = differences(before, now)
    others = tuple(each for each in parts if each.part.partition(".")[0] not in _TOOL_PARTS)
    return Explanation(tuple(_least(shifts)), others)


def _outcome(judge: Judge, call: CallView) -> Outcome:
    judged = judge.judge(call)
    if judged.objections:
        return Outcome.REFUSED
    return Outcome.ASKED if judged.approvals else Outcome.PERMITTED


def _least(shifts: Sequence[Shift]) -> Iterator[Shift]:
    """The shifts, of a tool that is treated differently in every way only the first."""
    plain = {(shift.tool, shift.before, shift.now) for shift in shifts if shift.kind == _PLAIN}
    for shift in shifts:
        if shift.kind == _PLAIN or (shift.tool, shift.before, shift.now) not in plain:
            yield shift


_PLAIN = "with data of the plan"


def _calls(
    tool: str, spec: ToolSpec | None, known: Sequence[Traits], policy: Policy
) -> Iterator[tuple[str, CallView]]:
    """Calls of the kinds that matter, each with the words for it."""
    traits = known[0] if known else Traits()
    names = list(traits.parameters if spec is None else spec.parameter_names) or ["text"]
    audience = next((each.audience for each in known if each.audience is not None), None)
    places = {each.path for each in known} | {each.address for each in known}
    place = next((name for name in places if name is not None), None)

    def call(label: Label, who: str | None = None, pc: Label = LITERAL) -> CallView:
        arguments: list[Argument] = []
        for name in names:
            if name == audience and who is not None:
                arguments.append(Argument(name, (who,)))
            elif name == place:
                arguments.append(Argument(name, (_place(known),)))
            elif name == audience and label is not LITERAL:
                arguments.append(Argument(name, ("someone@example.org",)))
            elif audience is not None and names_recipients(Argument(name, ("",))):
                arguments.append(Argument(name, ("",)))
            else:
                arguments.append(_argument(name, label))
        return CallView("S1", tool, tuple(arguments), pc)

    yield _PLAIN, call(LITERAL)
    yield "with text of strangers", call(_STRANGERS)
    if audience is None:
        yield "with private data", call(Label(False, UNKNOWN.readers))
    else:
        yield "with private data for a stranger", call(Label(False, UNKNOWN.readers), "someone@example.org")
        for who in _known(policy, known):
            yield f"with private data for {who}", call(Label(False, UNKNOWN.readers), who)
        told = [_argument(name, _STRANGERS if name == audience else LITERAL) for name in names]
        yield "for whom a stranger's text names", CallView("S1", tool, tuple(told))
    yield "whenever a stranger's text says so", call(LITERAL, pc=_STRANGERS)


def _argument(name: str, label: Label) -> Argument:
    return Argument(name, ("a text",) if label is LITERAL else (Hole("x", label, "a text"),), label)


def _place(known: Sequence[Traits]) -> str:
    if any(each.on_host for each in known):
        return "/var/data/notes.txt"
    return "notes.txt" if any(each.path for each in known) else "https://example.org/"


def _known(policy: Policy, known: Sequence[Traits]) -> Iterator[str]:
    """An example of each recipient whom one of the policies trusts."""
    mail = [pattern for each in policy.audiences if each.name == TRUSTED for pattern in each.mail]
    named = [pattern for traits in known for pattern in traits.trusted_audience]
    yield from dict.fromkeys(pattern.replace("*", "someone") for pattern in (*mail, *named))
