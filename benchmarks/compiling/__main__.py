"""Compiles the goals with a model and reports the quality of the plans.

python -m benchmarks.compiling --model local:qwen2.5-coder-0.5b --mode documented
python -m benchmarks.compiling --model local:smollm2-135m --mode free --every 3 --save out.jsonl
python -m benchmarks.compiling --further --mode compile
python -m benchmarks.compiling --held-out --mode compile
python -m benchmarks.compiling --mode compile --save out.jsonl --resume
python -m benchmarks.compiling --rescore out.jsonl [--further | --held-out]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.compiling.goals import Goal, further, goals, held_out
from benchmarks.compiling.modes import MODES, Made
from benchmarks.compiling.scoring import Score, score

from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.local import LocalSettings, open_local
from callsheet.ports.models.model import LanguageModel

_TRUTHS = ("parsed", "known", "valid", "clean", "in_order", "adequate")


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one goal, and its cost."""

    goal: Goal
    made: Made
    seconds: float

    @property
    def score(self) -> Score:
        return score(self.goal, self.made.text)


async def measure(model: LanguageModel, mode: str, chosen: Iterable[Goal], save: Path | None) -> list[Row]:
    """Compile the goals one after another; each result is saved at once."""
    rows: list[Row] = []
    for goal in chosen:
        began = time.perf_counter()
        made = await MODES[mode](model, goal)
        rows.append(Row(goal, made, time.perf_counter() - began))
        mark = "✓" if rows[-1].score.adequate else "·"
        print(
            f"{mark} {goal.id} {rows[-1].seconds:.1f} s {rows[-1].score.why or made.failed}", file=sys.stderr
        )
        if save is not None:
            with save.open("a", encoding="utf-8") as file:
                said = {"goal": goal.id, "seconds": rows[-1].seconds, **made._asdict()}
                file.write(json.dumps(said, ensure_ascii=False) + "\n")
    return rows


def read_rows(path: Path) -> list[Row]:
    """The rows of a saved file, to be scored again without a model."""
    by_id = {goal.id: goal for goal in (*goals(), *further(), *held_out())}
    rows: list[Row] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        data: dict[str, Any] = json.loads(line)
        goal, seconds = by_id[data.pop("goal")], data.pop("seconds")
        rows.append(Row(goal, Made(**data), seconds))
    return rows


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The counts of a measurement, and its mean costs."""
    scores = [row.score for row in rows]
    counts: dict[str, Any] = {truth: sum(getattr(s, truth) for s in scores) for truth in _TRUTHS}
    size = max(1, len(rows))
    return {
        "goals": len(rows),
        **counts,
        "seconds": round(sum(row.seconds for row in rows) / size, 1),
        "input_tokens": round(sum(row.made.input_tokens for row in rows) / size),
        "fresh_tokens": round(sum(row.made.fresh_tokens for row in rows) / size),
        "output_tokens": round(sum(row.made.output_tokens for row in rows) / size),
        "calls": round(sum(row.made.calls for row in rows) / size, 2),
    }


def table(rows: Sequence[Row], by: str) -> str:
    """Counts by catalogue or by kind, and over all, as a Markdown table."""
    keys = list(dict.fromkeys(getattr(row.goal, by) for row in rows))
    parts = [(key, [row for row in rows if getattr(row.goal, by) == key]) for key in keys]
    lines = [f"| {by} | goals | {' | '.join(_TRUTHS)} | s | tokens in, fresh, out |", "|" + "---|" * 10]
    for key, some in [*parts, ("all", list(rows))]:
        told = summary(some)
        counts = " | ".join(str(told[truth]) for truth in _TRUTHS)
        tokens = f"{told['input_tokens']}, {told['fresh_tokens']}, {told['output_tokens']}"
        lines.append(f"| {key} | {told['goals']} | {counts} | {told['seconds']} | {tokens} |")
    return "\n".join(lines)


def _chosen(among: Sequence[Goal], only: str | None, every: int) -> list[Goal]:
    """The goals whose catalogue, kind or id has such a prefix; every `every`-th one."""
    names = tuple(only.split(",")) if only else ("",)
    wanted = [g for g in among if g.id.startswith(names) or g.kind.startswith(names)]
    return [g for g in wanted if int(g.id.rpartition("/")[2]) % every == 1 % every]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="local:qwen2.5-coder-0.5b")
    parser.add_argument("--mode", choices=list(MODES), default="documented")
    parser.add_argument("--only", help="prefixes of catalogues, kinds or ids, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="use every N-th goal: 3 takes 20 of the 60")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--further", action="store_true", help="the thirty goals over tools of two other domains"
    )
    which.add_argument("--held-out", action="store_true", help="the twenty goals that nothing is tuned on")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--save", type=Path, help="write each answer to this file")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="only ask for goals missing from the file of --save; summarise all",
    )
    parser.add_argument("--rescore", type=Path, help="score a saved file again, without a model")
    parser.add_argument("--by", choices=["catalogue", "kind"], default="catalogue")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.resume and asked.save is None:
        parser.error("--resume needs --save: the file that has the answers so far")
    among = held_out() if asked.held_out else further() if asked.further else goals()
    chosen = _chosen(among, asked.only, asked.every)
    if asked.rescore:
        rows = [row for row in read_rows(asked.rescore) if row.goal in chosen]
    else:
        settings = LocalSettings(threads=asked.threads, timeout=900)
        try:
            model = open_local(asked.model.removeprefix("local:"), settings)
        except CallsheetError as error:
            sys.exit(f"{error} ({error.diagnostics[0].help})")
        done = read_rows(asked.save) if asked.resume and asked.save.exists() else []
        had = [row for row in done if row.goal in chosen]
        left = [goal for goal in chosen if goal not in [row.goal for row in had]]
        rows = had + asyncio.run(measure(model, asked.mode, left, asked.save))
    if asked.json:
        each = [{"goal": r.goal.id, **asdict(r.score), **r.made._asdict()} for r in rows]
        print(json.dumps({"summary": summary(rows), "goals": each}, ensure_ascii=False, indent=1))
    else:
        print(table(rows, asked.by))


if __name__ == "__main__":
    main()
