"""`check_plan` of a plan of version 2: the registry's tools, their schemas, and what cannot run."""

from typing import Any

import pytest

from callsheet.api.checking import ALL_PROVIDERS, check_plan, idle_inputs
from callsheet.frontends.expressions import read_expression
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import Act, Compute, Input, Into, Say, Statement, Tree, Word
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.ir.types import Basic
from callsheet.ports.mcp.declarations import spec_of
from callsheet.ports.mcp.servers import McpServerConfig, StdioServer
from callsheet.ports.tools import Registry, Tool

TICKET = {"type": "object", "properties": {"id": {"type": "integer"}, "title": {"type": "string"}}}
RESULTS: dict[str, Any] = {
    "get_ticket": TICKET,
    "list_tickets": {
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/Ticket"}}},
        "$defs": {"Ticket": TICKET},
    },
}


async def _handler(*_: Any) -> None: ...


def _registry() -> Registry:
    config = McpServerConfig("desk", StdioServer("desk"))
    registry = Registry()
    for name, schema in RESULTS.items():
        declared = {"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema}
        registry.add(Tool(spec_of(config, declared), _handler))
    return registry


def _respond(text: str) -> Say:
    return Say("", Word.RESPOND, (read_expression(text).expression,))


def _codes(*body: Statement, providers: Any = ALL_PROVIDERS) -> list[str]:
    plan = plan_of_tree(with_ids(Tree(body)))
    return [one.code for one in check_plan(plan, _registry(), providers=providers)]


@pytest.mark.parametrize(
    ("tool", "answer", "codes"),
    [
        ("GET_TICKET", "$t.title", []),
        ("GET_TICKET", "$t.titel", ["CHK120"]),
        ("LIST_TICKETS", "[x.title for x in $t]", []),
        ("LIST_TICKETS", "[x.titel for x in $t]", ["CHK120"]),
        ("LIST_TICKETS", "$t.title", ["CHK120"]),
        ("LIST_TICKET", "$t", ["CHK040"]),
    ],
)
def test_fields_are_those_of_the_output_schemas_of_servers(tool: str, answer: str, codes: list[str]) -> None:
    assert _codes(Act("", tool, into=Into("t")), _respond(answer)) == codes


def test_a_next_part_needs_a_model() -> None:
    body = (Say("", Word.REPLAN, (read_expression("'why'").expression,)),)
    assert _codes(*body) == []
    assert _codes(*body, providers=ALL_PROVIDERS._replace(compiler=False)) == ["RUN010"]


def test_values_for_a_tree_are_judged_as_its_inputs() -> None:
    plan = plan_of_tree(with_ids(Tree((_respond("$n"),), (Input("n", Basic.INT),))))
    (one,) = idle_inputs(plan, ["n", "m"])
    assert (one.code, one.severity, one.message) == ("RUN036", "error", "the plan has no input $m")


def test_a_plan_that_computes_is_refused_without_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computes = Compute("", "t = sum([1, 2])", into=("t",))
    assert _codes(computes, _respond("$t")) == []
    monkeypatch.setattr("callsheet.ports.python_code.interpreter._PACKAGE", "no-such-package")
    assert _codes(computes, _respond("$t")) == ["CFG232"]
