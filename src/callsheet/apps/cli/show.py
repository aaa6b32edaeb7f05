"""`callsheet show` and `search`: what happened in a run, and where the data of runs contain a text."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import columns, ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.apps.operations.live_calls import event_row
from callsheet.apps.operations.run_text import chain_in_words, run_detail_lines
from callsheet.apps.operations.runs import run_details, run_details_json
from callsheet.apps.rendering.runs import event_line
from callsheet.apps.rendering.values import preview
from callsheet.machine.notes import StepOutcome
from callsheet.views.columns import cut, pad, printable, width
from callsheet.views.describe import ActionTexts, describe_action

if TYPE_CHECKING:
    from callsheet.store.chain import BadEvent
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.search import Find, Match
    from callsheet.trace.visits import Account, Visit

_LEAST_BAR = 10
_MOST_LABEL = 12
_TEXT = 30
_MOST_REMARK = 120
_BAR, _EARLY = "█", "▒"


class Span(NamedTuple):
    """A call from `start` to `end`, in seconds; `turn` is when its step began, `start` or later.

    `remark` is what its bar does not tell.
    """

    label: str
    text: str
    start: float
    turn: float
    end: float
    remark: str = ""


def timeline(spans: Sequence[Span], columns: int = 100) -> str:
    """Returns a line for each span, in about `columns` columns; the part before `turn` is drawn lighter.

    >>> print(timeline([Span("S1", "@A", 0, 0, 2), Span("S2", "@B", 0, 2, 4)], 40))
    S1  @A  ██████████████               2 s
    S2  @B  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒█████████████  4 s
    """
    if not spans:
        return "(nothing was called)"
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    labels = [cut(printable(span.label), _MOST_LABEL) for span in spans]
    texts = [cut(printable(span.text), _TEXT) for span in spans]
    took = [_seconds(span.end - span.start) for span in spans]
    widths = [max(map(width, column)) for column in (labels, texts, took)]
    room = max(_LEAST_BAR, columns - sum(widths) - 6)
    scale = room / ((end - begin) or 1.0)

    def at(moment: float) -> int:
        return round((moment - begin) * scale)

    lines: list[str] = []
    for span, label, text, seconds in zip(spans, labels, texts, took, strict=True):
        first, last = min(at(span.start), room - 1), max(at(span.end), at(span.start) + 1)
        turn = min(max(at(span.turn), first), last)
        bar = f"{' ' * first}{_EARLY * (turn - first)}{_BAR * (last - turn)}"
        line = f"{pad(label, widths[0])}  {pad(text, widths[1])}  {pad(bar, room)}  {seconds}"
        lines.append(f"{line}  {preview(span.remark, _MOST_REMARK)}" if span.remark else line)
    return "\n".join(lines)


def _seconds(duration: float) -> str:
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.3g} s"


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
        print_text(timeline(spans, columns(_PIPED_COLUMNS)))


def _spans_of(account: Account) -> list[Span]:
    """A span for each visit that made calls, from its first call to its last outcome, in that order.

    A call without an outcome ends with the last event of the run.
    """

    called = [(v.left, v) for v in (*account.steps, *account.unused) if v.left is not None]
    texts = [ActionTexts(plan, _TEXT) if plan.in_python else None for plan in account.plans]

    def does(visit: Visit) -> str:
        text = texts[visit.plan]
        if text is not None:
            return text.of(visit.step)
        return "" if visit.action is None else describe_action(visit.action)

    return [
        Span(
            visit.step,
            does(visit),
            left,
            visit.turn or left,
            account.until if visit.open_calls else visit.answered or left,
            visit.detail if visit.is_unused or visit.outcome == StepOutcome.STOPPED else "",
        )
        for left, visit in sorted(called, key=itemgetter(0))
    ]


# ---------------------------------------------------------------- events


def _show_events(journal: Journal, info: RunInfo, *, as_json: bool) -> None:
    events = journal.events(info.run_id, lenient=True)
    if as_json:
        print_json([event_row(event) for event in events])
        return
    for event in events:
        click.echo(event_line(event))


@click.command()
@click.argument("texts", nargs=-1, required=True, metavar="RUN TEXT")
@click.option("--all", "everywhere", is_flag=True, help="Search all runs of the journal, newest first.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="The maximum number of matches."
)
@journals.journal_path
@options.as_json
def search(
    texts: tuple[str, ...],
    everywhere: bool,
    ignore_case: bool,
    limit: int,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Search the data of RUN, or with --all of every run, for TEXT: a literal text or an RE2 /pattern/.

    The inputs, arguments, results, errors, answers of people and edits are searched; numbers are searched as
    text. RUN is a run id, a unique prefix of one, or `last`. The exit status is 1 if there is no match.

    \b
    Examples:
      callsheet search last ada@example.org
      callsheet search --all '/INV-[0-9]+/'
    """
    if len(texts) != (1 if everywhere else 2):
        raise click.UsageError("give RUN and TEXT" if not everywhere else "with --all give only TEXT")
    if not texts[-1]:
        raise click.UsageError("TEXT is empty")
    from callsheet.trace.search import finder  # noqa: PLC0415 - not for --help

    find = finder(texts[-1], ignore_case=ignore_case)
    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        infos = opened.runs() if everywhere else [opened.find_run(texts[0])]
        matches = _matches(opened, infos, find)
        shown = list(islice(matches, min(limit, sys.maxsize)))
        omitted = sum(1 for _ in matches)
        if as_json:
            rows = [_json(info, match) for info, match in shown]
            print_json({"matches": rows, "left_off": omitted, "runs": len(infos)})
        else:
            _print(shown, everywhere=everywhere)
            if omitted:
                to_stderr(f"and {omitted} more: use --limit {len(shown) + omitted}")
            elif not shown:
                to_stderr(f"no match in {len(infos)} run{'s' if len(infos) != 1 else ''}")
    return Exit.OK if shown else Exit.FAILED


def _matches(journal: Journal, infos: list[RunInfo], find: Find) -> Iterator[tuple[RunInfo, Match]]:
    """The matches in these runs; a run that cannot be read is reported."""
    from callsheet.diagnostics import CallsheetError  # noqa: PLC0415 - not for --help
    from callsheet.trace.search import search as search_run  # noqa: PLC0415 - as above

    for info in infos:
        try:
            plan = journal.plan_of(info.plan_hash)
            for match in search_run(plan, journal.events(info.run_id), journal.plan_of, find):
                yield info, match
        except CallsheetError as error:
            if len(infos) == 1:
                raise
            to_stderr(f"run {info.run_id} cannot be searched completely: {error.diagnostics[0].message}")


def _print(shown: list[tuple[RunInfo, Match]], *, everywhere: bool) -> None:
    before = ""
    for info, match in shown:
        if everywhere and info.run_id != before:
            before = info.run_id
            print_text(f"{info.run_id}  {info.title or info.plan_id or ''}".rstrip())
        where = f"{match.what} {match.place}".rstrip()
        message = preview(f"{match.before}{match.text}{match.after}", 120)
        print_text(f"{match.seq:>6}  {match.key or '':<10} {where:<24} {message}")


def _json(info: RunInfo, match: Match) -> dict[str, Any]:
    return {
        "run_id": info.run_id,
        "seq": match.seq,
        "step": match.step,
        "key": match.key,
        "what": match.what,
        "variable": match.variable,
        "path": list(match.path),
        "before": match.before,
        "text": match.text,
        "after": match.after,
    }
