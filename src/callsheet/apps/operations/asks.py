"""Questions of runs to people, and calls to approve, as data with their place in the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from callsheet.apps.rendering.runs import misleading_in, partial_json
from callsheet.apps.rendering.values import iso

if TYPE_CHECKING:
    from callsheet.apps.operations.runs import AskRow, SiteRow
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.program_question import FurtherCall, ProgramQuestion
    from callsheet.views.call_site import CallSite


def ask_json(ask: PendingAsk, program: ProgramQuestion | None = None) -> AskRow:
    """A pending question or approval, as data; `program` is what the plan will ask besides."""
    data: dict[str, Any] = {
        "run_id": ask.run_id,
        "key": ask.key,
        "step": ask.step,
        "kind": ask.kind,
        "since": iso(ask.since),
        "until": None if ask.until is None else iso(ask.until),
        "answered": ask.is_answered,
        "digest": ask.digest,
    }
    if ask.kind == "approval":
        data |= {
            "tool": ask.tool,
            "args": dict(ask.args or {}),
            "inputs": list(ask.inputs),
            "plan_hash": ask.plan_hash,
            "why": list(ask.why),
            "labels": dict(ask.labels or {}),
            **({"answer": ask.answer[0]} if ask.answer else {}),
        }
    else:
        schema = None if ask.schema is None else dict(ask.schema)
        data |= {"prompt": ask.prompt, "options": list(ask.options), "schema": schema}
    if ask.role:
        data["role"] = ask.role
    if ask.site is not None:
        data["site"] = _site_json(ask.site)
    if program is not None:
        data["program"] = {
            "hash": program.digest,
            "calls": [_further_json(call) for call in program.calls],
            "more": program.more,
        }
    return cast("AskRow", data)


def _site_json(site: CallSite) -> SiteRow:
    return {"tool": site.tool, "lines": [{"line": number, "text": text} for number, text in site.lines]}


def _further_json(call: FurtherCall) -> dict[str, Any]:
    """A further call as data; what is not known completely is a text with ‹ ›, under `unknown`."""
    from callsheet.runtime.program_question import is_whole  # noqa: PLC0415 - only where a plan asks

    return {
        "key": call.key,
        "step": call.step,
        "tool": call.tool,
        "args": {name: value for name, value in call.arguments if is_whole(value)},
        "unknown": {
            name: partial_json(value, call.words) for name, value in call.arguments if not is_whole(value)
        },
        "why": list(call.why),
        "letters": list(misleading_in(call)),
        "sure": call.is_sure,
        "alone": call.alone,
        **({} if call.site is None else {"site": _site_json(call.site)}),
    }
