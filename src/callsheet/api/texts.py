"""Plan files as text, and canonical JSON as a plan, with a diagnostic for whatever is wrong."""

from __future__ import annotations

import json
from typing import BinaryIO

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.ir import Plan, plan_from_json

_MAX_BYTES = 100_000_000


def read_text(file: BinaryIO, name: str, way_out: str) -> str:
    """The text of an open file; `name` is what a message calls it, `way_out` what it advises.

    Raises CallsheetError (CFG012) for what is larger than 100 MB or no UTF-8; OSError as the
    file raises it.
    """
    data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise unreadable(name, f"it is larger than {_MAX_BYTES // 1_000_000} MB", way_out)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(name, f"it is not UTF-8 text (byte {error.start})", way_out) from error


def unreadable(name: str, reason: str, way_out: str) -> CallsheetError:
    """The error that says why a plan cannot be read."""
    return CallsheetError.single("CFG012", f"the plan {name} cannot be read: {reason}", help=way_out)


def plan_of_json(source: Source) -> Plan:
    """The plan in a text of canonical JSON; raises CallsheetError (CFG001) where it is none."""
    try:
        return plan_from_json(json.loads(source.text))
    except json.JSONDecodeError as error:
        message, span = f"this is not JSON: {error.msg}", Span(error.pos, error.pos + 1)
        raise CallsheetError([Diagnostic("CFG001", Severity.ERROR, message, span)], source) from error
    except RecursionError as error:
        wrong = Diagnostic("CFG001", Severity.ERROR, "this JSON is nested too deep")
        raise CallsheetError([wrong], source) from error
