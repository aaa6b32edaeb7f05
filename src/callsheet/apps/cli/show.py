"""`callsheet show`: shows what happened in a run, from its journal."""

from __future__ import annotations

import shutil
import sys
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.apps.cli.terminal import is_terminal
from callsheet.apps.operations.run_text import chain_in_words, run_detail_lines
from callsheet.apps.operations.runs import run_details, run_details_json
from callsheet.apps.rendering.runs import event_json, event_line
from callsheet.views.describe import describe_action

if TYPE_CHECKING:
    from callsheet.store.chain import BadEvent
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.visits import Account
    from callsheet.views.timeline import Span

_PIPED_COLUMNS = 100


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--events", "with_events", is_flag=True, help="Show the events of the journal instead of the steps."
)
@click.option(
    "--timeline", "as_timeline", is_flag=True, help="Show the time of the calls of each step as bars."
)
@journals.journal_path
@options.as_json
def show(run: str, with_events: bool, as_timeline: bool, journal: Path | None, as_json: bool) -> int:
    """Show what happened in RUN: status, steps, results, usage.

    RUN is a run id, a unique prefix of one, or `last`. The exit status is 1 if the hash chain of its events
    is broken.

    \b
    Examples:
      callsheet show last
      callsheet show last --events
    """
    from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - not for --help

    refresh_copies(journal, run)
    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        bad_event = opened.verify(info.run_id)
        if bad_event is not None:
            to_stderr(f"run {info.run_id}: {chain_in_words(bad_event)}")
        with ignoring_broken_pipe():
            if as_timeline:
                _show_timeline(opened, info, bad_event, as_json=as_json)
            elif with_events:
                _show_events(opened, info, as_json=as_json)
            elif as_json:
                print_json(run_details_json(run_details(opened, info, bad_event)))
            else:
                for line in run_detail_lines(
                    run_details(opened, info, bad_event), journals.journal_hint(journal)
                ):
                    print_text(line)
    return Exit.OK if bad_event is None else Exit.FAILED


# ---------------------------------------------------------------- time


def _show_timeline(journal: Journal, info: RunInfo, bad_event: BadEvent | None, *, as_json: bool) -> None:
    from callsheet.views.timeline import timeline  # noqa: PLC0415 - one of three

    spans = _spans_of(run_details(journal, info, bad_event).account)
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
        columns = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else _PIPED_COLUMNS
        print_text(timeline(spans, columns))


def _spans_of(account: Account) -> list[Span]:
    """A span for each visit that made calls, from its first call to its last outcome, in that order.

    A call without an outcome ends with the last event of the run.
    """
    from callsheet.views.timeline import Span  # noqa: PLC0415 - as above

    called = [(v.left, v) for v in (*account.steps, *account.unused) if v.left is not None]
    return [
        Span(
            visit.step,
            "" if visit.action is None else describe_action(visit.action),
            left,
            visit.turn or left,
            account.until if visit.open_calls else visit.answered or left,
        )
        for left, visit in sorted(called, key=itemgetter(0))
    ]


# ---------------------------------------------------------------- events


def _show_events(journal: Journal, info: RunInfo, *, as_json: bool) -> None:
    events = journal.events(info.run_id, lenient=True)
    if as_json:
        print_json([event_json(event) for event in events])
        return
    for event in events:
        click.echo(event_line(event))
