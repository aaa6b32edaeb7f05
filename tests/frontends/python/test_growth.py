"""Twice as much of a construct takes about twice the work to compile."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from callsheet.frontends.python import read_python

SMALL = 20
MOST = 2.2
"""A square would be 4; what a program has in proportion to its length comes to 2."""

CONSTRUCTS = """\
--- try
    try:
        out.append(await score(#))
    except ToolError as error:
        out.append(str(error))
    else:
        out.append(2)
    finally:
        await note_it("x")
--- except*
    try:
        out.append(await score(#))
    except* ToolError as group:
        out.append(len(group.exceptions))
        raise
    except* ValueError:
        out.append(1)
    finally:
        await note_it("x")
--- task groups
    async with asyncio.TaskGroup() as group:
        task = group.create_task(score(#))
    out.append(task.result())
--- tasks
    task = asyncio.create_task(score(#))
    out.append(await score(1))
    out.append(await task)
--- workers of queues
async def work#(q, out):
    while True:
        x = await q.get()
        out.append(await score(x))
        q.task_done()
async def pool#(xs):
    q = asyncio.Queue()
    out = []
    for x in xs:
        q.put_nowait(x)
    workers = [asyncio.create_task(work#(q, out)) for _ in range(2)]
    await q.join()
    for one in workers:
        one.cancel()
    return out
===
    out.append(await pool#([1]))
--- while loops
    c# = None
    while True:
        p# = await page(c#)
        out.extend(p#["rows"])
        c# = p#["next"]
        if not c#:
            break
--- match
    match await get("k"):
        case {"v": v}:
            out.append(await score(v))
        case [p, *rest]:
            out.append(p)
--- comprehensions
    out.append([y for x in await get("k") if x for y in x["items"]])
--- helpers
async def h#(x):
    r = await score(x)
    return r
===
    out.append(await h#(#))
--- semaphores
async def s#(x, most):
    limit = asyncio.Semaphore(most)
    async with limit:
        return await score(x)
===
    out.append(await s#(1, 3))
--- changed globals
G# = {}
===
    for x in await get("k"):
        G#[x] = await score(x)
--- classes with methods that await
class D#:
    def __init__(self):
        self.items = []
    def add(self, x):
        self.items.append(x)
    def total(self):
        return sum(self.items)
    async def load(self, k):
        for row in await get(k):
            self.add(row["n"])
        return self.total()
===
    d# = D#()
    out.append(await d#.load("k"))
--- async generators
async def g#(k):
    for x in range(k):
        yield await score(x)
===
    async for x in g#(3):
        out.append(x)
"""
"""What is repeated in the main function; before `===`, what of the file. `#` is the number of the copy."""


def program(construct: str, size: int) -> str:
    definition, _, piece = construct.rpartition("===\n")
    before, inside = (
        "".join(text.replace("#", str(number)) for number in range(size)) for text in (definition, piece)
    )
    return f"import asyncio\n{before}async def main():\n    out = []\n{inside}    return out\n"


def functions_called(text: str) -> int:
    """How many functions of Python are called to compile a program: the same on every machine."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        assert read_python(text).plan is not None
    finally:
        sys.setprofile(before)
    return count


def constructs() -> dict[str, str]:
    return dict(re.findall(r"^--- (.*?)\n(.*?)(?=^--- |\Z)", CONSTRUCTS, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", constructs())
def test_work_grows_with_program_and_not_faster(name: str) -> None:
    construct = constructs()[name]
    read_python(program(construct, 1))  # fills caches
    assert functions_called(program(construct, 2 * SMALL)) < MOST * functions_called(
        program(construct, SMALL)
    )


def test_everyday_programs_take_few_calls_a_line() -> None:
    """A pass that every program pays for adds ten calls a line at least, for each of its goes."""
    paths = sorted((Path(__file__).parents[3] / "examples/everyday/python").glob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    for text in texts:
        read_python(text)  # fills caches
    lines = sum(text.count("\n") for text in texts)
    assert lines > 300
    assert sum(map(functions_called, texts)) < 650 * lines


def test_whether_errors_are_made_of_texts_is_found_in_one_go() -> None:
    """Each text is made of the one before; `args` asks whether that of the error is one."""

    def text(size: int) -> str:
        lines = "".join(f"    t{number + 1} = t{number} + t{number}\n" for number in range(size))
        failing = f"    try:\n        await score(1)\n        raise ValueError(t{size})\n"
        return (
            f"async def main():\n    t0 = 'a'\n{lines}{failing}"
            "    except ValueError as error:\n        return error.args[0]\n"
        )

    size = 4 * SMALL
    assert functions_called(text(2 * size)) < MOST * functions_called(text(size))


def test_loops_inside_each_other_are_gone_through_once_each() -> None:
    def nested(depth: int) -> str:
        loops = "".join(f"{'    ' * number}for x{number} in done:\n" for number in range(1, depth + 1))
        return (
            "import asyncio\nasync def main(xs):\n    tasks = [asyncio.create_task(score(x)) for x in xs]\n"
            f"    done, late = await asyncio.wait(tasks)\n{loops}{'    ' * (depth + 1)}print(1)\n"
        )

    assert functions_called(nested(16)) < 5 * functions_called(nested(8))
