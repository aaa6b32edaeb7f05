"""Python plans do what CPython does: the same calls in the same order, the same result, the same error."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.python.office import cpython, interpreted, on_machine

from callsheet import Plan
from callsheet.frontends.python import read_python


def read_programs(name: str) -> dict[str, str]:
    """The programs of a text, by the titles between them."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^--- (.*?)\n(.*?)(?=^--- |\Z)", text, re.MULTILINE | re.DOTALL))


PROGRAMS = read_programs("programs.txt")


def ordered(calls: list[Any]) -> list[str]:
    return sorted(map(repr, calls))


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("name", PROGRAMS)
def test_plan_does_what_cpython_does(name: str) -> None:
    source = PROGRAMS[name]
    wanted, calls = cpython(source, {})
    ended, made = interpreted(source, {})
    assert ended == wanted
    if "gather" in source or "TaskGroup" in source or "as_completed" in source:
        assert ordered(made) == ordered(calls)  # what starts together has no order
    else:
        assert made == calls


def test_plan_is_the_same_in_each_process() -> None:
    source = """async def main():
    more = True
    while more:
        got = await page(1)
        for row in got["rows"]:
            if await score(row):
                row["n"] += 10
                await score(row["n"])
        more = got["next"]
    return more
"""
    code = (
        "import sys\nfrom callsheet.frontends.python import read_python\nprint(read_python(sys.argv[1]).plan)"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", code, source],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert "page" in made[0]
    assert made[0] == made[1]


ON_MACHINE = read_programs("machine_programs.txt")
"""Programs for the machine and the real interpreter of pure code; a value is data between its pieces."""


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("name", ON_MACHINE)
def test_plan_does_on_machine_what_cpython_does(name: str) -> None:
    source = ON_MACHINE[name]
    wanted, calls = cpython(source, {})
    ended, made = on_machine(source)
    if wanted[0] == "raised":
        assert ended[0] == "raised"
        assert wanted[2] in ended[1]
    else:
        assert ended == wanted
    if "asyncio" in source:
        assert ordered(made) == ordered(calls)
    else:
        assert made == calls


@pytest.mark.parametrize(
    ("source", "way_out"),
    [
        ("async def main():\n    d = {'k': [1]}\n    e = d['k']\n    await score(1)\n    d['k'] *= 2\n"
         "    return e", "write d['k'] = d['k'] * 2"),
        ("def twice(xs):\n    xs *= 2\nasync def main():\n    a = [1]\n    twice(a)\n    return a",
         "write xs = xs * 2"),
        ("import asyncio\nasync def bad():\n    await score(1)\n    int('x')\nasync def inner():\n"
         "    async with asyncio.TaskGroup() as group:\n        group.create_task(bad())\n"
         "async def middle():\n    async with asyncio.TaskGroup() as group:\n"
         "        group.create_task(inner())\n"
         "async def main():\n    try:\n        async with asyncio.TaskGroup() as group:\n"
         "            group.create_task(middle())\n    except* ValueError:\n        pass\n    return 1",
         "write except ExceptionGroup as group"),
    ],
)  # fmt: skip
def test_what_a_plan_cannot_do_as_python_does_fails_and_tells_the_way_out(source: str, way_out: str) -> None:
    ended, _ = on_machine(source)
    assert ended[0] == "raised"
    assert way_out in ended[1]


def test_check_refuses_no_program_that_runs() -> None:
    """`test_normal_form` checks the other programs, with their tools."""
    told = [
        (name, found)
        for name, source in ON_MACHINE.items()
        if (read := read_python(source)).plan is not None  # one with more arguments needs the catalogue
        for found in Plan(read.plan).check().diagnostics
        if found.code != "TOL001"
    ]
    assert [(name, found.message) for name, found in told if found.is_error] == []
    words = [(name, re.findall(r"\w+_\d+\b", found.message)) for name, found in told]
    assert [(name, own) for name, own in words if not all(one in ON_MACHINE[name] for one in own)] == []
    assert [found for _, found in told if found.code == "CHK010"] == []


def test_name_of_a_comprehension_is_no_tool_where_no_tools_are_known() -> None:
    source = (
        "import asyncio\nasync def load(name):\n    return await read_file(path=name)\n"
        "async def main(files):\n    return await asyncio.gather(*[load(f) for f in files])\n"
    )
    result = read_python(source)
    assert result.plan is not None
    assert [step.call.tool for step in result.plan.steps if step.call.tool == "READ_FILE"]


def test_package_of_stubs_may_have_any_name_and_other_modules_are_refused() -> None:
    source = "from office_stubs.local import score\nasync def main(n):\n    return await score(n=n)\n"
    plan = read_python(source).plan
    assert plan is not None
    assert [step.call.tool for step in plan.steps] == ["SCORE"]
    (refused,) = read_python(source.replace("await score(n=n)", "score(n)")).diagnostics
    assert refused.code == "PYT005"


def test_note_in_code_between_calls_is_a_remark_like_a_print() -> None:
    source = """from callsheet import note

async def main():
    names = []
    for item in await list_items():
        if item["state"] != "open":
            note(item["name"], "is not open")
        else:
            names.append(item["name"])
    return names
"""
    ended, made = on_machine(source)
    assert ended[0] == "returned"
    assert (ended, made) == on_machine(source.replace("    note(", "    print("))
