"""Plans and results as notebooks show them (`_repr_html_`): no scripts, secrets masked, long values cut."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callsheet.api.plan import Plan
    from callsheet.api.result import RunResult

_COLUMNS = 120
_LONGEST = 10_000
"""The characters of a text that are shown; what is left out is said."""


def plan_html(plan: Plan) -> str:
    """The title of a plan and its drawing, as `callsheet graph` prints it."""
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - only where a plan is shown

    name = plan.title or plan.goal or (plan.source.name if plan.source is not None else "plan")
    return f"<b>{escape(name)}</b>{_pre(terminal_graph(plan.ir, columns=_COLUMNS).rstrip())}"


def result_html(result: RunResult) -> str:
    """How a run ended or what it waits for, its answer, variables and use; nothing of its secrets."""
    variables = (f"${name} = {_cut(text)}" for name, text in result.shown_items("variables"))
    rows = {
        "answer": _cut(result.shown("response")) if result.response else "",
        "error": _cut(result.shown("error")) if result.error else "",
        "failed steps": ", ".join(result.failed_steps),
        "waits for": "\n".join(ask.shown("headline") for ask in result.waiting),
        "in doubt": "\n".join(f"{call.step} @{call.tool}" for call in result.in_doubt),
        "variables": "\n".join(variables),
        "used": result.usage.describe(),
    }
    told = "".join(f"<tr><th>{name}</th><td>{_pre(text)}</td></tr>" for name, text in rows.items() if text)
    return f"<b>run {escape(result.run_id)}: {escape(result.outcome.words)}</b><table>{told}</table>"


def _cut(text: str) -> str:
    more = len(text) - _LONGEST
    return text if more <= 0 else f"{text[:_LONGEST]}… {more:,} more characters"


def _pre(text: str) -> str:
    return f'<pre style="text-align: left">{escape(text)}</pre>'
