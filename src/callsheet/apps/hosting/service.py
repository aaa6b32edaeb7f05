"""What a host gives to the run service: the equipment of its runs, and its rules.

In: requests, recorded runs, shared tools. Out: prepared runs, outcomes, revisions. Slow work is done beside
the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from callsheet.api.admission import Equipment, Prepared, Request, own_rules, prepare
from callsheet.api.arguments import values_of
from callsheet.api.run_service import Conduct, Opened, ResumeTerms, resume
from callsheet.apps.equipment import equip, needs_of, needs_of_recorded
from callsheet.apps.hosting.collector import CollectorHold
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.masking import Masker, credentials_for
from callsheet.apps.operations.library import bound, origin_note, other_tools
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan
from callsheet.ir.labels import LITERAL, Label
from callsheet.lazy import deferred
from callsheet.machine import Limits
from callsheet.machine.machine import Observer
from callsheet.machine.notes import Note
from callsheet.machine.questions import approval_rules
from callsheet.policy.canon import is_of
from callsheet.policy.model import Policy
from callsheet.ports.calls import CallListener
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.event_loop import Offload, at_once
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Watch
from callsheet.store import Journal
from callsheet.store.run_index import TAGS
from callsheet.store.start import HOST, Start

if TYPE_CHECKING:
    from callsheet.runtime.forking import Edits
if TYPE_CHECKING:
    from callsheet.api import run_branches
    from callsheet.api.run_branches import Fork, Rerun, Revised, UndoTerms
    from callsheet.runtime import edits
    from callsheet.runtime.forking import Draft, Forking
    from callsheet.runtime.undo import Undoing
else:
    run_branches = deferred("callsheet.api.run_branches")  # bring forecasts and dry runs
    edits = deferred("callsheet.runtime.edits")

_NOT_BOUNDS = frozenset({"schedule", "retry_delay", "retry_backoff", "max_retry_delay"})


def _no_edits() -> Edits:
    from callsheet.runtime.forking import Edits  # noqa: PLC0415 - brings forecasts

    return Edits()


@dataclass(frozen=True, slots=True)
class Listeners:
    """The observer of a run, and the respondent that answers its questions while it is running.

    The observer gets masked notes. Without a respondent, a run that waits for people frees its place and is
    resumed by `Host.answer`.
    """

    observer: Observer | None = None
    present: Respondents = field(default_factory=Respondents)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A plan to be run.

    `inputs` are variables by name; those named in `secrets` are encrypted in the journal. `limits` are
    changes that tighten the host's. `approve` names tools that need approval besides those of the settings.
    `policy` applies if the host has none; `approved` are the steps that a person has approved. `state` is the
    text of a state file of another program, whose completed steps are not executed again. `reads` is the
    label of what the author of the text and the inputs has read; `untrusted` are the inputs that somebody
    else has chosen.
    """

    text: PlanText
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    secrets: frozenset[str] = frozenset()
    untrusted: frozenset[str] = frozenset()
    run_id: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    on_in_doubt: str | None = None
    policy: Policy | None = None
    approved: tuple[str, ...] = ()
    accepts_changed_tools: bool = False
    state: str | None = None
    reads: Label = LITERAL
    listeners: Listeners = field(default_factory=Listeners)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions(ResumeTerms):
    """The terms on which a run is resumed, as in `callsheet resume`, and who listens."""

    listeners: Listeners = field(default_factory=Listeners)


