"""Reads what a tool gave back: a value, the report of a failure, or whether a call took place.

In: what an executor, a tool manager, a Python function, a probe or an MCP server of any version gave. Out:
JSON, or ToolFailed. This is the one place that knows how a failure is reported; `docs/tools.md` has the
rules. An unclear answer of a probe counts as unknown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Literal, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.machine import TookPlace
from callsheet.machine.values import parse_json
from callsheet.ports.calls import CallContext, ToolFailed

BlobSink: TypeAlias = Callable[[bytes], str]
"""Stores bytes and returns a reference to them; called in a thread."""

_MAX_DEPTH = 200
_LARGEST = 10**4_000
"""Bound of integers, below the 4,300 digits that Python parses by default."""
_SMALL = 1 << 62
_LONG = 1_000


class Answerer(Enum):
    """Who gave an answer, which decides what an answer of no known form means."""

    EXECUTOR = auto()
    """A callback of the documented runtime: always `{"success": …, "output": …, "error": …}`."""
    MANAGER = auto()
    """A tool manager: a result of that form, or the bare value."""
    FUNCTION = auto()
    """A function declared as a tool: what it returns is the value, unless it reports a failure."""


_ABSENT = object()
_PLAIN = frozenset({str, int, float, bool, type(None)})
_FLAGS = ("isError", "is_error")
_RESULT_FIELDS = frozenset(
    {"content", "structuredContent", "structured_content", "isError", "is_error"}
    | {"_meta", "meta", "resultType", "result_type"}
)
_BLOCKS = {
    "text": ("text",),
    "image": ("data",),
    "audio": ("data",),
    "resource": ("resource",),
    "resource_link": ("uri",),
}
"""The kinds of content blocks, each with the field that it must have."""
_REASONS = ("error", "output", "result", "message")
_MARKS = frozenset({"success", "error", "isError", "is_error"})


def read_answer(answer: object, answerer: Answerer) -> object:
    """The value in an answer; raises ToolFailed if it reports a failure.

    - The result of an MCP call, as an object or a mapping: `is_error` true is a failure with its texts, else
      the value is that of its content (`value_of`). So are content blocks of the SDK without such a result.
    - `success` false: a failure with the text of `error`. `success` true: the value is `output` or `result`,
      which may be the result of an MCP call; an `error` beside it is then no failure.
    - `error` that is not empty, without `success`: a failure. In the dict of a FUNCTION it is one only if
      nothing else is in there, since the dict of a function is data.
    - Any other answer of a MANAGER or a FUNCTION is a value. For an EXECUTOR `output` is the value, and an
      answer without it is a failure (unknown shape).

    A text that mentions errors is a value like any other.

    >>> read_answer({"success": True, "output": "error: none"}, Answerer.EXECUTOR)
    'error: none'
    >>> read_answer({"isError": True, "content": [{"type": "text", "text": "503"}]}, Answerer.FUNCTION)
    Traceback (most recent call last):
    ...
    callsheet.ports.calls.ToolFailed: 503
    """
    if type(answer) in _PLAIN:
        is_call = False
    elif _are_blocks(answer, of_sdk=True):
        return _value_of_blocks(cast("Sequence[object]", answer), None)
    else:
        is_call = is_call_result(answer) and (answerer is not Answerer.FUNCTION or _says_if_failed(answer))
    if is_call:
        return value_of(answer)
    fields = _fields_of(answer)
    if fields is not None:
        success = fields.get("success")
        if isinstance(success, bool):
            return _of_success(success, fields, answer, answerer)
        if success is None and _is_failure(fields, answerer):
            raise ToolFailed(failure_text(fields))
    if answerer is not Answerer.EXECUTOR:
        return answer
    if fields is None:
        raise ToolFailed(f"the tool's answer has an unknown shape: {_kind(answer)} instead of a dict")
    if fields.get("success") is not None:
        kind = _kind(fields["success"])
        raise ToolFailed(f"the tool's answer has an unknown shape: success is {kind}, not true or false")
    if not fields.keys() & {"success", "output", "error"}:
        raise ToolFailed("the tool's answer has an unknown shape: a dict without success and output")
    return fields.get("output")


def may_report(value: object) -> bool:
    """Whether what a function returned may be more than a value, so that `read_answer` has to look at it.

    >>> may_report("error"), may_report({"rows": []}), may_report({"error": "boom"})
    (False, False, True)
    """
    kind = type(value)
    if kind in _PLAIN:
        return False
    if kind is dict:
        return not _MARKS.isdisjoint(cast("dict[Any, Any]", value))
    if kind is list or kind is tuple:
        items = cast("Sequence[object]", value)
        return bool(items) and hasattr(items[0], "type")
    return True


def _fields_of(answer: object) -> Mapping[Any, Any] | None:
    """The fields of a mapping, or of an object that says whether the call succeeded; None for others."""
    if isinstance(answer, Mapping):
        return cast("Mapping[Any, Any]", answer)
    success: Any = getattr(answer, "success", None)
    if not isinstance(success, bool):
        return None
    names = ("success", *_REASONS)
    found = {name: getattr(answer, name, _ABSENT) for name in names}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def _of_success(success: bool, fields: Mapping[Any, Any], answer: object, answerer: Answerer) -> object:
    """The value in an answer that says whether the call succeeded."""
    if not success:
        raise ToolFailed(failure_text(fields))
    name = next((name for name in ("result", "output") if name in fields), None)
    if answerer is Answerer.EXECUTOR and "output" in fields:
        name = "output"
    inner = None if name is None else fields[name]
    if is_call_result(inner) or (type(inner) not in _PLAIN and _field(inner, *_FLAGS) is True):
        value = value_of(inner)
        return answer if answerer is Answerer.FUNCTION else value
    if answerer is Answerer.FUNCTION or (name is None and answerer is Answerer.MANAGER):
        return answer
    return inner


def _is_failure(fields: Mapping[Any, Any], answerer: Answerer) -> bool:
    """Whether an answer without `success` reports a failure."""
    if any(fields.get(flag) is True for flag in _FLAGS):
        return True
    if not fields.get("error"):
        return False
    return answerer is not Answerer.FUNCTION or not any(
        value not in (None, "", [], {}, False) for name, value in fields.items() if name != "error"
    )


# ---------------------------------------------------------------- results of MCP calls


def is_call_result(answer: object) -> bool:
    """Whether an answer is the result of an MCP call: an object of the SDK, or a mapping of its fields."""
    fields = _mapping(answer)
    if fields is not None:
        if not fields.keys() <= _RESULT_FIELDS:
            return False
    elif type(answer) in _PLAIN or isinstance(answer, type) or not hasattr(answer, "content"):
        return False
    return _says_if_failed(answer) or _are_blocks(_field(answer, "content"))


def _says_if_failed(answer: object) -> bool:
    """Whether an answer has the flag of an MCP call's result."""
    return type(answer) not in _PLAIN and isinstance(_field(answer, *_FLAGS), bool)


