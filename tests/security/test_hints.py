"""Annotations of servers relax nothing, and contradictions with the operator are reported."""

from __future__ import annotations

import itertools

import pytest

from callsheet.ir import Effect
from callsheet.ports.mcp import McpPool
from callsheet.ports.mcp.declarations import spec_of

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
EVERY = [dict(zip(HINTS, said, strict=True)) for said in itertools.product((None, True, False), repeat=4)]


def effect(config: object, hints: object) -> Effect:
    declared = {"name": "look", "inputSchema": {"type": "object"}, "annotations": hints}
    return spec_of(config, declared).effect  # type: ignore[arg-type]


def test_hints_of_untrusted_server_relax_nothing(changeling):
    for said in EVERY:
        hints = {name: value for name, value in said.items() if value is not None}
        assert effect(changeling.config(), hints) is Effect.UNSAFE


def test_hint_of_trusted_server_counts_unless_contradicted(changeling):
    for hints in EVERY:
        expected = Effect.UNSAFE
        if hints["readOnlyHint"] and hints["destructiveHint"] is not True:
            expected = Effect.READ
        elif hints["idempotentHint"]:
            expected = Effect.IDEMPOTENT
        assert effect(changeling.config(trusted=True), hints) is expected


@pytest.mark.parametrize("hints", [None, [], "readOnlyHint", {"readOnlyHint": 1}, {"readOnlyHint": "true"}])
def test_invalid_hint_is_ignored(changeling, hints):
    assert effect(changeling.config(trusted=True), hints) is Effect.UNSAFE


async def test_hint_contradicting_operator_is_reported_and_overridden(changeling):
    look, send = changeling.state["tools"]
    look["annotations"] = {"destructiveHint": True}
    changeling.declare(look, send)
    async with McpPool([changeling.config(effects={"look": Effect.READ, "send": Effect.READ})]) as pool:
        (doubt,) = await pool.connect()
        effects = {tool.spec.executor: tool.spec.effect for tool, _ in pool.tools()}
    assert doubt.code == "TOL024"
    assert "'look' is declared to have the effect read" in doubt.message
    assert effects == {"look": Effect.READ, "send": Effect.READ}
