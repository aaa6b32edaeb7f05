"""Draws random graphs over the same tools: a step waits for what it reads, and sometimes for more."""

from __future__ import annotations

import re
from dataclasses import replace
from operator import add
from random import Random

from callsheet.frontends.ltp import parse
from callsheet.ir import Order, Plan, Step
from callsheet.passes.verify.subject import reading_of

from .drawing import Drawn, call, condition, settings, source, value

_DRAWN = re.compile(r"\$[abc]\b")


def draw_graph(seed: int) -> Drawn:
    """The graph of this number, as the steps that it is made of in the order of a text."""
    random = Random(f"graph {seed}")
    count = random.randint(4, 10)
    lines: list[str] = []
    for number in range(1, count + 1):
        pieces = _DRAWN.split(_line(random, number, count))
        names = [f"$v{random.randint(1, max(1, number - 1))}" for _ in pieces[1:]]
        lines.append(f"S{number}: {pieces[0]}" + "".join(map(add, names, pieces[1:])))
    return Drawn("\n".join(lines), *settings(random, [f"S{n}" for n in range(1, count + 1)]))


def _line(random: Random, number: int, count: int) -> str:
    if number <= 2:
        return f"{'@VAULT ()' if random.random() < 0.15 else source(random)} > $v{number}"
    if number == count - 1 and random.random() < 0.3:
        return f'@LLM_SUMMARIZE ("$v1 $v2", format="brief") > $v{number}'
    if number == count and random.random() < 0.3:
        return f"@RESPOND ($v{number - 1})"
    guard = f"?IF ({condition(random)}) THEN " if random.random() < 0.2 else ""
    if number == count and random.random() < 0.7:
        return f"@RESPOND ({value(random)})"
    ways = ("@RETRY(1)", 'TERMINATE ("no $a")', f'TERMINATE ("see https://c.example/?q=$v{number}")')
    failure = f" ON_FAIL {random.choice(ways)}" if random.random() < 0.15 else ""
    return f"{guard}{call(random)} > $v{number}{failure}"


def graph_of(text: str, seed: int) -> Plan | None:
    """The graph of a drawn text; None if it is invalid."""
    random = Random(f"waits {seed}")
    read = parse(text)
    if read.plan is None or any(d.severity.value == "error" for d in read.diagnostics):
        return None
    steps: list[Step] = []
    made: dict[str, str] = {}
    for step in read.plan.steps:
        waits = {made[name] for name in reading_of(step).names() if name in made}
        waits |= {other.id for other in steps if random.random() < 0.1}
        steps.append(replace(step, depends_on=tuple(sorted(waits))))
        if step.output is not None:
            made[step.output.var] = step.id
    return replace(read.plan, steps=tuple(steps), order=Order.DAG)
