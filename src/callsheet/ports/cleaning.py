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
from callsheet.machine import Cut, Fact, Remark

_SANDBOX_TOOLS = frozenset({"EXEC_CODE", "SHELL_EXEC", "HOST_EXEC"})
_SANDBOX_KEYS = frozenset(
    {"stdout", "stderr", "exit_code", "returncode", "return_code", "success", "isolation", "duration"}
)
_FIELDS = (
    ("title", "name"),
    ("url", "link", "href"),
    ("snippet", "content", "description", "body", "text"),
)
"""What services call the title, the address and the excerpt of a result."""
_MAX_JSON_TEXT = 10_000_000
_MAX_PYTHON_TEXT = 1_000_000

CLEANED_TOOLS = _SANDBOX_TOOLS | {"WEB_SEARCH", "FETCH_PAGE"}
"""The tools whose results are not what a plan gets to see."""
LISTED_TOOLS = frozenset({"WEB_SEARCH"})
"""Those whose rows become a text; a plan that casts them to a list or to JSON gets the rows."""


def clean_output(tool: str, value: JSON, *, as_data: bool = False) -> JSON:
    """The value that a plan's variable gets for the result of a tool (its canonical name).

    `as_data` says that the plan wants rows as they are. Never raises; what it does not know
    stays as it is.

    >>> clean_output("EXEC_CODE", {"stdout": "2026-04-28\\n", "stderr": "", "exit_code": 0})
    '2026-04-28'
    >>> clean_output("WEB_SEARCH", [{"title": "News", "url": "https://n.test/1", "snippet": "all"}])
    '1. News\\n   https://n.test/1\\n   all'
    >>> clean_output("WEB_SEARCH", {"results": [{"title": "News"}]}, as_data=True)
    [{'title': 'News'}]
    >>> clean_output("READ_FILE", {"stdout": "kept"})
    {'stdout': 'kept'}
    """
    if tool in _SANDBOX_TOOLS:
        return _program_output(value)
    if tool == "WEB_SEARCH":
        return _rows(value) if as_data else _titled_list(value)
    if tool == "FETCH_PAGE" and isinstance(value, str):
        return _page_text(value)
    return value


def left_out(tool: str, value: JSON, cleaned: JSON) -> list[Remark]:
    """What is to be known of a result that was cleaned: which parts of it are not told.

    >>> left_out("EXEC_CODE", {"stdout": "7", "stderr": "slow!", "exit_code": 0}, "7")
    [Cut(what='stderr', kept=0, whole=5, unit='characters')]
    """
    if tool in _SANDBOX_TOOLS:
        return _unprinted(value, cleaned)
    if tool == "WEB_SEARCH":
        names = _untold_fields(value)
        return [Fact("left out", ", ".join(names))] if names else []
    if tool == "FETCH_PAGE" and isinstance(value, str) and isinstance(cleaned, str):
        from callsheet.ports.builtin.html import conversion  # noqa: PLC0415 - seldom needed

        return [conversion(value, cleaned)]
    return []


def _unprinted(value: JSON, cleaned: JSON) -> list[Remark]:
    """The errors that are not in a program's output, and what else its result says of the run."""
    result = _sandbox_result(value)
    if result is None:
        return []
    told: list[Remark] = []
    stderr, isolation = _text(result.get("stderr")).rstrip(), _text(result.get("isolation"))
    if stderr and not (isinstance(cleaned, str) and cleaned.endswith(stderr)):
        told.append(Cut("stderr", 0, len(stderr), "characters"))
    if isolation:
        told.append(Fact("isolation", isolation))
    return told


def _untold_fields(value: JSON) -> list[str]:
    """The names of what a search found and its titled list does not tell."""
    rows: Any = value.get("results") if isinstance(value, dict) else value
    beside = (
        [name for name, said in value.items() if name != "results" and said]
        if isinstance(value, dict)
        else []
    )
    named: dict[str, None] = dict.fromkeys(beside)
    for row in cast("list[dict[str, Any]]", rows):
        told = [next((n for n in names if _text(row.get(n)).strip()), "") for names in _FIELDS]
        named.update(dict.fromkeys(name for name, said in row.items() if said and name not in told))
    return list(named)


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


def _rows(value: JSON) -> JSON:
    """The rows of a search, also where they stand under `results`."""
    found = value.get("results") if isinstance(value, dict) else None
    return found if isinstance(found, list) else value


def _titled_list(value: JSON) -> JSON:
    rows = _rows(value)
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
    title, url, excerpt = (_first(fields, *names) for names in _FIELDS)
    if not (title or url):
        return None
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
