"""Loads the tools of a Python file: `--tools FILE.py`.

In: a path. Out: the declared tools in the order of the file, or a diagnostic with a place in it (CFG100 to
CFG105). The file is the user's code and is executed once; what it prints then goes to standard error, since
standard output has the answer of a command.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import CodeType, ModuleType

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.ports.python_tools.declare import described, is_tool, tool_of
from callsheet.ports.tools import Tool


def load_tools(path: Path) -> list[Tool]:
    """The tools declared with `@callsheet.tool` in a file, including imported ones.

    Raises CallsheetError if the file cannot be read (CFG100), is not Python (CFG101), fails during import
    (CFG102), declares no tool (CFG103), two of the same name (CFG104), or one that a plan cannot call
    (CFG105).
    """
    source = _read(path)
    code = _compile(source)
    module = _execute(path, source, code)
    functions = {id(value): value for value in vars(module).values() if is_tool(value)}
    if not functions:
        raise CallsheetError.single(
            "CFG103",
            f"{path} declares no tools",
            help="put `@callsheet.tool(effect=...)` above the functions that plans may call",
        )
    tools = [tool_of(function, origin=f"python:{path}") for function in functions.values()]
    _refuse_duplicates(path, tools)
    return tools


def load_function(path: Path, name: str) -> Callable[..., object] | None:
    """The function of this name in a file, None if there is none; raises as `load_tools` does."""
    source = _read(path)
    function = vars(_execute(path, source, _compile(source))).get(name)
    return function if callable(function) else None


def _read(path: Path) -> Source:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CallsheetError.single(
            "CFG100",
            f"the tools file {path} cannot be read: {error.strerror or error}",
            help="give the path of a Python file",
        ) from error
    from importlib.util import decode_source  # noqa: PLC0415 - only where tools are loaded

    if b"\0" in data:
        raise _not_python(str(path), "it holds null bytes")
    try:
        return Source(str(path), decode_source(data))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise CallsheetError.single(
            "CFG101", f"{path} is not a text in its declared encoding ({error})"
        ) from error


def _compile(source: Source) -> CodeType:
    try:
        return compile(source.text, source.name, "exec", dont_inherit=True)
    except SyntaxError as error:
        span = _place(source, error.lineno, error.offset, error.end_lineno, error.end_offset)
        raise CallsheetError([Diagnostic("CFG101", Severity.ERROR, error.msg, span)], source) from None
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise _not_python(source.name, why) from None


def _not_python(name: str, why: str) -> CallsheetError:
    return CallsheetError.single(
        "CFG101", f"{name} is not Python ({why})", help="give the path of a UTF-8 Python file"
    )


def _place(
    source: Source, line: int | None, column: int | None, end_line: int | None, end: int | None
) -> Span | None:
    if line is None:
        return None
    start = _offset(source, line) + max((column or 1) - 1, 0)
    if end_line and end and (end_line, end) > (line, column or 1):
        return Span(start, _offset(source, end_line) + end - 1)
    return Span(start, start + 1)


def _offset(source: Source, line: int) -> int:
    return sum(len(text) for text in source.text.splitlines(keepends=True)[: line - 1])


def _execute(path: Path, source: Source, code: CodeType) -> ModuleType:
    """Execute the file as a module with a private name, which its dataclasses and types refer to."""
    name = f"_callsheet_tools_{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):
            exec(code, vars(module))
    except CallsheetError as error:
        sys.modules.pop(name, None)
        place = _line_of(source, error)
        raise CallsheetError([_placed(d, place) for d in error.diagnostics], source) from None
    except KeyboardInterrupt:
        sys.modules.pop(name, None)
        raise
    except BaseException as error:  # SystemExit, and whatever else a file may raise
        sys.modules.pop(name, None)
        text = described(error)
        raise CallsheetError(
            [Diagnostic("CFG102", Severity.ERROR, f"the tools file fails: {text}", _line_of(source, error))],
            source,
        ) from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def _placed(diagnostic: Diagnostic, place: Span | None) -> Diagnostic:
    return Diagnostic(diagnostic.code, diagnostic.severity, diagnostic.message, place, help=diagnostic.help)


def _line_of(source: Source, error: BaseException) -> Span | None:
    """The line of the file that an exception passed through last."""
    import traceback  # noqa: PLC0415 - only for a file that fails

    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == source.name]
    if not lines or lines[-1] is None:
        return None
    text = source.line(lines[-1])
    start = _offset(source, lines[-1]) + len(text) - len(text.lstrip())
    return Span(start, start + max(len(text.strip()), 1))


def _refuse_duplicates(path: Path, tools: list[Tool]) -> None:
    names = [one.spec.name for one in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CallsheetError.single(
            "CFG104",
            f"{path} declares two tools called @{twice[0]}",
            help="give one of them another name: @callsheet.tool(name=...)",
        )
