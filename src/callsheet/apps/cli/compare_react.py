"""`callsheet compare-react`: one goal as a compiled plan and as a ReAct loop, and what each of them took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import print_json, print_text, say
from callsheet.apps.wording.values import preview, seconds

if TYPE_CHECKING:
    from callsheet.apps.comparing import Way
    from callsheet.apps.session import Setup


@click.command("compare-react")
@click.argument("goal", metavar="GOAL")
@options.planning_tools
@click.option("--expect", metavar="TEXT", help="The goal is solved if the answer holds TEXT.")
@click.option("--check", metavar="FILE.py:FUNCTION", help="A function of the answer that says so.")
@options.as_json
def compare_react(goal: str, setup: Setup, expect: str | None, check: str | None, as_json: bool) -> int:
    """Reach GOAL as a compiled plan, as a ReAct loop, and as one with calls side by side.

    All three are carried out for real, with the same model and tools. Without --expect or --check every
    answer counts as solved.
    """
    from callsheet.apps.cli.loop import run_to_end  # noqa: PLC0415 - brings asyncio
    from callsheet.apps.comparing import compared  # noqa: PLC0415 - as above
    from callsheet.apps.models import with_fetched  # noqa: PLC0415 - as above

    if expect is not None and check is not None:
        raise click.UsageError("--expect and --check both say what an answer is: give one of them")
    ways = run_to_end(compared(goal, with_fetched(setup, say), _solves(expect, check)))
    if as_json:
        print_json({"goal": goal, "ways": [asdict(way) for way in ways]})
    else:
        for way in ways:
            _print(way)
    return Exit.OK


def _solves(expect: str | None, check: str | None) -> Callable[[str], bool]:
    if check is not None:
        from callsheet.ports.python_tools import load_function  # noqa: PLC0415 - only where one is named

        path, _, name = check.rpartition(":")
        function = load_function(Path(path), name) if path.endswith(".py") else None
        if function is None:
            raise click.UsageError(f"--check {check} names no function of a Python file: FILE.py:FUNCTION")
        found = function
        return lambda answer: bool(found(answer))
    wanted = (expect or "").casefold()
    return lambda answer: wanted in answer.casefold()


def _print(way: Way) -> None:
    print_text(f"{way.name}: {'solved' if way.is_solved else 'NOT solved'}")
    made = f" ({way.compiling} to make the plan)" if way.compiling else ""
    anew = f", {way.replans} new plans" if way.replans else ""
    fresh = way.input_tokens - way.cached_tokens
    print_text(f"  model calls {way.model_calls}{made}{anew}, tool calls {way.calls}, {seconds(way.seconds)}")
    print_text(
        f"  tokens read {way.input_tokens:,} ({fresh:,} fresh, {way.cached_tokens:,} cached),"
        f" written {way.output_tokens:,}"
    )
    print_text(f"  {'error' if way.error else 'answer'}: {preview(way.error or way.answer, 200)}")
