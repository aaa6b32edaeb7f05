"""Compares compiled plans with ReAct loops on goals like the demonstration's: `python -m benchmarks.loops`.

Runs `callsheet compare-react` for each goal, on the three MCP servers of the demonstration and the built-in
tools, with a real model, and summarises what it prints. `cold` starts a process, and so the model, for each
goal. `warm` uses one process, after a goal that is not counted, so that the model's cache is filled as far as
possible.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from click.testing import CliRunner

from callsheet.apps.cli.main import main as callsheet
from callsheet.apps.comparison import Attempt, total_costs
from callsheet.apps.demo.sample import Sample, create_sample, install_servers


class Asked(NamedTuple):
    """A goal, where `{repository}` is the sample's, and the texts that a right answer contains."""

    goal: str
    texts: tuple[str, ...]

    @property
    def check(self) -> str:
        """A function of an answer, as the text of a Python file."""
        return f"def holds(answer):\n    return all(text in answer for text in {self.texts!r})\n"


WARM_UP = Asked("Get the time in Europe/Lisbon and tell me.", ("Lisbon",))
GOALS = (
    Asked("List the tables of the database and tell me.", ("tickets", "decisions")),
    Asked("Get the current time in Africa/Nairobi and tell me.", ("+03:00",)),
    Asked(
        "List the tables of the database, get the time in Asia/Tokyo and tell me both.",
        ("tickets", "+09:00"),
    ),
    Asked(
        "Show the git log of the repository {repository} and tell me what it says.", ("Sort tickets by age",)
    ),
    Asked(
        "Get the git status of {repository} and list the tables of the database; tell me both.",
        ("working tree clean", "decisions"),
    ),
    Asked(
        'Convert the time "16:00" from Etc/UTC to Asia/Tokyo and tell me what it is there.',
        ("01:00",),
    ),
    Asked("Read offices.json and tell me what it says.", ("Nairobi", "Africa/Nairobi")),
    Asked(
        'Read the database with the query "SELECT title FROM tickets" and tell me the titles.',
        ("crash when a ticket has no title", "dark colours for the board"),
    ),
)


def compared(asked: Asked, sample: Sample, model: str, *, in_program: bool) -> dict[str, Any]:
    """What `callsheet compare-react` prints for a goal."""
    check = sample.workspace.parent / "check.py"
    check.write_text(asked.check, encoding="utf-8")
    goal = asked.goal.format(repository=sample.repository)
    arguments = ["compare-react", goal, "--model", model, "--mcp-config", str(sample.config)]
    arguments += ["--check", f"{check}:holds", "--json"]
    if in_program:
        result = CliRunner().invoke(callsheet, arguments)
        code, out, err = result.exit_code, result.stdout, result.stderr
    else:
        program = [sys.executable, "-m", "callsheet", *arguments]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    if code:
        raise RuntimeError(f"compare-react ended with {code}: {err or out}")
    return json.loads(out)


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """For each way: its total cost, and its cost per solved goal."""
    yield "| way | solved | model calls | tool calls | tokens read, cached | written | s | a solved goal |"
    yield "|" + "---|" * 8
    attempts = [[_told(attempt) for way in row["ways"] for attempt in way["attempts"]] for row in rows]
    for ways in zip(*attempts, strict=True):
        way = total_costs(ways)
        each = way.per_solved_goal
        spent = "none"
        if each is not None:
            spent = (
                f"{each.tokens_cold:,.0f} tokens cold, {each.tokens_warm:,.0f} warm,"
                f" {each.model_calls:.1f} calls, {each.seconds:.0f} s"
            )
        yield (
            f"| {way.name} | {way.solved} of {way.times} | {way.model_calls} | {way.calls} |"
            f" {way.input_tokens:,}, {way.cached_tokens:,} | {way.output_tokens:,} |"
            f" {way.seconds:.0f} | {spent} |"
        )


def _told(attempt: Mapping[str, Any]) -> Attempt:
    """An attempt; one without a tool call is wrong, since its answer is invented."""
    way = Attempt(**attempt)
    return replace(way, is_solved=way.is_solved and way.calls > 0)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="local:qwen2.5-coder-0.5b")
    parser.add_argument("--caches", choices=["cold", "warm"], default="cold")
    parser.add_argument("--goals", type=int, default=len(GOALS), help="only the first N goals")
    parser.add_argument("--save", type=Path, help="append the results of each goal to this file")
    parser.add_argument("--rescore", type=Path, help="summarise a saved file, without a model")
    asked = parser.parse_args()
    if asked.rescore:
        rows = [json.loads(line) for line in asked.rescore.read_text(encoding="utf-8").splitlines()]
        print("\n".join(table(rows)))
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "callsheet" / "servers"
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        sample = create_sample(Path(folder), asyncio.run(install_servers(cache, _say)))
        os.chdir(sample.workspace)
        if asked.caches == "warm":
            compared(WARM_UP, sample, asked.model, in_program=True)
        for goal in GOALS[: asked.goals]:
            row = compared(goal, sample, asked.model, in_program=asked.caches == "warm")
            rows.append(row)
            _say("; ".join(f"{w['name']} {w['solved']} {w['seconds']:.0f} s" for w in row["ways"]))
            if asked.save is not None:
                with asked.save.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
