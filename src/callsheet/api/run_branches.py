"""Branches of recorded runs: every face reruns and forks runs here.

In: a recorded run, a step or an event with edits. Out: the branch with the effects ahead of it, which is
recorded once there is consent to exactly these; `run_service.resume` then continues it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from callsheet.api.admission import Equipment, revise
from callsheet.api.plan_changes import check_file
from callsheet.ir import Plan
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.runtime import forking
from callsheet.runtime.cancelling import cancel_run
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.edits import Edits
from callsheet.runtime.forking import Draft, Forking, Revision
from callsheet.runtime.offloading import Offload, at_once
from callsheet.sealing.known import Known
from callsheet.store import Journal, JournalError
from callsheet.store.listing import check_here


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
    `limits` then apply before they are.
    """

    plan: Plan | None = None
    text: str = ""
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


async def branch_off(
    journal: Journal, run_id: str, what: Rerun | Fork | Revised, rules: BranchRules
) -> Forking:
    """Prepare a branch of a run: its events up to a point, and the effects ahead; nothing is recorded.

    The file of the plan was not edited since (unless `as_recorded`), and an edited plan is checked and proved
    under the run's policy. Raises what `forking.rerun` and `forking.fork` raise, JRN024, PlanError,
    PolicyRefused.
    """
    offload = rules.offload
    if isinstance(what, Rerun) and _is_tree(journal, run_id):
        what = Revised(place=what.place, by=what.by)
    if not rules.as_recorded and not (isinstance(what, Revised) and what.plan is not None):
        await offload(lambda: check_file(journal, run_id))
    match what:
        case Rerun(place, by, limits):
            made = await offload(lambda: forking.rerun(journal, run_id, place, by, limits))
        case Fork(at, edits):
            known, revision = await offload(rules.known), None
            if edits.changes_plan:
                draft = await offload(lambda: forking.drafted(journal, run_id, edits, known))
                rules.check_policy(draft.policy)
                revision = await _revised(draft, rules)
            made = await offload(lambda: forking.fork(journal, run_id, at, edits, revision, known))
        case Revised(plan=None, failed_items=True) if not _is_tree(journal, run_id):
            from callsheet.runtime.failed_items import rerun_items  # noqa: PLC0415 - only for version 1

            made = await offload(lambda: rerun_items(journal, run_id, what.by, what.limits))
        case Revised():
            made = await _keeping(journal, run_id, what, rules)
    rules.check_policy(made.folded.policy)
    return made


def _is_tree(journal: Journal, run_id: str) -> bool:
    return journal.plan_of(journal.find_run(run_id).plan_hash).tree is not None


async def _keeping(journal: Journal, run_id: str, what: Revised, rules: BranchRules) -> Forking:
    """A run of an edited plan: it is checked with the tools of the run, proved, and takes the same inputs."""
    from callsheet.runtime.edits import ParentHistory  # noqa: PLC0415 - only for edited plans
    from callsheet.runtime.kept_ahead import keep_calls  # noqa: PLC0415 - as above
    from callsheet.store.kept_calls import changed_statements  # noqa: PLC0415 - as above

    info = journal.find_run(run_id)
    check_here(journal, info.run_id)
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
            journal, info.run_id, plan, revision,
            verb=what.verb, start_again=what.place, by=what.by, known=known,
            text=what.text or (history.text if what.plan is None else ""),
            failed_items=what.failed_items,
        )
    )  # fmt: skip


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
