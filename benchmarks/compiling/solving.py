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

A goal that takes longer than `--seconds` to compile has no plan, and an answer has at most `--tokens`.

A goal is *right* if the plan ran to its end and the world is as after its author's own calls. It is *silently
wrong* if the plan ran to its end in a wrong world and nothing was said about it: no warning, no doubt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.compiling.clubs import club_tasks, club_unseen_tasks
from benchmarks.compiling.desk import desk_tasks, desk_unseen_tasks
from benchmarks.compiling.jobs import job_tasks
from benchmarks.compiling.places import place_tasks
from benchmarks.compiling.published import published_tasks, published_unseen_tasks
from benchmarks.compiling.sandbox import run_in_sandbox, sandbox_question
from benchmarks.compiling.servers import server_tasks
from benchmarks.compiling.suites import rest_tasks, suite_tasks, unseen_tasks
from benchmarks.compiling.trades import trade_tasks
from benchmarks.compiling.worlds import Declared, Task, World, bfcl_tasks

from callsheet import Runtime
from callsheet.api.compiling import Compiled, CompileOptions
from callsheet.authoring.compiler.request import PlanForm
from callsheet.diagnostics import Severity
from callsheet.ir import Effect, canonical_tool_name
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.local import LocalSettings, open_local
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    LanguageModel,
    Strength,
    Syntax,
    Usage,
    context_of,
    identify,
    strength_of,
)
from callsheet.ports.models.opening import open_model
from callsheet.ports.models.prompts import Messages
from callsheet.ports.models.settings import is_address
from callsheet.ports.tools import Tool, ToolSpec

