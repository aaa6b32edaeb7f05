"""`callsheet search`: searches the data of one run or of all runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.apps.rendering.values import preview

if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.search import Find, Match


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
