"""Prints the outcome of `run` and `resume`: the answer on standard output, messages on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.apps.cli.run_options import option_for_limit
from callsheet.apps.operations.outcomes import outcome_json
from callsheet.apps.rendering.runs import doubt_lines, failures_line, pending_call_lines, unanswered_lines
from callsheet.apps.rendering.values import without_controls
from callsheet.diagnostics import CallsheetError
from callsheet.machine import Outcome, PolicyRefusal, Result, Status
from callsheet.runtime.doubt import RunOutcome
from callsheet.store.errors import JournalWriteFailed

if TYPE_CHECKING:
    from callsheet.apps.masking import Masker
    from callsheet.diagnostics import Source
    from callsheet.ir import Plan
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.program_question import ProgramQuestion

_ENDED = {
    Status.REFUSED: "the plan was refused",
    Status.FAILED: "the plan failed",
    Status.CANCELLED: "the run is cancelled",
}


def report(
    outcome: RunOutcome,
    journal: Path | None,
    *,
    as_json: bool,
    hint: str = "",
    diagnostics: Sequence[Mapping[str, object]] = (),
    reopens: bool = False,
    is_strict: bool = False,
    locate: Callable[[str], str] = lambda _: "",
) -> Exit:
    """Print the outcome of a run and return the exit status.

    `journal` is None if nothing was recorded. `hint` is the option that a further command needs to find the
    journal (` --journal PATH`). `diagnostics` are the warnings as JSON objects. `reopens` states that the
    plan is a graph, which can be resumed after a failure. `is_strict` makes a run that is done with failures
    one that failed. `locate` tells where a step stands in the plan's text, "" if that is not known.
    """
    result = outcome.result
    has_failures = result is not None and result.outcome is Outcome.DONE_WITH_FAILURES
    with ignoring_broken_pipe():
        if as_json:
            print_json(outcome_json(outcome, journal, diagnostics))
        elif result is None:
            if outcome.pause is not None:
                to_stderr(f"the run is {outcome.pause.words}")
                to_stderr(f"let it go on with: callsheet resume {outcome.run_id}{hint}")
            if outcome.in_doubt:
                to_stderr("\n".join(doubt_lines(outcome.in_doubt, outcome.run_id, hint)))
            _print_asks(outcome, hint, journal)
            if outcome.unanswered:
                to_stderr("\n".join(unanswered_lines(outcome.unanswered, outcome.run_id, hint)))
        else:
            _print_result(result, (lambda _: "") if outcome.usage.replans else locate)
            if has_failures:
                to_stderr(failures_line(result.failed_steps))
            for line in pending_call_lines(outcome.in_doubt):
                to_stderr(without_controls(line))
            to_stderr(f"used {outcome.usage.describe()}")
            if journal is not None:
                to_stderr(f"run {outcome.run_id} · callsheet show {outcome.run_id}{hint}")
                if reopens and result.status is Status.FAILED:
                    to_stderr(f"retry the failed steps with: callsheet resume {outcome.run_id}{hint}")
                elif result.refusal is not None:
                    again = f"callsheet rerun {outcome.run_id} --from {result.ended_at or 'STEP'}{hint}"
                    to_stderr(f"to go on from there with this option, as a new run: {again}")
    if result is None:
        return Exit.UNDECIDED
    if result.status is Status.REFUSED:
        return Exit.REFUSED
    is_good = result.status is Status.DONE and not (is_strict and has_failures)
    return Exit.OK if is_good else Exit.FAILED


def with_recovery_help(error: JournalWriteFailed, run_id: str | None, hint: str) -> CallsheetError:
    """The error of the journal, with instructions for continuing the run after a repair."""
    fix = "free space or repair the disk, then run the plan again: no call was made"
    if run_id is not None:
        fix = f"free space or repair the disk, then: callsheet resume {run_id}{hint}"
    return CallsheetError([replace(d, help=fix) for d in error.diagnostics])


def place_in(plan: Plan, source: Source | None, path: str) -> str:
    """Where the step of a visit such as `S2[4]/S5` stands in the text of its plan: `FILE:LINE:COLUMN`.

    Empty for a step of another plan, and for a plan without a text.
    """
    from callsheet.ir.tree import all_statements  # noqa: PLC0415 - only where a run has failed

    id_ = path.rpartition("/")[2].partition("[")[0]
    steps = plan.steps if plan.tree is None else all_statements(plan.tree)
    span = next((one.span for one in steps if one.id == id_), None)
    if span is None or source is None:
        return ""
    return "{}:{}:{}".format(source.name, *source.position(span.start))


def _print_result(result: Result, locate: Callable[[str], str]) -> None:
    if result.status is Status.DONE:
        if result.terminated:
            to_stderr(f"ended by TERMINATE at {result.ended_at}")
        if result.response:
            print_text(result.response)
        return
    line = locate(result.ended_at) if result.ended_at else ""
    where = f" at {result.ended_at}{line and f', {line}'}" if result.ended_at else ""
    if result.response and result.terminated:
        print_text(result.response)  # the words of the plan
    told = (result.response if result.terminated else "", str(result.status))
    reason = result.error or result.response
    why = "" if reason in told else f": {reason}"
    to_stderr(f"{_ENDED[result.status]}{where}{without_controls(why)}")
    if result.objection is not None:
        for line in _objection_lines(result.objection):
            to_stderr(without_controls(line))
    if result.refusal is not None:
        option = option_for_limit(result.refusal)
        to_stderr(f"help: change the limit with an option of `run` or `resume`, or in config.toml: {option}")


def _objection_lines(objection: PolicyRefusal) -> Iterator[str]:
    """The details of a refusal by a policy."""
    what = "" if objection.argument is None else f" ({objection.argument})"
    decided = "" if objection.decided_by == "T/pub" else f", decided by {objection.decided_by}"
    label = "" if objection.argument is None and objection.label == "T/pub" else f": {objection.label}"
    yield f"rule {objection.rule}{what}{label}{decided}"
    if len(objection.flow) > 1:
        yield f"data flow: {' → '.join(objection.flow)}"
    if objection.help is not None:
        yield f"help: {objection.help}"


def question_printer(masker: Masker, hint: str) -> Callable[[PendingAsk], None]:
    """A callback that prints each question of a run that waits for the answer; `hint` as in `report`.

    It gives no answer itself: that comes from the inbox.
    """

    def show(ask: PendingAsk) -> None:
        to_stderr("the run waits for an answer:")
        _print_questions((masker.ask(ask),), hint, _NOTHING_BESIDE)

    return show


class _Beside(NamedTuple):
    """By digest of an open question: what was approved before, further calls that an answer may cover."""

    precedents: Mapping[str, str]
    programs: Mapping[str, ProgramQuestion]


_NOTHING_BESIDE = _Beside({}, {})


def _print_questions(asks: Sequence[PendingAsk], hint: str, beside: _Beside) -> None:
    from callsheet.apps.rendering.runs import questions_lines  # noqa: PLC0415 - only where people are asked

    for _, lines in questions_lines(asks, hint, beside.precedents, beside.programs):
        for line in lines:
            to_stderr(f"  {line}")


def _beside(outcome: RunOutcome, journal: Path | None) -> _Beside:
    from callsheet.apps.cli import journals  # noqa: PLC0415 - only where people are asked
    from callsheet.runtime.inbox import asks_of, precedents_of, programs_of  # noqa: PLC0415 - as above
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - as above

    if journal is None or all(ask.kind != "approval" for ask in outcome.waiting):
        return _NOTHING_BESIDE
    try:
        with journals.open_to_read(journal) as opened:
            recorded = asks_of(opened, outcome.run_id)
            return _Beside(precedents_of(opened, recorded), programs_of(opened, recorded))
    except JournalError:
        return _NOTHING_BESIDE  # the questions are shown without it, and in the inbox


def _print_asks(outcome: RunOutcome, hint: str, journal: Path | None) -> None:
    if outcome.waiting:
        to_stderr("the run waits for people:")
    _print_questions(outcome.waiting, hint, _beside(outcome, journal))
    if outcome.waiting:
        to_stderr(f"after the answers, continue with: callsheet resume {outcome.run_id}{hint}")
