# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.bench]
# label = "callsheet"
# editable = "../main"
# import_stmt = "import callsheet"
# cli = ["callsheet", "--help"]
#
# [tool.bench.workloads]
# W1 = [""]
# W2 = [""]
# W3 = [""]
# W4 = ["", "again"]
# W5 = ["process", "power"]
# W6 = [""]
# ///
"""The adapter of callsheet for a harness that compares plan runtimes; `peers.py` copies it into the harness.

`build` parses and checks a plan and compiles it to a program; `run` executes it with the machine and the
local driver. W5: `process` survives the death of the process, `power` a power failure. W4: a first run knows
no durations; `again` knows those of the run before, as a run with a journal does. Of W6, `validate` is every
pass and `verify` the proof of the plan under a policy, including its data flow.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import benchlib
from benchlib import TOOLS

from callsheet.frontends.dag import parse_dag
from callsheet.frontends.ltp import parse
from callsheet.ir import Effect, Plan
from callsheet.machine import Limits, Machine, Started, ToolFacts, compile_plan
from callsheet.machine.program import compile_graph
from callsheet.machine.schedule import ranks_of
from callsheet.passes import check
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy, ToolRule
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Gateway, Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.local import SLICE, LocalDriver
from callsheet.runtime.runs import resume_run, start_run
from callsheet.store import Durability, Journal
from callsheet.views.mermaid import mermaid

Case = dict[str, Any]
Run = Callable[[], Coroutine[Any, Any, Any]]

PARAMETERS = {"inc": ("x",), "sum": ("xs",), "sleep": ("ms", "id"), "blob": ("x", "size")}
FACTS = {name.upper(): ToolFacts(Effect.IDEMPOTENT, names) for name, names in PARAMETERS.items()}
MANY = 1_000_000_000
DURABLE = {"process": Durability.NORMAL, "power": Durability.FULL}
POLICY = Policy(
    tools={"STORE_FACT": ToolRule(egress=False)},
    forbidden=("AKIA[0-9A-Z]{16}", "-----BEGIN [A-Z ]*PRIVATE KEY-----"),
)
"""For all else it is the policy that holds where nothing is said."""


def _route(function: Callable[..., Awaitable[Any]]) -> Route:
    def call(args: dict[str, Any], context: CallContext) -> Awaitable[Any]:
        return function(**args)

    return Route(call)


PORTS = Ports({name.upper(): _route(function) for name, function in TOOLS.items()}.get)


def plan_of(neutral: Case) -> str:
    """The text of a plan of the harness as a JSON plan."""

    def value(given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if "$refs" in given:
            return [f"${{{name}}}" for name in given["$refs"]]
        return "${" + ".".join(part for part in (given["$ref"], given.get("path")) if part) + "}"

    steps = [
        {
            "index": step["id"],
            "title": step["id"],
            "tool": step["tool"],
            "args": {name: value(given) for name, given in step["args"].items()},
            "depends_on": step["deps"],
            "result_variable": step["id"],
        }
        for step in neutral["steps"]
    ]
    return json.dumps({"id": "bench", "title": "bench", "steps": steps})


def checked(plan: Plan) -> Plan:
    """The plan, if nothing is wrong with it."""
    errors = [found for found in check(plan) if found.is_error]
    assert not errors, errors
    return plan


def limits(limit: int | None = None) -> Limits:
    """Generous bounds; `limit` steps at once."""
    return Limits(
        max_steps=MANY,
        max_calls=MANY,
        max_items=MANY,
        max_bytes=None,
        max_concurrency=limit or MANY,
        window=500,
        schedule="sequential",
    )


def drive(text: str, limit: int | None, result: Callable[[dict[str, Any]], Any]) -> Callable[[], Run]:
    """What makes a run of a JSON plan, and runs it."""

    def build() -> Run:
        program, bounds = compile_plan(checked(parse_dag(text).require()), FACTS), limits(limit)

        async def run() -> Any:
            machine = Machine(program, bounds)
            done = await LocalDriver(machine, Gateway(PORTS, "bench")).run(machine.feed(Started({}), SLICE))
            return result(done.variables if done else {})

        return run

    return build


def graph(case: Case, variant: str) -> Callable[[], Run]:
    """W1, W2, W4: a plan of dependencies."""
    if variant == "again":
        return again(case)
    neutral = case["plan"]
    output = neutral["output"]
    return drive(
        plan_of(neutral), case.get("limit"), lambda found: found[output] if output else sum(found.values())
    )


def again(case: Case) -> Callable[[], Run]:
    """W4: the same plan run repeatedly, each time with the durations of its last run."""
    plan, bounds = checked(parse_dag(plan_of(case["plan"])).require()), limits(case.get("limit"))
    layout, took = compile_graph(plan), dict[str, float]()

    def build() -> Run:
        async def run() -> Any:
            seconds = [took.get(step.id, 1.0) for step in plan.steps]
            ranks = ranks_of(layout, seconds, bounds.max_concurrency) if took else []
            first = {step.id: rank for step, rank in zip(plan.steps, ranks, strict=False)}
            machine = Machine(compile_plan(plan, FACTS, first), bounds)
            done = await LocalDriver(machine, Gateway(PORTS, "bench")).run(machine.feed(Started({}), SLICE))
            took.update((name, ended - began) for name, began, ended in benchlib.EVENTS)
            return sum(done.variables.values()) if done else None

        return run

    return build


def each(case: Case, variant: str) -> Callable[[], Run]:
    """W3: one tool over a list."""
    text = "PLAN_START\nS1: ?FOREACH ($item in $items) THEN @INC (x=$item) > $all\nPLAN_END\n"

    def build() -> Run:
        program, bounds = compile_plan(checked(parse(text).require()), FACTS), limits()

        async def run() -> Any:
            machine = Machine(program, bounds)
            commands = machine.feed(Started({"items": case["items"]}), SLICE)
            done = await LocalDriver(machine, Gateway(PORTS, "bench")).run(commands)
            return sum(done.variables["all"]) if done else None

        return run

    return build


def durable(case: Case, variant: str) -> Callable[[str, bool], Run]:
    """W5: a chain with a journal, and one that is resumed."""
    text, output = plan_of(case["plan"]), case["plan"]["output"]

    @asynccontextmanager
    async def ports_for(*_: object) -> Any:
        yield PORTS

    def build(folder: str, resume: bool) -> Run:
        plan = checked(parse_dag(text).require())
        program = compile_plan(plan, FACTS)
        journal = Journal.open(Path(folder) / "journal.db", DURABLE[variant])

        async def run() -> Any:
            if resume:
                outcome = await resume_run(journal, "run", ports_for)
            else:
                launch = Launch(FACTS, limits=limits(), program=program)
                outcome = await start_run(plan, PORTS, launch, journal, "run")
            return outcome.result.variables[output]["v"] if outcome.result else None

        async def close() -> None:
            journal.close()

        run.close = close  # type: ignore[attr-defined]
        return run

    return build


def text_of(case: Case, variant: str) -> Callable[[], object]:
    """W6: the operations on a text before it runs."""
    text = case["text"]
    plan = parse(text).require()
    work: dict[str, Callable[[], object]] = {
        "parse": lambda: parse(text).require(),
        "validate": lambda: check(plan),
        "verify": lambda: verify(plan, POLICY),
        "mermaid": lambda: mermaid(plan),
    }
    return work[case["op"]]


if __name__ == "__main__":
    benchlib.main({"W1": graph, "W2": graph, "W3": each, "W4": graph, "W5": durable, "W6": text_of})
