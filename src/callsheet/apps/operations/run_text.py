"""What happened in a run, as lines of text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from callsheet import lazy
from callsheet.apps.operations.runs import INTERRUPTED, PAUSED, shown_outcome
from callsheet.apps.rendering.runs import (
    count_events,
    doubt_lines,
    failures_line,
    pending_call_lines,
    unanswered_lines,
)
from callsheet.apps.rendering.values import format_seconds, iso, preview
from callsheet.machine.events import RESULT, TRACEBACK
from callsheet.machine.notes import ASKED, IN_TURN
from callsheet.views.columns import cut, pad, printable, printable_lines
from callsheet.views.describe import LTP, ActionTexts, Wording, describe_action, wording_of

if TYPE_CHECKING:
    from callsheet.apps.operations.runs import RunDetails
    from callsheet.store.chain import BadEvent
    from callsheet.trace.visits import Account, LateAnswer, Visit

_ACTION_WIDTH = 36
_MOST_REMARKS = 3
_MOST_STEP = 28
_MOST_VISITS = 60
"""From this many visits on, the items and rounds of a tree are folded."""
_LATER = lazy.pattern(r"\[(?:[3-9]|[1-9][0-9]+|#[4-9]|#[1-9][0-9]+)\]")
"""An item but the first three, or a round but these."""
_MOST_TURNS = 40
_LONGEST_TURN = 500
"""The most characters of a turn: a refusal has a rule, a flow and a way out."""
_MOST_ANSWERS = 3
_MARKS = {"ok": "✓", "failed": "✗", "skipped": "–", "running": "…", "stopped": "✗"}


def run_detail_lines(details: RunDetails, hint: str = "") -> Iterator[str]:
    """The lines of a run's details; `hint` is the option with which further commands find the journal."""
    info, account = details.info, details.account
    yield f"run      {info.run_id}"
    yield f"status   {status_words(details)}"
    yield f"plan     {preview(details.plan, 100)}  ({info.plan_hash[:12]})"
    now = time.time() if details.status == "running" else None
    duration = (info.updated if now is None else now) - info.created
    so_far = "" if now is None else " so far"
    took = f" ({format_seconds(duration)}{so_far})" if duration >= 0 else ""  # the clock was set back
    yield f"time     {iso(info.created)} to {iso(info.updated)}{took}"
    yield f"journal  {details.journal}, {count_events(info.events)}, {chain_in_words(details.bad)}"
    if details.tags:
        yield f"tags     {', '.join(f'{name}={value}' for name, value in details.tags.items())}"
    if details.origin is not None:
        yield f"from     {details.origin.describe()}"
    for child in details.children:
        outcome = shown_outcome(child, child.status).replace("_", " ")
        yield f"child    {child.run_id}, from event {child.forked_at}, {outcome}"
    yield f"used     {account.folded.usage().describe()}"
    yield from _observed(account)
    yield ""
    waiting_words = {call.step: "in doubt" for call in details.in_doubt}
    waiting_words |= {ask.step: "asks" for ask in details.asks if not ask.is_answered}
    if details.pause is not None:
        waiting_words = {visit.step: "paused" for visit in account.steps} | waiting_words
    is_tree = account.folded.machine.program.plan.tree is not None
    statements = [ActionTexts(plan, _ACTION_WIDTH) for plan in account.plans] if is_tree else []
    shown, folded = _unfolded(account.steps) if is_tree else (account.steps, 0)
    width = min(max((len(visit.step) for visit in shown), default=0), _MOST_STEP)
    for visit in shown:
        action = "" if visit.action is None else describe_action(visit.action)
        action = statements[visit.plan].of(visit.step) if is_tree else cut(action, _ACTION_WIDTH)
        words = statements[visit.plan].words if is_tree else LTP
        yield _step_line(visit, action, _mark_and_word(visit, waiting_words), now, width, words)
        for turn in _turns(visit):
            yield f"      {turn}"
    if folded:
        yield f"  and {folded:,} more steps of items and rounds, which are done (--json has them all)"
    for warning in (*account.warnings, *_remarks(account)):
        yield f"warning: {warning}"
    yield from _results_and_tracebacks(account)
    for answer in account.late:
        yield _late_line(answer)
    yield from _doubts(details, hint)
    yield from _end(details)


def status_words(details: RunDetails) -> str:
    """The status of a run; of one that is done with failures also the steps."""
    result = details.account.folded.machine.result
    if details.pause is not None:
        return details.pause.words
    if result is None or details.outcome == details.status:
        return details.status
    return failures_line(result.failed_steps)


def chain_in_words(bad: BadEvent | None) -> str:
    """The result of verifying the hash chain, as text."""
    return "chain verified" if bad is None else f"CHAIN BROKEN at event {bad.seq}: {bad.why}"


def _mark_and_word(visit: Visit, waiting_words: Mapping[str, str]) -> tuple[str, str]:
    """The mark and the word for the state of a visit; also for one that waits for something."""
    if visit.outcome == "running" and visit.step in waiting_words:
        return "?", waiting_words[visit.step]
    return _MARKS[visit.outcome], visit.outcome


