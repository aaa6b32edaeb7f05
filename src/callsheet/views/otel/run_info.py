"""Data about a run that is known at its start and is part of its spans.

In: the start record of a run, from its first event. Out: an `RunDescription`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from callsheet.ir import Plan
from callsheet.store.start import Start
from callsheet.views.otel.model import Attributes
from callsheet.views.otel.names import PROVIDERS, Gen

_MOST_OF_A_NAME = 120


class McpTool(NamedTuple):
    """A tool of an MCP server: the server's name in the configuration, its transport and protocol version."""

    server: str
    transport: str
    protocol: str


class RequestedModel(NamedTuple):
    """The model that a run was started with: provider (by the conventions' name), name and settings."""

    provider: str = ""
    name: str = ""
    settings: tuple[tuple[str, float], ...] = ()

    def attributes(self) -> Attributes:
        """Returns the attributes of a request to the model."""
        result: Attributes = {}
        if self.provider:
            result[Gen.PROVIDER] = self.provider
        if self.name:
            result[Gen.REQUEST_MODEL] = self.name
        return result | dict(self.settings)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """A run: its id, its plan, the run it was forked from, its model and its MCP servers.

    `includes_content` says whether arguments, results and error texts are included in the telemetry.
    """

    run_id: str
    plan_name: str
    plan_id: str
    plan_hash: str
    parent: str
    model: RequestedModel
    servers: Mapping[str, McpTool]
    includes_content: bool = False


def describe_run(
    run_id: str, plan: Plan, plan_hash: str, start: Start, parent: str | None, *, content: bool = False
) -> RunDescription:
    """Collects the data about a run; `content` becomes `includes_content`."""
    launch = cast("Mapping[str, Any]", start.launch)
    name = plan.id or plan.title or _file_name(launch.get("plan")) or "plan"
    return RunDescription(
        run_id,
        name[:_MOST_OF_A_NAME],
        plan.id or "",
        plan_hash,
        parent or "",
        _requested_model(_table(launch.get("setup"))),
        _servers(_table(launch.get("servers"))),
        content,
    )


def _file_name(value: object) -> str:
    """Returns the name of the plan's file, or an empty string for a text without a file."""
    return value.rpartition("/")[2] if isinstance(value, str) and not value.startswith("<") else ""


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _requested_model(setup: Mapping[str, Any]) -> RequestedModel:
    table = _table(_table(setup.get("settings")).get("model"))
    named = str(setup.get("model") or table.get("model") or "")
    names = {"temperature": Gen.TEMPERATURE, "max_tokens": Gen.MAX_TOKENS, "seed": Gen.SEED}
    settings = tuple(
        (name, table[key]) for key, name in names.items() if isinstance(table.get(key), int | float)
    )
    if not named or "://" in named:
        model = str(table.get("name") or "")
        return RequestedModel("", model, settings if model else ())
    provider, _, model = named.partition(":")
    return RequestedModel(PROVIDERS.get(provider, provider), model, settings)


def _servers(rows: Mapping[str, Any]) -> dict[str, McpTool]:
    return {
        tool: McpTool(*map(str, cast("list[Any]", row)))
        for tool, row in rows.items()
        if isinstance(row, list) and len(cast("list[Any]", row)) == len(McpTool._fields)
    }