AS_RECORDED = ResumeOptions(as_recorded=True)
"""The terms of a run that was admitted already: new, or resumed by an answer or a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRequest:
    """Run a plan again from a step of another run, or an edited `plan` that keeps what it has in common.

    With `failed_items` the failed items of its loops are run again.

    With `ends_parent` the other run is ended before, since the new one goes on for it.

    `effects` allows calls that change something outside: True for any, or the `consent` of a prepared fork
    for exactly the calls that it shows.
    """

    place: str = ""
    plan: PlanText | None = None
    failed_items: bool = False
    ends_parent: bool = False
    effects: bool | str = False
    run_id: str | None = None
    by: str = ""
    terms: ResumeOptions = field(default_factory=ResumeOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Continue in a new run after the event `at` of another, with edits; `effects` as for a rerun."""

    at: int
    edits: Edits = field(default_factory=_no_edits)
    effects: bool | str = False
    run_id: str | None = None
    terms: ResumeOptions = field(default_factory=ResumeOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """Take back what the calls of a run did, from the step `place` on (empty: all); `effects` as for a rerun.

    An undoing that has not ended goes on, on these terms.
    """

    place: str = ""
    effects: bool | str = False
    terms: ResumeOptions = field(default_factory=ResumeOptions)


def tightened(own: Limits, changes: Mapping[str, Any]) -> Limits:
    """Limits with changes that only tighten: the lower value of each bound, but the pace as given.

    Raises ValueError or TypeError for invalid changes.

    >>> tightened(Limits(max_calls=10), {"max_calls": 50, "max_steps": 5}).max_calls
    10
    """
    asked = own.changed(changes)
    bounds: dict[str, Any] = {}
    for name in changes:
        mine, theirs = getattr(own, name), getattr(asked, name)
        if name in _NOT_BOUNDS:
            continue
        if isinstance(mine, Mapping):
            bounds[name] = _lower(cast("Mapping[str, int]", mine), theirs)
        elif theirs is None or (mine is not None and mine < theirs):
            bounds[name] = mine
    return replace(asked, **bounds)


def _lower(mine: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, int]:
    return {name: min(most, mine.get(name, most)) for name, most in theirs.items()}


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HostConfig:
    """The settings common to all runs of a host: tools, limits, policy, and where log messages go."""

    tools: SharedTools
    limits: Limits
    policy: Policy | None
    say: Callable[[str], None]
    beside: Offload
    journal: Path | None = None
    """The journal, and the labels of the files that runs write beside it."""
    name: str = ""
    """The host's name, recorded with its runs so that a later host of that name can resume them."""


class ReadyRun(NamedTuple):
    """A prepared run, and the ports through which it can be driven here."""

    prepared: Prepared
    ports: Ports


async def ready(request: RunRequest, config: HostConfig) -> ReadyRun:
    """Prepare the run of a request; raises CallsheetError, including PolicyRefused."""
    plan = request.text.require()
    given, done = values_of(request.inputs), None
    if request.state is not None:
        from callsheet.planning.results import read_checkpoint  # noqa: PLC0415 - rare, and brings much

        state = request.state
        done, recorded = await config.beside(lambda: read_checkpoint(state, plan))
        given = {**recorded, **given}
    inputs = bound(request.text, given, ())
    limits, policy = _limits(request, config.limits), _policy(request, config)
    beside = config.beside if is_slow(request, policy) else at_once
    needs = await beside(lambda: needs_of(config.tools.setup, plan, limits, config.say))
    toolbox = await config.tools.for_plan(needs.plan, needs.agents)

    def made() -> ReadyRun:
        equipment, ports, setup = equip(needs, toolbox, config.journal, on_in_doubt=request.on_in_doubt or "")
        rules, text = setup.settings.approve, request.text
        approve = approval_rules((*rules, *request.approve))
        changed = other_tools(text, equipment.registry, is_accepted=request.accepts_changed_tools)
        changes = request.limits
        wanted = Request(
            plan=plan,
            source=text.source,
            findings=(*text.diagnostics, *changed),
            inputs=inputs,
            secret=request.secrets,
            untrusted=request.untrusted,
            limits=limits,
            policy=policy,
            approve=approve,
            approval_timeout={**setup.settings.approval_timeouts(), **request.approval_timeout},
            own_approve=own_rules(approval_rules(request.approve), approval_rules(rules)),
            own_limits=tuple(sorted({*changes.get(_CALLS, ()), *changes.get(_AT_ONCE, ())})),
            approved=request.approved,
            note={
                "plan": text.source.name,
                "setup": config.tools.note_of(setup),
                **origin_note(text),
                **({HOST: config.name} if config.name else {}),
                **({TAGS: dict(request.tags)} if request.tags else {}),
            },
            done=done,
        )
        return ReadyRun(prepare(wanted, equipment), ports)

    return await beside(made)


def is_slow(request: RunRequest, policy: Policy | None) -> bool:
    """Whether admitting and recording a request may take so long that the event loop must not wait.

    A thread costs more than what has to be done for a short plan without a policy.
    """
    return policy is not None or request.state is not None or len(request.text.require().steps) > _SHORT


_SHORT = 50
"""The number of steps up to which a plan without a policy is admitted in less than two milliseconds."""


_CALLS, _AT_ONCE = "max_calls_by_tool", "max_concurrency_by_tool"


def _limits(request: RunRequest, own: Limits) -> Limits:
    try:
        return tightened(own, request.limits)
    except (TypeError, ValueError) as error:
        raise CallsheetError.single("CFG011", f"the limits cannot be used: {error}") from error


def _policy(request: RunRequest, config: HostConfig) -> Policy | None:
    if config.policy is None:
        return None if request.policy is None else request.text.under(request.policy)
    if request.policy is not None:
        raise CallsheetError.single(
            "API020",
            f"all runs of this server are under the policy {config.policy.name}, but the request names one",
            help="omit the policy; the operator of the server sets it",
        )
    return request.text.under(config.policy).written_by(request.reads)


# ---------------------------------------------------------------- recorded runs


async def resume_in_host(
    journal: Journal,
    run_id: str,
    terms: ResumeOptions,
    masker: Masker,
    watch: Watch,
    config: HostConfig,
    hold: CollectorHold,
    listener: CallListener | None = None,
) -> RunOutcome:
    """Resume a run where its journal ends, until it ends or stops; raises as `run_service.resume` does.

    `hold` keeps the garbage collector off the run's data while it is loaded. `listener` hears of its calls.
    """

    @asynccontextmanager
    async def opened(start: Start, plan: Plan, limits: Limits) -> AsyncGenerator[Opened]:
        needs = await config.beside(
            lambda: needs_of_recorded(start, Setup.from_note(start.launch), plan, limits, config.say)
        )
        async with config.tools.for_run(needs.setup, needs.plan, needs.agents) as toolbox:
            masker.add_secrets(toolbox.known)
            equipment, ports, _ = equip(needs, toolbox, config.journal)
            ports = replace(ports, listener=listener)
            hold.built(len(plan.steps))
            yield Opened(equipment, ports)

    async def held(look: Callable[[], _T], /) -> _T:
        return await hold.beside(config.beside, look)

    hold.begin()
    observer = terms.listeners.observer
    watch = replace(
        watch,
        observer=observer_on_loop(observer, masker),
        hears_all=observer is not None,
        on_declared=masker.add_secrets,
    )
    present, needs_policy = terms.listeners.present, config.policy is not None
    conduct = Conduct(watch, present, held, needs_policy=needs_policy)
    return await resume(journal, run_id, terms, opened, conduct)


def observer_on_loop(observer: Observer | None, masker: Masker) -> Observer | None:
    """An observer that passes masked notes on to this event loop from any thread, in order."""
    if observer is None:
        return None
    masked = masker.masked_observer(observer)
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def tell(note: Note) -> None:
        if threading.get_ident() == home:
            masked(note)
        else:
            loop.call_soon_threadsafe(masked, note)

    return tell


async def branch_in_host(
    journal: Journal, run_id: str, what: Rerun | Fork | Revised, terms: ResumeOptions, config: HostConfig
) -> Forking:
    """Prepare a branch of a run; raises as `branch_off` does, API020 for one of another policy."""

    @asynccontextmanager
    async def opened(draft: Draft) -> AsyncGenerator[Equipment]:
        setup = Setup.from_note(draft.start.launch)
        needs = needs_of_recorded(draft.start, setup, draft.plan, draft.start.limits, config.say)
        async with config.tools.for_run(needs.setup, needs.plan, needs.agents) as toolbox:
            yield equip(needs, toolbox, journal.path).equipment

    rules = run_branches.BranchRules(
        as_recorded=terms.as_recorded,
        open_for=opened,
        known=lambda: credentials_for(journal, run_id),
        check_policy=lambda own: _check_policy(own, config.policy),
        offload=config.beside,
    )
    return await run_branches.branch_off(journal, run_id, what, rules)


@asynccontextmanager
async def _equipped_to_undo(
    journal: Journal, run_id: str, config: HostConfig
) -> AsyncGenerator[tuple[Equipment, UndoTerms]]:
    """What undoing a run needs: its tools, and the terms on which it is undone whole."""
    history = await config.beside(lambda: edits.ParentHistory(journal, journal.find_run(run_id)))
    launch = await config.beside(history.first)
    needs = needs_of_recorded(launch, Setup.from_note(launch.launch), history.plan, launch.limits, config.say)
    async with config.tools.for_run(needs.setup, needs.plan, needs.agents) as toolbox:
        equipment, _, setup = equip(needs, toolbox, journal.path)
        note: dict[str, JSON] = {"plan": f"undo {run_id}", "setup": config.tools.note_of(setup)}
        note |= {HOST: config.name} if config.name else {}
        yield equipment, run_branches.UndoTerms("", launch.limits, note, default=config.policy)


async def undo_in_host(
    journal: Journal, run_id: str, start: str, agrees: Callable[[Undoing], bool], config: HostConfig
) -> str:
    """The id of the run that undoes another, recorded and not begun; raises as `begin_undo` does.

    `agrees` raises for what is not agreed to. Raises API020 for a run of another policy.
    """

    def allowed(undoing: Undoing) -> bool:
        if undoing.policy is not None:
            _check_policy(undoing.policy, config.policy)
        return agrees(undoing)

    async with _equipped_to_undo(journal, run_id, config) as (equipment, whole):
        terms = whole._replace(start=start)
        name = await run_branches.begin_undo(journal, run_id, equipment, terms, allowed, config.beside)
        assert name is not None, "it was agreed to"
        return name


async def foresee_undo_in_host(journal: Journal, run_id: str, start: str, config: HostConfig) -> Undoing:
    """What undoing a run from a step on takes; nothing is recorded. Raises as `foresee_undo` does."""
    async with _equipped_to_undo(journal, run_id, config) as (equipment, _):
        return await run_branches.foresee_undo(journal, run_id, equipment, start, config.beside)


def _check_policy(own: Policy | None, policy: Policy | None) -> None:
    """Raise CallsheetError (API020) for a run under `own` in a host whose runs are under another `policy`."""
    if policy is None or (own is not None and is_of(own, policy)):
        return
    text = "has none" if own is None else f"is under the policy {own.name}"
    raise CallsheetError.single(
        "API020",
        f"all runs here are under the policy {policy.name}, but the run to branch off from {text}",
        help="start its plan anew; the operator can branch off with `callsheet rerun` and `fork`",
    )
