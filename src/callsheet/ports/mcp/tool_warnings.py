"""Warns about tools that an MCP server declares: unusable names, hints and settings that do not fit.

In: the configuration of a server and what it declares. Out: warnings. None of them prevents a call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from callsheet.diagnostics import Diagnostic, Severity, did_you_mean
from callsheet.ports.mcp.declarations import hint_against, is_plain
from callsheet.ports.mcp.servers import McpServerConfig


def unused_settings(config: McpServerConfig, offered: Collection[str]) -> Iterator[Diagnostic]:
    """Warnings about effects, rules and probes configured for tools that the server does not offer."""
    probes = [rule.probe.tool for rule in config.rules.values() if rule.probe is not None]
    for name in dict.fromkeys((*config.effects, *config.rules, *probes)):
        if name in offered:
            continue
        suggestions = did_you_mean(name, offered)
        message = f"an effect is declared for {name!r}, which the MCP server {config.name!r} does not offer"
        hint = (
            f"did you mean {' or '.join(suggestions)}?"
            if suggestions
            else f"it offers {', '.join(offered) or 'nothing'}"
        )
        yield Diagnostic("TOL015", Severity.WARNING, message, help=hint)


def declaration_warnings(
    config: McpServerConfig, declarations: Mapping[str, Mapping[str, Any]]
) -> Iterator[Diagnostic]:
    """Warnings about declared tools: names that are not plain, hints that contradict the configuration."""
    server = f"the MCP server {config.name!r}"
    for name, declaration in declarations.items():
        if not is_plain(name):
            message = f"{server} has a tool called {ascii(name)[:200]}, which could be mistaken for another"
            hint = "it is ignored; tool names have at most 128 characters, all of them ASCII"
            yield Diagnostic("TOL017", Severity.WARNING, message, help=hint)
        contradicted = hint_against(config, declaration)
        if contradicted is not None:
            effect = config.effects[name]
            message = f"{name!r} is declared to have the effect {effect}, but {server} says {contradicted}"
            hint = "the configuration takes precedence; check that the effect is right"
            yield Diagnostic("TOL024", Severity.WARNING, message, help=hint)
