"""Renders questions to people and requests for approval as text.

What a person approves is never shortened, and contains no terminal control sequences.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from callsheet.apps.rendering.timestamps import iso
from callsheet.apps.rendering.values import exact_json, without_controls
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.argument_remarks import misleading_letters, origins


def question_lines(ask: PendingAsk, hint: str = "") -> Iterator[str]:
    """The question, and last the command that answers it; `hint` is that command's option for the journal."""
    until = "" if ask.until is None else f", until {iso(ask.until)}"
    yield f"{ask.run_id}  {ask.key}  since {iso(ask.since)}{until}"
    if ask.kind == "approval":
        if ask.answer:
            yield f"  may the answer of @{ask.tool} be used?"
            yield f"    {exact_json(ask.answer[0])}"
            yield "  it was called with"
        else:
            yield f"  may @{ask.tool} be called with exactly this?"
        for number, value in enumerate(ask.inputs, start=1):
            yield f"    ({number}) {exact_json(value)}"
        for name, value in (ask.args or {}).items():
            yield f"    {name} = {exact_json(value)}"
        for line in misleading_letters(ask):
            yield f"  {without_controls(line)}"
        if not ask.args and not ask.inputs:
            yield "    (no arguments)"
        for why in ask.why:
            yield f"  because {without_controls(why)}"
        for line in origins(ask):
            yield f"  {without_controls(line)}"
    else:
        for line in without_controls(ask.prompt).splitlines() or [""]:
            yield f"  {line}"
        if ask.options:
            yield "    one of " + ", ".join(map(exact_json, ask.options))
        if ask.schema is not None:
            yield f"    JSON of the schema {exact_json(dict(ask.schema))}"
    yield f"  {_command(ask, hint)}"


def _command(ask: PendingAsk, hint: str) -> str:
    if ask.is_answered:
        return f"answered; continue with: callsheet resume {ask.run_id}{hint}"
    if ask.until is not None and time.time() >= ask.until:
        return f"its time has run out; continue without an answer: callsheet resume {ask.run_id}{hint}"
    needs_more = bool(ask.options) or ask.schema is not None
    answer = " --answer …" if needs_more else "" if ask.kind == "approval" else " [--answer …]"
    return f"callsheet approve {ask.run_id} {ask.key}{hint}{answer}   or with --deny"
