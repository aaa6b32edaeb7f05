"""Python plans do what CPython does: the same calls in the same order, the same result, the same error."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.python.office import cpython, interpreted

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
