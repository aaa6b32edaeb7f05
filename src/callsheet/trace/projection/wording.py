"""Words a visit for an LCTL trace: the name of its agent, its action with the facts it read, its error."""

from __future__ import annotations

from callsheet.ir import Call, Goto, Replan, Respond, Terminate
from callsheet.trace.projection.record import Outcome, Visit, Write
from callsheet.trace.projection.shown import MOST_OF_A_NAME, shown_text

CALLER = "caller"
"""The agent that starts a run and receives its answer."""
COMPILER = "compiler"
"""The agent that makes new plans."""
OPERATOR = "operator"
"""The agent that sets variables by hand."""

_MOST_FACTS = 8


def fact_id(write: Write) -> str:
    """The id of the fact for a write."""
    return f"F{write.number}"


def item_ids(write: Write) -> tuple[str, ...]:
    """The ids of the facts for the single results of a FOREACH."""
    return tuple(f"F{write.number}-{n}" for n in range(len(write.items)))


def agent_of(visit: Visit) -> str:
    """The name of a visit as an agent, such as `S3:@FETCH_PAGE`; unique within a run."""
    label = shown_text(visit.label, MOST_OF_A_NAME)
    return f"{label}:{_word(visit)}"


def _word(visit: Visit) -> str:
    if visit.step is None:
        return OPERATOR if visit.is_edit else COMPILER
    match visit.step.action:
        case Call(tool=tool):
            return f"@{shown_text(tool, MOST_OF_A_NAME)}"
        case Respond():
            return "RESPOND"
        case Terminate():
            return "TERMINATE"
        case Goto():
            return "GOTO"
        case Replan():
            return "RE-PLAN"


def action_of(visit: Visit) -> str:
    """What a visit did, with the facts that it read, and its outcome unless it succeeded."""
    parts = [_deed(visit)]
    if visit.control:
        parts.append(f"decided by {_named(visit.control)}")
    if visit.outcome is Outcome.SKIPPED:
        return f"SKIPPED: {visit.detail}" + (f"; {parts[-1]}" if visit.control else "")
    if visit.attempts > 1:
        parts[0] += f" ({visit.attempts} attempts)"
    if visit.failures:
        parts.append(f"{visit.failures} item{'' if visit.failures == 1 else 's'} failed")
    if visit.cast_failed:
        parts.append("the result did not fit its cast")
    summary = "; ".join(parts)
    return f"FAILED: {summary}" if visit.outcome in (Outcome.FAILED, Outcome.STOPPED) else summary


def _deed(visit: Visit) -> str:
    if visit.step is None:
        return visit.detail or "made a new plan"
    title = f" ({shown_text(visit.step.title, MOST_OF_A_NAME)})" if visit.step.title else ""
    of = f" of {_named(visit.data)}" if visit.data else ""
    items = ", for each item" if visit.step.foreach is not None else ""
    match visit.step.action:
        case Call(tool=tool):
            return f"called @{shown_text(tool, MOST_OF_A_NAME)}{of}{items}{title}"
        case Respond():
            return f"answered{of}{items}{title}"
        case Terminate():
            return f"ended the plan{of}{items}{title}"
        case Goto(target=target):
            return f"went to {shown_text(target, MOST_OF_A_NAME)}{title}"
        case Replan():
            return f"asked for a new plan{of}{title}"


def _named(writes: tuple[Write, ...]) -> str:
    shown = [f"${shown_text(write.var, MOST_OF_A_NAME)} ({fact_id(write)})" for write in writes[:_MOST_FACTS]]
    return ", ".join([*shown, *(["…"] if len(writes) > _MOST_FACTS else [])])


def error_of(visit: Visit) -> str | None:
    """The error of a visit that failed or was stopped; None otherwise, even if some items failed."""
    if visit.outcome is Outcome.FAILED:
        return visit.detail or "it failed"
    if visit.outcome is Outcome.STOPPED:
        return visit.detail or "it was under way when the run ended"
    return None
