"""`RunResult`, the outcome or current state of a run, and `StepResult`, that of a graph's step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, Self

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, render
from callsheet.ir import JSON, Order, Plan, Step, executor_name
from callsheet.lazy import dataclass
from callsheet.machine import Outcome, PolicyRefusal, Refusal, Usage
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import DoubtfulCall, RunOutcome
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.sealing.masking import MaskedFields, MaskedRepr, hidden, mask_text, masked
from callsheet.store import RunStatus

if TYPE_CHECKING:
    from callsheet.store.pauses import RunPause


@dataclass(frozen=True, slots=True, repr=False)
class StepResult(MaskedRepr):
    """The result of a step of a dependency plan; its `repr` masks secrets.

    `index` and `title` are the plan's; `tool` is the provider's name of the tool, empty for a step that
    calls none. `value` is the result of a finished step and `variable` where it was assigned; `error` says
    why a step failed or was skipped. `seconds` is the duration with retries, None for what happened before
    a run was resumed.
    """

    index: str
    title: str
    tool: str
    status: Literal["done", "failed", "skipped"]
    value: JSON = None
    variable: str | None = None
    error: str | None = None
    seconds: float | None = None

    @property
    def success(self) -> bool:
        """Whether the step finished without failing."""
        return self.status == "done"

    @property
    def was_skipped(self) -> bool:
        """Whether the step was skipped: by its condition, or because a step that it depends on failed."""
        return self.status == "skipped"


class StepLog:
    """Collects the step results of one run."""

    def __init__(self, plan: Plan | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = {} if plan is None else _steps_of(plan)
        self._clock = clock
        self._is_live = plan is not None
        self._begun: dict[str, float] = {}
        self._results: dict[str, StepResult] = {}
        self._calls: Counter[str] = Counter()
        self.hides: MaskedFields | None = None
        """The secrets that the `repr` of the results masks."""

    def begin_from(self, plan: Plan, new_plans: Iterable[tuple[str, Plan]]) -> None:
        """Set the plan of a resumed run and the plans that replaced it."""
        self._steps = _steps_of(plan)
        for _, new in new_plans:
            self._steps |= _steps_of(new)

    def compiled(self, plan: Plan) -> None:
        """Add the steps of a new plan."""
        self._steps |= _steps_of(plan)

    def calls_begun(self) -> Usage:
        """The calls begun so far, counting each attempt, and also those that a budget refused."""
        return Usage(calls=sum(self._calls.values()), calls_by_tool=dict(self._calls))

    def results(self) -> tuple[StepResult, ...]:
        """The results so far, in the order in which the steps ended."""
        return tuple(self._results.values())

    def title(self, index: str) -> str:
        """The title of a step in any plan of the run; empty if it has none."""
        step = self._steps.get(index)
        return "" if step is None else step.title or ""

    def get(self, index: str) -> StepResult | None:
        """The result of a step; None until it has ended."""
        return self._results.get(index)

    def watching(self, watch: Watch) -> Watch:
        """The watch, with this log added as an observer."""
        observer, on_driver = watch.observer, watch.on_driver

        def note(new: Note) -> None:
            self.note(new)
            if observer is not None:
                observer(new)

        def begins(driver: LocalDriver) -> None:
            self._is_live = True
            if on_driver is not None:
                on_driver(driver)

        return replace(watch, observer=note, on_driver=begins)

    def note(self, note: Note) -> None:
        """Record a note of the machine."""
        step = self._steps.get(note.step)
        if step is None:
            return
        match note.kind:
            case NoteKind.RETRYING:
                self._count(step)
            case NoteKind.STARTED:
                self._count(step)
                self._begun[step.id] = self._clock() if self._is_live else -1.0
                self._results.pop(step.id, None)
            case NoteKind.FINISHED:
                self._end(step, "done", value=note.value, variable=note.var, is_secret=note.is_secret)
            case NoteKind.FAILED:
                self._end(step, "failed", error=note.detail, is_secret=note.is_secret)
            case NoteKind.SKIPPED:
                self._end(step, "skipped", error=note.detail)
            case _:
                pass

    def _count(self, step: Step) -> None:
        if self._is_live and step.call is not None:
            self._calls[step.call.tool] += 1

    def _end(
        self,
        step: Step,
        status: Literal["done", "failed", "skipped"],
        *,
        value: JSON = None,
        variable: str | None = None,
        error: str | None = None,
        is_secret: bool = False,
    ) -> None:
        begun = self._begun.get(step.id, -1.0)
        seconds = max(0.0, self._clock() - begun) if self._is_live and begun >= 0 else None
        if status == "skipped" and self._is_live:
            seconds = 0.0
        tool = executor_name(step.call.tool) if step.call is not None else ""
        self._results.pop(step.id, None)
        result = StepResult(step.id, step.title or "", tool, status, value, variable, error, seconds)
        if self.hides is not None:
            hides = self.hides
            result = masked(result, hides._replace(names=_VALUES) if is_secret else hides)
        self._results[step.id] = result


_VALUES = frozenset({"value", "error"})


def log_of(plan: Plan) -> StepLog | None:
    """A log for a run of this plan; None for a text plan."""
    return StepLog(plan) if plan.order is Order.DAG else None


def _steps_of(plan: Plan) -> dict[str, Step]:
    return {step.id: step for step in plan.steps} if plan.order is Order.DAG else {}


_ENDS = {
    RunStatus.FAILED: "failed",
    RunStatus.REFUSED: "was refused",
    RunStatus.CANCELLED: "was cancelled",
}


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(MaskedRepr):
    """How a run ended, or what it waits for.

    `status` is `done`, `failed`, `refused`, `cancelled`, `in_doubt`, `waiting`, `paused` or `running`.
    `response` is the plan's answer or message; `variables` are the variables at the end, or so far, by name
    without `$`. `terminated` says that a TERMINATE ended the plan, `ended_at` which step did; `error` is what
    failed.

    Four states are not ends; `Runtime.resume` continues the run:

    - `in_doubt`: the calls listed in `in_doubt` were sent and gave no answer; `Runtime.decide` decides on
      one.
    - `waiting`: the run has asked people the questions in `waiting`; `Runtime.answer` answers one.
    - `paused`: a person has paused it, as `pause` says; it may have open questions and doubts besides.
    - `running`: the model gave no answer to the calls in `unanswered`; or, without any, `Runtime.decide` has
      decided on the last call in doubt.

    In a run that ended unsuccessfully, `in_doubt` lists calls that were in progress then and may have taken
    place. `repr` and the message of `raise_for_status` mask secrets; the values themselves are unchanged.
    """

    run_id: str
    status: RunStatus
    response: str = ""
    variables: dict[str, JSON] = field(default_factory=dict[str, JSON])
    steps_executed: int = 0
    terminated: bool = False
    error: str | None = None
    ended_at: str | None = None
    in_doubt: tuple[DoubtfulCall, ...] = ()
    waiting: tuple[PendingAsk, ...] = ()
    unanswered: tuple[DoubtfulCall, ...] = ()
    """The model calls that got no answer, and why; `Runtime.resume` makes them again."""
    refusal: Refusal | None = None
    """The limit that the run would have exceeded, if one ended it."""
    objection: PolicyRefusal | None = None
    """What the policy refused, if that ended the run."""
    usage: Usage = field(default_factory=Usage, compare=False)
    """What the run has used: steps, calls by tool, tokens, cost, bytes, seconds."""
    steps: tuple[StepResult, ...] = field(default=(), compare=False, repr=False)
    """The results of the steps of a dependency plan, in the order in which they ended; else empty."""
    failed_steps: tuple[str, ...] = ()
    """The ids of the steps that failed, or of which items failed, and that the plan just went past, in order.

    A failure that ON_FAIL handles, by GOTO or TERMINATE, and an attempt that was repeated and succeeded are
    none. In a dependency plan these are all steps that failed. Set once the run has ended.
    """
    diagnostics: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)
    """The warnings and hints about the plan when this call started the run; empty for a resumed run."""
    answer: JSON = None
    """The answer of a plan of version 2 as data; `response` is it as text."""
    pause: RunPause | None = None
    """Who has paused the run, and since when; None if it is not paused."""

    @property
    def outcome(self) -> Outcome:
        """What the run has come to: its status, or `DONE_WITH_FAILURES` if it is done with `failed_steps`."""
        return Outcome.of(self.status, has_failures=bool(self.failed_steps))

    @property
    def replanned(self) -> bool:
        """Whether the run continued with a new plan, after a RE-PLAN or a failed graph."""
        return self.usage.replans > 0

    @classmethod
    def of(
        cls,
        outcome: RunOutcome,
        steps: tuple[StepResult, ...] = (),
        hides: MaskedFields | None = None,
        diagnostics: tuple[Diagnostic, ...] = (),
    ) -> RunResult:
        """The result for a driver's outcome; its `repr` masks what `hides` contains."""
        unmasked = replace(cls._of(outcome, steps), diagnostics=diagnostics)
        if hides is None:
            return unmasked
        for part in (*unmasked.in_doubt, *unmasked.waiting, *unmasked.unanswered):
            masked(part, hides)
        result = outcome.result
        secret = outcome.secret if result is None else result.secret
        if not secret:
            return masked(unmasked, hides)
        has_secret_error = result is not None and result.objection is None
        return masked(unmasked, hides._replace(names=secret | {"error"} if has_secret_error else secret))

    @classmethod
    def _of(cls, outcome: RunOutcome, steps: tuple[StepResult, ...]) -> RunResult:
        result = outcome.result
        if result is None:
            status = (
                RunStatus.PAUSED
                if outcome.pause is not None
                else RunStatus.IN_DOUBT
                if outcome.in_doubt
                else RunStatus.WAITING
                if outcome.waiting
                else RunStatus.RUNNING
            )
            return cls(
                outcome.run_id,
                status,
                variables=dict(outcome.variables or {}),
                steps_executed=outcome.usage.steps,
                in_doubt=outcome.in_doubt,
                waiting=outcome.waiting,
                unanswered=outcome.unanswered,
                usage=outcome.usage,
                steps=steps,
                pause=outcome.pause,
            )
        return cls(
            outcome.run_id,
            RunStatus(result.status),
            result.response,
            result.variables,
            result.steps_executed,
            result.terminated,
            result.error,
            result.ended_at,
            in_doubt=outcome.in_doubt,
            refusal=result.refusal,
            objection=result.objection,
            usage=outcome.usage,
            steps=steps,
            failed_steps=result.failed_steps,
            answer=result.answer,
        )

    @property
    def ok(self) -> bool:
        """Whether the plan ran to its end: to an answer, a TERMINATE or its last step."""
        return self.status is RunStatus.DONE

    def _repr_html_(self) -> str:
        from callsheet.api.notebooks import result_html  # noqa: PLC0415 - only in notebooks

        return result_html(self)

    def raise_for_status(self, *, strict: bool = False) -> Self:
        """Return this result if the run is done; raise RunFailed otherwise.

        With `strict` a run that is done with failures raises too, and names the steps.

        >>> import callsheet
        >>> callsheet.run('S1: @RESPOND ("hello")').raise_for_status().response
        'hello'
        """
        if self.ok and strict and self.failed_steps:
            steps = ", ".join(self.failed_steps)
            hint = "ON_FAIL handles a failure; result.failed_steps and `callsheet show` tell more"
            raise RunFailed(self, f"run {self.run_id} is {self.outcome.words}: {steps} failed", hint)
        if self.ok:
            return self
        if self.pause is not None:
            hint = f"it goes on with runtime.resume({self.run_id!r})"
            raise RunFailed(self, f"run {self.run_id} is {self.pause.words}", hint)
        if self.status is RunStatus.IN_DOUBT:
            steps = ", ".join(f"{call.step} @{call.tool}" for call in self.in_doubt)
            message = f"it is not known whether these calls of run {self.run_id} took place: {steps}"
            decisions = f"runtime.resume({self.run_id!r}, in_doubt='retry'), or 'skip' or 'fail'"
            raise RunFailed(self, message, f"check whether they did, then {decisions}")
        if self.status is RunStatus.WAITING:
            keys = ", ".join(ask.key for ask in self.waiting)
            hint = f"runtime.answer({self.run_id!r}, …), then runtime.resume({self.run_id!r})"
            raise RunFailed(self, f"run {self.run_id} waits for people to answer {keys}", hint)
        if self.unanswered:
            summary = "; ".join(f"{call.step} @{call.tool}: {call.why}" for call in self.unanswered)
            hint = f"when the model can be asked: runtime.resume({self.run_id!r})"
            raise RunFailed(self, f"run {self.run_id} is suspended: {summary}", hint)
        if self.status is RunStatus.RUNNING:
            message = f"run {self.run_id} has not ended"
            raise RunFailed(self, message, f"resume it: runtime.resume({self.run_id!r})")
        place = f" at {self.ended_at}" if self.ended_at else ""
        hides: MaskedFields | None = getattr(self, "_hides", None)
        why = self.error or self.response
        if hides is not None:
            why = str(hidden(why)) if "error" in hides.names else mask_text(why, hides.finder)
        reason = f": {why}" if why else ""
        raise RunFailed(self, f"run {self.run_id} {_ENDS[self.status]}{place}{reason}", None)


class RunFailed(CallsheetError):
    """A run that is not done, raised by `RunResult.raise_for_status`; `result` is its result."""

    def __init__(self, result: RunResult, message: str, hint: str | None) -> None:
        self.result = result
        super().__init__([Diagnostic("RUN020", Severity.ERROR, message, help=hint)])

    def __str__(self) -> str:
        return render(self.diagnostics[0])
