"""Renders calls in doubt and unanswered calls, with the commands that resolve them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from callsheet.apps.rendering.timestamps import iso
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.diagnostics import CODES

if TYPE_CHECKING:
    from callsheet.runtime.doubt import DoubtfulCall

_DECISIONS = (
    ("retry", "make the call again"),
    ("skip", "continue as if it had returned null"),
    ("fail", "treat it as failed"),
    ("'value=…'", "it took place and returned this (JSON)"),
)


def pending_call_lines(calls: Sequence[DoubtfulCall]) -> list[str]:
    """The calls that were sent without an answer, each with its arguments and start time."""
    if not calls:
        return []
    subject = "1 call was sent" if len(calls) == 1 else f"{len(calls)} calls were sent"
    lines = [f"{subject} without an answer; whether it took place is unknown:"]
    now = time.time()
    for call in calls:
        args = ", ".join(f"{name}={preview(value, 80)}" for name, value in call.args.items())
        attempt = f", attempt {call.attempt}" if call.attempt > 1 else ""
        ago = format_seconds(max(0.0, now - call.since))
        lines.append(
            f"  {call.key}  {_tool_name(call.tool)} ({args})  started {iso(call.since)} ({ago} ago{attempt})"
        )
        lines.append(f"    {_shorten_middle(call.why)}")
    return lines


def _tool_name(tool: str) -> str:
    return tool if tool == "RE-PLAN" else f"@{tool}"


def _shorten_middle(why: str) -> str:
    """A reason on one line; the middle of a long one is cut, since its end has a server's last output.

    >>> _shorten_middle("it ended; it last wrote:\\n" + "noise " * 100 + "fatal: no disk")[-25:]
    'oise noise fatal: no disk'
    """
    text = preview(why, len(why))
    return text if len(text) <= 200 else f"{text[:90]} … {text[-107:]}"


def doubt_lines(calls: Sequence[DoubtfulCall], run_id: str, hint: str) -> list[str]:
    """The calls in doubt, and the commands that resolve them."""
    lines = pending_call_lines(calls)
    which = shlex.quote(calls[0].key) if len(calls) == 1 else "KEY"
    commands = [
        (f"callsheet decide {run_id} {which} {decision}{hint}", means) for decision, means in _DECISIONS
    ]
    width = max(len(command) for command, _ in commands)
    return [
        *lines,
        "check whether it did, then decide:",
        *(f"  {command:<{width}}  {means}" for command, means in commands),
        f"then resume: callsheet resume {run_id}{hint}",
        f"all at once: callsheet resume {run_id}{hint} --in-doubt retry (or skip, fail, 'value=…')",
    ]


def unanswered_lines(calls: Sequence[DoubtfulCall], run_id: str, hint: str) -> list[str]:
    """The calls without an answer of their model, the reasons, and the commands to continue."""
    lines = [f"{call.key}  {_tool_name(call.tool)} has no answer: {preview(call.why, 400)}" for call in calls]
    codes = dict.fromkeys(code for call in calls if (code := call.why.partition(":")[0]) in CODES)
    key = shlex.quote(calls[0].key) if len(calls) == 1 else "KEY"
    return [
        *lines,
        *(f"what to do about it: callsheet explain {code}" for code in codes),
        f"nothing is lost; ask again with: callsheet resume {run_id}{hint} (--model asks another one)",
        f"or continue without: callsheet decide {run_id} {key} skip{hint} (or fail, 'value=…'), then resume",
    ]
