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
"""
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
        ("found = []\n    lock = asyncio.Lock()",
         "n = await score(x)\n        async with lock:\n            found.append(n)", True),
        ("found = [0] * 9", "found[x] = await score(x)", False),
        ("found = 0.5", "nonlocal found\n        for n in await page(x):\n            found += n", False),
        ("found = []", "n = await score(x)\n        found.append((len(found), n))", False),
    ],
)  # fmt: skip
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
        ("    first = await tasks[0]\n    for one in tasks[1:]:\n        one.cancel()\n"
         "    return first, [one.cancelled() for one in tasks]", "PYT026", 5, "asyncio.timeout"),
        ("    first = await tasks[0]\n    for one in tasks[1:]:\n        one.cancel()\n    return first",
         "PYT026", 6, "asyncio.timeout"),
    ],
)  # fmt: skip
def test_wait_that_cannot_be_kept_is_refused(rest: str, code: str, line: int, way_out: str) -> None:
    result = read_python(STARTED + rest, tools=SIGNATURES)
    (found,) = result.diagnostics
    assert found.span is not None
    assert (found.code, result.source.position(found.span.start).line) == (code, line)
    assert way_out in (found.help or "")


@pytest.mark.parametrize("asked", ["len(tasks)", "[one.cancelled() for one in tasks]"])
def test_tasks_that_a_failure_leaves_are_told_where_they_are_cancelled_in_vain(asked: str) -> None:
    source = (
        f"{STARTED}    try:\n        for one in tasks:\n            await one\n    finally:\n"
        f"        for one in tasks:\n            one.cancel()\n    return {asked}\n"
    )
    result = read_python(source, tools=SIGNATURES)
    assert result.plan is not None
    assert "PYT106" in [one.code for one in result.diagnostics]


@pytest.mark.parametrize(
    ("cancels", "around", "is_told"),
    [
        ("except ToolError:", "ValueError", True),
        ("except ToolError:", None, False),
        ("except Exception:", "ValueError", False),
        ("finally:", "ValueError", False),
    ],
)
def test_group_that_stops_at_more_errors_than_are_handled_there_is_told(
    cancels: str, around: str | None, is_told: bool
) -> None:
    source = (
        f"{STARTED}    try:\n        found = await asyncio.gather(*tasks)\n    {cancels}\n"
        "        for one in tasks:\n            one.cancel()\n        found = []\n"
    )
    if around:
        source += f"    try:\n        await note_it('x')\n    except {around}:\n        pass\n"
    result = read_python(source + "    return found\n", tools=SIGNATURES)
    assert result.plan is not None
    assert ("PYT106" in [one.code for one in result.diagnostics]) is is_told


@pytest.mark.parametrize("many", ["tasks", "[score(x) for x in xs]"])
@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("        if await one:\n            break\n", 6),
        ("        for n in await one:\n            break\n        else:\n            break\n", 8),
        ("        for n in await one:\n            break\n        if n:\n            continue\n", None),
    ],
)
def test_loop_over_what_is_completed_tells_that_to_leave_it_stops_no_call(
    many: str, body: str, line: int | None
) -> None:
    source = f"{STARTED}    for one in asyncio.as_completed({many}):\n{body}    return len(tasks)\n"
    result = read_python(source, tools=SIGNATURES)
    found = [one.span for one in result.diagnostics if one.code == "PYT106" and not one.is_error]
    assert [result.source.position(one.start).line for one in found if one] == (
        [] if line is None else [line]
    )


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


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("        try:", "        print(f'{name} has {n}')\n        try:", "prints worker for name"),
        ("    while True:", "    print('ready')\n    while True:", "prints where it begins or ends"),
        ("Queue()", "Queue(3)", "put_nowait may raise QueueFull"),
        ("    await queue.join()", "    await word('x')\n    await queue.join()", "before anything is taken"),
        ("found.append(str(error))", "raise ValueError(n)", "a failure ends one of the 2 workers"),
        ("async def main", "class Job:\n    def __lt__(self, other):\n        return False\n"
         "async def main", "equal"),
    ],
)  # fmt: skip
def test_what_workers_do_in_another_way_is_told(old: str, new: str, told: str) -> None:
    source = WORKER.format(body=GUARDED, count=2).replace(old, new, 1)
    source = source.replace("Queue()", "PriorityQueue()") if told == "equal" else source
    found = read_python(source, tools=SIGNATURES).diagnostics
    assert [one.code for one in found if told in one.message] == ["PYT107"]
    assert not any(one.is_error for one in found)


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("            queue.task_done()", "            pass", "PYT020", "join never ends"),
        ("await queue.join()", "await asyncio.gather(*workers)", "PYT020", "never ends, and is awaited"),
        ("    await queue.join()", "    found = []\n    await queue.join()", "PYT020", "asyncio.Queue"),
        ("queue.join()", "queue.join()\n    queue.put_nowait(2)", "PYT020", "asyncio.Queue"),
        ("    return found", "    xs[0]['n'] = 1\n    return found", "PYT015", "may share"),
        ("        try:", "        print(len(found))\n        try:", "PYT015", "found in worker is changed"),
        ("        finally:\n            queue.task_done()",
         "        finally:\n            queue.task_done()\n        for one in [n]:\n            pass\n"
         "        else:\n            break", "PYT020", "keeps something of its own"),
    ],
)  # fmt: skip
def test_workers_that_cannot_be_kept_are_refused(old: str, new: str, code: str, told: str) -> None:
    body = "await score(n)\n            found.append(n)\n        except ToolError:\n            pass"
    source = WORKER.format(body=body, count=2).replace(old, new, 1)
    found = [one for one in read_python(source, tools=SIGNATURES).diagnostics if one.is_error]
    assert [(one.code, told in one.message) for one in found] == [(code, True)]


def test_lambda_that_would_read_the_last_item_is_refused() -> None:
    source = (
        "import asyncio\nasync def one(f):\n    return f(await score(1))\nasync def main(xs):\n"
        "    return await asyncio.gather(*[one(lambda v: v + x) for x in xs])\n"
    )
    assert codes(source) == ["PYT015"]
    assert codes(source.replace("lambda v:", "lambda v, x=x:")) == []


def test_function_that_a_time_limit_stops_gives_back_what_it_added_or_is_refused() -> None:
    source = (
        "import asyncio\nasync def main(xs):\n    found = []\n    async def every():\n        for x in xs:\n"
        "            found.append(await score(x))\n    try:\n        await asyncio.wait_for(every(), 5)\n"
        "    except TimeoutError:\n        pass\n    return found\n"
    )
    assert codes(source) == ["PYT015"]


def test_call_that_waits_for_what_another_beside_it_changes_is_refused() -> None:
    source = """import asyncio
async def main():
    state, seen = {"ready": False}, []
    async def make():
        await asyncio.sleep(1)
        state["ready"] = True
    async def use():
        while not state["ready"]:
            await asyncio.sleep(0.5)
        seen.append(await score(1))
    await asyncio.gather(use(), make())
    return seen
"""
    (refused,) = read_python(source, tools=SIGNATURES).diagnostics
    assert (refused.code, refused.message) == (
        "PYT015",
        "state in make is changed, and use looks at it while it runs",
    )
