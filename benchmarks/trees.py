"""Measures how the cost of plans with blocks grows with their size: `python -m benchmarks.trees`.

Each kind of plan in doubled sizes up to 100,000 statements or items, each operation on it once, with the run
in a journal and its resume. Prints the microseconds of CPU per statement or item, and the exponent of the
total cost (1 is proportional). `--million` runs one loop over 1,000,000 items instead, breaks it off near its
end and resumes it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import exponent

from benchmarks import plans
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.ir import Effect, Plan, plan_hash
from callsheet.ir.labels import Label
from callsheet.machine import Decision, Limits, Machine, Result, Started, Status, ToolFacts, compile_plan
from callsheet.machine.forecasting import foresee
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.passes import check
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy, ToolRule
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Gateway, Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.local import SLICE, LocalDriver
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import Durability, Journal
from callsheet.store.replay import current_state
from callsheet.store.start import Start
from callsheet.trace.lineage.record import run_lineage
from callsheet.trace.visits import account_of
from callsheet.views.mermaid import mermaid
from callsheet.views.terminal import terminal_graph

SIZES = (12_500, 25_000, 50_000, 100_000)
FACTS = {**plans.FACTS, **OWN_FACTS, "LOOK": ToolFacts(Effect.READ, ("x",))}
MANY = 100_000_000
LIMITS = Limits(
    max_steps=MANY, max_calls=MANY, max_items=MANY, max_repeats=None, max_bytes=None, schedule="sequential"
)
RULE = ToolRule(egress=False, destructive=False, idempotent=True, returns=Label())
POLICY = Policy(tools={"INC": RULE, "LOOK": RULE, "SUM": RULE})


class Kind(NamedTuple):
    """A kind of plan: its text by the number of statements or items, and whether the text has all of them."""

    text: Callable[[int], str]
    is_long: bool
    says: str


def chain(count: int) -> str:
    """Calls, each of which takes the result of the one before."""
    lines = [f"S{n}: @INC (x=$v{n - 1}) > $v{n}" for n in range(1, count)]
    return "\n".join(["# ltp: 2", "S0: @INC (x=0) > $v0", *lines, f"@RESPOND ($v{count - 1})", ""])


def fan_out(count: int) -> str:
    """Concurrent calls, and one that takes all their results."""
    members = [f"  S{n}: @LOOK (x={n}) > $v{n}" for n in range(count)]
    values = ", ".join(f"$v{n}" for n in range(count))
    join = f"JOIN: @SUM (xs=[{values}]) > $sum"
    return "\n".join(["# ltp: 2", "@PARALLEL {", *members, "}", join, "@RESPOND ($sum)", ""])


def mixed(count: int) -> str:
    """Eight statements again and again: LET, conditions, a loop, failures, texts."""
    lines = ["# ltp: 2", "S0: @LOOK (x=0) > $v0", "LET $left = 0"]
    for n in range(1, count // 8 + 1):
        lines += [
            f"LET $w{n} = $v{n - 1} + {n % 7}",
            f"S{n}a: ?IF ($w{n} > 3 and $v0 != 5) {{",
            f"  S{n}b: @LOOK (x=$w{n}) > $v{n} ON_FAIL @RETRY(2)",
            "} ELSE {",
            f"  LET $v{n} = 1",
            "}",
            f"S{n}c: ?FOREACH ($x IN [1, 2]) {{",
            f"  S{n}d: @INC (x=$x) > $y ON_FAIL CONTINUE",
            "  YIELD (1)",
            f"}} > $l{n}",
            f"SET $left = $left + len($l{n})",
        ]
    return "\n".join([*lines, '@RESPOND ("${left} of them")', ""])


def branches(count: int) -> str:
    """Conditions of one variable, each with a call that sets it again."""
    lines = ["# ltp: 2", "LET $v = 0", "LET $w = 0"]
    for n in range(count // 3 + 1):
        lines += [f"S{n}a: ?IF ($w < {n}) {{", f"  S{n}b: @LOOK (x=$w) > $v", "  SET $w = $v", "}"]
    return "\n".join([*lines, "@RESPOND ($w)", ""])


def deep(count: int) -> str:
    """Conditions inside one another, twenty deep, around each call."""
    lines, depth = ["# ltp: 2", "LET $v = 0"], 20
    for n in range(count // (depth + 1) + 1):
        lines += [f"{'  ' * d}S{n}b{d}: ?IF ($v < {n + d + 1}) {{" for d in range(depth)]
        lines.append(f"{'  ' * depth}S{n}: @LOOK (x=$v) > $v")
        lines += [f"{'  ' * d}}}" for d in reversed(range(depth))]
    return "\n".join([*lines, "@RESPOND ($v)", ""])


def handled(count: int) -> str:
    """Calls in TRY, each with a handler."""
    lines = ["# ltp: 2", "LET $v = 0"]
    for n in range(count // 4 + 1):
        lines += [
            "TRY {",
            f"  S{n}: @LOOK (x=$v) > $v",
            "} ON_FAIL TOOL {",
            "  LET $v = 0",
            '  NOTE ("failed")',
            "}",
        ]
    return "\n".join([*lines, "@RESPOND ($v)", ""])


def subplans(count: int) -> str:
    """Many sub-plans of four statements, each of them called once."""
    plans, calls = ["# ltp: 2"], ["LET $v0 = 0"]
    for n in range(1, count // 5 + 1):
        plans += [
            f"PLAN p{n} ($x: int) -> int {{",
            f"  P{n}: @LOOK (x=$x) > $y",
            f"  ?IF ($y < {n}) {{",
            "    SET $y = $y + 1",
            "  }",
            "  RETURN ($y)",
            "}",
        ]
        calls.append(f"C{n}: CALL p{n} (x=$v{n - 1}) > $v{n}")
    return "\n".join([*plans, *calls, f"@RESPOND ($v{count // 5})", ""])


def long_body(count: int) -> str:
    """A loop of two items over a long sequence of calls."""
    lines = [f"  S{n}: @INC (x=$v{n - 1}) > $v{n}" for n in range(1, count)]
    head = ["# ltp: 2", "L: ?FOREACH ($x IN [1, 2]) {", "  S0: @INC (x=$x) > $v0"]
    return "\n".join([*head, *lines, f"  YIELD ($v{count - 1})", "} > $rows", "@RESPOND ($rows)", ""])


def undone(count: int) -> str:
    """Calls in a block that fails at its end and takes them back."""
    lines = [f"  S{n}: @INC (x={n}) > $v{n}" for n in range(count // 2)]
    end = ['  FAIL ("no")', '} ON_FAIL UNDO (inc="inc(x=result)") ON_FAIL {', '  NOTE ("undone")', "}"]
    return "\n".join(["# ltp: 2", "TRY {", *lines, *end, "@RESPOND (1)", ""])


def each(count: int) -> str:
    """A loop over the items, of which each makes a call and gives a record."""
    return f"""# ltp: 2
