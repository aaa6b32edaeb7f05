"""Calls in doubt: finds them and records what is decided about them, whether or not the run has a process.

In: a journal and a run's id. Out: the calls that need a decision; or the recorded decision. No tool is called
and no server opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from callsheet.diagnostics import did_you_mean
from callsheet.ir import JSON, Effect, Plan
from callsheet.lazy import dataclass
from callsheet.machine import (
    AgentTurn,
    CallModel,
    CallTool,
    Compile,
    Decided,
    Decision,
    Doubted,
    Result,
    RunAgent,
    TookPlace,
    Usage,
)
from callsheet.machine.budget import REPLAN
from callsheet.machine.keys import MACHINE_VERSION, place_of_key
from callsheet.machine.machine import Observer
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.recording import JournalRecorder
from callsheet.sealing.known import Known
from callsheet.sealing.masking import MaskedRepr, hidden
from callsheet.store import Journal, JournalError, RunStatus, RunWriter
from callsheet.store.folded import Folded
from callsheet.store.listing import check_here, is_run_by_engine
from callsheet.store.replay import current_state, fold
from callsheet.store.run_index import facts_of_rest

if TYPE_CHECKING:
    from callsheet.store.pauses import RunPause

Resolution: TypeAlias = "Decision | TookPlace"
"""A decision about a call in doubt."""
_PATIENCE = 2.0
"""Seconds to wait for another process that decides about the same run."""
INTERRUPTED = "the process ended before the answer came"
_GIVEN_UP = "the run was ended before the answer came"


@dataclass(frozen=True, slots=True, repr=False)
class DoubtfulCall(MaskedRepr):
    """A call that left, has no outcome, and must not be repeated without a decision.

    `since` is the wall time at which it left, in seconds since 1970; `item` its index in a FOREACH (0 without
    one), `attempt` counts from 1, `why` says how its answer was lost.
    """

    key: str
    step: str
    tool: str
    args: dict[str, JSON]
    since: float
    item: int = 0
    attempt: int = 1
    why: str = INTERRUPTED


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The state of a run: it has a result, or waits for decisions about calls in doubt and for answers.

    With none of these, as after the last decision, it can be resumed. With a result, `in_doubt` are the calls
    that had left without an outcome when the run ended; they need no decision any more.
    """

    run_id: str
    result: Result | None
    in_doubt: tuple[DoubtfulCall, ...] = ()
    waiting: tuple[PendingAsk, ...] = ()
    """The unanswered questions to people."""
    unanswered: tuple[DoubtfulCall, ...] = ()
    """Model calls without an answer; they are repeated when the run is resumed."""
    pause: RunPause | None = None
    """Who has paused the run, if it is: it goes on when a person resumes it."""
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)
    """What the run has used so far."""
    variables: Mapping[str, JSON] | None = None
    """The variables so far of a run without a result; None if they are not known."""
    secret: frozenset[str] = field(default=frozenset(), repr=False)
    """Those of them that nobody may read, by the labels of a policy."""

    @property
    def why_stopped(self) -> str:
        """Why the run goes no further by itself, in words."""
        if self.result is not None:
            return self.result.error or str(self.result.status)
        if self.pause is not None:
            return f"run {self.run_id} is {self.pause.words}"
        return f"run {self.run_id} waits for a decision: callsheet resume {self.run_id}"


def unfinished(
    run_id: str,
    folded: Folded,
    in_doubt: tuple[DoubtfulCall, ...] = (),
    waiting: tuple[PendingAsk, ...] = (),
    unanswered: tuple[DoubtfulCall, ...] = (),
) -> RunOutcome:
    """The state of a folded run without a result, with its variables so far."""
    machine = folded.machine
    secret = frozenset[str]() if machine.monitor is None else machine.monitor.secret_variables()
    usage, variables = folded.usage(), machine.variables()
    return RunOutcome(
        run_id, None, in_doubt, waiting, unanswered, usage=usage, variables=variables, secret=secret
    )


def fold_run(journal: Journal, run_id: str, plan: Plan) -> Folded:
    """Fold a run from its journal, read-only; raises JournalError if it cannot be read."""
    return fold(plan, journal.events(run_id), journal.plan_of)


def verified_state(
    journal: Journal,
    writer: RunWriter,
    plan: Plan,
    observer: Observer | None = None,
    *,
    from_start: bool = False,
    on_declared: Callable[[Known], None] | None = None,
) -> Folded:
    """The current state of a run; one whose journal has been altered is marked as corrupt.

    With `from_start` the observer hears of everything that happened, after `on_declared` has heard of the
    secrets that the run was given. Raises JournalError: JRN012 for a corrupt run, JRN022 for one begun by
    another version of the machine, TMP007 for one that another engine executes.
    """
    check_version(journal, writer.run_id)
    check_here(journal, writer.run_id)
    is_whole = observer is not None and from_start
    opener = journal.opener(writer.run_id, on_declared)
    state = current_state(journal, writer.run_id, plan, observer, from_start=is_whole, opener=opener)
    if isinstance(state, Folded):
        if opener.has_opened:
            writer.go_on(opener.declared + opener.named)
        return state
    writer.set_status(RunStatus.CORRUPT)
    writer.commit()
    raise JournalError(
        "JRN012",
        f"the journal of run {writer.run_id} is damaged at event {state.seq}: {state.why}",
        hint="restore the journal from a copy, or export its intact part: `callsheet runs salvage`",
    )


