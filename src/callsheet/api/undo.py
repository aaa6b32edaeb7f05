"""Undoes runs: finds the inverses of their tools, and the run that makes the calls.

In: a recorded run and the tools that are open. Out: what undoing it takes, for the person who agrees to it;
then the request for the run of the inverse calls, which is admitted, recorded and resumed like any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, TypedDict

from callsheet.api.admission import Equipment, Request, prepare
from callsheet.api.run_service import record
from callsheet.ir import JSON
from callsheet.ir.inverse import Inverse
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry
from callsheet.runtime.offloading import Offload, at_once
from callsheet.runtime.undo import UNDOES, Irreversible, MadeCall, Reversal, Undoing, prepare_undo
from callsheet.store import Journal, JournalError
from callsheet.views.columns import CUT, escaped

_MOST_CALLS = 50
_MAX_VALUE = 160


def inverse_in(registry: Registry, tool: str) -> tuple[str, Inverse] | None:
    """The inverse of a tool and the name by which plans call it; None if the tool declares none.

    A tool of a server means a tool of the same server. Raises CallsheetError (TOL001, TOL003) for an inverse
    that is not there.
    """
    found = registry.get(tool)
    if found is None or found.spec.undo is None:
        return None
    inverse, (kind, _, server) = found.spec.undo, found.spec.origin.partition(":")
    if kind == "mcp":
        from callsheet.ports.mcp.declarations import qualified_name  # noqa: PLC0415 - only for servers' tools

        name = qualified_name(server, inverse.tool.lower())
        if registry.get(name) is not None:
            return registry.names_of(name)[0], inverse
    return registry.names_of(registry.require(inverse.tool).spec.name)[0], inverse


def require_work(undoing: Undoing) -> None:
    """Raise JournalError (JRN086) if there is nothing to take back."""
    if undoing.reversals:
        return
    lines = undo_lines(undoing)
    raise JournalError(
        "JRN086", f"nothing more of run {undoing.of.run_id} can be undone", hint="\n".join(lines) or None
    )


def undo_request(
    undoing: Undoing, limits: Limits, note: Mapping[str, JSON], policy: Policy | None
) -> Request:
    """The request for the run that undoes another, under this policy.

    The inputs of the plan have the label of all that the calls which it takes back sent and gave.
    """
    return Request(
        plan=undoing.plan,
        inputs=undoing.inputs,
        secret=undoing.secret,
        limits=limits,
        policy=None if policy is None else policy.without_steps().written_by(undoing.label),
        note={**note, UNDOES: undoing.of.run_id},
    )


class UndoTerms(NamedTuple):
    """From which step on a run is undone (empty: all of it), with which limits and note, under which policy.

    `policy` is a policy that was named for it; None for that of the run. `default` applies if there is none.
    """

    start: str
    limits: Limits
    note: Mapping[str, JSON]
    policy: Policy | None = None
    default: Policy | None = None


class UndoNeedsConsent(JournalError):
    """What undoing a run changes needs consent; `undoing` is that, and nothing of it is recorded."""

    def __init__(self, undoing: Undoing, hint: str) -> None:
        told = "\n".join(undo_lines(undoing))
        super().__init__("JRN083", f"undoing has effects: {told}", hint)
        self.undoing = undoing

    @property
    def consent(self) -> str:
        """A code for exactly these calls: equal codes mean equal calls."""
        return consent_to(self.undoing)


def consent_to(undoing: Undoing) -> str:
    """A code for exactly the calls of an undoing, and for what it leaves."""
    told = json.dumps(undo_json(undoing), sort_keys=True, default=str)
    return sha256(told.encode()).hexdigest()


async def foresee_undo(
    journal: Journal, run_id: str, equipment: Equipment, start: str = "", offload: Offload = at_once
) -> Undoing:
    """What undoing a run from a step on takes; nothing is recorded. Raises as `prepare_undo` does."""
    inverse_of = partial(inverse_in, equipment.registry)
    return await offload(
        lambda: prepare_undo(journal, run_id, inverse_of, start=start, known=equipment.known)
    )


async def begin_undo(
    journal: Journal,
    run_id: str,
    equipment: Equipment,
    terms: UndoTerms,
    agrees: Callable[[Undoing], bool],
    offload: Offload = at_once,
) -> str | None:
    """The id of the run that undoes another, recorded and not begun; None unless somebody `agrees` to it.

    An earlier undoing that has not ended is the one; nobody is asked about it again. `resume` continues the
    run. Raises CallsheetError as `prepare_undo`, `require_work` and `prepare` do.
    """
    undoing = await foresee_undo(journal, run_id, equipment, terms.start, offload)
    if undoing.unfinished is not None:
        return undoing.unfinished
    require_work(undoing)
    if not agrees(undoing):
        return None
    policy = terms.policy or undoing.policy or terms.default
    request = undo_request(undoing, terms.limits, terms.note, policy)
    prepared = await offload(lambda: prepare(request, equipment))
    begun = await record(prepared, journal, undoing.run_id)
    assert begun is not None, "no other program has completed steps of it"
    begun.close()
    return undoing.run_id


# ---------------------------------------------------------------- what it takes, in words and as data


def undo_lines(undoing: Undoing) -> list[str]:
    """What undoing a run takes, what it cannot take back first."""
    return [*_irreversible_lines(undoing), *_reversal_lines(undoing), *_other_lines(undoing)]


def _irreversible_lines(undoing: Undoing) -> Iterator[str]:
    gone = undoing.irreversible
    if gone:
        yield f"{_calls(len(gone))} of run {undoing.of.run_id} cannot be undone:"
    for each in gone[:_MOST_CALLS]:
        yield f"  {_place(each.call)}  @{each.call.tool} ({_arguments(each.call.args)}): {each.why}"
    if len(gone) > _MOST_CALLS:
        yield f"  and {len(gone) - _MOST_CALLS} more"


def _reversal_lines(undoing: Undoing) -> Iterator[str]:
    calls = undoing.reversals
    if calls:
        are = "is" if len(calls) == 1 else "are"
        yield f"{_calls(len(calls))} of run {undoing.of.run_id} {are} undone, newest first:"
    for each in calls[:_MOST_CALLS]:
        yield f"  {_place(each.call)}  @{each.tool} ({_arguments(each.args, each.secret)})"
        yield f"      takes back @{each.call.tool} ({_arguments(each.call.args)})"
    if len(calls) > _MOST_CALLS:
        yield f"  and {len(calls) - _MOST_CALLS} more"


def _other_lines(undoing: Undoing) -> Iterator[str]:
    if undoing.undone:
        yield f"{_calls(undoing.undone)} {'was' if undoing.undone == 1 else 'were'} undone before"
    if undoing.inherited:
        yield (
            f"{_calls(undoing.inherited)} it has from run {undoing.parent}, which made them: "
            f"`callsheet undo {undoing.parent}` takes those back"
        )


class CallOfRun(TypedDict):
    """A call that a run made."""

    event: Annotated[int, "the event of its outcome"]
    step: str
    tool: str
    arguments: dict[str, Any]


class ReversedCall(TypedDict):
    """A call that takes back another; secret arguments are shown as `(secret)`."""

    tool: str
    arguments: dict[str, Any]
    takes_back: CallOfRun


class IrreversibleCall(CallOfRun):
    """A call that is not taken back, and why."""

    why: str


class InheritedCalls(TypedDict):
    """Calls that belong to the run that a run branched off, which has to be undone itself."""

    run_id: str | None
    calls: int


class UndoResult(TypedDict):
    """What undoing a run takes."""

    undoes: Annotated[str, "the run"]
    irreversible: Annotated[list[IrreversibleCall], "what cannot be undone, newest first"]
    calls: Annotated[list[ReversedCall], "the calls that are made, newest first"]
    undone_before: Annotated[int, "the calls that earlier undoings have taken back"]
    inherited: Annotated[InheritedCalls | None, "the calls that belong to an earlier run"]
    unfinished: Annotated[str | None, "an earlier undoing that has not ended, and goes on first"]
    text: Annotated[list[str], "all of it in words"]


def undo_json(undoing: Undoing) -> UndoResult:
    """What undoing a run takes, as data."""
    return {
        "undoes": undoing.of.run_id,
        "irreversible": [_irreversible_json(each) for each in undoing.irreversible],
        "calls": [_reversal_json(each) for each in undoing.reversals],
        "undone_before": undoing.undone,
        "inherited": {"run_id": undoing.parent, "calls": undoing.inherited} if undoing.inherited else None,
        "unfinished": undoing.unfinished,
        "text": undo_lines(undoing),
    }


def _reversal_json(each: Reversal) -> ReversedCall:
    shown = {name: "(secret)" if name in each.secret else value for name, value in each.args.items()}
    return {"tool": each.tool, "arguments": shown, "takes_back": _call_json(each.call)}


def _irreversible_json(each: Irreversible) -> IrreversibleCall:
    return {**_call_json(each.call), "why": each.why}


def _call_json(call: MadeCall) -> CallOfRun:
    return {"event": call.seq, "step": call.step, "tool": call.tool, "arguments": dict(call.args)}


def _place(call: MadeCall) -> str:
    return f"{call.step} (event {call.seq})"


def _calls(count: int) -> str:
    return f"{count:,} call{'' if count == 1 else 's'}"


def _arguments(args: Mapping[str, JSON], secret: frozenset[str] = frozenset()) -> str:
    return ", ".join(f"{name}={'(secret)' if name in secret else _shown(v)}" for name, v in args.items())


def _shown(value: JSON) -> str:
    text = escaped(json.dumps(value, ensure_ascii=False, default=str))
    if len(text) <= _MAX_VALUE:
        return text
    return f"{text[:_MAX_VALUE]}{CUT} ({len(text):,} characters)"