def _unfolded(visits: list[Visit]) -> tuple[list[Visit], int]:
    """The visits of a tree to show, and how many are left out.

    Of a long run, the steps of all but the first items and rounds are left out where they went well.
    """
    if len(visits) <= _MOST_VISITS:
        return visits, 0
    shown = [visit for visit in visits if visit.outcome != "ok" or not _LATER.search(visit.step)]
    return shown, len(visits) - len(shown)


def _step_line(
    visit: Visit, action: str, state: tuple[str, str], now: float | None, width: int, words: Wording
) -> str:
    """The line of a visit; one that is under way has taken its time up to `now`."""
    ended = now if visit.ended is None and visit.outcome == "running" else visit.ended
    is_timed = ended is not None and ended >= visit.started and visit.outcome != "skipped"
    took = format_seconds(ended - visit.started) if ended is not None and is_timed else ""
    message = (
        f"{words.variable(visit.var)} = {preview(visit.value)}"
        if visit.var is not None
        else preview(visit.detail, 120)
    )
    beside = _beside(visit)
    extra = f"  [{preview(beside, 160)}]" if beside else ""
    mark, outcome = state
    head = f"  {mark} {visit.step:<{max(width, 6)}} {outcome:<8} {took:>9}"
    return f"{head}  {pad(action, _ACTION_WIDTH)}  {message}{extra}".rstrip()


def _turns(visit: Visit) -> Iterator[str]:
    """The actions of an agent, one per line, up to a maximum."""
    for turn in visit.turns[:_MOST_TURNS]:
        yield preview(turn, _LONGEST_TURN)
    if len(visit.turns) > _MOST_TURNS:
        yield f"and {len(visit.turns) - _MOST_TURNS} more (--json has them all)"


def _observed(account: Account) -> Iterator[str]:
    """How much a policy would have refused and asked that only observes this run."""
    policy = account.folded.policy
    if policy is None or not policy.observes:
        return
    found = [text for visit in account.steps for text in visit.observed]
    asked = sum(text.startswith(ASKED) for text in found)
    yield f"policy   {policy.name} observes: it would have refused {len(found) - asked}, asked about {asked}"


def _remarks(account: Account) -> Iterator[str]:
    """The shortened values and empty references, one per line, up to a maximum per step of each."""
    for visit in account.steps:
        for remarks, place in ((visit.cuts, "--events"), (visit.empty, "--json")):
            for remark in remarks[:_MOST_REMARKS]:
                yield f"{visit.step}: {remark}"
            if len(remarks) > _MOST_REMARKS:
                yield f"{visit.step}: and {len(remarks) - _MOST_REMARKS} more ({place} has them all)"


def _results_and_tracebacks(account: Account) -> Iterator[str]:
    """The remarks on results, and where tools raised exceptions, up to a maximum per step."""
    for visit in account.steps:
        said = [fact for fact in visit.facts if fact.startswith((f"{RESULT}: ", f"{TRACEBACK}: "))]
        for fact in said[:_MOST_REMARKS]:
            first, *others = fact.splitlines()
            yield f"{visit.step}: {printable(first)}"
            yield from (f"      {line}" for line in printable_lines(others))
        if len(said) > _MOST_REMARKS:
            yield f"{visit.step}: and {len(said) - _MOST_REMARKS} more (--json has them all)"


def _late_line(answer: LateAnswer) -> str:
    message = "failed" if answer.outcome == "err" else "answered"
    when = iso(answer.ts)
    return f"late: {answer.key} {message} at {when}, after it was closed: {preview(answer.value, 100)}"


def _beside(visit: Visit) -> str:
    parts = [f"{visit.calls} calls"] if visit.calls > 1 else []
    parts += [f"{visit.retries} retried"] if visit.retries else []
    parts += [fact for fact in visit.facts if fact.startswith(IN_TURN)]
    if visit.failed_items:
        parts.append(f"{visit.failed_items:,} of {visit.items:,} items failed")
    answers = visit.answers[:_MOST_ANSWERS]
    more = len(visit.answers) - len(answers)
    return ", ".join([*parts, *answers, *([f"{more} more answers"] if more else [])])


def _doubts(details: RunDetails, hint: str) -> Iterator[str]:
    yield from _asks(details, hint)
    is_stopped = details.status in (INTERRUPTED, "in_doubt", PAUSED)
    lines = pending_call_lines(details.in_doubt)
    if details.in_doubt and is_stopped:
        lines = doubt_lines(details.in_doubt, details.info.run_id, hint)
    if details.unanswered:
        lines += unanswered_lines(details.unanswered, details.info.run_id, hint)
    if lines:
        yield ""
        yield from lines
    elif is_stopped or any(ask.is_answered for ask in details.asks):
        yield ""
        yield f"continue with: callsheet resume {details.info.run_id}{hint}"


def _asks(details: RunDetails, hint: str) -> Iterator[str]:
    from callsheet.apps.rendering.runs import question_lines  # noqa: PLC0415 - brings the runtime

    for ask in details.asks:
        yield ""
        yield from question_lines(ask, hint)


def _end(details: RunDetails) -> Iterator[str]:
    folded = details.account.folded
    yield ""
    words = wording_of(details.account.plans[-1])
    for name, value in folded.variables_to_show().items():
        yield f"{words.variable(name)} = {preview(value, 100)}"
    result = folded.machine.result
    if result is not None:
        yield f"{'answer' if result.error is None else 'error'}: {result.error or folded.response_to_show}"
