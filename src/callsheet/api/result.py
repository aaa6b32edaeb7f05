"""`RunResult`, the outcome or current state of a run, and `RunFailed`, raised for an unsuccessful one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from callsheet.api.steps import StepResult
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, render
from callsheet.ir import JSON
from callsheet.machine import Outcome, PolicyRefusal, Refusal, Usage
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import DoubtfulCall, RunOutcome
from callsheet.sealing.masking import MaskedFields, MaskedRepr, hidden, mask_text, masked
from callsheet.store import RunStatus

_ENDS = {
    RunStatus.FAILED: "failed",
    RunStatus.REFUSED: "was refused",
    RunStatus.CANCELLED: "was cancelled",
}


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(MaskedRepr):
    """How a run ended, or what it waits for.

    `status` is `done`, `failed`, `refused`, `cancelled`, `in_doubt`, `waiting` or `running`. `response` is
    the plan's answer or message; `variables` are the variables at the end, or so far, by name without `$`.
    `terminated` says that a TERMINATE ended the plan, `ended_at` which step did; `error` is what failed.

    Three states are not ends; `Runtime.resume` continues the run:

    - `in_doubt`: the calls listed in `in_doubt` were sent and gave no answer; `Runtime.decide` decides on
      one.
    - `waiting`: the run has asked people the questions in `waiting`; `Runtime.answer` answers one.
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
                RunStatus.IN_DOUBT
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
        )

    @property
    def ok(self) -> bool:
        """Whether the plan ran to its end: to an answer, a TERMINATE or its last step."""
        return self.status is RunStatus.DONE

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