_LONGEST = 300.0
"""The seconds after which a run is given up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What compiling one goal may take: seconds in all, and tokens of each answer, None as usual."""

    seconds: float = 900.0
    tokens: int | None = None


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
    found: tuple[str, ...] = ()
    conversations: tuple[dict[str, Any], ...] = ()
    """What the model was asked, and its answers; saved with `--log` alone."""


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
    """A model whose conversations are kept, each with the answer that it got, and what they used."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.conversations: list[dict[str, Any]] = []
        self.usages: list[Usage] = []

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def accepts(self) -> Sequence[Syntax]:
        return self._model.accepts

    @property
    def strength(self) -> Strength:
        return strength_of(self._model)

    @property
    def context(self) -> int | None:
        return context_of(self._model)

    async def identify(self) -> None:
        await identify(self._model)

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        said = await self._model.complete(messages, constraint, max_tokens=max_tokens)
        self.conversations.append({"messages": list(messages), "answer": said.text, "stop": str(said.stop)})
        self.usages.append(said.usage)
        return said


FREE = "free"
"""The form of a Python program that no grammar holds and that is asked for only once."""
SANDBOX = "sandbox"
"""The form of a Python program that callsheet does not read: the comparison."""
_MOST_OF_SANDBOX = 600


async def solve(task: Task, model: LanguageModel, form: str, limits: Limits | None = None) -> Solved:
    """Compile one goal, run its plan, and look at the world."""
    chosen, heard = limits or Limits(), _Heard(model)
    began = time.perf_counter()
    try:
        made = await asyncio.wait_for(_made(task, heard, form, chosen), chosen.seconds)
    except TimeoutError:
        made = _Made("", False, why=f"no plan within {chosen.seconds:g} s")
    seconds, spent = round(time.perf_counter() - began, 1), [*heard.usages]
    outcome, why = ("none", made.why) if made.run is None else await _outcome(task, made.run)
    return Solved(
        task.id,
        form,
        outcome,
        made.is_told,
        why,
        sum(one.input_tokens for one in spent),
        sum(one.cached_tokens for one in spent),
        sum(one.output_tokens for one in spent),
        len(spent),
        seconds,
        made.text,
        tuple(made.found),
        tuple(heard.conversations),
    )


class Unfinished(Exception):
    """A plan that ran did not come to its end; the text says why."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What a model wrote for a goal, whether anything was said about it, and how it is run, if it can be.

    A run returns its answer, or raises.
    """

    text: str
    is_told: bool
    found: Sequence[str] = ()
    run: Callable[[World], Awaitable[str]] | None = None
    why: str = ""


async def _made(task: Task, model: _Heard, form: str, limits: Limits) -> _Made:
    tools = tools_of(task.cases[0].world())
    if form == SANDBOX:
        asked = sandbox_question(task.goal, [tool.spec for tool in tools])
        said = await model.complete(asked, max_tokens=limits.tokens or _MOST_OF_SANDBOX)
        return _Made(said.text, False, run=lambda world: run_in_sandbox(said.text, world))
    runtime = Runtime(tools, model=model, builtins=False)
    if form == FREE:
        options = CompileOptions(constrained=False, repairs=False, max_tokens=limits.tokens)
    else:
        options = CompileOptions(form=PlanForm(form), max_tokens=limits.tokens)
    made = await runtime.compile(task.goal, options=options)
    told = [d for d in made.findings.diagnostics if d.severity is not Severity.HINT]
    doubted = any("asked once more" in str(remark) for remark in made.accounting.remarks)
    found = [f"{d.code} {d.severity}: {d.message}" for d in made.findings.diagnostics]
    if not isinstance(made, Compiled):
        return _Made(made.text, True, found, why="; ".join(d.message for d in made.findings.errors)[:200])

    async def run(world: World) -> str:
        inside = Runtime(tools_of(world), model=model, builtins=False)
        result = await asyncio.wait_for(inside.run(made.plan), _LONGEST)
        if not result.ok:
            raise Unfinished(str(result.error)[:200])
        return str(result.answer)

    return _Made(made.text, bool(told) or doubted, found, run)


async def _outcome(task: Task, run: Callable[[World], Awaitable[str]]) -> tuple[str, str]:
    """What a plan comes to: in each world of a goal, the first in which it is not right counts.

    The model that wrote the plan also answers what the plan asks a model.
    """
    for case in task.cases:
        world = case.world()
        try:
            answer = await run(world)
        except Exception as error:  # what became of this goal ends no measurement
            said = f"{type(error).__name__}: {error}"[:200]
            return "failed", str(error) if isinstance(error, Unfinished) else said
        if not case.is_right(world, answer):
            return "wrong", _done(answer, world)
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
    "clubs": club_tasks,
    "clubs-unseen": club_unseen_tasks,
    "desk": desk_tasks,
    "desk-unseen": desk_unseen_tasks,
    "suites": suite_tasks,
    "unseen": unseen_tasks,
    "rest": rest_tasks,
}


def main() -> None:
    """Measure a model in some forms, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", help="local:FILE.gguf, local:NAME or the address of a server")
    parser.add_argument("--form", default="python,free,ltp", help="python, free, sandbox, ltp, micro, json")
    parser.add_argument("--goals", choices=list(_GOALS), default="bfcl", help="whose goals")
    parser.add_argument("--of-each", type=int, help="the goals over each set of tools")
    parser.add_argument("--most", type=int, default=1_000, help="the most goals")
    parser.add_argument("--seconds", type=float, default=900.0, help="the most time to compile one goal")
    parser.add_argument("--tokens", type=int, help="the most tokens of an answer; the compiler's own limit")
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
    settings = LocalSettings(threads=asked.threads, timeout=900, context=8_192)
    is_served = is_address(asked.model)
    model = open_model(asked.model) if is_served else open_local(asked.model.removeprefix("local:"), settings)
    limits = Limits(asked.seconds, asked.tokens)
    rows = _saved(asked.save) if asked.resume and asked.save.exists() else []
    known = {(row.goal, row.form) for row in rows}
    begins = tuple(asked.only.split(",")) if asked.only else ("",)
    among = [task for task in _GOALS[asked.goals]() if task.id.startswith(begins)]
    for task in chosen(among, asked.of_each)[: asked.most]:
        for form in asked.form.split(","):
            if (task.id, form) in known:
                continue
            row = asyncio.run(solve(task, model, form, limits))
            if asked.log is not None:
                _append(asked.log, row)
            row = replace(row, conversations=())
            rows.append(row)
            line = f"{row.form:7} {row.outcome:6} {row.seconds:6} s {row.goal} {row.why}"
            print(line, file=sys.stderr, flush=True)
            if asked.save is not None:
                _append(asked.save, row)
    _print(rows)


def _append(path: Path, row: Solved) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


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