def value_of(
    result: object, output_schema: Mapping[str, Any] | None = None, sink: BlobSink | None = None
) -> JSON:
    """The value of the result of an MCP call; raises ToolFailed if it reports a failure.

    Structured content is the value (of a wrapper `{"result": x}`, x). Otherwise a single block gives its
    value, several give a list, none gives null. A text block gives its text, even if the text is JSON. Binary
    data is given to `sink` and named in the value by hash, size and reference; without one it stays in the
    value as base64.
    """
    if _field(result, *_FLAGS) is True:
        raise ToolFailed(call_failure(result))
    content, blocks = _content_of(result)
    structured = structured_of(result)
    if structured is _ABSENT:
        if is_call_result(content):
            return value_of(content, None, sink)
        if _are_blocks(blocks) or content in ([], ()):
            return _value_of_blocks(blocks, sink)
        return content
    value = unwrapped(result, output_schema)
    others = [_block(block, sink) for block in blocks if _field(block, "type") not in ("text", None)]
    if not others:
        return value
    # Texts beside structured content only repeat it; images and resources do not.
    structured_value = value if isinstance(value, dict) else {"result": value}
    return {**structured_value, "_content": others}


def _content_of(result: object) -> tuple[Any, Sequence[object]]:
    """The content of a result as it is, and as a sequence; that is empty if it is something else."""
    content = _field(result, "content", default=())
    return content, cast("Sequence[object]", content) if isinstance(content, list | tuple) else ()


