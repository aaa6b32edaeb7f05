"""What a program of tool calls costs: as a Python plan, beside a code mode in the Monty interpreter.

    python -m benchmarks.code_mode [CALLS]

The same program of a model (gather, filter, a loop, a text) is executed by `pydantic-monty`, whose external
functions are the tools, and as a plan of callsheet, in memory and with a journal. Both may call the same
coroutines. Printed: microseconds of wall time a call, the least of five rounds that take turns. A process in
which Monty executes programs is started before the clock; compiling the plan is a row of its own. Monty ends
a program after 1,000 calls unless it is told otherwise.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from callsheet import Plan, Runtime, tool

PROGRAM = '''
async def main(count: int) -> str:
    """Which orders are late, and who has to know?"""
    orders = await asyncio.gather(*[get_order(number=n) for n in range(count)])
    late = [order for order in orders if order["days"] > 5]
    told = 0
    for order in late[:50]:
        text = f"order {order['number']} is {order['days']} days late"
        await note_order(number=order["number"], text=text)
        told += 1
    return f"{len(late)} of {len(orders)} orders are late, {told} noted"
'''
ROUNDS = 5


async def get_order(number: int) -> dict[str, int]:
    """An order."""
    return {"number": number, "days": number % 7}


async def note_order(number: int, text: str) -> str:
    """Notes something at an order; a repeated call changes nothing."""
    return "noted"


async def in_monty(count: int) -> tuple[str, float]:
    """The answer of the program in Monty, and the seconds it took."""
    from pydantic_monty import AsyncMonty  # noqa: PLC0415

    tools: dict[str, Any] = {"get_order": get_order, "note_order": note_order}
    async with AsyncMonty() as pool, pool.checkout() as session:
        started = time.perf_counter()
        code = f"import asyncio\n{PROGRAM}\nawait main(count={count})"
        answer = await session.feed_run(code, external_lookup=tools)
        return str(answer), time.perf_counter() - started


async def as_plan(count: int, journal: Path | None) -> tuple[str, float]:
    """The answer of the program as a plan, and the seconds it took; without a journal, in memory."""
    tools = [tool(effect="read")(get_order), tool(effect="idempotent")(note_order)]
    plan = Plan.parse(f"import asyncio\n{PROGRAM}", language="python")
    async with Runtime(tools, journal=journal) as runtime:
        started = time.perf_counter()
        result = await runtime.run(plan, {"count": count})
        return str(result.answer), time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 900
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[int], Coroutine[None, None, tuple[str, float]]]] = {
            "Monty, nothing recorded": lambda turn: in_monty(count),
            "a plan, in memory": lambda turn: as_plan(count, None),
            "a plan, in a journal": lambda turn: as_plan(count, Path(folder) / f"{turn}.db"),
        }
        least: dict[str, float] = {}
        answers: set[str] = set()
        for each in range(ROUNDS):
            for name, way in ways.items():
                answer, seconds = asyncio.run(way(each))
                answers.add(answer)
                least[name] = min(seconds, least.get(name, seconds))
        started = time.perf_counter()
        Plan.parse(f"import asyncio\n{PROGRAM}", language="python")
        compiled = time.perf_counter() - started
    if len(answers) != 1:
        sys.exit(f"the answers differ: {answers}")
    calls = count + 50
    print(f"{calls} calls: {answers.pop()}")
    for name, seconds in least.items():
        print(f"  {name:26} {seconds / calls * 1e6:7.0f} µs a call  {seconds * 1e3:8.0f} ms")
    print(f"  {'compiling the plan, once':26} {'':7}            {compiled * 1e3:8.0f} ms")


if __name__ == "__main__":
    main()
