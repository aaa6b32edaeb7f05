"""Transforms in plans, run by the command line's session and the documented runtime, and checked."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from callsheet.api.checking import check_plan
from callsheet.api.requirements import facts_of
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import local_tools, open_toolbox
from callsheet.compat import LTPParser, LTPRuntime
from callsheet.diagnostics import Diagnostic
from callsheet.frontends.ltp import parse
from callsheet.frontends.spelling import Syntax, read_as
from callsheet.ir import Effect
from callsheet.machine import Result
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry
from callsheet.ports.transforms import calc, select, transform_tools
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import run_unrecorded

PLAN = """
S1: @FORMAT ("[{\\"who\\": \\"Ann\\", \\"pay\\": 10.1}, {\\"who\\": \\"Bob\\", \\"pay\\": 20.2}]") > $rows
S2: @SELECT ($rows, query="[?match(who, '^A')].who | [0]") > $who
S3: @SELECT (query="[*].pay", data=$rows) > $pay
S4: @CALC ("sum($pay) * 2") > $total
S5: @SELECT ($rows, "[?pay > `1") > $broken
S6: @CALC ("$nothing + 1") > $missing
S7: ?FOREACH ($p IN $pay) THEN @CALC ("$p ** 2") > $squares
S8: @RESPOND ("$who: $total", $squares)
"""


def setup_in(folder: Path) -> Setup:
    return Setup(workspace=folder, data=folder / "data", discovers=False)


async def run(text: str, folder: Path) -> Result:
    plan = read_as(Syntax.LTP, text, "<plan>").require()
    async with open_toolbox(setup_in(folder), plan) as toolbox:
        launch = Launch(facts=facts_of(plan, toolbox.registry))
        return await run_unrecorded(plan, toolbox.ports(), launch)


def check(text: str, folder: Path) -> tuple[list[Diagnostic], str]:
    found = [d for d in check_plan(parse(text).require(), local_tools(setup_in(folder))) if d.is_error]
    return found, text


async def test_plan_of_transforms_runs(tmp_path: Path) -> None:
    result = await run(PLAN, tmp_path)
    assert result.response == "Ann: 60.6 [102.01,408.04]"
    assert result.variables["broken"].startswith(
        "the query cannot be read: unclosed ` delimiter\n  [?pay > `1\n"
    )
    assert result.variables["missing"] == "a number is missing before +\n   + 1\n   ^"


async def test_documented_runtime_evaluates_transforms_without_executor(tmp_path: Path) -> None:
    async def executor(name: str, args: object, namespace: str) -> object:
        raise AssertionError(name)

    async def model(messages: object) -> str:
        raise AssertionError(messages)

    plan = LTPParser.parse(PLAN)
    assert plan is not None
    found = await LTPRuntime().execute(plan, executor, model)
    expected = await run(PLAN, tmp_path)
    assert found["response"] == expected.response
    assert dict(found["variables"]) == dict(expected.variables)


def test_transforms_are_declared_as_pure() -> None:
    specs = [tool.spec for tool in transform_tools()]
    assert {spec.effect for spec in specs} == {Effect.PURE}
    assert {spec.origin for spec in specs} == {"transform"}
    assert [spec.parameter_names for spec in specs] == [("data", "query"), ("expression",), ("text",)]


@pytest.mark.parametrize(
    ("step", "message", "shown"),
    [
        ('@CALC ("1 + ")', "ends where a number is missing", '"'),
        ('@CALC ("1 / 0")', "division by zero", "/"),
        ('@SELECT ([1], query="a[?b ==")', "ends too early", '"'),
        ('@SELECT ([1], "lowr(a)")', "did you mean lower()", "l"),
        (r"""@SELECT ([1], r"[?match(a, '\d(\d')]")""", "missing )", "m"),
        (r"""@SELECT ([1], "\"a\" | lowr(b)")""", "(character 7)", r'"\"a\" | lowr(b)"'),
        ('@SELECT ([1], query="")', "the query is empty", '""'),
    ],
)
def test_invalid_literal_is_found_before_run(step: str, message: str, shown: str, tmp_path: Path) -> None:
    (found,), text = check(f"S1: {step} > $a\nS2: @RESPOND ($a)", tmp_path)
    assert (found.code, found.step) == ("CHK045", "S1")
    assert message in found.message
    assert found.span is not None
    assert text[found.span.start : found.span.end] == shown


@pytest.mark.parametrize(
    "step",
    [
        '@CALC ("$a + ")',
        "@SELECT ($a, query=\"[?b == '$a'\")",
        "@SELECT ($a, $a)",
        "@CALC (1.5)",
        "@FORMAT (1)",
    ],
)
def test_runtime_dependent_arguments_are_not_reported(step: str, tmp_path: Path) -> None:
    found, _ = check(f'S0: @GET_WM (key="a") > $a\nS1: {step} > $b\nS2: @RESPOND ($b)', tmp_path)
    assert found == []


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("SELECT", {"data": 1}, "the argument query is missing"),
        ("SELECT", {"data": 1, "query": 2}, "the query must be text"),
        ("SELECT", {"data": 1, "arg1": 2, "query": "@"}, "put several values into one list"),
        ("CALC", {}, "the argument expression is missing"),
        ("CALC", {"expression": [1]}, "must be text or a number, not list"),
        ("CALC", {"expression": "1 +" * 1_000}, "a number is missing"),
        ("FORMAT", {}, "the argument text is missing"),
    ],
)
async def test_missing_argument_is_reported(tool: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ToolFailed, match=message):
        await Registry(transform_tools()).require(tool).handler(arguments, CallContext("r", "k"))


async def test_long_evaluation_does_not_block_event_loop() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    clock = asyncio.create_task(tick())
    rows = [{"n": n, "s": str(n)} for n in range(30_000)]
    handler = Registry(transform_tools()).require("SELECT").handler
    found = await handler(
        {"data": rows, "query": "[?n > `10` && s != '7'].to_number(s) | sum(@)"}, CallContext("r", "k")
    )
    clock.cancel()
    assert found == sum(range(11, 30_000))
    assert ticks > 5


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "transforms.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def examples(kind: str) -> list[list[str]]:
    return [re.split(r" +→ ", line) for block in blocks(kind) for line in block.splitlines()]


@pytest.mark.parametrize(("query", "expected"), examples("query"))
def test_page_queries_return_documented_results(query: str, expected: str) -> None:
    assert select(blocks("json")[0], query) == json.loads(expected)


@pytest.mark.parametrize(("expression", "expected"), examples("calc"))
def test_page_expressions_return_documented_results(expression: str, expected: str) -> None:
    assert json.dumps(calc(expression)) == expected


async def test_page_plan_runs(tmp_path: Path) -> None:
    plan, structured = blocks("ltp")
    orders = [{"state": "open", "due": 2, "price": 10.1, "customer": "B"}, {"state": "paid", "price": 9}]
    orders.append({"state": "open", "due": 1, "price": 5, "customer": "A"})
    (tmp_path / "orders.json").write_text(json.dumps(orders))
    assert check(plan, tmp_path)[0] == []
    assert (await run(plan, tmp_path)).response == "18.12 EUR are open; the first is for A."
    places = [{"name": "Chez L'Ami Jean", "kind": "inn", "id": 7}, {"name": "x", "kind": "inn", "id": 8}]
    (tmp_path / "places.json").write_text(json.dumps(places))
    assert (await run(structured, tmp_path)).response == "[7]"


def test_page_lists_every_function() -> None:
    from callsheet.ports.transforms.functions import FUNCTIONS

    assert [name for name in FUNCTIONS if f"{name}(" not in PAGE] == []


def test_query_libraries_are_loaded_on_demand() -> None:
    script = """
import sys
from callsheet.ports.transforms import calc, select, transform_tools
import callsheet.api.checking, callsheet.apps.toolbox
transform_tools(); calc("1 + 1")
print(*({"jmespath", "re2", "asyncio"} & set(sys.modules)))
select([1], "[0]")
print(*({"jmespath", "re2"} & set(sys.modules)))
select("a", "match(@, 'a')")
print("re2" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "jmespath", "True"]
