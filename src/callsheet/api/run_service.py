"""The run service: every face starts, resumes, stops and decides runs here; `run_branches` branches off.

In: a prepared run (`admission`) or the id of a recorded one, the open tools, a journal. Out: how the run
ended, or what it waits for. A run is recorded after it was admitted (for a branch: after the consent to its
effects), and a call is sent after it was recorded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.api.admission import Equipment, Prepared
from callsheet.ir import JSON, Plan
from callsheet.lazy import NamedTuple, dataclass, deferred
from callsheet.machine import Limits
from callsheet.machine.machine import Observer
from callsheet.policy.model import Policy
from callsheet.runtime.asking import Respondents
from callsheet.runtime.cancelling import PATIENCE, cancel_run
from callsheet.runtime.doubt import Resolution, RunOutcome, decide_calls
from callsheet.runtime.event_loop import Offload, at_once, to_its_end
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Watch, start_of
from callsheet.runtime.runs import (
    Amendments,
    BegunRun,
    PolicyFor,
    enlist_run,
    resume_run,
    run_unrecorded,
    start_run,
)
from callsheet.store import Journal
from callsheet.store.folded import Folded
from callsheet.store.pauses import RunPause
from callsheet.store.start import Start

if TYPE_CHECKING:
    from callsheet.runtime import pausing
    from callsheet.store import label_transfer
else:
    pausing = deferred("callsheet.runtime.pausing")
    label_transfer = deferred("callsheet.store.label_transfer")

_NOBODY = Watch()
_ABSENT = Respondents()


# ---------------------------------------------------------------- new runs


async def run_prepared(
    prepared: Prepared,
    ports: Ports,
    journal: Journal | None,
    run_id: str,
    watch: Watch = _NOBODY,
    present: Respondents = _ABSENT,
    *,
    labels: Path | None = None,
) -> RunOutcome:
    """Record a prepared run, and carry it to its end, or until it waits for people.

    Without a journal nothing is recorded, and under a policy the labels beside the journal `labels`, if
    given, apply. Raises JournalError if the journal cannot take it.
    """
    plan, launch = prepared.plan, prepared.launch
    if journal is None:
        noted = () if launch.policy is None or labels is None else label_transfer.noted_before(labels)
        result = await run_unrecorded(plan, ports, launch, watch, run_id, present, noted)
        return RunOutcome(run_id, result, usage=result.usage)
    if prepared.done is None:
        return await start_run(plan, ports, launch, journal, run_id, watch, present)
    adopt(prepared, journal, run_id)

    def ports_for(_start: Start, _plan: Plan) -> AbstractAsyncContextManager[Ports]:
        return nullcontext(ports)

    watch = replace(watch, hears_all=False)
    return await resume_run(journal, run_id, ports_for, watch=watch, present=present)


def adopt(prepared: Prepared, journal: Journal, run_id: str) -> None:
    """Record a prepared run whose `done` steps another program has completed; `resume` continues it.

    Raises CallsheetError (PLN028) for a step that cannot be taken over.
    """
    from callsheet.runtime.adopting import adopt_run  # noqa: PLC0415 - judges what others have done

    adopt_run(
        prepared.plan,
        prepared.known,
        prepared.launch,
        journal,
        run_id,
        prepared.done or {},
        prepared.workspace,
    )


async def record(
    prepared: Prepared,
    journal: Journal,
    run_id: str,
    observer: Observer | None = None,
    offload: Offload = at_once,
) -> BegunRun | None:
    """Put a prepared run into the journal; its first event is durable on return.

    The run that is returned can be driven at once, as long as this process owns it; None for one with steps
    that another program has completed, which `resume` continues. Raises JournalError.
    """

    if prepared.done is not None:
        await to_its_end(offload, lambda: adopt(prepared, journal, run_id))
        return None
    return await enlist_run(
        prepared.plan, prepared.known, prepared.launch, journal, run_id, observer, offload
    )


def first_event(prepared: Prepared, journal: Journal) -> Start:
    """The first event of a prepared run, for an engine that records and drives it elsewhere."""
    return start_of(prepared.plan, prepared.launch, journal)


# ---------------------------------------------------------------- recorded runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeTerms:
    """The terms on which a run is resumed.

    `in_doubt` is the decision on calls in doubt. `limits` maps the run's limits to those that apply from now
    on. `policy` replaces the run's own if it is the same, or if `accepts_changed_policy`. With `as_recorded`
    it does not matter whether the file of the plan was edited since. `places` are those of tools that were
    moved, as `Start.at_places` takes them. `unpaused_by` is the person who lets a paused run go on, "" if
    nobody is named; with None, for whatever resumes runs by itself, it stays paused.
    """

    in_doubt: Resolution | None = None
    accepts_changed_tools: bool = False
    as_recorded: bool = False
    limits: Callable[[Limits], Limits] | None = None
    policy: Policy | None = None
    accepts_changed_policy: bool = False
    places: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    unpaused_by: str | None = None


class Opened(NamedTuple):
    """The open tools of a run that is resumed, and its ports."""

    equipment: Equipment
    ports: Ports


ToolOpener = Callable[[Start, Plan, Limits], AbstractAsyncContextManager[Opened]]
"""Opens the tools of a run with this start, current plan, and the limits that will apply."""


class Conduct(NamedTuple):
    """How the resumption of a run is followed: who watches and answers, and where slow work is done.

    `tell` hears of each accepted difference of a policy. `needs_policy` says that this runtime resumes only
    runs that were started under a policy.
    """

    watch: Watch = _NOBODY
    present: Respondents = _ABSENT
    offload: Offload = at_once
    tell: Callable[[str], None] | None = None
    needs_policy: bool = False


_ALONE = Conduct()


def check_plan_file(journal: Journal, run_id: str, terms: ResumeTerms) -> None:
    """Raise JournalError (JRN024) if a run would go on whose plan was edited in its file since.

    Not for a run that has ended, of which nothing is executed any more, and not `as_recorded`.
    """
    from callsheet.api.plan_sources import check_file, continues  # noqa: PLC0415 - brings the plan library

    if not terms.as_recorded and continues(journal, run_id):
        check_file(journal, run_id)


async def resume(
    journal: Journal, run_id: str, terms: ResumeTerms, open_tools: ToolOpener, conduct: Conduct = _ALONE
) -> RunOutcome:
    """Continue a recorded run where its journal ends, with the tools it was started with.

    Before anything is sent: the file of the plan was not edited since (unless `as_recorded`), the tools are
    there and the same (unless `accepts_changed_tools`), and another policy accepts the rest of the plan.
    Raises CallsheetError as `resume_run` does; JRN024 for an edited file, JRN021 for changed tools, JRN023
    for another policy, PolicyRefused if it refuses the rest of the plan.
    """
    await conduct.offload(lambda: check_plan_file(journal, run_id, terms))
    opened: list[Equipment] = []

    @asynccontextmanager
    async def ports_for(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        if conduct.needs_policy and start.policy is None:
            from callsheet.api.resumption import unproved  # noqa: PLC0415 - not for a run that begins

            raise unproved(run_id)
        limits = start.limits if terms.limits is None else terms.limits(start.limits)
        async with open_tools(start, plan, limits) as (equipment, ports):
            await conduct.offload(lambda: _check_same(start, plan, equipment, terms))
            opened.append(equipment)
            yield ports

    def policy(folded: Folded) -> Policy | None:
        from callsheet.api.resumption import ResumeContext, other_policy  # noqa: PLC0415 - as above

        assert terms.policy is not None
        equipment = opened[-1]
        context = ResumeContext(journal, run_id, equipment.guarantees(), equipment.workspace)
        accepts = terms.accepts_changed_policy
        return other_policy(terms.policy, context, is_accepted=accepts, tell=conduct.tell)(folded)

    policy_for: PolicyFor | None = None if terms.policy is None else policy
    return await resume_run(
        journal,
        run_id,
        ports_for,
        Amendments(
            in_doubt=terms.in_doubt,
            limits=terms.limits,
            policy=policy_for,
            places=terms.places,
            unpaused_by=terms.unpaused_by,
        ),
        watch=conduct.watch,
        present=conduct.present,
        offload=conduct.offload,
    )


def _check_same(start: Start, plan: Plan, equipment: Equipment, terms: ResumeTerms) -> None:
    """Raise CallsheetError for tools that are missing, or differ from those that the run began with."""
    from callsheet.api.resumption import check_present, check_tools  # noqa: PLC0415 - as above

    registry, agents = equipment.registry, equipment.agents
    check_present(plan, registry, agents, equipment.doubts)
    accepts, is_bound_anew = terms.accepts_changed_tools, terms.policy is not None
    check_tools(start, plan, registry, agents, accepts_changed=accepts, is_bound_anew=is_bound_anew)


async def decide(
    journal: Journal,
    run_id: str,
    calls: Sequence[str],
    verdict: Resolution,
    *,
    every: bool = False,
    offload: Offload = at_once,
) -> RunOutcome:
    """Record a decision on calls in doubt; raises JournalError if they are not in doubt."""
    return await offload(lambda: decide_calls(journal, run_id, calls, verdict, every=every))


async def cancel(
    journal: Journal, run_id: str, reason: str = "cancelled", patience: float = PATIENCE
) -> RunOutcome | None:
    """End a run for good; None if its process has been asked and not ended it in `patience` seconds.

    Raises JournalError as `cancel_run` does.
    """
    return await cancel_run(journal, run_id, reason, patience)


async def pause(
    journal: Journal,
    run_id: str,
    by: str,
    reason: str = "",
    patience: float = PATIENCE,
    on_asked: Callable[[], None] | None = None,
) -> RunPause | None:
    """Pause a run; None if its process has been asked and still awaits calls after `patience` seconds.

    Raises JournalError as `pause_run` does.
    """
    return await pausing.pause_run(journal, run_id, by, reason, patience, on_asked)


__all__ = [
    "BegunRun",
    "Conduct",
    "Opened",
    "ResumeTerms",
    "adopt",
    "cancel",
    "check_plan_file",
    "decide",
    "first_event",
    "pause",
    "record",
    "resume",
    "run_prepared",
]
