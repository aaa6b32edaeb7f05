"""Notes keys that are repeated in an answer of a server, of which the parser silently takes the last.

In: the line of a message, and the parsed message. Out: the message with the names of these keys in its
`_meta`, and the names from there. Answers of servers at a URL are parsed elsewhere and not examined.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_NAME = "dev.callsheet/repeated-keys"
_MOST_BYTES = 1024 * 1024
"""Longer messages are not examined: that takes several times as long as parsing them."""
_NAMED = 5
_TOLD = 80


def note_repeated_keys(line: bytes, message: Any) -> None:
    """Note in a parsed message which keys of its structured content are repeated."""
    if b'"structuredContent"' not in line or len(line) > _MOST_BYTES:
        return
    result = getattr(message, "result", None)
    if not isinstance(result, dict):
        return
    found = _repeated(line)
    if found:
        fields = cast("dict[str, Any]", result)
        meta = fields.get("_meta")
        fields["_meta"] = {**(cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}), _NAME: found}


def repeated_keys_of(result: CallToolResult) -> str:
    """The repeated keys that were noted in a result, as text; empty if there are none."""
    noted: Any = (result.meta or {}).get(_NAME)
    return noted[: _NAMED * (_TOLD + 4)] if isinstance(noted, str) else ""


def _repeated(line: bytes) -> str:
    names: dict[str, None] = {}

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) < len(found):
            seen: set[str] = set()
            names.update((key, None) for key, _ in found if key in seen or seen.add(key))
        return made

    try:
        json.loads(line, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(json.dumps(name[:_TOLD]) for name in list(names)[:_NAMED]) + more
