"""What is particular to results of MCP servers: stored binary data, declared schemas, what is lost.

In: a CallToolResult. Out: remarks' figures, or ToolFailed if it does not match its declaration. Its value is
read by `callsheet.ports.answers`, as that of every tool.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from callsheet.machine.values import parse_json
from callsheet.passes.fitting import first_misfit
from callsheet.ports.answers import BlobSink, is_absent, structured_of, unwrapped
from callsheet.ports.calls import SCHEMA, ToolFailed

if TYPE_CHECKING:
    from mcp_types import CallToolResult


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


def has_blobs(result: CallToolResult) -> bool:
    """Whether the result contains binary data, so that converting it may write files."""
    return any(block.type in ("image", "audio", "resource") for block in result.content)


def check_declared(result: CallToolResult, output_schema: Mapping[str, Any] | None) -> None:
    """Raise ToolFailed if the structured content of a success does not match the tool's output schema.

    The schema is untrusted: nothing that it refers to is fetched, and whatever would take too long counts as
    fitting.
    """
    if result.is_error or output_schema is None:
        return
    if is_absent(structured_of(result)):
        raise ToolFailed("it declares structured content and returned none", in_doubt=True, kind=SCHEMA)
    misfit = first_misfit(result.structured_content, output_schema)
    if misfit is None:
        return
    why = f"its structured content{misfit.path[:_TOLD]} {misfit.verdict[:_TOLD]}"
    raise ToolFailed(why, in_doubt=True, kind=SCHEMA)


def unrepeated_texts(result: CallToolResult, output_schema: Mapping[str, Any] | None) -> int:
    """How many texts beside structured content do not repeat it and so are missing from the value."""
    structured = result.structured_content
    if structured is None:
        return 0
    value = unwrapped(result, output_schema)
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