def check_version(journal: Journal, run_id: str) -> None:
    """Refuse a run begun by another version of the machine, for which its events may mean something else."""
    version = journal.find_run(run_id).core_version
    if version not in ("", MACHINE_VERSION):
        raise JournalError(
            "JRN022",
            f"run {run_id} was begun by version {version} of the machine that runs plans, and this is"
            f" version {MACHINE_VERSION}: it might continue differently",
            hint="resume it with the version of callsheet that started it, or start a new run",
        )


def doubtful_calls(folded: Folded) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt of a folded run, in the order in which they were issued."""
    return tuple(_doubtful(folded, key, call) for key, call in _undecided(folded).items())


def unanswered_calls(folded: Folded) -> tuple[DoubtfulCall, ...]:
    """The model calls of a folded run that got no answer, in the order in which they were issued."""
    return tuple(
        _unanswered(folded, key, command)
        for key, command in folded.waiting.items()
        if isinstance(command, CallModel | AgentTurn | Compile)
        and key in folded.asked
        and key in folded.launched
    )


def _unanswered(folded: Folded, key: str, call: CallModel | AgentTurn | Compile) -> DoubtfulCall:
    _, item, attempt = place_of_key(key)
    is_plan = isinstance(call, Compile)
    args: dict[str, JSON] = {"reason": call.reason} if is_plan else {"inputs": call.inputs, **call.args}
    tool = REPLAN if is_plan else call.tool
    args, why = _readable(folded, key, args, folded.asked[key])
    return DoubtfulCall(key, call.step, tool, args, folded.launched[key], item, attempt, why)


def _undecided(folded: Folded) -> dict[str, CallTool | RunAgent]:
    """The calls in doubt; if another engine carries the run on, only those reported as such, as others are
    under way.
    """
    doubtful = folded.in_doubt()
    if folded.machine.result is None and is_run_by_engine(folded.start):
        return {key: call for key, call in doubtful.items() if key in folded.asked}
    return {**doubtful, **folded.probing()}


def _decidable(folded: Folded) -> list[str]:
    """The keys of the calls that a person may decide about: in doubt, or without an answer."""
    asks = CallModel | AgentTurn
    unanswered = (key for key in folded.waiting if isinstance(folded.waiting[key], asks))
    return [*_undecided(folded), *(key for key in unanswered if key in folded.asked)]


def _doubtful(folded: Folded, key: str, call: CallTool | RunAgent) -> DoubtfulCall:
    _, item, attempt = place_of_key(key)
    args = {"inputs": call.inputs, **call.args} if isinstance(call, RunAgent) else dict(call.args)
    why = folded.asked.get(key) or (INTERRUPTED if folded.machine.result is None else _GIVEN_UP)
    args, why = _readable(folded, key, args, why)
    return DoubtfulCall(key, call.step, call.tool, args, folded.launched[key], item, attempt, why)


def _readable(folded: Folded, key: str, args: dict[str, JSON], why: str) -> tuple[dict[str, JSON], str]:
    """A call's arguments and reason for display, masked if they are secret by their labels."""
    monitor = folded.machine.monitor
    admitted = None if monitor is None else monitor.open_calls.calls.get(key)
    if admitted is None or not (admitted.sent.is_secret or admitted.result.is_secret):
        return args, why
    return {name: hidden(value) for name, value in args.items()}, hidden(why)


def settle_doubts(folded: Folded, recorder: JournalRecorder, verdict: Resolution | None) -> None:
    """On resumption, decide calls in doubt by their probes and policies, and by `verdict`.

    A tool's probe is asked before a verdict counts; calls that it cannot decide are asked about.
    """
    for key, call in folded.in_doubt().items():
        has_probe = folded.effect_of(call) is Effect.PROBE
        if verdict is not None and not (has_probe and key not in folded.asked):
            folded.feed(recorder.event(Decided(key, verdict)))
        elif has_probe or key not in folded.asked:
            folded.feed(recorder.event(Doubted(key, INTERRUPTED)))


def close_run(journal: Journal, writer: RunWriter, folded: Folded) -> Result:
    """The result of a run whose events lead to its end; recorded if it was not yet."""
    assert folded.machine.result is not None
    result = replace(folded.machine.result, usage=folded.usage())
    if not folded.ended:
        JournalRecorder(writer, journal.durability, folded=folded).end(result)
        writer.commit()
    return result


