"""`@SET_WM` and `@GET_WM`: named values of a run, which survive a resume."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from callsheet.ir import JSON, Effect
from callsheet.ports.builtin.database import opened
from callsheet.ports.builtin.declare import TEXT, declare, text_argument
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.builtin.threads import in_thread
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

_MAX_VALUE = 10_000_000


def working_memory_tools(settings: BuiltinSettings) -> list[Tool]:
    """The two tools of a run's working memory."""
    return [
        declare(
            "SET_WM",
            "Store a value under a name for the rest of this run.",
            {"key": TEXT, "value": {"description": "any value"}},
            partial(_set, settings),
            effect=Effect.IDEMPOTENT,
        ),
        declare(
            "GET_WM",
            "Get the value that this run stored under a name; null if there is none.",
            {"key": TEXT},
            partial(_get, settings),
            effect=Effect.READ,
        ),
    ]


async def _set(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    key = text_argument(arguments, "key")
    if "value" not in arguments:
        raise ToolFailed("the argument value is missing")
    text = json.dumps(arguments["value"])
    if len(text) > _MAX_VALUE:
        raise ToolFailed(f"the value is larger than {_MAX_VALUE} characters")
    await in_thread(_store, settings, context.run_id, key, text)
    return arguments["value"]


async def _get(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    text = await in_thread(_look_up, settings, context.run_id, text_argument(arguments, "key"))
    return None if text is None else json.loads(text)


def _store(settings: BuiltinSettings, run: str, key: str, text: str) -> None:
    row = (settings.namespace, run, key.encode(errors="replace").decode(), text)
    with opened(settings.memory) as db:
        db.execute("INSERT OR REPLACE INTO working (namespace, run, key, value) VALUES (?, ?, ?, ?)", row)


def _look_up(settings: BuiltinSettings, run: str, key: str) -> str | None:
    if not settings.memory.exists():
        return None
    place = (settings.namespace, run, key.encode(errors="replace").decode())
    with opened(settings.memory) as db:
        row = db.execute(
            "SELECT value FROM working WHERE namespace = ? AND run = ? AND key = ?", place
        ).fetchone()
    return None if row is None else str(row[0])
