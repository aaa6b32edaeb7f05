"""Tasks, queues and what calls side by side add: what runs at once, what a warning tells, what is refused."""

from __future__ import annotations

import pytest
from tests.frontends.python.office import SIGNATURES

from callsheet import Plan
from callsheet.frontends.python import read_python
from callsheet.ir import tree

WORKER = """import asyncio
async def worker(name, queue, found):
    while True:
        n = await queue.get()
        try:
            {body}
        finally:
            queue.task_done()
async def main(xs):
    queue, found = asyncio.Queue(), []
    for x in xs:
        queue.put_nowait(x)
    workers = [asyncio.create_task(worker(n, queue, found)) for n in range({count})]
    await queue.join()
    for one in workers:
        one.cancel()
    return found
""".replace("queue, found = asyncio.Queue(), []", "queue = asyncio.Queue()\n    found = []")
GUARDED = (
    "found.append(await score(n))\n        except ToolError as error:\n            found.append(str(error))"
)


def codes(source: str) -> list[str]:
    return [one.code for one in read_python(source, tools=SIGNATURES).diagnostics]


def loops(source: str) -> list[tree.Foreach]:
    result = read_python(source, tools=SIGNATURES)
    assert result.plan is not None, result.diagnostics
    assert result.plan.tree is not None
    return [one for one in result.plan.tree.body if isinstance(one, tree.Foreach)]


def test_workers_of_a_queue_do_as_many_items_at_a_time_as_there_are_workers() -> None:
    source = WORKER.format(body=GUARDED, count=3)
    (items,) = [one for one in loops(source) if one.together]
    assert items.most == 3
    assert codes(source) == []


@pytest.mark.parametrize(
    ("count", "most"), [("4", 4), ("min(6, len(xs))", 6), ("MOST", 5)], ids=["number", "at most", "constant"]
)
def test_number_of_workers_is_found(count: str, most: int) -> None:
    source = WORKER.format(body=GUARDED, count=count).replace(
        "async def worker", "MOST = 5\nasync def worker"
    )
    assert [one.most for one in loops(source) if one.together] == [most]


def test_number_that_only_the_run_knows_is_refused_at_its_place() -> None:
    source = WORKER.format(body=GUARDED, count="len(xs)")
    (found,) = read_python(source, tools=SIGNATURES).diagnostics
    assert (found.code, "how many workers" in found.message) == ("PYT020", True)
    assert found.help == "write the number: range(5)"


def test_worker_that_its_failure_would_end_is_told_of() -> None:
    assert codes(WORKER.format(body="found.append(await score(n))", count=2)) == ["PYT107"]


def test_worker_that_says_which_one_it_is_is_refused_with_what_to_write() -> None:
    source = WORKER.format(body=GUARDED.replace("await score(n)", "(name, await score(n))"), count=2)
    (found,) = read_python(source, tools=SIGNATURES).diagnostics
    assert found.code == "PYT020"
    assert "asyncio.gather(*[work(item) for item in items])" in (found.help or "")


ADDS = """import asyncio
async def main(xs):
    {made}
    async def one(x):
        {adds}
    await asyncio.gather(*(one(x) for x in xs))
    return sorted(found) if isinstance(found, set) else found
"""


@pytest.mark.parametrize(
    ("made", "adds", "is_known"),
    [
        ("found = []", "found.append(await score(x))", True),
        ("found = {}", "found[x] = await score(x)", True),
        ("found = set()", "found.add(await word(x))", True),
        ("found = 0", "nonlocal found\n        await score(x)\n        found += 1", True),
        ("found = {'n': 0}", "await score(x)\n        found['n'] += 1", True),
        ("found = [0] * 9", "found[x] = await score(x)", False),
        ("found = 0.5", "nonlocal found\n        for n in await page(x):\n            found += n", False),
        ("found = []", "n = await score(x)\n        found.append((len(found), n))", False),
    ],
)
def test_calls_that_only_add_run_side_by_side(made: str, adds: str, is_known: bool) -> None:
    source = ADDS.format(made=made, adds=adds)
    assert codes(source) == ([] if is_known else ["PYT102"])
    assert [one.together for one in loops(source)][:1] == [is_known]


STARTED = "import asyncio\nasync def main(xs):\n    tasks = [asyncio.create_task(score(x)) for x in xs]\n"


@pytest.mark.parametrize(
    ("rest", "code", "line", "way_out"),
    [
        ("    done, late = await asyncio.wait(tasks, timeout=5)\n    await word('x')\n    return len(done)",
         "PYT101", 4, "cancel those that are pending right behind it"),
        ("    done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)\n"
         "    return len(done)",
         "PYT106", 4, "cancel the others right behind it"),
        ("    done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)\n"
         "    for one in late:\n        one.cancel()\n    return len(done)",
         "PYT026", 4, "asyncio.TaskGroup"),
        ("    out = []\n    for one in asyncio.as_completed(tasks, timeout=5):\n"
         "        out.append(await one)\n    return out", "PYT101", 5, "put the time around the calls"),
    ],
)  # fmt: skip
def test_wait_that_cannot_be_kept_is_refused(rest: str, code: str, line: int, way_out: str) -> None:
    result = read_python(STARTED + rest, tools=SIGNATURES)
    (found,) = result.diagnostics
    assert found.span is not None
    assert (found.code, result.source.position(found.span.start).line) == (code, line)
    assert way_out in (found.help or "")


def test_shielded_task_goes_on_behind_its_time_limit_and_is_refused() -> None:
    source = (
        "import asyncio\nasync def main():\n    task = asyncio.create_task(score(1))\n    try:\n"
        "        return await asyncio.wait_for(asyncio.shield(task), 5)\n    except TimeoutError:\n"
        "        return await task\n"
    )
    assert codes(source) == ["PYT101"]


def test_plan_of_a_queue_is_checked_and_written_as_any_other() -> None:
    result = read_python(WORKER.format(body=GUARDED, count=2), tools=SIGNATURES)
    assert result.plan is not None
    assert "TOGETHER MAX 2" in Plan(result.plan).to_ltp()
