"""Every form of plan in the language document is parsed, printed back, valid, and run."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from tests.compat.worlds import Callbacks, plan_of

from callsheet.compat import plan_to_mermaid, validate_plan
from callsheet.frontends.ltp import format_plan, parse


class Shape(NamedTuple):
    """A plan, the world it runs in, and the expected result."""

    steps: str
    tools: dict[str, Any]
    model: tuple[str, ...]
    response: str
    calls: list[str]


def ok(output: str) -> dict[str, Any]:
    return {"success": True, "output": output}


FAILED = {"success": False, "error": "no route to host"}
ORDERS = '{"items": [{"id": 7, "text": "late"}, {"id": 8, "text": "broken"}]}'

SHAPES = {
    "an answer alone": Shape('S1: @RESPOND ("Good day!")', {}, (), "Good day!", []),
    "a question to a program": Shape(
        'S1: @EXEC_CODE (code="print(6*7)", language="python") > $n\nS2: @RESPOND ($n)',
        {"execute_code": ok("42")},
        (),
        "42",
        ["execute_code"],
    ),
    "a search and what a model finds in it": Shape(
        'S1: @WEB_SEARCH (query="mayor of Bergen") > $found\n'
        'S2: @LLM_EXTRACT ($found, target="the name") > $name\n'
        'S3: @RESPOND ("It is", $name)',
        {"web_search": ok("Many pages")},
        ("Marit",),
        "It is Marit",
        ["web_search"],
    ),
    "a look that decides whether something is installed": Shape(
        'S1: @EXEC_CODE (code="import attrs", language="python") > $look\n'
        'S2: ?IF ($look contains "Error") THEN @INSTALL_PKG (language="python", packages=["attrs"]) > $done\n'
        'S3: @EXEC_CODE (code="import attrs; print(1)", language="python") > $out\n'
        "S4: @RESPOND ($out)",
        {"execute_code": ok("ModuleNotFoundError"), "install_package": ok("installed")},
        (),
        "ModuleNotFoundError",
        ["execute_code", "install_package", "execute_code"],
    ),
    "a memory before the web": Shape(
        'S1: @QUERY_MEMORY (query="height of Galdhopiggen") > $known\n'
        "S2: ?IF (NOT_EMPTY($known)) THEN @RESPOND ($known)\n"
        'S3: @WEB_SEARCH (query="height of Galdhopiggen") > $found\n'
        'S4: @LLM_EXTRACT ($found, target="metres") > $metres\n'
        'S5: @STORE_FACT (content="Galdhopiggen: $metres", importance=0.7) > $kept\n'
        "S6: @RESPOND ($metres)",
        {"query_memory": ok(""), "web_search": ok("pages"), "store_fact": ok("stored")},
        ("2469",),
        "2469",
        ["query_memory", "web_search", "store_fact"],
    ),
    "work on each of a list, with a failure that ends it": Shape(
        'S1: @FETCH_PAGE (url="https://shop.test/orders") > $orders:json ON_FAIL @RETRY(2)\n'
        'S2: ?IF (IS_EMPTY($orders.items)) THEN TERMINATE ("nothing to do")\n'
        "S3: ?FOREACH ($o IN $orders.items) THEN"
        ' @LLM_CLASSIFY ($o.text, categories=["delay", "damage"]) > $kinds\n'
        'S4: ?FOREACH ($o IN $orders.items) THEN @EXEC_CODE (code="echo $o.id", language="shell") > $ids\n'
        "S5: @RESPOND ($kinds)",
        {"fetch_webpage": ok(ORDERS), "execute_code": ok("7")},
        ("delay", "damage"),
        '["delay","damage"]',
        ["fetch_webpage", "execute_code", "execute_code"],
    ),
    "a service that is away": Shape(
        'S1: @FETCH_PAGE (url="https://away.test") > $page ON_FAIL GOTO S3\n'
        "S2: @RESPOND ($page)\n"
        'S3: TERMINATE ("it is away")',
        {"fetch_webpage": FAILED},
        (),
        "it is away",
        ["fetch_webpage"],
    ),
    "two searches at once and a summary": Shape(
        "@PARALLEL {\n"
        '  S1: @WEB_SEARCH (query="price of A") > $a\n'
        '  S2: @WEB_SEARCH (query="price of B") > $b\n'
        "}\n"
        'S3: @LLM_ANALYZE ($a, $b, task="compare") > $both\n'
        'S4: @AGENT_CRITIQUE ($both, instructions="be fair") > $fair\n'
        "S5: @RESPOND ($fair)",
        {"web_search": ok("10")},
        ("A is cheaper", "A and B cost the same"),
        "A and B cost the same",
        ["web_search", "web_search"],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
async def test_documented_plan_form_is_supported(name: str) -> None:
    shape = SHAPES[name]
    text = f"PLAN_START\n{shape.steps}\nPLAN_END"
    plan = parse(text).require()
    written = re.findall(r"\bS\d+:", shape.steps)
    assert [f"{step.id}:" for step in plan.steps] == written
    assert parse(format_plan(plan)).plan == plan
    assert validate_plan(plan_of(text)) == []
    assert all(step.id in plan_to_mermaid(plan_of(text)) for step in plan.steps)
    world = Callbacks(shape.tools, shape.model)
    result = await world.run(text)
    assert result["response"] == shape.response
    assert [tool for tool, _, _ in world.calls] == shape.calls
