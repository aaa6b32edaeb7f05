"""Branches of recorded runs: every face reruns, forks and undoes runs here.

A branch is made with the effects ahead of it, and recorded once there is consent to exactly these; so is the
run of inverse calls that undoes another. `run_service.resume` then continues it like any other run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from callsheet.api.admission import Equipment, Request, prepare, revise
from callsheet.api.plan_sources import check_file
from callsheet.api.requirements import inverse_in
from callsheet.api.run_service import record
from callsheet.ir import JSON, Plan
from callsheet.lazy import deferred
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.runtime import forking
from callsheet.runtime.cancelling import cancel_run
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.edits import Edits
from callsheet.runtime.event_loop import Offload, at_once
from callsheet.runtime.forking import Draft, Forking, Revision
from callsheet.runtime.undo import Irreversible, MadeCall, Reversal, Undoing, prepare_undo
from callsheet.sealing.known import Known
from callsheet.store import Journal, JournalError
from callsheet.store.errors import run_exists
from callsheet.store.listing import check_here
from callsheet.store.undoings import UNDOES
from callsheet.views.columns import CUT, escaped

if TYPE_CHECKING:
    from callsheet.runtime import flat_reruns
else:
    flat_reruns = deferred("callsheet.runtime.flat_reruns")


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run of the same plan that repeats a step, such as S3 or S3@2, and what follows."""

    place: str
    by: str = ""
    limits: Callable[[Limits], Limits] | None = None
    """Other limits, which apply before the step begins."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A run that continues after the event `at` of another, with edits."""

    at: int
    edits: Edits = field(default_factory=Edits)


@dataclass(frozen=True, slots=True)
class Revised:
    """A run of another plan with blocks, which keeps the finished calls that are unchanged.

    `plan` is None for the plan of the run itself; `place` is the statement from which on nothing is kept.
    With `failed_items` the failed items of loops are run again, also in a plan of version 1, to which
    `limits` then apply before they are. `origin` is what the new run notes of where its plan is from.
    """

    plan: Plan | None = None
    text: str = ""
    origin: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    place: str = ""
    by: str = ""
    verb: str = "rerun"
    failed_items: bool = False
    limits: Callable[[Limits], Limits] | None = None


