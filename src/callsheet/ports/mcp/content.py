"""Converts the result of an MCP call to the value that a plan sees.

In: a CallToolResult. Out: JSON, or ToolFailed with the server's text. Binary data is given to a sink and
referenced in the value by hash, size and reference; without a sink it stays in the value as base64.

The rules: structured content is the value (a wrapper `{"result": x}` gives x). Otherwise a single block
gives its value, several give a list, none gives null. A text block gives its text, even if the text is
JSON.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.machine.values import parse_json
from callsheet.passes.schema import Wrong, literal_value, misfits
from callsheet.ports.calls import ToolFailed

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

BlobSink: TypeAlias = Callable[[bytes], str]
"""Stores bytes and returns a reference to them; called in a thread."""


_TOLD = 200


def folder_sink(folder: Path) -> BlobSink:
    """A sink that writes files named by their SHA-256 into a folder and returns their paths.

    An existing symbolic link is not followed but replaced.
    """

    def keep(data: bytes) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / hashlib.sha256(data).hexdigest()
        if not _is_there(path, len(data)):
            part = path.with_name(f"{path.name}.{os.getpid()}.{id(data):x}.part")
            part.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
                file.write(data)
            part.replace(path)
        return str(path)

    return keep


def _is_there(path: Path, size: int) -> bool:
    """Whether there is a regular file of this size at a path."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def failure_text(result: CallToolResult) -> str:
    """The server's text about a failure."""
    texts = [block.text for block in result.content if block.type == "text" and block.text.strip()]
    return "\n".join(texts) or "the tool failed without a reason"


def has_blobs(result: CallToolResult) -> bool:
    """Whether the result contains binary data, so that converting it may write files."""
    return any(block.type in ("image", "audio", "resource") for block in result.content)


def value_of(result: CallToolResult, output_schema: Mapping[str, Any] | None, sink: BlobSink | None) -> JSON:
    """The value of a result; raises ToolFailed if the server reports a failure."""
    if result.is_error:
        raise ToolFailed(failure_text(result))
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        values = [_block(block, sink) for block in result.content]
        return values[0] if len(values) == 1 else values or None
    structured = _unwrapped(result.structured_content, output_schema)
    others = [_block(block, sink) for block in result.content if block.type != "text"]
    if not others:
        return structured
    # Texts beside structured content only repeat it; images and resources do not.
    structured_value = structured if isinstance(structured, dict) else {"result": structured}
    return {**structured_value, "_content": others}


def check_declared(result: CallToolResult, output_schema: Mapping[str, Any] | None) -> None:
    """Raise ToolFailed if the structured content of a success does not match the tool's output schema.

    The schema is untrusted: nothing that it refers to is fetched, and whatever would take too long counts as
    fitting.
    """
    if result.is_error or output_schema is None:
        return
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        raise ToolFailed("it declares structured content and returned none", in_doubt=True)
    misfit = next(misfits(literal_value(result.structured_content), output_schema, output_schema), None)
    if misfit is None:
        return
    say = {
        Wrong.VALUE: f"should be {misfit.wanted}",
        Wrong.MISSING: "is missing",
        Wrong.UNKNOWN: "is undeclared",
    }
    why = f"its structured content{misfit.path[:_TOLD]} {say[misfit.wrong][:_TOLD]}"
    raise ToolFailed(why, in_doubt=True)


def unrepeated_texts(result: CallToolResult, output_schema: Mapping[str, Any] | None) -> int:
    """How many texts beside structured content do not repeat it and so are missing from the value."""
    structured = result.structured_content
    if structured is None:
        return 0
    value = _unwrapped(structured, output_schema)
    contained = [structured, value, *(value if isinstance(value, list) else [])]
    texts = [block.text for block in result.content if block.type == "text" and block.text.strip()]
    parsed = [(text, parse_json(text)) for text in texts]
    return sum(not any(text == x or read == (True, x) for x in contained) for text, read in parsed)


def lost_numbers(result: CallToolResult) -> int:
    """How many numbers of the structured content JSON cannot express (NaN, infinities); they become null."""
    count, stack = 0, list[Any]([result.structured_content])
    while stack:
        value = stack.pop()
        if isinstance(value, float):
            count += not math.isfinite(value)
        elif isinstance(value, dict):
            stack.extend(cast("dict[str, Any]", value).values())
        elif isinstance(value, list):
            stack.extend(cast("list[Any]", value))
    return count


def _unwrapped(value: Any, schema: Mapping[str, Any] | None) -> JSON:
    """The value inside the wrapper that servers put around results that are not objects.

    Server libraries wrap them as `{"result": x}`: the schema then has this property alone.
    """
    if not isinstance(value, dict) or list(value) != ["result"] or schema is None:  # pyright: ignore[reportUnknownArgumentType]
        return value  # pyright: ignore[reportUnknownVariableType]
    properties = schema.get("properties")
    wrapped = schema.get("x-fastmcp-wrap-result") is True or (
        isinstance(properties, Mapping) and list(properties) == ["result"]  # pyright: ignore[reportUnknownArgumentType]
    )
    return value["result"] if wrapped else value  # pyright: ignore[reportUnknownVariableType]


def _block(block: ContentBlock, sink: BlobSink | None) -> JSON:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return {"type": block.type, "mimeType": block.mime_type, **_bytes(block.data, sink)}
        case "resource_link":
            return block.model_dump(mode="json", by_alias=True, exclude_none=True)
        case "resource":
            inner = block.resource
            out: dict[str, JSON] = {"type": "resource", "uri": str(inner.uri)}
            if inner.mime_type is not None:
                out["mimeType"] = inner.mime_type
            data = getattr(inner, "blob", None)
            return (
                {**out, **_bytes(data, sink)}
                if isinstance(data, str)
                else {**out, "text": getattr(inner, "text", "")}
            )


def _bytes(text: str, sink: BlobSink | None) -> dict[str, JSON]:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ToolFailed("the server sent bytes that are not base64") from None
    out: dict[str, JSON] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    if sink is None:
        out["data"] = text
    else:
        out["ref"] = sink(data)
    return out
