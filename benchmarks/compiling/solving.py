"""Compiles goals, runs the plans in their worlds, and compares the end states.

python -m benchmarks.compiling.solving --model local:FILE.gguf --of-each 1 --save rows.jsonl
python -m benchmarks.compiling.solving --model local:FILE.gguf --form python --resume --save rows.jsonl
python -m benchmarks.compiling.solving --model local:FILE.gguf --goals jobs --form python
python -m benchmarks.compiling.solving --show rows.jsonl

The goals of `bfcl` are by other authors, and so are those of `suites` and `rest`, the user tasks of AgentDojo
that its own checks judge; the `jobs` are everyday jobs over 22 tools, written for this
measurement, a third of them in two states of the world: their plans must do the right thing in both.

The form `free` is a Python program that no grammar holds and that is asked for only once, `sandbox` one that
is asked for in three sentences and run by Python. Each goal is
compiled in all forms before the next, and each result is saved at once, so that a measurement that was broken
off compares alike.

A goal is *right* if the plan ran to its end and the world is as after its author's own calls. It is *silently
wrong* if the plan ran to its end in a wrong world and nothing was said about it: no warning, no doubt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.compiling.jobs import job_tasks
from benchmarks.compiling.places import place_tasks
from benchmarks.compiling.published import published_tasks, published_unseen_tasks
from benchmarks.compiling.sandbox import run_in_sandbox, sandbox_question
from benchmarks.compiling.servers import server_tasks
from benchmarks.compiling.suites import rest_tasks, suite_tasks, unseen_tasks
from benchmarks.compiling.trades import trade_tasks
from benchmarks.compiling.worlds import Declared, Task, World, bfcl_tasks

from callsheet import Plan, Runtime
from callsheet.api.compiling import Compiled, CompileOptions
from callsheet.authoring.compiler.request import PlanForm
from callsheet.diagnostics import Severity
from callsheet.ir import Effect, canonical_tool_name
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.local import LocalSettings, open_local
from callsheet.ports.models.model import Completion, Constraint, LanguageModel, Strength, Syntax, strength_of
from callsheet.ports.models.prompts import Messages
from callsheet.ports.tools import Tool, ToolSpec

_LONGEST = 300.0
"""The seconds after which a run is given up."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What became of a goal: `none` (no plan), `failed`, `wrong`, `right`; and what it cost."""

    goal: str
    form: str
    outcome: str
    is_told: bool
    why: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    calls: int
    seconds: float
    text: str


def tools_of(world: World) -> list[Tool]:
    """The tools of a world for a runtime."""

    def tool(one: Declared) -> Tool:
        async def handler(arguments: dict[str, Any], _: CallContext) -> Any:
            try:
                return world.call(one, arguments)
            except Exception as error:
                raise ToolFailed(f"{one.name}: {error}") from error

        name = canonical_tool_name(one.name)
        effect = Effect.READ if one.only_reads else Effect.UNSAFE
        spec = ToolSpec(
            name, one.name, one.description, one.parameters, effect, "python:world", result=one.result
        )
        return Tool(spec, handler)

    return [tool(one) for one in world.tools]


