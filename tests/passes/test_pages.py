"""Every CHK page: its bad example gives the code, its good one does not."""

from __future__ import annotations

import re

import pytest

from callsheet.diagnostics import CODES, explain
from callsheet.frontends.dag import parse_dag
from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Plan
from callsheet.passes import ToolSignature, check

OF_TEXT = sorted(code for code in CODES if code.startswith("CHK0") and not code.startswith("CHK06"))
OF_GRAPHS = sorted(code for code in CODES if code.startswith("CHK06"))


def _query(name: str, said: JSON) -> str | None:
    return (
        "the bracket is not closed"
        if name == "query" and str(said).count("[") != str(said).count("]")
        else None
    )


def _tool(*names: str) -> ToolSignature:
    schema = {
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names[:1]),
        "additionalProperties": False,
    }
    return ToolSignature.from_schema(schema)


CATALOGUE = {
    "READ_FILE": _tool("path"),
    "WRITE_FILE": _tool("path", "content"),
    "FETCH_PAGE": _tool("url"),
    "WEB_SEARCH": _tool("query"),
    "QUERY_MEMORY": _tool("query"),
    "STORE_FACT": _tool("content"),
    "EXEC_CODE": _tool("code", "language"),
    "SELECT": ToolSignature(("data", "query"), frozenset({"data", "query"}), check_literal=_query),
}


def _plans(code: str) -> list[Plan]:
    page = explain(code)
    assert page is not None
    found: list[Plan] = []
    for text in re.findall(r"```ltp\n(.*?)```", page, re.DOTALL):
        plan = parse(text).plan
        assert plan is not None
        found.append(plan)
    return found


@pytest.mark.parametrize("code", OF_TEXT)
def test_bad_example_gives_code_and_repair_does_not(code: str) -> None:
    bad, good = _plans(code)

    assert code in {d.code for d in check(bad, tools=CATALOGUE)}
    assert [d.code for d in check(good, tools=CATALOGUE) if d.severity != "hint"] == []


@pytest.mark.parametrize("code", [*OF_TEXT, *OF_GRAPHS])
def test_page_has_title_example_and_repair(code: str) -> None:
    page = explain(code)

    assert page is not None
    assert page.startswith(f"# {code}: {CODES[code].title}\n")
    assert "\n## Example\n" in page
    assert "\n## Repair\n" in page


@pytest.mark.parametrize("code", OF_GRAPHS)
def test_graph_codes_are_about_graphs(code: str) -> None:
    page = explain(code) or ""
    bad, good = (parse_dag(text).require() for text in re.findall(r"```json \w+\n(.*?)```", page, re.DOTALL))

    assert [d.code for d in check(bad)] == [code]
    assert check(good) == ()
