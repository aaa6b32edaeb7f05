"""`callsheet show`: what happened in a run, told by its journal."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.doubts import doubt_json, doubt_lines, left_lines, unanswered_lines
from callsheet.apps.cli.eventlines import event_json, event_line
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.moments import iso
from callsheet.apps.cli.origin import Origin, origin_of
from callsheet.apps.cli.output import may_stay_unread, preview, print_json, print_text, say, seconds
from callsheet.apps.cli.runs import INTERRUPTED, plan_name, shown_status
from callsheet.views.columns import cut, pad
from callsheet.views.describe import describe_action

if TYPE_CHECKING:
    from callsheet.apps.cli.account import Account, LateAnswer, StepAccount
    from callsheet.ir import Step
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.doubt import DoubtfulCall
    from callsheet.store.journal import Journal
    from callsheet.store.reader import BadEvent, RunInfo

_PIPED_COLUMNS = 100
_ACTION_WIDTH = 36
_MOST_CUTS = 3
_MOST_TURNS = 40
_MOST_ANSWERS = 3
_ENDINGS = ("failed", "refused", "cancelled")
"""How a run may end with calls under way."""
_MARKS = {"ok": "✓", "failed": "✗", "skipped": "–", "running": "…", "stopped": "✗"}


@dataclass(frozen=True, slots=True)
class Story:
    """A run with all that is shown of it."""

    info: RunInfo
    status: str
    plan: str
    journal: Path
    bad: BadEvent | None
    account: Account
    asks: tuple[PendingAsk, ...]
    """What people are asked and the run has not gone on from."""
    steps: tuple[Step, ...]
    """The steps of the plan that the run started with."""
    in_doubt: tuple[DoubtfulCall, ...]
    origin: Origin | None = None
    children: tuple[RunInfo, ...] = ()
    """The runs that were forked from this one."""
    unanswered: tuple[DoubtfulCall, ...] = ()
    """The calls of a run that stands still because models gave no answer."""


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--events", "with_events", is_flag=True, help="The events of the journal instead of the steps.")
@click.option(
    "--timeline", "as_timeline", is_flag=True, help="When each step's calls left and were answered, as bars."
)
@options.journal_path
@options.as_json
def show(run: str, with_events: bool, as_timeline: bool, journal: Path | None, as_json: bool) -> int:
    """Tell what happened in RUN, an id, the beginning of one, or `last`.

    The exit status is 1 where the chain of its events is broken.
    """
    with options.open_to_read(journal) as opened:
        info = opened.find_run(run)
        bad = opened.verify(info.run_id)
        if bad is not None:
            say(f"run {info.run_id}: {_chain(bad)}")
        with may_stay_unread():
            if as_timeline:
                _show_timeline(opened, info, bad, as_json=as_json)
            elif with_events:
                _show_events(opened, info, as_json=as_json)
            elif as_json:
                print_json(story_json(story_of(opened, info, bad)))
            else:
                _print(story_of(opened, info, bad), options.journal_hint(journal))
    return Exit.OK if bad is None else Exit.FAILED


def story_of(journal: Journal, info: RunInfo, bad: BadEvent | None) -> Story:
    """A run with all that is shown of it; raises JournalError where its events cannot be read."""
    from callsheet.apps.cli.account import account_of  # noqa: PLC0415 - brings the store
    from callsheet.runtime.doubt import doubtful_calls, unanswered_calls  # noqa: PLC0415 - brings the runtime
    from callsheet.runtime.inbox import asks_of  # noqa: PLC0415 - as above

    plan = journal.plan(info.plan_hash)[0]
    account = account_of(plan, journal.events(info.run_id), lambda name: journal.plan(name)[0])
    asks = tuple(asks_of(journal, info.run_id))
    status, name = shown_status(journal, info), plan_name(journal, info)
    in_doubt = doubtful_calls(account.folded) if status in (INTERRUPTED, "in_doubt", *_ENDINGS) else ()
    unanswered = unanswered_calls(account.folded) if status == INTERRUPTED else ()
    first = next(iter(journal.events(info.run_id, lenient=True)))
    return Story(
        info=info,
        status=status,
        plan=name,
        journal=journal.path,
        bad=bad,
        account=account,
        asks=asks,
        steps=plan.steps,
        in_doubt=in_doubt,
        origin=origin_of(first.body),
        children=tuple(journal.children(info.run_id)),
        unanswered=unanswered,
    )


# ---------------------------------------------------------------- for people


def _print(story: Story, hint: str) -> None:
    info, account = story.info, story.account
    click.echo(f"run      {info.run_id}")
    click.echo(f"status   {story.status}")
    click.echo(f"plan     {preview(story.plan, 100)}  ({info.plan_hash[:12]})")
    click.echo(
        f"time     {iso(info.created)} to {iso(info.updated)} ({seconds(info.updated - info.created)})"
    )
    click.echo(f"journal  {story.journal}, {info.events} events, {_chain(story.bad)}")
    if story.origin is not None:
        print_text(f"from     {story.origin.describe()}")
    for child in story.children:
        print_text(f"child    {child.run_id}, from event {child.forked_at}, {child.status}")
    click.echo(f"used     {account.folded.usage().describe()}")
    click.echo()
    steps = (*account.folded.machine.program.plan.steps, *story.steps)  # those of a new plan as well
    actions = {step.id: describe_action(step.action) for step in steps}
    for visit in account.steps:
        click.echo(_step_line(visit, cut(actions.get(visit.step, ""), _ACTION_WIDTH)))
        for turn in _turns(visit):
            click.echo(f"      {turn}")
    for warning in (*account.warnings, *_cuts(account)):
        print_text(f"warning: {warning}")
    for answer in account.late:
        print_text(_late_line(answer))
    _print_doubts(story, hint)
    _print_end(story, hint)


def _chain(bad: BadEvent | None) -> str:
    return "chain verified" if bad is None else f"CHAIN BROKEN at event {bad.seq}: {bad.why}"


def _step_line(visit: StepAccount, action: str) -> str:
    took = "" if visit.ended is None or visit.outcome == "skipped" else seconds(visit.ended - visit.started)
    said = f"${visit.var} = {preview(visit.value)}" if visit.var is not None else preview(visit.detail, 120)
    beside = _beside(visit)
    extra = f"  [{preview(beside, 160)}]" if beside else ""
    head = f"  {_MARKS[visit.outcome]} {visit.step:<6} {visit.outcome:<8} {took:>9}"
    return f"{head}  {pad(action, _ACTION_WIDTH)}  {said}{extra}".rstrip()


def _turns(visit: StepAccount) -> Iterator[str]:
    """What an agent did, a line for each; of many the first ones."""
    for turn in visit.turns[:_MOST_TURNS]:
        yield preview(turn, 120)
    if len(visit.turns) > _MOST_TURNS:
        yield f"and {len(visit.turns) - _MOST_TURNS} more (--json has them all)"


def _cuts(account: Account) -> Iterator[str]:
    """What was cut, a line for each; of many in one step, as in a FOREACH, the first ones."""
    for visit in account.steps:
        for cut_there in visit.cuts[:_MOST_CUTS]:
            yield f"{visit.step}: {cut_there}"
        if len(visit.cuts) > _MOST_CUTS:
            yield f"{visit.step}: and {len(visit.cuts) - _MOST_CUTS} more (--events has them all)"


def _late_line(answer: LateAnswer) -> str:
    said = "failed" if answer.outcome == "err" else "answered"
    when = iso(answer.ts)
    return f"late: {answer.key} {said} at {when}, after it was closed: {preview(answer.said, 100)}"


def _late_json(answer: LateAnswer) -> dict[str, Any]:
    return {
        "key": answer.key,
        "step": answer.step,
        "time": iso(answer.ts),
        "outcome": answer.outcome,
        "preview": preview(answer.said, 200),
    }


def _beside(visit: StepAccount) -> str:
    parts = [f"{visit.calls} calls"] if visit.calls > 1 else []
    parts += [f"{visit.retries} retried"] if visit.retries else []
    said = visit.answers[:_MOST_ANSWERS]
    more = len(visit.answers) - len(said)
    return ", ".join([*parts, *said, *([f"{more} more answers"] if more else [])])


def _print_doubts(story: Story, hint: str) -> None:
    _print_asks(story, hint)
    is_stopped = story.status in (INTERRUPTED, "in_doubt")
    lines = left_lines(story.in_doubt)
    if story.in_doubt and is_stopped:
        lines = doubt_lines(story.in_doubt, story.info.run_id, hint)
    if story.unanswered:
        lines += unanswered_lines(story.unanswered, story.info.run_id, hint)
    if lines:
        click.echo()
        for line in lines:
            print_text(line)
    elif is_stopped or any(ask.is_answered for ask in story.asks):
        click.echo(f"\nit goes on with: callsheet resume {story.info.run_id}{hint}")


def _print_asks(story: Story, hint: str) -> None:
    from callsheet.apps.cli.asks import lines_of  # noqa: PLC0415 - brings the runtime

    for ask in story.asks:
        click.echo()
        for line in lines_of(ask, hint):
            print_text(line)


def _print_end(story: Story, hint: str) -> None:
    machine = story.account.folded.machine
    click.echo()
    for name, value in machine.variables().items():
        click.echo(f"${name} = {preview(value, 100)}")
    result = machine.result
    if result is not None:
        print_text(f"{'answer' if result.error is None else 'error'}: {result.error or result.response}")


# ---------------------------------------------------------------- for programs


def story_json(story: Story) -> dict[str, Any]:
    """It as a JSON object."""
    from callsheet.apps.cli import asks  # noqa: PLC0415 - as above

    info, folded = story.info, story.account.folded
    result = folded.machine.result
    return {
        "run_id": info.run_id,
        "status": story.status,
        "plan": story.plan,
        "plan_hash": info.plan_hash,
        "created": iso(info.created),
        "updated": iso(info.updated),
        "journal": str(story.journal),
        "from": None if story.origin is None else story.origin.to_json(),
        "children": [
            {"run_id": child.run_id, "event": child.forked_at, "status": str(child.status)}
            for child in story.children
        ],
        "events": info.events,
        "chain": {"ok": True}
        if story.bad is None
        else {"ok": False, "event": story.bad.seq, "why": story.bad.why},
        "steps": [_step_json(visit) for visit in story.account.steps],
        "warnings": story.account.warnings,
        "late": [_late_json(answer) for answer in story.account.late],
        "in_doubt": [doubt_json(call) for call in story.in_doubt],
        "unanswered": [doubt_json(call) for call in story.unanswered],
        "waiting": [asks.as_json(ask) for ask in story.asks],
        "variables": folded.machine.variables(),
        "response": None if result is None else result.response,
        "error": None if result is None else result.error,
        "terminated": None if result is None else result.terminated,
        "steps_executed": folded.machine.steps_executed,
        "refusal": None if result is None or result.refusal is None else result.refusal._asdict(),
        "usage": folded.usage().to_json(),
        "limits": folded.machine.limits.to_json(),
    }


def _step_json(visit: StepAccount) -> dict[str, Any]:
    return {
        "step": visit.step,
        "outcome": visit.outcome,
        "started": iso(visit.started),
        "seconds": None if visit.ended is None else round(visit.ended - visit.started, 6),
        "calls": visit.calls,
        "retries": visit.retries,
        "detail": visit.detail or None,
        "var": visit.var,
        "preview": preview(visit.value, 200) if visit.var is not None else None,
        "cuts": visit.cuts,
        "facts": visit.facts,
        "answers": visit.answers,
        "turns": visit.turns,
    }


# ---------------------------------------------------------------- time


def _show_timeline(journal: Journal, info: RunInfo, bad: BadEvent | None, *, as_json: bool) -> None:
    from callsheet.apps.cli.timeline import spans_of  # noqa: PLC0415 - brings the store
    from callsheet.views.timeline import timeline  # noqa: PLC0415 - one of three

    story = story_of(journal, info, bad)
    turns: dict[tuple[str, int], float] = {}
    visits: Counter[str] = Counter()
    for visit in story.account.steps:
        if visit.calls:
            visits[visit.step] += 1
            turns[visit.step, visits[visit.step]] = visit.turn
    actions = {step.id: describe_action(step.action) for step in story.steps}
    spans = spans_of(journal.events(info.run_id), actions, turns)
    if as_json:
        begin = min((span.start for span in spans), default=0.0)
        rows = [
            {
                "step": span.label,
                **{name: round(getattr(span, name) - begin, 6) for name in ("start", "turn", "end")},
            }
            for span in spans
        ]
        print_json({"run_id": info.run_id, "timeline": rows})
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED_COLUMNS
        print_text(timeline(spans, columns))


# ---------------------------------------------------------------- events


def _show_events(journal: Journal, info: RunInfo, *, as_json: bool) -> None:
    events = journal.events(info.run_id, lenient=True)
    if as_json:
        print_json([event_json(event) for event in events])
        return
    for event in events:
        click.echo(event_line(event))