def call_failure(result: object) -> str:
    """The reason in the result of an MCP call that failed."""
    content, blocks = _content_of(result)
    if isinstance(content, str) and content.strip():
        return content
    texts = [_field(block, "text") for block in blocks if _field(block, "type") == "text"]
    said = "\n".join(text for text in texts if isinstance(text, str) and text.strip())
    return said or failure_text({name: _field(result, name) for name in _REASONS})


def structured_of(result: object) -> Any:
    """The structured content of a result; `is_absent` tells whether there is none."""
    value = _field(result, "structuredContent", "structured_content")
    if value is not _ABSENT and value is not None:
        return value
    given: Any = getattr(result, "model_fields_set", ())  # the SDK knows a null that was sent
    return value if {"structuredContent", "structured_content"} & set(given) else _ABSENT


def is_absent(structured: object) -> bool:
    """Whether `structured_of` found no structured content."""
    return structured is _ABSENT


def unwrapped(result: object, schema: Mapping[str, Any] | None) -> JSON:
    """The structured content of a result, without the wrapper around results that are not objects.

    Server libraries wrap them as `{"result": x}`: the declared schema then has this property alone. Where no
    schema is known, the texts beside it tell: they repeat x alone.
    """
    value = structured_of(result)
    fields = _mapping(value)
    if fields is None or list(fields) != ["result"]:
        return value
    inner: JSON = fields["result"]
    if schema is None:
        return inner if _texts_repeat(inner, result) else value
    properties = schema.get("properties")
    wrapped = schema.get("x-fastmcp-wrap-result") is True or (
        isinstance(properties, Mapping) and list(properties) == ["result"]  # pyright: ignore[reportUnknownArgumentType]
    )
    return inner if wrapped else value


def _texts_repeat(value: Any, result: object) -> bool:
    """Whether the texts of a result are this value: as one text, or one for each of its items."""
    _, blocks = _content_of(result)
    texts = [_field(block, "text") for block in blocks if _kind_of_block(block) == "text"]
    if texts == [value] or [parse_json(text) for text in texts] == [(True, value)]:
        return True
    if not isinstance(value, list) or len(value) != len(texts):  # pyright: ignore[reportUnknownArgumentType]
        return False
    items = cast("list[Any]", value)
    pairs = zip(texts, items, strict=True)
    return all(text == item or parse_json(text) == (True, item) for text, item in pairs)


def _mapping(answer: object) -> Mapping[Any, Any] | None:
    return cast("Mapping[Any, Any]", answer) if isinstance(answer, Mapping) else None


def _field(part: object, *names: str, default: object = _ABSENT) -> Any:
    """The first field of these names that an object or a mapping has."""
    for name in names:
        if isinstance(part, Mapping):
            value = cast("Mapping[Any, Any]", part).get(name, _ABSENT)
        else:
            value = getattr(part, name, _ABSENT)
        if value is not _ABSENT:
            return value
    return default


