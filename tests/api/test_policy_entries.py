"""Tools without a usable entry: the error names the entry and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet import Plan
from callsheet.api.proving import prove
from callsheet.policy.model import Policy, ToolRule
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Registry, Tool, ToolSpec

ENTRY = Policy(tools={"mcp:fs/delete": ToolRule(destructive=False, pin="sha256:1")})


async def _nothing(args: dict[str, Any], context: CallContext) -> None:
    return None


def registry(tool: str | None = None, server: str = "fs", *, unopened: tuple[str, ...] = ()) -> Registry:
    made = Registry()
    if tool is not None:
        spec = ToolSpec(tool.upper(), tool, origin=f"mcp:{server}", pin="sha256:2")
        made.add(Tool(spec, _nothing), alias=f"{server.upper()}__{tool.upper()}")
    made.unopened = unopened
    return made


def hint(policy: Policy, there: Registry, tool: str = "DELETE") -> str:
    (violation,) = prove(Plan.parse(f"S1: @{tool}").ir, policy, there).verdict.violations
    return violation.help or ""


@pytest.mark.parametrize("name", ["DELETE", "FS__DELETE"])
@pytest.mark.parametrize(
    ("there", "said"),
    [
        (
            registry("delete"),
            "the entry mcp:fs/delete is not applied, because its pin is not the one of the tool: see POL007",
        ),
        (
            registry("drop", "db"),
            "the entry mcp:fs/delete is for a server 'fs'; those that were asked are db",
        ),
        (
            registry("drop"),
            "the entry mcp:fs/delete is for the server 'fs', which is open and has no such tool",
        ),
        (
            registry("drop", "db", unopened=("fs",)),
            "the entry mcp:fs/delete applies once the server 'fs' is open; it could not be opened",
        ),
    ],
)
def test_ignored_entry_is_named_with_reason(there: Registry, said: str, name: str) -> None:
    assert hint(ENTRY, there, name).startswith(said)


def test_entry_without_pin_applies_once_its_server_was_asked() -> None:
    entry = Policy(tools={"mcp:fs/delete": ToolRule(destructive=False)})
    said = "the entry mcp:fs/delete applies once its server has been asked for its tools"
    assert hint(entry, registry()).startswith(said)


def test_two_servers_with_same_tool_name_have_separate_reasons() -> None:
    there = registry("delete")
    there.add(Tool(ToolSpec("DELETE", "delete", origin="mcp:db"), _nothing), alias="DB__DELETE")
    assert "see POL007" in hint(ENTRY, there, "FS__DELETE")
    assert hint(ENTRY, there, "DB__DELETE").startswith("describe it in the policy")


def test_hint_for_missing_entry_names_server_not_asked() -> None:
    plan = Plan.parse("S1: @DELETE").ir
    for there, said in (
        (registry("drop"), "once its server was asked: a server of mcp.json was not"),
        (registry("delete"), "under tools"),
    ):
        (violation,) = prove(plan, Policy(), there, not_asked="a server of mcp.json").verdict.violations
        assert (violation.help or "").startswith(f"describe it in the policy, {said}")


def test_hint_for_missing_entry_names_server_that_failed_to_open() -> None:
    assert hint(Policy(), registry("drop", "db", unopened=("fs",))) == (
        "describe it in the policy, once its server is open: 'fs' could not be opened"
    )
    assert hint(Policy(), registry("delete", unopened=("db",))).startswith("describe it in the policy, under")