class _Heard:
    """A model whose conversations are kept, each with the answer that it got."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.conversations: list[dict[str, Any]] = []

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def accepts(self) -> Sequence[Syntax]:
        return self._model.accepts

    @property
    def strength(self) -> Strength:
        return strength_of(self._model)

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        said = await self._model.complete(messages, constraint, max_tokens=max_tokens)
        self.conversations.append({"messages": list(messages), "answer": said.text, "stop": str(said.stop)})
        return said


FREE = "free"
"""The form of a Python program that no grammar holds and that is asked for only once."""
SANDBOX = "sandbox"
"""The form of a Python program that callsheet does not read: the comparison."""
_MOST_OF_SANDBOX = 600


async def solve_in_sandbox(task: Task, model: LanguageModel) -> Solved:
    """Have the model write a plain program, run it as it is, and look at the world."""
    tools = [tool.spec for tool in tools_of(task.cases[0].world())]
    began = time.perf_counter()
    said = await model.complete(sandbox_question(task.goal, tools), max_tokens=_MOST_OF_SANDBOX)
    seconds = round(time.perf_counter() - began, 1)
    outcome, why = "right", ""
    for case in task.cases:
        world = case.world()
        try:
            answer = await run_in_sandbox(said.text, world)
        except Exception as error:  # whatever the program raises
            outcome, why = "failed", f"{type(error).__name__}: {error}"[:200]
            break
        if not case.is_right(world, answer):
            outcome, why = "wrong", _done(answer, world)
            break
    usage = said.usage
    return Solved(
        task.id,
        SANDBOX,
        outcome,
        False,
        why,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
        1,
        seconds,
        said.text,
    )


async def solve(task: Task, model: LanguageModel, form: str) -> Solved:
    """Compile one goal, run its plan, and look at the world."""
    if form == SANDBOX:
        return await solve_in_sandbox(task, model)
    runtime = Runtime(tools_of(task.cases[0].world()), model=model, builtins=False)
    began = time.perf_counter()
    if form == FREE:
        options = CompileOptions(constrained=False, repairs=False)
    else:
        options = CompileOptions(form=PlanForm(form))
    made = await runtime.compile(task.goal, options=options)
    seconds = time.perf_counter() - began
    usage = made.accounting.usage
    told = [d for d in made.findings.diagnostics if d.severity is not Severity.HINT]
    doubted = any("asked once more" in str(remark) for remark in made.accounting.remarks)
    outcome, why = "none", "; ".join(d.message for d in made.findings.errors)[:200]
    if isinstance(made, Compiled):
        outcome, why = await _outcome(task, made.plan, model)
    return Solved(
        task.id,
        form,
        outcome,
        bool(told) or doubted,
        why,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
        made.accounting.calls,
        round(seconds, 1),
        made.text,
    )


async def _outcome(task: Task, plan: Plan, model: LanguageModel) -> tuple[str, str]:
    """What a plan comes to: in each world of a goal, the first in which it is not right counts.

    The model that wrote the plan also answers what the plan asks a model.
    """
    for case in task.cases:
        world = case.world()
        try:
            runtime = Runtime(tools_of(world), model=model, builtins=False)
            result = await asyncio.wait_for(runtime.run(plan), _LONGEST)
        except Exception as error:  # what became of this goal ends no measurement
            return "failed", f"{type(error).__name__}: {error}"[:200]
        if not result.ok:
            return "failed", str(result.error)[:200]
        if not case.is_right(world, str(result.answer)):
            return "wrong", _done(str(result.answer), world)
    return "right", ""


def _done(answer: str, world: World) -> str:
    """What a plan did in a wrong world."""
    made = ", ".join(f"{name}({said})" for name, said, _ in world.calls)
    return f"answers {answer[:300]!r} after {made[:600] or 'nothing'}"


def summary(rows: list[Solved]) -> dict[str, Any]:
    """The counts of a measurement, and its tokens for each goal that was solved."""
    count = {name: sum(row.outcome == name for row in rows) for name in ("right", "wrong", "failed", "none")}
    tokens = sum(row.input_tokens + row.output_tokens for row in rows)
    read = sum(row.input_tokens for row in rows)
    return {
        "goals": len(rows),
        **count,
        "silently wrong": sum(row.outcome == "wrong" and not row.is_told for row in rows),
        "tokens per right": round(tokens / count["right"]) if count["right"] else None,
        "cached": f"{sum(row.cached_tokens for row in rows) / max(1, read):.0%}",
        "output per goal": round(sum(row.output_tokens for row in rows) / max(1, len(rows))),
        "calls per goal": round(sum(row.calls for row in rows) / max(1, len(rows)), 2),
        "seconds per goal": round(sum(row.seconds for row in rows) / max(1, len(rows)), 1),
    }


def chosen(tasks: Iterable[Task], of_each: int | None) -> list[Task]:
    """All tasks, or the first few over each set of tools."""
    together = [list(group) for _, group in groupby(tasks, key=lambda task: task.tools)]
    return [task for group in together for task in group[:of_each]]


_GOALS: Mapping[str, Callable[[], Iterable[Task]]] = {
    "bfcl": bfcl_tasks,
    "jobs": job_tasks,
    "places": place_tasks,
    "trades": trade_tasks,
    "servers": server_tasks,
    "published": published_tasks,
    "published-unseen": published_unseen_tasks,
    "suites": suite_tasks,
    "unseen": unseen_tasks,
    "rest": rest_tasks,
}


def main() -> None:
    """Measure a model in some forms, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", help="local:FILE.gguf or local:NAME")
    parser.add_argument("--form", default="python,free,ltp", help="python, free, sandbox, ltp, micro, json")
    parser.add_argument("--goals", choices=list(_GOALS), default="bfcl", help="whose goals")
    parser.add_argument("--of-each", type=int, help="the goals over each set of tools")
    parser.add_argument("--most", type=int, default=1_000, help="the most goals")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", type=Path, help="append each result to this file")
    parser.add_argument("--log", type=Path, help="append the conversations of each goal to this file")
    parser.add_argument("--only", help="goals whose id has such a prefix, separated by commas")
    parser.add_argument("--resume", action="store_true", help="leave out what the file has already")
    parser.add_argument("--show", type=Path, help="print the counts of a file, and measure nothing")
    asked = parser.parse_args()
    if asked.show is not None:
        _print(_saved(asked.show))
        return
    if asked.model is None or (asked.resume and asked.save is None):
        parser.error("a measurement needs --model, and --resume needs --save")
    model = open_local(
        asked.model.removeprefix("local:"), LocalSettings(threads=asked.threads, timeout=900, context=8_192)
    )
    rows = _saved(asked.save) if asked.resume and asked.save.exists() else []
    known = {(row.goal, row.form) for row in rows}
    begins = tuple(asked.only.split(",")) if asked.only else ("",)
    among = [task for task in _GOALS[asked.goals]() if task.id.startswith(begins)]
    for task in chosen(among, asked.of_each)[: asked.most]:
        for form in asked.form.split(","):
            if (task.id, form) in known:
                continue
            heard = _Heard(model)
            row = asyncio.run(solve(task, heard, form))
            rows.append(row)
            if asked.log is not None:
                with asked.log.open("a", encoding="utf-8") as file:
                    said = {**asdict(row), "conversations": heard.conversations}
                    file.write(json.dumps(said, ensure_ascii=False) + "\n")
            line = f"{row.form:7} {row.outcome:6} {row.seconds:6} s {row.goal} {row.why}"
            print(line, file=sys.stderr, flush=True)
            if asked.save is not None:
                with asked.save.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
    _print(rows)


def _saved(path: Path) -> list[Solved]:
    return [Solved(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _print(rows: list[Solved]) -> None:
    """The counts of each form, of the goals that were compiled in all forms."""
    forms = list(dict.fromkeys(row.form for row in rows))
    known = {(row.goal, row.form) for row in rows}
    goals = {row.goal for row in rows if all((row.goal, form) in known for form in forms)}
    for form in forms:
        own = [row for row in rows if row.form == form and row.goal in goals]
        print(json.dumps({"form": form, **summary(own)}))


if __name__ == "__main__":
    main()