def _are_blocks(content: object, *, of_sdk: bool = False) -> bool:
    """Whether a list is one of content blocks, with at least one; `of_sdk` takes no mappings."""
    if not isinstance(content, list | tuple) or not content:
        return False
    return all(
        type(block) not in _PLAIN
        and not (of_sdk and isinstance(block, Mapping))
        and all(_field(block, name) is not _ABSENT for name in _BLOCKS.get(_kind_of_block(block), ("?",)))
        for block in cast("Sequence[object]", content)
    )


def _kind_of_block(block: object) -> str:
    kind = _field(block, "type")
    return kind if isinstance(kind, str) else ""


def _value_of_blocks(content: Sequence[object], sink: BlobSink | None) -> JSON:
    values = [_block(block, sink) for block in content]
    return values[0] if len(values) == 1 else values or None


def _block(block: object, sink: BlobSink | None) -> JSON:
    kind = _kind_of_block(block)
    match kind:
        case "text":
            return _field(block, "text")
        case "image" | "audio":
            data = _field(block, "data")
            return {"type": kind, "mimeType": _field(block, "mimeType", "mime_type"), **_bytes(data, sink)}
        case "resource_link":
            if isinstance(block, Mapping):
                return dict(cast("Mapping[str, JSON]", block))
            return cast("Any", block).model_dump(mode="json", by_alias=True, exclude_none=True)
        case "resource":
            inner = _field(block, "resource")
            out: dict[str, JSON] = {"type": "resource", "uri": str(_field(inner, "uri", default=""))}
            mime_type = _field(inner, "mimeType", "mime_type", default=None)
            if mime_type is not None:
                out["mimeType"] = mime_type
            data = _field(inner, "blob", default=None)
            if isinstance(data, str):
                return {**out, **_bytes(data, sink)}
            return {**out, "text": _field(inner, "text", default="")}
        case _:
            raise ToolFailed(f"the tool's answer has content of an unknown kind: {kind[:80]!r}")


def _bytes(text: object, sink: BlobSink | None) -> dict[str, JSON]:
    try:
        data = base64.b64decode(cast("str", text), validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ToolFailed("the server sent bytes that are not base64") from None
    out: dict[str, JSON] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    if sink is None:
        out["data"] = cast("str", text)
    else:
        out["ref"] = sink(data)
    return out


# ---------------------------------------------------------------- reasons and values


def failure_text(fields: Mapping[Any, Any]) -> str:
    """The reason given by an answer that reports a failure, as text."""
    for name in _REASONS:
        value = fields.get(name)
        if value is not _ABSENT and value not in (None, "", [], {}):
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
    import asyncio  # noqa: PLC0415 - not to declare tools

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


Probed: TypeAlias = "TookPlace | Literal[False] | None"
"""`TookPlace(value)`: the call took place and gave this value; False: it did not; None: unknown."""
Prober: TypeAlias = "Callable[[dict[str, Any], CallContext], Awaitable[Probed]]"
"""Finds out whether a call with these arguments and this idempotency key took place."""


def probed(answer: object) -> Probed:
    """The answer of a Python probe; raises ToolFailed for anything that is not one.

    >>> probed(TookPlace(3)), probed(False), probed(None)
    (TookPlace(value=3), False, None)
    """
    if isinstance(answer, TookPlace):
        return TookPlace(as_json(answer.value))
    if answer is False or answer is None:
        return answer
    raise ToolFailed(
        f"it returned {type(answer).__name__}; a probe returns TookPlace(value), False (it did not happen)"
        " or None (unknown)"
    )


def probed_json(answer: object) -> Probed:
    """The answer of a probing tool: `{"happened": true, "value": …}`, `{"happened": false}`, else unknown.

    >>> probed_json({"happened": True, "value": 3}), probed_json({"happened": False}), probed_json("yes")
    (TookPlace(value=3), False, None)
    """
    if not isinstance(answer, Mapping):
        return None
    fields = cast("Mapping[str, Any]", answer)
    match fields.get("happened"):
        case True if "value" in fields:
            return TookPlace(fields["value"])
        case False:
            return False
        case _:
            return None
