#!/usr/bin/env python3
"""What a policy costs while a run goes on: CPU time a call, beside the same run without one.

python -m benchmarks.enforcement
"""

from __future__ import annotations

import gc
import time
from collections import deque

from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Effect, Plan
from callsheet.ir.labels import read_label
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
from callsheet.policy.model import Policy, ToolRule

STEPS = 1_000
ROUNDS = 15
MOST = 5.0
"""Microseconds that a policy may add to a call, its step made ready and judged."""
FACTS = {"READ": ToolFacts(Effect.READ, ("x",)), "SEND": ToolFacts(Effect.UNSAFE, ("x",))}
POLICY = Policy(
    tools={
        "READ": ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/pub")),
        "SEND": ToolRule(egress=True, destructive=False, idempotent=True, returns=read_label("U/pub")),
    }
)
LOOP = 'S1: @READ ("a") > $a\nS2: ?FOREACH ($i IN $xs) THEN @SEND ({}) > $b'
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


def loop(arguments: str) -> Plan:
    """One step, again and again."""
    return parse(f"PLAN_START\n{LOOP.format(arguments)}\nPLAN_END").require()


def seconds(program: Program, enforcement: Enforcement | None) -> float:
    """The CPU time of a call."""
    machine = Machine(program, Limits(max_steps=10 * STEPS), enforcement=enforcement)
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


def main() -> None:
    """Print microseconds a call, without a policy and under one."""
    print(f"{'':44}{'without':>9}{'under':>9}{'more':>9}   microseconds of CPU a call")
    plans = {f"a loop, {name}": loop(arguments) for name, arguments in SHAPES.items()}
    singles = {"a chain of different steps": chain(), "a fan-out of different steps": fan_out()}
    for name, plan in {**plans, **singles}.items():
        program = compile_plan(plan, FACTS)
        gc.collect()
        gc.freeze()
        rules: tuple[Enforcement | None, ...] = (None, Enforcement.under(POLICY))
        rounds = [[seconds(program, each) for each in rules] for _ in range(ROUNDS)]  # side by side
        free, bound = (1e6 * min(of) for of in zip(*rounds, strict=True))
        print(f"{name:44}{free:9.2f}{bound:9.2f}{bound - free:9.2f}")
    print(f"a policy may add {MOST} microseconds to a call, all in all")


if __name__ == "__main__":
    main()
