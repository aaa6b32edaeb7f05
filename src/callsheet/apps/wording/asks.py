"""The questions to people in words, the same in every application.

Nothing that a person says yes to is shortened, and nothing in it can move a terminal's cursor.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

from callsheet.apps.wording.moments import iso
from callsheet.apps.wording.values import exact, without_controls
from callsheet.ir import JSON
from callsheet.runtime.answers import PendingAsk
from callsheet.views.lookalikes import lookalikes


def lines_of(ask: PendingAsk, hint: str = "") -> Iterator[str]:
    """What is asked, and the command that answers it; `hint` is what that needs to find the journal."""
    until = "" if ask.until is None else f", until {iso(ask.until)}"
    yield f"{ask.run_id}  {ask.key}  since {iso(ask.since)}{until}"
    if ask.kind == "approval":
        if ask.answer:
            yield f"  may the answer of @{ask.tool} be used?"
            yield f"    {exact(ask.answer[0])}"
            yield "  it was called with"
        else:
            yield f"  may @{ask.tool} be called with exactly this?"
        for number, value in enumerate(ask.inputs, start=1):
            yield f"    ({number}) {exact(value)}"
        for name, value in (ask.args or {}).items():
            yield f"    {name} = {exact(value)}"
        for name, words in _forged(ask):
            yield f"  {name} has letters that look like Latin ones: {', '.join(words)}"
        if not ask.args and not ask.inputs:
            yield "    (no arguments)"
        for why in ask.why:
            yield f"  because {without_controls(why)}"
        for name, label in (ask.labels or {}).items():
            yield f"  {name} {_came(label)}"
    else:
        for line in without_controls(ask.prompt).splitlines() or [""]:
            yield f"  {line}"
        if ask.options:
            yield "    one of " + ", ".join(map(exact, ask.options))
        if ask.schema is not None:
            yield f"    of the schema {exact(dict(ask.schema))}"
    yield f"  {_command(ask, hint)}"


def _forged(ask: PendingAsk) -> Iterator[tuple[str, list[str]]]:
    """The arguments with words that read as others than they are, and these words."""
    for name, value in [*(ask.args or {}).items(), *((f"({n})", v) for n, v in enumerate(ask.inputs, 1))]:
        words = [without_controls(word) for word in lookalikes(value)]
        if words:
            yield without_controls(name), words


def _came(origin: JSON) -> str:
    """Where an argument came from and who may read it, by what the question tells of it."""
    if not isinstance(origin, dict):
        return f"is known as {exact(origin)}"
    known = cast("dict[str, JSON]", origin)
    label, steps = str(known.get("label")), known.get("from")
    made_by = ", ".join(map(str, steps)) if isinstance(steps, list) else ""
    by = f"was made by {made_by}" if made_by else "is not the plan's own"
    return without_controls(f"{by}: {_MEANINGS.get(label, '')}{label}")


_MEANINGS = {
    "U/pub": "anybody may have written it and may read it, ",
    "U/priv": "anybody may have written it, not everybody may read it, ",
    "T/priv": "not everybody may read it, ",
    "U/secret": "anybody may have written it, nobody may read it, ",
    "T/secret": "nobody may read it, ",
}


def _command(ask: PendingAsk, hint: str) -> str:
    if ask.is_answered:
        return f"answered; it goes on with: callsheet resume {ask.run_id}{hint}"
    if ask.until is not None and time.time() >= ask.until:
        return f"its time is over; it goes on without an answer with: callsheet resume {ask.run_id}{hint}"
    needs_more = bool(ask.options) or ask.schema is not None
    answer = " --answer …" if needs_more else "" if ask.kind == "approval" else " [--answer …]"
    return f"callsheet approve {ask.run_id} {ask.key}{hint}{answer}   or with --deny"
