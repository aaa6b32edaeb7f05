"""What a server's declaration of a tool becomes: the tool's spec, its effect and its pin.

In: the wire object of `tools/list`, as the server sent it. Out: a ToolSpec. A server's hints
count only where the operator trusts it (security contract, section 4).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

from callsheet.ir import CallKind, Effect, call_kind, canonical_tool_name
from callsheet.ir.canon import canonical_bytes
from callsheet.ir.operations import CONTROL_WORDS
from callsheet.ports.mcp.config import McpServerConfig, ToolRule
from callsheet.ports.tools import ToolSpec

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def pin_of(declaration: Mapping[str, Any]) -> str:
    """The hash of a declaration, whole, whatever the order of its keys.

    >>> pin_of({"name": "a", "inputSchema": {}}) == pin_of({"inputSchema": {}, "name": "a"})
    True
    """
    return f"sha256:{hashlib.sha256(canonical_bytes(declaration)).hexdigest()}"


def effect_of(config: McpServerConfig, name: str, hints: Mapping[str, Any]) -> Effect:
    """The effect of a tool: the operator's word, a trusted server's hint, else UNSAFE."""
    declared = config.effects.get(name)
    if declared is not None:
        return declared
    if config.trusted and hints.get("readOnlyHint") is True:
        return Effect.READ
    if config.trusted and hints.get("idempotentHint") is True:
        return Effect.IDEMPOTENT
    return Effect.UNSAFE


def qualified_name(server: str, tool: str) -> str:
    """The name by which a tool can be called whatever other servers offer: `SERVER__TOOL`."""
    name = f"{canonical_tool_name(server)}__{canonical_tool_name(tool)}"
    return name if name[0].isalpha() else f"MCP_{name}"


def spec_of(config: McpServerConfig, declaration: Mapping[str, Any]) -> ToolSpec:
    """The spec of a declared tool.

    A name that a plan cannot write, or that is a word of the language, gives way to the
    qualified name.
    """
    given = str(declaration["name"])
    name = canonical_tool_name(given)
    taken = name in CONTROL_WORDS or call_kind(name) is not CallKind.TOOL
    if taken or not given.isascii() or not _NAME.fullmatch(name):
        name = qualified_name(config.name, given)
    hints = declaration.get("annotations")
    schema = declaration.get("inputSchema")
    rule = config.rules.get(given, ToolRule())
    return ToolSpec(
        name=name,
        executor=given,
        description=str(declaration.get("description") or declaration.get("title") or ""),
        parameters=_seen_by_plans(cast("dict[str, Any]", schema), rule) if isinstance(schema, dict) else {},
        effect=effect_of(config, given, cast("dict[str, Any]", hints) if isinstance(hints, dict) else {}),
        origin=f"mcp:{config.name}",
        timeout=config.timeout,
        pin=pin_of(declaration),
        is_declared=given in config.effects,
        on_in_doubt=rule.on_in_doubt,
    )


def _seen_by_plans(schema: dict[str, Any], rule: ToolRule) -> dict[str, Any]:
    """The schema without the argument that takes the idempotency key."""
    name, properties, required = rule.key_argument, schema.get("properties"), schema.get("required")
    if name is None or not isinstance(properties, dict) or name not in properties:
        return schema
    told = cast("dict[str, Any]", properties)
    schema = {**schema, "properties": {key: value for key, value in told.items() if key != name}}
    if isinstance(required, list):
        schema["required"] = [key for key in cast("list[Any]", required) if key != name]
    return schema
