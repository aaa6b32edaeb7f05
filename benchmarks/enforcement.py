#!/usr/bin/env python3
"""Measures what a policy costs during a run: CPU time per call, compared with the same run without one.

python -m benchmarks.enforcement
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from callsheet.api.policies import load_policy
from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Effect, Plan
from callsheet.ir.labels import LITERAL, read_label
from callsheet.machine import (
    Enforcement,
    Limits,
    Machine,
    Program,
    Started,
    Status,
    Succeeded,
    ToolFacts,
    compile_plan,
)
from callsheet.passes.verify import verify
from callsheet.policy.judge import judge_of
from callsheet.policy.model import Policy, ToolRule

STEPS = 1_000
ROUNDS = 15
MOST = 5.0
"""Microseconds that a policy may add to a call, its step made ready and judged."""
FACTS = {
    "READ": ToolFacts(Effect.READ, ("x",)),
    "NOTE": ToolFacts(Effect.UNSAFE, ("x",)),
    "MAIL": ToolFacts(Effect.UNSAFE, ("to", "subject", "body")),
    "SEND": ToolFacts(Effect.UNSAFE, ("x",)),
}
POLICY = replace(
    load_policy("workspace"),
    tools={
        "READ": ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/pub")),
        "SEND": ToolRule(egress=True, destructive=False, idempotent=True, returns=read_label("U/pub")),
    },
    max_steps=None,
    max_calls=None,
)
"""The shipped policy, with its patterns of what no argument may hold, and the tools of these plans."""
PRIVATE = replace(
    POLICY,
    tools={
        "READ": replace(POLICY.tools["READ"], returns=read_label("U/priv")),
        "NOTE": ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("U/priv")),
        "MAIL": ToolRule(
            egress=True,
            destructive=False,
            idempotent=True,
            returns=read_label("T/pub"),
            control=("to",),
            audience_arg="to",
            trusted_audience=("*@corp.example",),
        ),
    },
)
LOOP = 'S1: @READ ("a") > $a\nS2: ?FOREACH ($i IN $xs) THEN @SEND ({}) > $b'
OTHERS = {
    "a guard before each": '?IF ($a != "{n}") THEN @SEND (x="https://example.org/$a", body=$a) > $v{n}',
    "a model operation": '@LLM_SUMMARIZE ($a, focus="part {n}") > $v{n}',
    "a file read": '@READ_FILE (path="docs/{n}.md") > $v{n}',
    "a file written": '@WRITE_FILE (path="out/{n}.md", content="$a") > $v{n}',
    "a page": '@FETCH_PAGE (url="https://example.org/{n}") > $v{n}',
    "a page of data": '@FETCH_PAGE (url="https://example.org/{n}?q=$a") > $v{n}',
    "private mail": '@MAIL (to="ada@corp.example", subject="Number {n}", body="Number {n}: $a") > $v{n}',
    "private data": '@NOTE (text="Number {n}: $a") > $v{n}',
}
"""Steps of whose calls more counts than their labels: what they say, or who may read it."""
SHAPES = {
    "one argument, of a variable": "x=$i",
    "two arguments": 'x="https://example.org/$i", body=$a',
    "three arguments": 'x="https://example.org/$i", body=$a, n=3',
}


def chain() -> Plan:
    """Every step once, each of what the last one gave: each has to be made ready as well."""
    steps = [
        f'S{n}: @SEND (x="https://example.org/$v{n - 1}", body=$v{n - 1}) > $v{n}'
        for n in range(2, STEPS + 1)
    ]
    return parse("\n".join(["PLAN_START", 'S1: @READ ("a") > $v1', *steps, "PLAN_END"])).require()


def fan_out() -> Plan:
    """Every step once, all of them side by side."""
    steps = [f'S{n}: @SEND (x="https://example.org/{n}/$a", body=$a) > $v{n}' for n in range(2, STEPS + 1)]
    return parse(
        "\n".join(["PLAN_START", 'S1: @READ ("a") > $a', "@PARALLEL {", *steps, "}", "PLAN_END"])
    ).require()


def different(step: str, begin: int = 2) -> Plan:
    """Every step once, each of what a first one gave: `{n}` stands for the number of the step."""
    steps = [f"S{n}: " + step.replace("{n}", str(n)) for n in range(begin, begin + STEPS - 1)]
    return parse("\n".join(["PLAN_START", 'S1: @READ ("a") > $a', *steps, "PLAN_END"])).require()


def loop(arguments: str) -> Plan:
    """One step, again and again."""
    return parse(f"PLAN_START\n{LOOP.format(arguments)}\nPLAN_END").require()


def seconds(program: Program, enforcement: Enforcement | None) -> float:
    """The CPU time of a call."""
    machine = Machine(program, Limits(max_steps=10 * STEPS, schedule="sequential"), enforcement=enforcement)
    items: list[JSON] = [f"x{n}" for n in range(STEPS)]
    count = 0
    began = time.thread_time()
    commands = deque(machine.feed(Started({"xs": items})))
    while machine.result is None:
        commands.extend(machine.feed(Succeeded(commands.popleft().key, "value")))  # type: ignore[union-attr]
        count += 1
    spent = time.thread_time() - began
    assert machine.result.status is Status.DONE, machine.result.error
    return spent / count


def proved(plan: Plan, policy: Policy) -> tuple[Program, Enforcement]:
    """A plan made ready for its first run, as a run under a policy does it: it is proved before."""
    verdict = verify(plan, judge_of(policy), inputs={"xs": LITERAL})
    assert verdict.ok, verdict.violations
    return compile_plan(plan, FACTS), Enforcement.under(policy)


def row(name: str, make: Callable[[int], Plan], policy: Policy) -> None:
    """Print what a policy adds to a call: in the first run of a plan, and in a later one of the same plan.

    `make` gives a plan like the others that no round had before, whose texts nothing remembers.
    """
    program = compile_plan(make(2), FACTS)
    enforcement = Enforcement.under(policy)
    gc.collect()
    gc.freeze()
    rounds: list[tuple[float, float, float]] = []
    for number in range(1, ROUNDS + 1):  # side by side
        new = proved(make(number * STEPS + 2), replace(policy))
        rounds.append((seconds(program, None), seconds(*new), seconds(program, enforcement)))
    free, first, later = (1e6 * min(of) for of in zip(*rounds, strict=True))
    print(f"{name:44}{free:9.2f}{first:9.2f}{first - free:9.2f}{later:9.2f}{later - free:9.2f}")


def _same(plan: Plan) -> Callable[[int], Plan]:
    return lambda begin: plan


def main() -> None:
    """Print microseconds a call, without a policy and under one."""
    print(
        f"{'':44}{'without':>9}{'first':>9}{'more':>9}{'later':>9}{'more':>9}   microseconds of CPU per call"
    )
    for name, arguments in SHAPES.items():
        row(f"a loop, {name}", _same(loop(arguments)), POLICY)
    row("a chain of different steps", _same(chain()), POLICY)
    row("a fan-out of different steps", _same(fan_out()), POLICY)
    for name, step in OTHERS.items():
        row(
            f"different steps, {name}",
            partial(different, step),
            PRIVATE if name.startswith("private") else POLICY,
        )
    print(f"the target: a policy adds at most {MOST} microseconds to a call")


if __name__ == "__main__":
    main()
