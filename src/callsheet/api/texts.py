"""Reads plan files and canonical JSON, with a diagnostic for everything that can go wrong."""

from __future__ import annotations

import codecs
import json
import os
from hashlib import sha256
from typing import BinaryIO

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.ir import JSON, Plan, plan_from_json
from callsheet.ir.strict_json import NotJson, read_json

_IR_FIELD = lazy.pattern(r'\s*\{\s*"ir"\s*:')
_MAX_BYTES = 100_000_000


def read_text(file: BinaryIO, name: str, hint: str) -> str:
    """The text of an open file; `name` and `hint` (the help) are for error messages.

    Raises CallsheetError (CFG012) for more than 100 MB or text that is not UTF-8; OSError as the file does.
    """
    data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise unreadable(name, f"it is larger than {_MAX_BYTES // 1_000_000} MB", hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        what_it_is = "it is UTF-16 text" if is_utf16 else f"it is not UTF-8 text (byte {error.start})"
        raise unreadable(name, what_it_is, "save it in the encoding UTF-8") from error


def unreadable(name: str, reason: str, hint: str) -> CallsheetError:
    """The error for a plan that cannot be read (CFG012)."""
    return CallsheetError.single("CFG012", f"the plan {name} cannot be read: {reason}", help=hint)


def is_canonical_json(text: str) -> bool:
    """Whether a text is canonical JSON (an object with `ir`), or looks like a broken version of it."""
    if '"ir"' not in text:
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _IR_FIELD.match(text) is not None
    return isinstance(data, dict) and "ir" in data


def plan_of_file(source: Source) -> Plan:
    """The plan in a JSON file, either canonical or a JSON plan.

    Raises CallsheetError (CFG001, or DAG codes) with all errors.
    """
    if is_canonical_json(source.text):
        return plan_of_json(source)
    from callsheet.frontends.dag import parse_dag  # noqa: PLC0415 - only for a JSON plan

    return parse_dag(source.text, source.name).require()


def plan_of_json(source: Source) -> Plan:
    """The plan in canonical JSON text; raises CallsheetError (CFG001) if it is not one."""
    try:
        return plan_from_json(read_json(source.text))
    except NotJson as error:
        span = None if error.at is None else Span(error.at, error.at + 1)
        wrong = Diagnostic("CFG001", Severity.ERROR, f"this is not JSON: {error}", span)
        raise CallsheetError([wrong], source) from error


def file_note(path: str | os.PathLike[str], text: str, syntax: str | None) -> dict[str, JSON]:
    """What a run records of the file that its plan came from, to find out whether it was edited since.

    `syntax` is the syntax that the file was read in; None if its name decides.
    """
    return {"path": os.path.abspath(path), "sha256": text_hash(text), "syntax": syntax}


def text_hash(text: str) -> str:
    """The hash of the text of a plan's file."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
