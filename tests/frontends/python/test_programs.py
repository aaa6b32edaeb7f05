"""Python plans do what CPython does: the same calls in the same order, the same result, the same error."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.python.office import cpython, interpreted, on_machine

_TEXT = (Path(__file__).parent / "programs.txt").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"^--- (.*?)\n(.*?)(?=^--- |\Z)", _TEXT, re.MULTILINE | re.DOTALL))


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


OVER_CALLS = {
    "a match": """
import re
async def main():
    found = re.search(r"(\\w)(\\d)", await word("a1 "))
    nothing = re.search("x", "a")
    await note_it("between")
    return found.group(2) if found and not nothing else "none"
""",
    "a Counter and a defaultdict": """
from collections import Counter, defaultdict
async def main():
    groups, seen = defaultdict(list), Counter()
    for item in await list_items():
        await note_it(item["name"])
        groups[item["state"]].append(item["id"])
        seen[item["state"]] += 1
    await put("groups", groups)
    empty = Counter()
    await note_it("between")
    return [sum(map(len, groups.values())), seen.most_common(1), dict(groups), "some" if empty else "none"]
""",
    "objects of a class": """
class Report:
    def __init__(self, title):
        self.title, self.lines = title, []
    def add(self, line):
        self.lines.append(line)
async def main():
    report = Report("r")
    for n in range(3):
        report.add(await score(n))
    return [report.title, report.lines]
""",
    "a Decimal, bytes, a time and a time zone": """
from datetime import time, timedelta, timezone
from decimal import Decimal
async def main():
    price, raw, at, zone = Decimal("1.10"), b"ab", time(9, 30), timezone(timedelta(hours=2))
    await note_it("between")
    return [str(price * 2), raw.decode(), at.isoformat(), str(zone), str(price + 1)]
""",
}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("name", OVER_CALLS)
def test_object_of_program_goes_over_a_call_on_machine(name: str) -> None:
    """In the machine with the real interpreter of pure code, where a value is data between its pieces."""
    wanted, calls = cpython(OVER_CALLS[name], {})
    ended, made = on_machine(OVER_CALLS[name])
    assert wanted[0] == "returned"
    assert ended == wanted
    assert made == calls
