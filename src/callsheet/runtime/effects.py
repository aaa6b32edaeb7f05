"""The side effects that lie ahead of a run that branches off, as data and as text for people.

Also what all previews of them share: the calls that are open, those of the parent, and the effect of each.
Every face that asks for consent shows these texts: each call with the arguments that it will have,
`old → new` where they differ from those of the parent's call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from callsheet.ir import JSON, CallKind, Effect, Step, call_kind
from callsheet.machine import Ask, CallTool, Probe, RunAgent, Sleep, ToolFacts
from callsheet.machine.agents.actions import names_its_tools, tools_named
from callsheet.machine.forecasting import Foreseen, Unknown, is_known
from callsheet.machine.forecasting.partial_values import is_same
from callsheet.machine.frames import Attempt
from callsheet.machine.keys import item_of
from callsheet.machine.program import Kind
from callsheet.machine.questions import Approval
from callsheet.store.branch import KnownCall
from callsheet.store.folded import Folded
from callsheet.views.columns import CUT, escaped
from callsheet.views.describe import LTP, Wording
from callsheet.views.dry_run import shown

REPLAN = "RE-PLAN"

_MAX_CALLS = 20
_MAX_SUMMARY = 3
_MAX_VALUE = 160
_LEAD = 40
"""How much of two long texts is shown before the place where they differ."""


class EarlierCall(NamedTuple):
    """A call of the parent run, with the event at which it left."""

    event: int
    tool: str
    args: Mapping[str, JSON]
    in_doubt: bool = False
    """Whether it is unknown whether it took place."""


@dataclass(frozen=True, slots=True)
class AheadCall:
    """A call that the new run will make, or may make.

    `args` are those that it sends; placeholders stand for what only the run will know. `key` is "" if the
    call stands for each of several. With `is_next` it is made at once, with `is_sure` unless a step fails
    before. `earlier` is the parent's call in its place, if any, and `is_same` says that it had exactly these
    arguments. `in_doubt` means that it had left when the run branched off, with unknown outcome.
    A call without a key is made for each item or round, as `per` says.
    """

    key: str
    args: Mapping[str, Foreseen]
    is_next: bool = False
    is_sure: bool = False
    in_doubt: bool = False
    earlier: EarlierCall | None = None
    per: str = "item"
    is_same: bool = False

    @property
    def is_known(self) -> bool:
        """Whether all arguments are known."""
        return all(map(is_known, self.args.values()))

    @property
    def event(self) -> int | None:
        """The number of the parent's event at which the call in its place left."""
        return None if self.earlier is None else self.earlier.event


@dataclass(frozen=True, slots=True)
class EffectAhead:
    """A step of the new run that may have side effects.

    `effect` is that of its tool; for agents and new plans it is `unsafe`, and `may_call` are the tools with
    side effects that they may call, as far as known. `more` counts calls beyond those in `calls`, None if
    there is no bound. `repeats` says that the step may be reached again, with other arguments, and
    `on_failure` that only a failure leads to it. `earlier` are the calls that the `parent` made there and
    that no entry of `calls` names, unless all calls of the step are known.
    """

    step: str
    tool: str
    effect: Effect
    parent: str
    calls: tuple[AheadCall, ...] = ()
    may_call: tuple[str, ...] = ()
    more: int | None = 0
    repeats: bool = False
    on_failure: bool = False
    earlier: tuple[EarlierCall, ...] = ()
    words: Wording = field(default=LTP, compare=False, repr=False)
    """How what is not known yet is worded."""

    @property
    def title(self) -> str:
        """The step and its tool, on one line."""
        inner = f", may call {', '.join(map(self.words.tool, self.may_call))}" if self.may_call else ""
        return f"{self.step}  {self.called(self.tool)} ({self.effect}{inner})"

    def called(self, tool: str) -> str:
        """What is called, as the plan names it."""
        return tool if tool == REPLAN else self.words.tool(tool)

    def lines(self) -> list[str]:
        """The calls of the step, each on one line."""
        lines = [self._line(call) for call in self.calls[:_MAX_CALLS]]
        left = len(self.calls) - _MAX_CALLS
        if self.more is None or left + self.more > 0:
            count = "more calls" if self.more is None else _calls(max(0, left) + self.more)
            lines.append(f"and {count}" if lines else f"{count}, if the run reaches it")
        if not lines:
            lines.append("if the run reaches it; its arguments are not known yet")
        if self.repeats:
            lines.append("and again, with other arguments, whenever the plan comes back to it")
        for call in self.earlier[:_MAX_CALLS]:
            name = "" if call.tool == self.tool else f"{self.called(call.tool)} "
            doubt = ", in doubt: it may have taken place" if call.in_doubt else ""
            made = f"{name}{_arguments(call.args, self.words)}"
            lines.append(f"in {self.parent}, at event {call.event}{doubt}: {made}")
        if len(self.earlier) > _MAX_CALLS:
            lines.append(f"in {self.parent}: {_calls(len(self.earlier) - _MAX_CALLS)}")
        return lines

    def _line(self, call: AheadCall) -> str:
        if call.in_doubt:
            lead = "in doubt, it may have taken place"
        elif call.is_next:
            lead = "next"
        elif not call.key:
            lead = f"for each {call.per}"
        elif self.on_failure:
            lead = "only after a failure"
        else:
            lead = "then" if call.is_sure else "if the run reaches it"
        earlier = call.earlier
        if earlier is None:
            return f"{lead}: {_arguments(call.args, self.words)}"
        place = f"event {earlier.event} of {self.parent}"
        if earlier.tool != self.tool:
            was = f"{self.called(earlier.tool)} {_arguments(earlier.args, self.words)}"
            return f"{lead}: {_arguments(call.args, self.words)} (instead of {was} at {place})"
        if call.is_same:
            return f"{lead}, as at {place}: {_arguments(call.args, self.words)}"
        return f"{lead}, instead of {place}: {_changes(earlier.args, call.args, self.words)}"

    def __str__(self) -> str:
        return "\n    ".join((self.title, *self.lines()))

    def to_json(self) -> dict[str, Any]:
        """The step with its calls as data; `unknown` names arguments of which parts are placeholders."""
        return {
            "step": self.step,
            "tool": self.tool,
            "effect": str(self.effect),
            "may_call": list(self.may_call),
            "calls": [_call_json(call) for call in self.calls],
            "more": self.more,
            "repeats": self.repeats,
            "on_failure": self.on_failure,
            "earlier": [_earlier_json(call) for call in self.earlier],
            "text": self.lines(),
        }


