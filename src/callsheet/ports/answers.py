"""Converts the answer of an executor, `{"success": …, "output": …}`, to a JSON value or a failure.

In: whatever a third-party function returned. Out: JSON, or ToolFailed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.ports.calls import ToolFailed

_MAX_DEPTH = 200
_LARGEST = 10**4_000
"""Bound of integers, below the 4,300 digits that Python parses by default."""
_SMALL = 1 << 62
_LONG = 1_000


def read_answer(answer: object) -> object:
    """The value in an executor's answer; raises ToolFailed if it reports a failure or is malformed.

    - `success` true: the value is `output`, null if there is none.
    - `success` false: a failure with the text of `error`, else of `output`.
    - no `success`: `output` is the value, unless there is an `error`.
    - the result of an MCP call, with a list `content`: the value is `structuredContent`, else the texts
      of `content`, one per line; with `isError` true the texts are the reason of the failure.
    - anything else is a failure (unknown shape).

    A text that mentions errors is a value like any other.

    >>> read_answer({"success": True, "output": "error: none"})
    'error: none'
    >>> read_answer({"success": False, "error": "503"})
    Traceback (most recent call last):
    ...
    callsheet.ports.calls.ToolFailed: 503
    """
    if not isinstance(answer, Mapping):
        raise ToolFailed(f"the tool's answer has an unknown shape: {_kind(answer)} instead of a dict")
    fields = cast("Mapping[Any, Any]", answer)
    if fields.get("isError") is True:
        raise ToolFailed(_content_text(fields.get("content")) or failure_text(fields))
    if not fields.keys() & {"success", "output", "error"}:
        if _is_mcp_result(fields):
            structured = fields.get("structuredContent")
            return _content_text(fields["content"]) if structured is None else structured
        raise ToolFailed("the tool's answer has an unknown shape: a dict without success and output")
    success = fields.get("success")
    if success is None:
        success = not fields.get("error")
    if not isinstance(success, bool):
        raise ToolFailed(
            f"the tool's answer has an unknown shape: success is {_kind(success)}, not true or false"
        )
    if not success:
        raise ToolFailed(failure_text(fields))
    return fields.get("output")


def _is_mcp_result(fields: Mapping[Any, Any]) -> bool:
    """Whether an answer is the result of a successful MCP call, where `isError` is optional."""
    content = fields.get("content")
    if fields.get("isError", False) is not False or not isinstance(content, list):
        return False
    parts = cast("list[object]", content)
    return all(isinstance(part, Mapping) and "type" in part for part in parts)


def _content_text(content: object) -> str:
    """The text parts of an MCP answer, joined by line breaks."""
    parts = cast("list[object]", content) if isinstance(content, list) else []
    fields = [cast("Mapping[Any, Any]", part) for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for part in fields if isinstance(text := part.get("text"), str) and text)


def failure_text(fields: Mapping[Any, Any]) -> str:
    """The reason given by an answer that reports a failure, as text."""
    for name in ("error", "output"):
        value = fields.get(name)
        if value not in (None, "", [], {}):
            return value if isinstance(value, str) else _compact(value)
    return "the tool reported a failure without a reason"


def _compact(value: object) -> str:
    import json  # noqa: PLC0415 - only for an odd answer

    try:
        return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":"))
    except ToolFailed:
        return _kind(value)


def as_json(value: object, depth: int = 0) -> JSON:
    """A Python value as JSON that shares no list or dict with the input.

    Tuples, other sequences and sets become lists, keys become strings; NaN and infinities become null. Raises
    ToolFailed for values without a JSON form, nested too deeply, or too large.
    """
    if type(value) is int and -_SMALL < value < _SMALL:
        return value
    if type(value) is str or type(value) is bool or value is None:
        return value
    kind = type(value)
    if depth > _MAX_DEPTH:
        raise ToolFailed(f"the tool's result is nested deeper than {_MAX_DEPTH} levels")
    if kind is dict:
        pairs = cast("dict[Any, Any]", value)
        return {
            key if type(key) is str else str(key): as_json(item, depth + 1) for key, item in pairs.items()
        }
    if kind is list:
        items = cast("list[object]", value)
        if len(items) >= _LONG and _are_plain(items):
            return cast("list[JSON]", items.copy())
        return [as_json(item, depth + 1) for item in items]
    return _made_json(value, depth)


async def as_json_in_turns(value: object) -> JSON:
    """Like `as_json`, but yields to the event loop between slices of a long list."""
    if type(value) is not list:
        return as_json(value)
    items = cast("list[object]", value)
    if len(items) < _LONG or _are_plain(items):
        return as_json(items)
    converted: list[JSON] = []
    for start in range(0, len(items), _LONG):
        converted += [as_json(item, 1) for item in items[start : start + _LONG]]
        await asyncio.sleep(0)
    return converted


def _are_plain(items: list[object]) -> bool:
    """Whether a long list holds only strings, booleans and nulls, or only small integers.

    Such a list can be copied without a call per item.
    """
    kinds = set(map(type, items))
    if kinds <= {str, bool, type(None)}:
        return True
    return (
        kinds == {int} and -_SMALL < min(cast("list[int]", items)) <= max(cast("list[int]", items)) < _SMALL
    )


def _made_json(value: object, depth: int) -> JSON:
    """`as_json` for values whose type is not exactly a JSON type."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if not -_LARGEST < value < _LARGEST:
            raise ToolFailed("the tool's result contains an integer of more than 4,000 digits")
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        return {str(key): as_json(item, depth + 1) for key, item in pairs.items()}
    if isinstance(value, set | frozenset):
        value = sorted(cast("set[object]", value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [as_json(item, depth + 1) for item in cast("Sequence[object]", value)]
    raise ToolFailed(f"the tool's result contains {_kind(value)}, which is not JSON")


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
