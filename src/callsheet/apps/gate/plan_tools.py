"""Saved plans as MCP tools of their own, with their inputs as schema.

In: the plan library, the ids that an operator exposes (`*` for all). Out: declarations of tools; and for a
call of one of them, the id of its plan.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any

from mcp_types import Tool

from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.ir import Plan
from callsheet.ir.inputs import input_schema
from callsheet.store.library import Param, PlanLibrary, StoredPlan, free_variables

_log = logging.getLogger("callsheet.gate")
EVERY = "*"
_TYPES = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "list": "array",
    "object": "object",
}
_LONGEST = 300
"""The most characters of a description."""


class PlanTools:
    """The plans of a library that are exposed as tools; the library is read at each request."""

    def __init__(self, library: PlanLibrary, ids: Collection[str], taken: Collection[str]) -> None:
        self._library = library
        self._ids = tuple(ids)
        self._taken = frozenset(taken)

    def check(self) -> None:
        """Raise CallsheetError if a plan is not there (MCP001), or with the errors of its text."""
        known = self._library.ids()
        for plan_id in self._ids:
            if plan_id != EVERY and plan_id.partition("@")[0] not in known:
                near = did_you_mean(plan_id, known)
                hint = f"did you mean {near[0]}?" if near else "`callsheet plan list` shows what is saved"
                raise CallsheetError.single("MCP001", f"there is no saved plan {plan_id!r}", help=hint)
            if plan_id != EVERY:
                self._library.load(plan_id).require()

    def declarations(self) -> list[Tool]:
        """The tools; a plan whose text has errors is left out with a warning, since nobody could run it."""
        return [_tool(name, self._library.load(plan_id)) for name, plan_id in self._named().items()]

    def plan_of(self, tool: str) -> str | None:
        """The id of the plan behind a tool; None if there is no such tool."""
        return self._named().get(tool)

    def _named(self) -> dict[str, str]:
        if not self._ids:
            return {}
        rows = self._library.list()
        listed = {row.id for row in rows if row.steps is not None}
        for row in rows:
            if row.steps is None and (EVERY in self._ids or row.id in self._ids):
                _log.warning(
                    "the plan %s is no tool: its text has errors (callsheet check %s)", row.id, row.id
                )
        wanted = [*listed] if EVERY in self._ids else []
        wanted += [one for one in self._ids if one != EVERY and one.partition("@")[0] in listed]
        return {self._name(plan_id): plan_id for plan_id in sorted(wanted)}

    def _name(self, plan_id: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", plan_id.partition("@")[0])[:60]
        return f"plan_{name}" if name in self._taken else name


def _tool(name: str, stored: StoredPlan) -> Tool:
    plan = stored.require()
    about = plan.title or stored.goal or plan.goal or f"The saved plan {stored.id}."
    text = f"{about[:_LONGEST]} (a saved plan)"
    return Tool(name=name, title=plan.title, description=text, input_schema=_schema(plan, stored.params))


def _schema(plan: Plan, params: Collection[Param]) -> dict[str, Any]:
    if plan.tree is not None:
        return input_schema(plan.tree)
    named = {param.name for param in params}
    known = [*params, *(Param(name) for name in free_variables(plan) if name not in named)]
    return {
        "type": "object",
        "properties": {param.name: _property(param) for param in known},
        "required": [param.name for param in known if not param.has_default],
        "additionalProperties": False,
    }


def _property(param: Param) -> Mapping[str, Any]:
    kind = _TYPES.get(str(param.kind))
    shape: dict[str, Any] = {} if kind is None else {"type": kind}
    return {**shape, "default": param.default} if param.has_default else shape