S1: ?FOREACH ($x IN range({count})) {{
  LET $y = $x + 1
  S2: ?IF ($y % 2 == 0) {{
    S3: @LOOK (x=$y) > $z
  }} ELSE {{
    LET $z = 0
  }}
  YIELD ({{"x": $x, "z": $z}})
}} > $rows
@RESPOND (len($rows))
"""


def in_order(count: int) -> str:
    """A loop that writes, with a sum in an outer variable."""
    return f"""# ltp: 2
LET $sum = 0
S1: ?FOREACH ($x IN range({count})) {{
  S2: @INC (x=$x) > $y
  SET $sum = $sum + $y
}}
@RESPOND ($sum)
"""


def together(count: int) -> str:
    """A loop side by side, with a sub-plan for each item."""
    return f"""# ltp: 2
PLAN one ($x: int) -> int {{
  S1: @LOOK (x=$x) > $y
  RETURN ($y)
}}
S2: ?FOREACH ($x IN range({count})) TOGETHER MAX 8 {{
  S3: CALL one (x=$x) > $y
  YIELD ($y)
}} > $rows
@RESPOND (len($rows))
"""


def nested(count: int) -> str:
    """A loop of loops of a hundred items each."""
    return f"""# ltp: 2
S1: ?FOREACH ($x IN range({count // 100})) {{
  S2: ?FOREACH ($y IN range(100)) {{
    S3: @LOOK (x=$y) > $z
    YIELD ($z + $x)
  }} > $inner
  YIELD (len($inner))
}} > $rows
@RESPOND (sum($rows))
"""


def rounds(count: int) -> str:
    """Rounds until a count is reached."""
    return f"""# ltp: 2
LET $n = 0
S1: ?REPEAT (max={count + 1}) {{
  S2: @INC (x=$n) > $n2
  SET $n = $n2
}} UNTIL ($n >= {count})
@RESPOND ($n)
"""


KINDS = {
    "chain": Kind(chain, True, chain.__doc__ or ""),
    "fan-out": Kind(fan_out, True, fan_out.__doc__ or ""),
    "mixed": Kind(mixed, True, mixed.__doc__ or ""),
    "branches": Kind(branches, True, branches.__doc__ or ""),
    "deep": Kind(deep, True, deep.__doc__ or ""),
    "handled": Kind(handled, True, handled.__doc__ or ""),
    "sub-plans": Kind(subplans, True, subplans.__doc__ or ""),
    "long body": Kind(long_body, True, long_body.__doc__ or ""),
    "undone": Kind(undone, True, undone.__doc__ or ""),
    "each": Kind(each, False, each.__doc__ or ""),
    "in order": Kind(in_order, False, in_order.__doc__ or ""),
    "together": Kind(together, False, together.__doc__ or ""),
    "nested": Kind(nested, False, nested.__doc__ or ""),
    "rounds": Kind(rounds, False, rounds.__doc__ or ""),
}


class World:
    """The tools; the call of this number cancels the run."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.made = 0
        self.run: asyncio.Task[object] | None = None

    async def inc(self, args: dict[str, Any], context: CallContext) -> int:
        self.made += 1
        if self.made == self._most and self.run is not None:
            self.run.cancel()
            await asyncio.sleep(3600)
        return args["x"] + 1

    async def total(self, args: dict[str, Any], context: CallContext) -> int:
        return sum(args["xs"])

    @property
    def ports(self) -> Ports:
        """What a run calls."""
        return Ports({"INC": Route(self.inc), "LOOK": Route(self.inc), "SUM": Route(self.total)}.get)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and the CPU seconds that it took."""
    gc.collect()
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def good(result: Result | None) -> Result:
    """The result; raises RuntimeError if the run is not done."""
    if result is None or result.status is not Status.DONE:
        raise RuntimeError(f"the run did not end well: {result}")
    return result


def driven(plan: Plan, world: World) -> Result:
    """A whole run of the plan without a journal."""

    async def run() -> Result | None:
        machine = Machine(compile_plan(plan, FACTS), LIMITS)
        driver = LocalDriver(machine, Gateway(world.ports, "bench"))
        return await driver.run(machine.feed(Started({}), SLICE))

    return good(asyncio.run(run()))


def started(plan: Plan, text: str, journal: Journal, world: World) -> Result:
    """A run of the plan in a journal."""
    launch = Launch(facts=FACTS, limits=LIMITS, source=text)

    async def run() -> Result | None:
        world.run = asyncio.current_task()
        return (await start_run(plan, world.ports, launch, journal, "run")).result

    return good(asyncio.run(run()))


def broken_off(plan: Plan, text: str, path: Path, calls: int) -> None:
    """A run in a journal that stops at its last call but a few."""
    world = World(calls)
    try:
        with Journal.open(path, Durability.NORMAL) as journal:
            started(plan, text, journal, world)
    except asyncio.CancelledError:
        return
    raise RuntimeError("the run was not broken off")


def resumed(path: Path) -> Result:
    """The rest of a run."""

    @asynccontextmanager
    async def ports(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        yield World(0).ports

    with Journal.open(path, Durability.NORMAL) as journal:
        again = Amendments(in_doubt=Decision.RETRY)
        return good(asyncio.run(resume_run(journal, "run", ports, again)).result)


def of_text(text: str) -> Iterator[tuple[str, float]]:
    """The CPU seconds of each operation on a plan without running it."""
    plan, took = timed(lambda: read_structured(text).require())
    yield "read", took
    yield "format", timed(lambda: format_structured(plan))[1]
    yield "hash", timed(lambda: plan_hash(plan))[1]
    found, took = timed(lambda: check(plan))
    yield "check", took
    if any(one.is_error for one in found):
        raise RuntimeError(str(found[0]))
    verdict, took = timed(lambda: verify(plan, POLICY))
    yield "verify", took
    if not verdict.ok:
        raise RuntimeError(str(verdict.violations[:3]))
    yield "compile", timed(lambda: compile_plan(plan, FACTS))[1]
    yield "dry run", timed(lambda: foresee(plan))[1]
    yield "terminal", timed(lambda: terminal_graph(plan))[1]
    yield "Mermaid", timed(lambda: mermaid(plan))[1]


def of_run(text: str) -> Iterator[tuple[str, float]]:
    """The CPU seconds of a run and of what is asked of it."""
    plan = read_structured(text).require()
    world = World(0)
    yield "run", timed(lambda: driven(plan, world))[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        with Journal.open(path, Durability.NORMAL) as journal:
            yield "run, journal", timed(lambda: started(plan, text, journal, World(0)))[1]
        broken = Path(folder) / "broken.db"
        broken_off(plan, text, broken, world.made - 3)
        yield "resume", timed(lambda: resumed(broken))[1]
        with Journal.open(path, Durability.NORMAL) as journal:
            info = journal.find_run("run")
            stored = journal.plan_of(info.plan_hash)
            yield "fold", timed(lambda: current_state(journal, "run", stored, from_start=True))[1]
            yield "steps", timed(lambda: account_of(plan, journal.events("run"), journal.plan_of))[1]
            yield "lineage", timed(lambda: run_lineage(journal, info))[1]


def million(items: int) -> None:
    """Run, break off and resume a long loop, and print the seconds."""
    text = each(items)
    plan = read_structured(text).require()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        took = timed(lambda: broken_off(plan, text, path, items // 2 - 3))[1]
        size = sum(file.stat().st_size for file in Path(folder).rglob("*"))
        print(
            f"run of {items:,} items to its last calls: {took:.1f} s of CPU, {size / 1e6:.0f} MB", flush=True
        )
        with Journal.open(path, Durability.NORMAL) as journal:
            stored = journal.plan_of(journal.find_run("run").plan_hash)
            state = timed(lambda: current_state(journal, "run", stored))[1]
            print(f"its state, from the last snapshot: {state:.1f} s", flush=True)
            state = timed(lambda: current_state(journal, "run", stored, from_start=True))[1]
            print(f"its state, from the start: {state:.1f} s", flush=True)
        print(f"resumed to its end: {timed(lambda: resumed(path))[1]:.1f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="up to 25,000 statements or items")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of plans, separated by commas")
    parser.add_argument("--sizes", help="other sizes, separated by commas")
    parser.add_argument("--million", action="store_true", help="one loop over 1,000,000 items instead")
    given = parser.parse_args()
    if given.million:
        million(1_000_000)
        return
    sizes = SIZES[:2] if given.quick else SIZES
    if given.sizes:
        sizes = tuple(map(int, given.sizes.split(",")))
    print("µs of CPU each", *(f"{size:>8}" for size in sizes), " exponent")
    for name in given.only.split(","):
        kind = KINDS[name]
        print(f"{name}: {kind.says.splitlines()[0]}", flush=True)
        rows: dict[str, list[tuple[int, float]]] = {}
        for size in sizes:
            text = kind.text(size)
            for work in (of_text, of_run) if kind.is_long else (of_run,):
                for operation, took in work(text):
                    rows.setdefault(operation, []).append((size, took / size))
        for operation, points in rows.items():
            costs = " ".join(f"{unit * 1e6:8.1f}" for _, unit in points)
            print(f"  {operation:13}{costs} {exponent(points):8.2f}", flush=True)


if __name__ == "__main__":
    main()
