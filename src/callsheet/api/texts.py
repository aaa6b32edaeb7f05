"""Plan files as text, and canonical JSON as a plan, with a diagnostic for whatever is wrong."""

from __future__ import annotations

import json
import re
from typing import BinaryIO

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan, plan_from_json
from callsheet.ir.strict_json import NotJson, read_json

_IR_FIELD = re.compile(r'\s*\{\s*"ir"\s*:')
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
        said = f"it is not UTF-8 text (byte {error.start})"
        raise unreadable(name, said, "save it in the encoding UTF-8") from error


def unreadable(name: str, reason: str, way_out: str) -> CallsheetError:
    """The error that says why a plan cannot be read."""
    return CallsheetError.single("CFG012", f"the plan {name} cannot be read: {reason}", help=way_out)


def is_canonical_json(text: str) -> bool:
    """Whether a text is, or tries to be, a plan in callsheet's own JSON: an object with `ir`."""
    if '"ir"' not in text:
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _IR_FIELD.match(text) is not None
    return isinstance(data, dict) and "ir" in data


def plan_of_file(source: Source) -> Plan:
    """The plan in a file of JSON: canonical, or a JSON plan.

    Raises CallsheetError (CFG001, or DAG codes) with all that is wrong.
    """
    if is_canonical_json(source.text):
        return plan_of_json(source)
    return parse_dag(source.text, source.name).require()


def plan_of_json(source: Source) -> Plan:
    """The plan in a text of canonical JSON; raises CallsheetError (CFG001) where it is none."""
    try:
        return plan_from_json(read_json(source.text))
    except NotJson as error:
        span = None if error.at is None else Span(error.at, error.at + 1)
        wrong = Diagnostic("CFG001", Severity.ERROR, f"this is not JSON: {error}", span)
        raise CallsheetError([wrong], source) from error