def decide_calls(
    journal: Journal, run_id: str, names: Sequence[str], verdict: Resolution, *, every: bool = False
) -> RunOutcome:
    """Record decisions about calls in doubt; return the resulting state of the run.

    Each of `names` is a call's key, its key without the attempt, or a step with one call in doubt; with
    `every`, a step stands for all of its calls. Either all are decided or none. The run goes on when it is
    resumed. Raises JournalError: JRN002 for an unknown run, JRN004 if another process owns it, JRN012 if its
    journal is damaged, JRN030 for a call that is not in doubt, JRN031 for a step with more than one;
    NotStorable (JRN007) for a value that is not JSON.
    """
    with _claim_patiently(journal, run_id) as writer:
        folded = verified_state(journal, writer, journal.plan(journal.find_run(run_id).plan_hash)[0])
        if folded.machine.result is not None:
            close_run(journal, writer, folded)
            raise _has_ended(run_id, folded.machine.result)
        keys = dict.fromkeys(key for name in names for key in _keys_of(folded, run_id, name, every=every))
        recorder = JournalRecorder(writer, journal.durability, folded=folded)
        for key in keys:
            folded.feed(recorder.event(Decided(key, verdict)))
        if folded.machine.result is not None:
            return RunOutcome(run_id, close_run(journal, writer, folded), usage=folded.usage())
        from callsheet.store.pauses import pause_of  # noqa: PLC0415 - not to show a run

        in_doubt, pause = doubtful_calls(folded), pause_of(journal, journal.find_run(run_id))
        if pause is not None:
            writer.set_status(RunStatus.PAUSED, facts=facts_of_rest(folded))
        elif in_doubt:
            writer.set_status(RunStatus.IN_DOUBT, facts=facts_of_rest(folded))
        else:
            writer.set_status(RunStatus.RUNNING)
        writer.commit()
        return replace(unfinished(run_id, folded, in_doubt), pause=pause)


def named_doubts(journal: Journal, run_id: str, names: Sequence[str], *, every: bool = False) -> list[str]:
    """The keys of the named calls in doubt, as in `decide_calls`, of a run that another engine executes.

    Raises JournalError: JRN030, JRN031.
    """
    folded = fold_run(journal, run_id, journal.plan(journal.find_run(run_id).plan_hash)[0])
    if folded.machine.result is not None:
        raise _has_ended(run_id, folded.machine.result)
    return list(dict.fromkeys(key for name in names for key in _keys_of(folded, run_id, name, every=every)))


def _claim_patiently(journal: Journal, run_id: str) -> RunWriter:
    """Claim the run, waiting briefly for another process that decides at the same time."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return journal.claim(run_id)
        except JournalError as error:
            if error.diagnostics[0].code != "JRN004" or time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


def _keys_of(folded: Folded, run_id: str, name: str, *, every: bool) -> list[str]:
    """The keys of the calls in doubt that a name refers to; raises JournalError (JRN030, JRN031)."""
    undecided = _decidable(folded)
    if name in undecided:
        return [name]
    keys = [key for key in undecided if name in (key.rpartition(".")[0], place_of_key(key)[0])]
    if not keys:
        raise _not_in_doubt(folded, run_id, name, undecided)
    if len(keys) > 1 and not every:
        raise JournalError(
            "JRN031",
            f"{len(keys)} calls of {name} are in doubt: {_listed(keys)}",
            hint="name a call by its key, or decide about all of them: --all",
        )
    return keys


def decided_already(run_id: str, key: str, decision: str) -> JournalError:
    """The error for a call that is no longer in doubt (JRN030)."""
    return JournalError(
        "JRN030",
        f"the call {key} has been decided already: {decision}",
        hint=f"continue the run: callsheet resume {run_id}",
    )


def _not_in_doubt(folded: Folded, run_id: str, name: str, undecided: Sequence[str]) -> JournalError:
    decided = [
        (key, verdict)
        for key, verdict in folded.decided.items()
        if name in (key, key.rpartition(".")[0], place_of_key(key)[0])
    ]
    if decided:
        key, verdict = decided[-1]
        text = "value" if isinstance(verdict, TookPlace) else str(verdict)
        message = f"the call {key} has been decided already: {text}"
    else:
        message = f"no call {name[:80]!r} of this run is in doubt"
    if not undecided:
        return JournalError(
            "JRN030", message, hint=f"nothing is in doubt: `callsheet resume {run_id}` continues it"
        )
    steps = [place_of_key(key)[0] for key in undecided]
    suggestions = () if decided else did_you_mean(name, [*undecided, *steps])
    hint = (
        f"did you mean {' or '.join(suggestions)}?" if suggestions else f"in doubt are {_listed(undecided)}"
    )
    return JournalError("JRN030", message, hint=hint)


def _has_ended(run_id: str, result: Result) -> JournalError:
    return JournalError(
        "JRN030",
        f"run {run_id} has ended ({result.status}); none of its calls is in doubt any more",
        hint=f"`callsheet show {run_id}` shows how it ended",
    )


def _listed(keys: Iterable[str], most: int = 20) -> str:
    named = list(keys)
    return ", ".join(named[:most]) + (f" and {len(named) - most} more" if len(named) > most else "")
