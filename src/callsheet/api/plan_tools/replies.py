"""Serializes the reply of a plan tool as JSON of bounded length.

In: a reply as data. Out: its text. Long values are shortened first, then steps and variables are left out;
each cut is marked, and `shortened` says that there was one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

MAX_CHARACTERS = 20_000
_LENGTHS = (4_000, 1_000, 250, 60)
_VALUES = frozenset({"result", "response", "error"})
_LISTS = (200, 50, 10, 0)


def reply_text(reply: Mapping[str, Any], most: int = MAX_CHARACTERS) -> str:
    """The reply as JSON of at most `most` characters.

    >>> text = reply_text({"success": True, "response": "z" * 200_000}, 400)
    >>> len(text) <= 400, json.loads(text)["shortened"]
    (True, True)
    """
    text = _dumps(reply)
    if len(text) <= most:
        return text
    for length in _LENGTHS:
        text = _dumps({**_shortened(reply, length), "shortened": True})
        if len(text) <= most:
            return text
    for count in _LISTS:
        text = _dumps({**_thinned(_shortened(reply, _LENGTHS[-1]), count), "shortened": True})
        if len(text) <= most:
            return text
    return _dumps({"success": reply.get("success", False), "shortened": True})


def error_reply(message: str, **more: Any) -> dict[str, Any]:
    """A reply that reports an error."""
    return {"success": False, "error": message, **more}


def _shortened(reply: Mapping[str, Any], length: int) -> dict[str, Any]:
    """The reply with every value cut to at most `length` characters."""
    out: dict[str, Any] = {}
    for name, value in reply.items():
        if name in _VALUES:
            out[name] = _cut(value, length)
        elif name == "variables":
            out[name] = {key: _cut(each, length) for key, each in cast("dict[str, Any]", value).items()}
        elif name == "steps":
            out[name] = [_step(step, length) for step in cast("list[dict[str, Any]]", value)]
        else:
            out[name] = _cut(value, length) if isinstance(value, str) else value
    return out


def _step(step: Mapping[str, Any], length: int) -> dict[str, Any]:
    return {name: value if name == "depends_on" else _cut(value, length) for name, value in step.items()}


def _thinned(reply: dict[str, Any], count: int) -> dict[str, Any]:
    """The reply with at most `count` steps and variables."""
    out = dict(reply)
    for name in ("steps", "variables"):
        value = out.get(name)
        if isinstance(value, list):
            rows = cast("list[Any]", value)
            out[name] = rows[:count]
            if len(rows) > count:
                out["steps_left_out"] = len(rows) - count
        elif isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            out[name] = dict(list(named.items())[:count])
            if len(named) > count:
                out["variables_left_out"] = len(named) - count
    return out


def _cut(value: Any, length: int) -> Any:
    """The value itself if it is short, else the start of its text with a mark."""
    text = value if isinstance(value, str) else _dumps(value)
    if len(text) <= length:
        return value
    return f"{text[:length]}… (shortened: {len(text)} characters in all)"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
