#!/usr/bin/env python3
"""What a policy costs while a run goes on: CPU time a call, beside the same run without one.

python -m benchmarks.enforcement
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable

from callsheet.frontends.ltp import parse
from callsheet.ir import Effect, Plan
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

CALLS = 3_000
ROUNDS = 15
MOST = 5.0
"""Microseconds that judging a call may add."""
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
    """Every step once, so that each has to be made ready as well."""
    steps = ['S1: @READ ("a") > $v1']
    steps += [
        f'S{n}: @SEND (x="https://example.org/$v{n - 1}", body=$v{n - 1}) > $v{n}' for n in range(2, CALLS)
    ]
    return parse("\n".join(["PLAN_START", *steps, "PLAN_END"])).require()


def loop(arguments: str) -> Plan:
    """One step, again and again."""
    return parse(f"PLAN_START\n{LOOP.format(arguments)}\nPLAN_END").require()


def seconds(program: Program, enforcement: Enforcement | None) -> float:
    """The CPU time of a call."""
    machine = Machine(program, Limits(max_steps=10 * CALLS), enforcement=enforcement)
    commands = machine.feed(Started({"xs": [f"x{n}" for n in range(CALLS)]}))
    count = 0
    began = time.thread_time()
    while machine.result is None:
        (command,) = commands
        commands = machine.feed(Succeeded(command.key, "value"))  # type: ignore[union-attr]
        count += 1
    spent = time.thread_time() - began
    assert machine.result.status is Status.DONE, machine.result.error
    return spent / count


def least(work: Callable[[], float]) -> float:
    """The least of the rounds."""
    return min((work() for _ in range(ROUNDS)), default=math.inf)


def main() -> None:
    """Print microseconds a call, without a policy and under one."""
    print(f"{'':44}{'without':>9}{'under':>9}{'more':>9}   microseconds of CPU a call")
    plans = {f"a loop, {name}": loop(arguments) for name, arguments in SHAPES.items()}
    for name, plan in {**plans, "a chain, every step made ready once": chain()}.items():
        program = compile_plan(plan, FACTS)
        gc.collect()
        gc.freeze()
        free = 1e6 * least(lambda program=program: seconds(program, None))
        bound = 1e6 * least(lambda program=program: seconds(program, Enforcement.under(POLICY)))
        print(f"{name:44}{free:9.2f}{bound:9.2f}{bound - free:9.2f}")
    print(f"judging a call may add {MOST} microseconds; making a step ready is done once for each step")


if __name__ == "__main__":
    main()
