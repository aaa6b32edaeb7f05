"""What is kept of an outcome: the text of a result that a plan needs, and where Python code raised an error.

Pure: the same result always gives the same value. Results of other tools are left unchanged.

In: the exception. Out: its traceback as text of bounded length, without the frames of callsheet and of the
event loop, which are the same for every call.
"""

from __future__ import annotations

import ast
import json
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.machine import Cut, Fact, Remark
from callsheet.machine.events import SAME_PLACE, TRACEBACK

_SANDBOX_TOOLS = frozenset({"EXEC_CODE", "SHELL_EXEC", "HOST_EXEC"})
_SANDBOX_KEYS = frozenset(
    {"stdout", "stderr", "exit_code", "returncode", "return_code", "success", "isolation", "duration"}
)
_FIELDS = (
    ("title", "name"),
    ("url", "link", "href"),
    ("snippet", "content", "description", "body", "text"),
)
"""The field names that services use for the title, the URL and the excerpt of a result."""
_MAX_JSON_TEXT = 10_000_000
_MAX_PYTHON_TEXT = 1_000_000

CLEANED_TOOLS = _SANDBOX_TOOLS | {"WEB_SEARCH", "FETCH_PAGE"}
"""The tools whose results are cleaned before a plan sees them."""
LISTED_TOOLS = frozenset({"WEB_SEARCH"})
"""Those whose rows become a text, unless the plan casts the result to a list or to JSON."""


def clean_output(tool: str, value: JSON, *, as_data: bool = False) -> JSON:
    """The value that a plan's variable gets for a result of the tool with this canonical name.

    With `as_data` rows of a search are kept as data. Never raises; results in an unknown shape are returned
    unchanged.

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
    """Remarks on what `clean_output` left out of a result.

    >>> left_out("EXEC_CODE", {"stdout": "7", "stderr": "slow!", "exit_code": 0}, "7")
    [Cut(what='stderr', kept=0, whole=5, unit='characters')]
    """
    if tool in _SANDBOX_TOOLS:
        return _unprinted(value, cleaned)
    if tool == "WEB_SEARCH":
        names = _unlisted_fields(value)
        return [Fact("left out", ", ".join(names))] if names else []
    if tool == "FETCH_PAGE" and isinstance(value, str) and isinstance(cleaned, str):
        from callsheet.ports.builtin.html import conversion  # noqa: PLC0415 - seldom needed

        return [conversion(value, cleaned)]
    return []


def _unprinted(value: JSON, cleaned: JSON) -> list[Remark]:
    """Remarks on standard error that is not in the cleaned output, and on the isolation that was used."""
    result = _sandbox_result(value)
    if result is None:
        return []
    remarks: list[Remark] = []
    stderr, isolation = _text(result.get("stderr")).rstrip(), _text(result.get("isolation"))
    if stderr and not (isinstance(cleaned, str) and cleaned.endswith(stderr)):
        remarks.append(Cut("stderr", 0, len(stderr), "characters"))
    if isolation:
        remarks.append(Fact("isolation", isolation))
    return remarks


def _unlisted_fields(value: JSON) -> list[str]:
    """The names of the non-empty fields of a search result that its titled list leaves out."""
    rows: Any = value.get("results") if isinstance(value, dict) else value
    beside = (
        [name for name, content in value.items() if name != "results" and content]
        if isinstance(value, dict)
        else []
    )
    named: dict[str, None] = dict.fromkeys(beside)
    for row in cast("list[dict[str, Any]]", rows):
        used = [next((n for n in names if _text(row.get(n)).strip()), "") for names in _FIELDS]
        named.update(dict.fromkeys(name for name, text in row.items() if text and name not in used))
    return list(named)


def _program_output(value: JSON) -> JSON:
    """Standard output without trailing line breaks; with errors if they are all or the program failed."""
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
    """The result as a dict with a text `stdout`, parsed from text if need be; None if it is not one."""
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
        return None  # JSON that the program printed as its own output
    return value


def _written_dict(text: str) -> JSON:
    """A sandbox result that was serialised as JSON or as a Python dict; None if the text is not one."""
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
    """The rows of a search, whether given directly or under `results`."""
    rows = value.get("results") if isinstance(value, dict) else None
    return rows if isinstance(rows, list) else value


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
    """Title, URL and excerpt of a search result, or None if it is not one."""
    if not isinstance(row, dict):
        return None
    fields = cast("dict[str, object]", row)
    title, url, excerpt = (_first(fields, *names) for names in _FIELDS)
    if not (title or url):
        return None
    return [part for part in (title, url, excerpt) if part]


def _first(fields: Mapping[str, object], *names: str) -> str:
    """The first of these fields that holds a text, on one line."""
    return next((" ".join(t.split()) for n in names if (t := _text(fields.get(n))).strip()), "")


def _page_text(value: str) -> str:
    from callsheet.ports.builtin.html import looks_like_html, to_markdown  # noqa: PLC0415 - seldom needed

    if not looks_like_html(value):
        return value
    try:
        return to_markdown(value)
    except Exception:  # a page that no parser understands is still text
        return value


_PACKAGE = str(Path(__file__).resolve().parent.parent)
_CARRIERS = tuple(str(Path(traceback.__file__).parent / name) for name in ("asyncio", "concurrent"))
"""The standard library's own frames between callsheet and a function that runs in a thread or a task."""
_MOST_FRAMES = 30
_MOST_CHARACTERS = 6_000


class Tracebacks:
    """The remarks on the exceptions of one run; one that was raised at the same place before refers to it."""

    def __init__(self) -> None:
        self._first: dict[tuple[tuple[str, int], ...], str] = {}

    def remark(self, error: BaseException, key: str) -> Fact:
        """The remark on an exception that ended the call with this key."""
        place = tuple((frame.filename, frame.lineno or 0) for frame in _own_frames(_summary(error)))
        first = self._first.setdefault(place, key)
        return Fact(TRACEBACK, traceback_text(error) if first == key else f"{SAME_PLACE}{first}")


def traceback_text(error: BaseException) -> str:
    """The traceback of an exception and of its causes, the start left out if it is too long."""
    try:
        shown = traceback.TracebackException.from_exception(error, limit=-_MOST_FRAMES)
        for part in _chain(shown):
            part.stack = traceback.StackSummary.from_list(_own_frames(part.stack))
        text = "".join(shown.format()).strip()
    except Exception:  # of a class whose own methods fail
        text = f"{type(error).__name__}: its traceback is not available"
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"… ({len(text) - _MOST_CHARACTERS:,} characters before this left out)\n{text[-_MOST_CHARACTERS:]}"


def _summary(error: BaseException) -> traceback.StackSummary:
    """The frames of an exception, without reading any source."""
    frames = traceback.walk_tb(error.__traceback__)
    return traceback.StackSummary.extract(frames, limit=-_MOST_FRAMES, lookup_lines=False)


def _chain(shown: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """The exception with its causes, the contexts in which it was raised, and the members of groups."""
    stack: list[traceback.TracebackException] = [shown]
    while stack:
        part = stack.pop()
        yield part
        stack += [each for each in (part.__cause__, part.__context__) if each is not None]
        stack += getattr(part, "exceptions", None) or ()


def _own_frames(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames of the tool: those from its first on that are not callsheet's; all if they all are."""
    of_others = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    while of_others and of_others[0].filename.startswith(_CARRIERS):
        del of_others[0]
    return of_others or list(frames)
