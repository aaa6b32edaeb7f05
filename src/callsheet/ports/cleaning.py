"""What a plan gets to see of a tool's result: the text that matters, not its wrapping.

Pure: the same result always cleans to the same value. Only three kinds are touched: results of
code, results of web searches and pages. Everything else is the value as the tool gave it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any, cast

from callsheet.ir import JSON

_SANDBOX_TOOLS = frozenset({"EXEC_CODE", "SHELL_EXEC", "HOST_EXEC"})
_SANDBOX_KEYS = frozenset(
    {"stdout", "stderr", "exit_code", "returncode", "return_code", "success", "isolation", "duration"}
)
_MAX_JSON_TEXT = 10_000_000
_MAX_PYTHON_TEXT = 1_000_000

CLEANED_TOOLS = _SANDBOX_TOOLS | {"WEB_SEARCH", "FETCH_PAGE"}
"""The tools whose results are not what a plan gets to see."""


def clean_output(tool: str, value: JSON) -> JSON:
    """The value that a plan's variable gets for the result of a tool (its canonical name).

    Never raises; what it does not know stays as it is.

    >>> clean_output("EXEC_CODE", {"stdout": "2026-04-28\\n", "stderr": "", "exit_code": 0})
    '2026-04-28'
    >>> clean_output("WEB_SEARCH", [{"title": "News", "url": "https://n.test/1", "snippet": "all"}])
    '1. News\\n   https://n.test/1\\n   all'
    >>> clean_output("READ_FILE", {"stdout": "kept"})
    {'stdout': 'kept'}
    """
    if tool in _SANDBOX_TOOLS:
        return _program_output(value)
    if tool == "WEB_SEARCH":
        return _titled_list(value)
    if tool == "FETCH_PAGE" and isinstance(value, str):
        return _page_text(value)
    return value


def _program_output(value: JSON) -> JSON:
    """Standard output without its last line end; errors too where they are all, or the program failed."""
    result = _sandbox_result(value)
    if result is None:
        return value
    stdout, stderr = _text(result.get("stdout")), _text(result.get("stderr"))
    code = next((result[k] for k in ("exit_code", "returncode", "return_code") if k in result), 0)
    if not stdout.strip() and stderr:
        return stderr.rstrip("\r\n")
    stdout = stdout.rstrip("\r\n")
    return f"{stdout}\n{stderr.rstrip()}" if code not in (0, None, "0") and stderr else stdout


def _sandbox_result(value: JSON) -> Mapping[str, Any] | None:
    """The result as a dict with text under `stdout`, also where it came as the text of one."""
    strict = False
    if isinstance(value, str):
        value = _written_dict(value)
        strict = True
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("stdout"), str | None)
        or "stdout" not in value
    ):
        return None
    if strict and not (
        {"stderr", "exit_code", "returncode"} & value.keys() and value.keys() <= _SANDBOX_KEYS
    ):
        return None  # JSON that a program printed for itself
    return value


def _written_dict(text: str) -> JSON:
    """What a text says that looks like a sandbox's result, in JSON or as Python writes a dict; else None."""
    start = text.lstrip()[:1]
    try:
        if start == "{" and '"stdout"' in text and len(text) <= _MAX_JSON_TEXT:
            return json.loads(text)
        if start == "{" and "'stdout'" in text and len(text) <= _MAX_PYTHON_TEXT:
            return cast("JSON", ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        pass
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _titled_list(value: JSON) -> JSON:
    rows: object = value.get("results") if isinstance(value, dict) else value
    if not isinstance(rows, list) or not rows:
        return value
    lines: list[str] = []
    for number, row in enumerate(cast("list[object]", rows), start=1):
        entry = _entry(row)
        if entry is None:
            return value
        lines.append(f"{number}. " + "\n   ".join(entry))
    return "\n".join(lines)


def _entry(row: object) -> list[str] | None:
    """Title, address and excerpt of a search result, or None if it is not one."""
    if not isinstance(row, dict):
        return None
    fields = cast("dict[str, object]", row)
    title, url = _first(fields, "title", "name"), _first(fields, "url", "link", "href")
    if not (title or url):
        return None
    excerpt = _first(fields, "snippet", "content", "description", "body", "text")
    return [part for part in (title, url, excerpt) if part]


def _first(fields: Mapping[str, object], *names: str) -> str:
    """The first of these fields that holds text, on one line."""
    return next((" ".join(t.split()) for n in names if (t := _text(fields.get(n))).strip()), "")


def _page_text(value: str) -> str:
    from callsheet.ports.builtin.html import looks_like_html, to_markdown  # noqa: PLC0415 - seldom needed

    if not looks_like_html(value):
        return value
    try:
        return to_markdown(value)
    except Exception:  # a page that no parser understands is still text
        return value