def _anyone(_: Policy | None) -> None:
    """Admit a run under any policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRules:
    """How a branch is admitted: the tools for an edited plan, and who may branch off.

    `known` gives the secrets of the configuration, which are sealed in edits. `check_policy` raises for the
    policy of a run that must not be carried on here.
    """

    as_recorded: bool
    open_for: Callable[[Draft], AbstractAsyncContextManager[Equipment]]
    known: Callable[[], Known]
    check_policy: Callable[[Policy | None], None] = _anyone
    offload: Offload = at_once
    has_engine: bool = False
    """Whether a new run of a plan with blocks is handed to the engine that executes its parent."""


async def branch_off(
    journal: Journal, run_id: str, what: Rerun | Fork | Revised, rules: BranchRules
) -> Forking:
    """Prepare a branch of a run: its events up to a point, and the effects ahead; nothing is recorded.

    The file of the plan was not edited since (unless `as_recorded`), and an edited plan is checked and proved
    under the run's policy. Raises what `forking.rerun` and `forking.fork` raise, JRN024, PlanError,
    PolicyRefused.
    """
    offload = rules.offload
    is_tree = _is_tree(journal, run_id)
    if isinstance(what, Rerun) and is_tree:
        what = Revised(place=what.place, by=what.by)
    if not (rules.has_engine and is_tree and isinstance(what, Revised)):
        check_here(journal, journal.find_run(run_id).run_id)
    if not rules.as_recorded and not (isinstance(what, Revised) and what.plan is not None):
        await offload(lambda: check_file(journal, run_id))
    match what:
        case Rerun(place, by, limits):
            made = await offload(lambda: flat_reruns.rerun_from(journal, run_id, place, by, limits))
        case Fork(at, edits):
            known, revision = await offload(rules.known), None
            if edits.changes_plan:
                draft = await offload(lambda: forking.drafted(journal, run_id, edits, known))
                rules.check_policy(draft.policy)
                revision = await _revised(draft, rules)
            made = await offload(lambda: forking.fork(journal, run_id, at, edits, revision, known))
        case Revised(plan=None, failed_items=True) if not is_tree:
            made = await offload(lambda: flat_reruns.rerun_items(journal, run_id, what.by, what.limits))
        case Revised():
            made = await _keeping(journal, run_id, what, rules)
    rules.check_policy(made.folded.policy)
    return made


def _is_tree(journal: Journal, run_id: str) -> bool:
    return journal.plan_of(journal.find_run(run_id).plan_hash).tree is not None


async def _keeping(journal: Journal, run_id: str, what: Revised, rules: BranchRules) -> Forking:
    """A run of an edited plan: it is checked with the tools of the run, proved, and takes the same inputs."""
    from callsheet.runtime.edits import ParentHistory  # noqa: PLC0415 - only for edited plans
    from callsheet.runtime.kept_outcomes import keep_calls  # noqa: PLC0415 - as above
    from callsheet.store.kept_calls import changed_statements  # noqa: PLC0415 - as above

    info = journal.find_run(run_id)
    history = ParentHistory(journal, info)
    plan = history.plan if what.plan is None else what.plan
    if plan.tree is None or history.plan.tree is None:
        raise JournalError(
            "JRN084",
            "only a plan with blocks can take over the calls of a run of one",
            hint="for a plan of version 1: `callsheet rerun RUN --from STEP`, or `callsheet upgrade`",
        )
    known = await rules.offload(rules.known)
    start = history.first()
    changed = changed_statements(history.plan, plan)
    policy = None if start.policy is None else start.policy.without(changed)
    rules.check_policy(policy)
    draft = Draft(plan, start, policy)
    revision = await _revised(draft, rules)
    return await rules.offload(
        lambda: keep_calls(
            journal, info.run_id, revision.plan, revision,
            verb=what.verb, start_again=what.place, by=what.by, known=known,
            text=what.text or (history.text if what.plan is None else ""),
            failed_items=what.failed_items, origin=None if what.plan is None else what.origin,
        )
    )  # fmt: skip


def require_new_id(journal: Journal, new_id: str) -> None:
    """Raise JournalError (JRN003) for the id of a run that there is, before another one is ended."""
    if journal.parts.reader.runs.has(new_id):
        raise run_exists(new_id)


def why_superseded(new_id: str) -> str:
    """Why a run has ended that another one with an edited plan goes on for."""
    return f"run {new_id} goes on for it, with an edited plan"


async def supersede(journal: Journal, run_id: str, new_id: str) -> None:
    """End a run that another one with an edited plan goes on for; one that has ended stays as it is.

    Raises JournalError (JRN004) if its process does not let go of it.
    """
    if journal.find_run(run_id).status.is_final:
        return
    if await cancel_run(journal, run_id, why_superseded(new_id)) is None:
        raise JournalError("JRN004", f"run {run_id} is still under way in another process")


def begins_at(journal: Journal, run_id: str, place: str) -> int:
    """The last event that a rerun from this step would keep; raises JournalError as `forking.rerun` does."""
    return forking.beginning_of(journal, run_id, place)


async def _revised(draft: Draft, rules: BranchRules) -> Revision:
    async with rules.open_for(draft) as equipment:
        return await rules.offload(lambda: revise(draft, equipment))


async def record_branch(
    journal: Journal,
    made: Forking,
    new_id: str,
    *,
    consent: bool | str,
    hint: str,
    host: str = "",
    offload: Offload = at_once,
) -> RunOutcome | None:
    """Record a branch; its outcome if nothing is left to do, else None, and `resume` continues it.

    Raises NeedsConsent, with `hint`, unless `consent` is True or the code for exactly the effects ahead.
    """
    made.require_consent(consent, hint)
    await offload(lambda: made.write(journal, new_id, host))
    if made.folded.machine.result is None:
        return None
    return await offload(lambda: forking.conclude(journal, new_id))


_MOST_CALLS = 50
_MAX_VALUE = 160


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
    return [
        *_heirs_lines(undoing),
        *_irreversible_lines(undoing),
        *_reversal_lines(undoing),
        *_other_lines(undoing),
    ]


def _heirs_lines(undoing: Undoing) -> Iterator[str]:
    for heir in undoing.heirs[:_MOST_CALLS]:
        name = heir.run_id
        if heir.status.is_final:
            yield (
                f"run {name} branched off it, and may have kept calls that are taken back here: "
                f"`callsheet undo {name}` takes back what it made itself"
            )
        else:
            yield (
                f"run {name} branched off it and has not ended: it counts on the calls that it has kept, "
                f"also when they are taken back here; to end it first: callsheet cancel {name}"
            )
    if len(undoing.heirs) > _MOST_CALLS:
        yield f"and {len(undoing.heirs) - _MOST_CALLS} more runs branched off it"


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
