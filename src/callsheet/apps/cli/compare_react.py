"""`callsheet compare-react`: compares a compiled plan with a ReAct loop on one goal, with their costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, print_text, to_stderr
from callsheet.apps.rendering.values import format_seconds, preview

if TYPE_CHECKING:
    from callsheet.apps.attempt_costs import AttemptTotals
    from callsheet.apps.setup import Setup


@click.command("compare-react")
@click.argument("goal", metavar="GOAL")
@options.planning_tools
@click.option("--expect", metavar="TEXT", help="Count an answer as solved if it contains TEXT.")
@click.option(
    "--check",
    metavar="FILE.py:FUNCTION",
    help="A Python function that takes the answer and returns whether it is solved.",
)
@click.option(
    "--times",
    type=click.IntRange(1, 100),
    default=1,
    help="The number of attempts with each method; default: 1.",
)
@options.as_json
def compare_react(
    goal: str, setup: Setup, expect: str | None, check: str | None, times: int, as_json: bool
) -> int:
    """Solve GOAL with a compiled plan, with a ReAct loop, and with a ReAct loop that makes concurrent calls.

    All three really call the tools, with the same model and tools. The costs are shown in total and per
    solved goal. Without --expect and --check every answer counts as solved.
    """
    from callsheet.apps.attempt_costs import total_costs  # noqa: PLC0415 - as above
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.comparison import compare_methods  # noqa: PLC0415 - as above
    from callsheet.apps.models import with_local_model  # noqa: PLC0415 - as above

    if expect is not None and check is not None:
        raise click.UsageError("--expect and --check cannot be combined")
    attempts_by_method = run_async(
        compare_methods(goal, with_local_model(setup, to_stderr), _solves(expect, check), times)
    )
    tallies = [total_costs(attempts) for attempts in attempts_by_method]
    if as_json:
        rows = [
            asdict(totals)
            | {"per_solved": None if totals.per_solved_goal is None else totals.per_solved_goal._asdict()}
            | {"attempts": [asdict(attempt) for attempt in attempts]}
            for totals, attempts in zip(tallies, attempts_by_method, strict=True)
        ]
        print_json({"goal": goal, "times": times, "ways": rows})
        return Exit.OK
    for totals in tallies:
        _print(totals)
    print_text("")
    for line in _table(tallies):
        print_text(line)
    if expect is None and check is None:
        to_stderr(
            "every answer counts as solved: set a criterion with --expect TEXT or --check FILE.py:FUNCTION"
        )
    return Exit.OK


def _solves(expect: str | None, check: str | None) -> Callable[[str], bool]:
    if check is not None:
        from callsheet.ports.python_tools import load_function  # noqa: PLC0415 - only where one is named

        path, _, name = check.rpartition(":")
        function = load_function(Path(path), name) if path.endswith(".py") else None
        if function is None:
            raise click.UsageError(
                f"--check {check} is not a function of a Python file: write FILE.py:FUNCTION"
            )
        checker = function
        return lambda answer: bool(checker(answer))
    expected_text = (expect or "").casefold()
    return lambda answer: expected_text in answer.casefold()


def _print(totals: AttemptTotals) -> None:
    print_text(f"{totals.name}: {_solved(totals)}")
    model_call_notes = [f"{totals.compiling} to compile the plan"] if totals.compiling else []
    model_call_notes += [f"{totals.repairs} of them repairs"] if totals.repairs else []
    model_call_notes += [f"{totals.replans} for new plans"] if totals.replans else []
    details = f" ({', '.join(model_call_notes)})" if model_call_notes else ""
    print_text(
        f"  model calls {totals.model_calls}{details}, tool calls {totals.calls},"
        f" {format_seconds(totals.seconds)}"
    )
    print_text(
        f"  tokens: input {totals.input_tokens:,} ({totals.fresh_tokens:,} fresh,"
        f" {totals.cached_tokens:,} cached), output {totals.output_tokens:,}"
    )
    print_text(f"  {'error' if totals.error else 'answer'}: {preview(totals.error or totals.answer, 200)}")


def _solved(totals: AttemptTotals) -> str:
    if totals.times == 1:
        return "solved" if totals.solved else "NOT solved"
    return f"solved {totals.solved} of {totals.times} times"


def _table(all_totals: Sequence[AttemptTotals]) -> list[str]:
    """The cost of a solved goal with each method, failed attempts included."""
    header = ("per solved goal", "tokens, cold", "tokens, warm", "model calls", "tool calls", "time")
    rows = [header, *(_row(totals) for totals in all_totals)]
    widths = [max(len(row[n]) for row in rows if n < len(row)) for n in range(len(header))]
    return [
        "  ".join(cell.rjust(width) if n else cell.ljust(width) for n, (cell, width) in enumerate(cells))
        for cells in (tuple(zip(row, widths, strict=False)) for row in rows)
    ]


def _row(totals: AttemptTotals) -> tuple[str, ...]:
    each = totals.per_solved_goal
    if each is None:
        return (totals.name, "not solved")
    counts = (each.tokens_cold, each.tokens_warm)
    calls = (each.model_calls, each.calls)
    return (
        totals.name,
        *(f"{n:,.0f}" for n in counts),
        *(f"{n:.3g}" for n in calls),
        format_seconds(each.seconds),
    )