def summary(effects: Sequence[EffectAhead]) -> str:
    """What lies ahead, on one line: the first steps with their first calls."""
    named = "; ".join(
        f"{each.step} {each.called(each.tool)} ({each.effect}) {', '.join(each.lines()[:_MAX_SUMMARY])}"
        for each in effects[:_MAX_SUMMARY]
    )
    more = len(effects) - _MAX_SUMMARY
    return f"{named}; and {more} more steps" if more > 0 else named


def same_arguments(left: Mapping[str, Foreseen], right: Mapping[str, Foreseen]) -> bool:
    """Whether two calls have the same arguments, in whatever order."""
    return left.keys() == right.keys() and all(is_same(value, right[name]) for name, value in left.items())


# ---------------------------------------------------------------- text


def _calls(count: int) -> str:
    return f"{count:,} more call{'' if count == 1 else 's'}"


def _arguments(args: Mapping[str, Foreseen], words: Wording) -> str:
    return ", ".join(f"{name}={_cut(_text(value, words))}" for name, value in args.items()) or "no arguments"


def _changes(old: Mapping[str, JSON], new: Mapping[str, Foreseen], words: Wording) -> str:
    """The arguments of a call, `old → new` where they differ."""
    parts: list[str] = []
    for name, value in new.items():
        if name not in old:
            parts.append(f"{name}=(none) → {_cut(_text(value, words))}")
        elif is_same(old[name], value):
            parts.append(f"{name}={_cut(_text(value, words))}")
        else:
            before, after = _apart(_text(old[name], words), _text(value, words))
            parts.append(f"{name}={before} → {after}")
    parts += [
        f"{name}={_cut(_text(value, words))} → (none)" for name, value in old.items() if name not in new
    ]
    return ", ".join(parts) or "no arguments"


def _text(value: Foreseen, words: Wording) -> str:
    """A value as JSON on one line; placeholders are in angle brackets outside quotes."""
    return (
        escaped(json.dumps(value, ensure_ascii=False, default=str))
        if is_known(value)
        else shown(value, words)
    )


def _cut(text: str) -> str:
    if len(text) <= _MAX_VALUE:
        return text
    return f"{text[:_MAX_VALUE]}{CUT} ({len(text):,} characters)"


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two different texts, cut so that the difference stays visible."""
    common = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
    common = min(len(old), len(new)) if common is None else common
    start = common - _LEAD if common > _MAX_VALUE - _LEAD else 0
    before, after = (_cut(text[start:]) for text in (old, new))
    return (f"{CUT}{before}", f"{CUT}{after}") if start else (before, after)


# ---------------------------------------------------------------- data


def _call_json(call: AheadCall) -> dict[str, Any]:
    return {
        "key": call.key,
        "args": {name: value if is_known(value) else shown(value) for name, value in call.args.items()},
        "unknown": [name for name, value in call.args.items() if not is_known(value)],
        "next": call.is_next,
        "sure": call.is_sure,
        "in_doubt": call.in_doubt,
        "event": call.event,
        "same": call.is_same,
        "before": None if call.earlier is None or call.is_same else _earlier_json(call.earlier),
    }


def _earlier_json(call: EarlierCall) -> dict[str, Any]:
    return {"event": call.event, "tool": call.tool, "args": dict(call.args)}


def digest_text(run_id: str, event: int, effects: Sequence[EffectAhead]) -> str:
    """All that is shown for consent, as one text: equal texts mean equal calls."""
    return json.dumps([run_id, event, [each.to_json() for each in effects]], sort_keys=True, default=str)


# ---------------------------------------------------------------- where the calls come from

_NOT_SHOWN = Unknown("not shown")


@dataclass(frozen=True, slots=True)
class ParentCalls:
    """The calls of the parent that the new run does not inherit.

    `calls` have their true arguments, for comparison; `shown` are those that may be shown, by key, None if
    all may. `hidden` are variables of the new run whose values may not be shown, None if none may be.
    """

    run_id: str
    calls: Sequence[KnownCall]
    shown: Mapping[str, Mapping[str, JSON]] | None = None
    hidden: Collection[str] | None = field(default_factory=frozenset[str])

    def args_of(self, call: KnownCall) -> Mapping[str, JSON]:
        """The arguments of a call as they may be shown."""
        if self.shown is None:
            return call.args
        return self.shown.get(call.key) or dict.fromkeys(call.args, "…")

    def earlier(self, call: KnownCall) -> EarlierCall:
        """A call of the parent as it may be shown."""
        return EarlierCall(call.seq, call.tool, self.args_of(call))

    def compared(
        self, call: AheadCall, tool: str, before: KnownCall | None, true_args: Mapping[str, Foreseen]
    ) -> AheadCall:
        """The call with that of the parent under the same key, if there is one."""
        if before is None:
            return call
        is_equal = before.tool == tool and same_arguments(true_args, before.args)
        shown = self.args_of(before) if is_equal else call.args
        return replace(call, args=shown, earlier=self.earlier(before), is_same=is_equal)

    def with_open(
        self, call: OpenCall, before: KnownCall | None, planned: Callable[[], Mapping[str, Foreseen]]
    ) -> AheadCall:
        """An open call, compared; if not all may be shown, its arguments are those `planned` that it has."""
        args: dict[str, Foreseen] = dict(call.args)
        if self.shown is not None:
            expected = planned()
            for name, value in call.args.items():
                shown = expected.get(name, _NOT_SHOWN)
                args[name] = _NOT_SHOWN if is_known(shown) and not is_same(shown, value) else shown
        ahead = AheadCall(call.key, args, call.is_next, is_sure=call.is_next, in_doubt=call.in_doubt)
        return self.compared(ahead, call.tool, before, call.args)


class OpenCall(NamedTuple):
    """A call that the new run makes as soon as it goes on, or once it is approved."""

    key: str
    step: str
    tool: str
    args: Mapping[str, JSON]
    is_next: bool = True
    in_doubt: bool = False


def calls_that_are_open(folded: Folded) -> Iterator[OpenCall]:
    """The calls that are made when the run goes on, and those that wait for an approval or a retry."""
    machine, doubtful = folded.machine, folded.in_doubt()
    asked = {attempt.key: attempt for attempt, _ in machine.asking.open()}
    for key, command in folded.waiting.items():
        match command:
            case CallTool(step=step, tool=tool, args=args):
                yield OpenCall(key, step, tool, args, in_doubt=key in doubtful)
            case RunAgent(step=step, tool=tool, inputs=inputs, args=args):
                yield OpenCall(key, step, tool, {"inputs": inputs, **args}, in_doubt=key in doubtful)
            case Probe(call=call):
                yield OpenCall(key, call.step, call.tool, call.args, in_doubt=True)
            case Ask(asked=Approval(answer=())) if key in asked:
                yield _of_attempt(key, asked[key])
            case Sleep() if key in machine.asleep:
                attempt = machine.asleep[key]
                yield _of_attempt(f"{item_of(key)}.{attempt.number + 1}", attempt)
            case _:
                pass


def _of_attempt(key: str, attempt: Attempt) -> OpenCall:
    args: Mapping[str, JSON] = attempt.args
    if attempt.code.kind is Kind.AGENT:
        args = {"inputs": attempt.inputs, **args}
    return OpenCall(key, attempt.frame.code.id, attempt.code.tool, args, is_next=False)


def effect_of(tool: str, step: Step | None, facts: Mapping[str, ToolFacts]) -> Effect | None:
    """The effect of a call ahead of this tool, or of a RE-PLAN; None for one without side effects.

    `step` is that of the call, which says what an agent is given.
    """
    if tool == REPLAN:
        return Effect.UNSAFE
    known = facts.get(tool, ToolFacts())
    match call_kind(tool):
        case CallKind.MODEL | CallKind.HUMAN | CallKind.TRANSFORM:
            return None
        case CallKind.AGENT:
            is_harmless = known.loop is not None and not inner_tools(tool, step, facts)
            return None if is_harmless else Effect.UNSAFE
        case CallKind.TOOL:
            return None if known.effect.only_reads else known.effect


def inner_tools(tool: str, step: Step | None, facts: Mapping[str, ToolFacts]) -> tuple[str, ...]:
    """The tools with side effects that the agent of a step may call; none for a call that the agent makes."""
    call, known = None if step is None else step.call, facts.get(tool)
    if call is None or call.tool != tool or known is None or known.loop is None:
        return ()
    named = tools_named(call) if names_its_tools(call) else known.loop.tools
    return tuple(t for t in named or () if not facts.get(t, ToolFacts()).effect.only_reads)
