"""`callsheet runs verify|heads|prune`: verifies a journal, and deletes old runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, to_stderr
from callsheet.apps.rendering.values import format_bytes, iso

if TYPE_CHECKING:
    from callsheet.store.chain import BadEvent
    from callsheet.store.journal import Journal
    from callsheet.store.retention import Pruned
    from callsheet.store.runs import RunInfo

_anchor = click.Path(path_type=Path, dir_okay=False)
_runs = click.argument("runs", metavar="[RUN]...", nargs=-1)


def selected_runs(journal: Journal, runs: tuple[str, ...]) -> list[RunInfo]:
    """The named runs, or all, oldest first. Raises JournalError (JRN002)."""
    if runs:
        return list({info.run_id: info for info in (journal.find_run(run) for run in runs)}.values())
    return journal.runs()[::-1]


@click.command()
@_runs
@click.option("--anchor", type=_anchor, metavar="FILE", help="Also check the heads that FILE contains.")
@journals.journal_path
@options.as_json
def verify(runs: tuple[str, ...], anchor: Path | None, journal: Path | None, as_json: bool) -> int:
    """Verify the hash chain of the runs RUN..., or of all runs.

    No event may be missing, changed or moved. With --anchor, also verify that the journal still has every
    head in FILE, as written by `runs heads --anchor FILE`. The exit status is 1 if a check fails.
    """
    from callsheet.store.retention import broken_anchor, read_anchors  # noqa: PLC0415 - imports the store

    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        infos = selected_runs(opened, runs)
        rows = [_verified(opened, info) for info in infos]
        anchors: list[dict[str, Any]] = []
        for anchored in read_anchors(anchor) if anchor is not None else ():
            if not runs or anchored.run_id in {info.run_id for info in infos}:
                why = broken_anchor(opened.parts.reader, anchored)
                anchors.append(
                    {"run_id": anchored.run_id, "event": anchored.seq, "ok": why is None, "why": why}
                )
    is_ok = all(row["ok"] for row in rows + anchors)
    if as_json:
        print_json({"ok": is_ok, "runs": rows} | ({} if anchor is None else {"anchors": anchors}))
    else:
        for row in rows:
            message = f"{row['head'][:16]}" if row["ok"] else f"BROKEN at event {row['event']}: {row['why']}"
            click.echo(f"{row['run_id']:<22} {row['events']:>8} events  {message}")
        for row in anchors:
            if not row["ok"]:
                click.echo(f"{row['run_id']:<22} ANCHOR BROKEN: {row['why']}")
        to_stderr(_summary(rows, anchors, anchor))
    return Exit.OK if is_ok else Exit.FAILED


def _verified(journal: Journal, info: RunInfo) -> dict[str, Any]:
    bad_event = journal.verify(info.run_id) or _plan_error(journal, info)
    return {
        "run_id": info.run_id,
        "ok": bad_event is None,
        "events": info.events,
        "head": "" if info.head_hash is None else info.head_hash.hex(),
        "event": None if bad_event is None else bad_event.seq,
        "why": None if bad_event is None else bad_event.why,
    }


def _plan_error(journal: Journal, info: RunInfo) -> BadEvent | None:
    """The error of the plan of a run, which is stored beside its events under its hash."""
    from callsheet.store.chain import BadEvent  # noqa: PLC0415 - as above
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - as in `verify`

    try:
        journal.plan(info.plan_hash)
    except JournalError as error:
        return BadEvent(1, error.diagnostics[0].message.removeprefix("the journal is damaged: "))
    return None


def _summary(rows: list[dict[str, Any]], anchors: list[dict[str, Any]], anchor: Path | None) -> str:
    bad = sum(not row["ok"] for row in rows)
    text = f"{len(rows)} run{'s' * (len(rows) != 1)}, " + (f"{bad} BROKEN" if bad else "all intact")
    if anchor is not None:
        gone = sum(not row["ok"] for row in anchors)
        text += f"; {len(anchors)} anchor{'s' * (len(anchors) != 1)}, " + (
            f"{gone} BROKEN" if gone else "all found"
        )
    return text


@click.command()
@_runs
@click.option(
    "--anchor", type=_anchor, metavar="FILE", help="Append the heads to FILE, a JSON object per line."
)
@journals.journal_path
@options.as_json
def heads(runs: tuple[str, ...], anchor: Path | None, journal: Path | None, as_json: bool) -> int:
    """Print the hash of the last event (head) of the runs RUN..., or of all runs.

    Store the heads where users who can write the journal cannot. `runs verify --anchor FILE` then proves that
    no past event was rewritten.
    """
    from time import time  # noqa: PLC0415 - not for --help

    from callsheet.store.retention import anchors_of, append_anchors  # noqa: PLC0415 - imports the store

    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        infos = selected_runs(opened, runs)
        damaged = {info.run_id for info in infos if opened.verify(info.run_id) is not None}
        for run_id in sorted(damaged):
            to_stderr(f"run {run_id} is damaged and was skipped: callsheet runs verify {run_id}")
        heads_found = anchors_of([info for info in infos if info.run_id not in damaged], time())
        if anchor is not None:
            append_anchors(anchor, heads_found)
        if as_json:
            print_json(
                [
                    {"run_id": a.run_id, "event": a.seq, "head": a.head, "time": iso(a.time)}
                    for a in heads_found
                ]
            )
        else:
            for a in heads_found:
                click.echo(f"{a.run_id:<22} {a.seq:>8} {a.head}")
    return Exit.FAILED if damaged else Exit.OK


def parse_age(ctx: click.Context, param: click.Parameter, text: str) -> float | None:
    """The seconds of an age such as 30d; None for never."""
    from callsheet.store.run_filter import seconds_of_age  # noqa: PLC0415 - imports the store

    try:
        return seconds_of_age(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command()
@click.option(
    "--done",
    callback=parse_age,
    metavar="AGE",
    default="30d",
    show_default=True,
    help="How long completed runs are kept.",
)
@click.option(
    "--failed",
    callback=parse_age,
    metavar="AGE",
    default="90d",
    show_default=True,
    help="How long failed and refused runs are kept.",
)
@click.option(
    "--cancelled",
    callback=parse_age,
    metavar="AGE",
    default="90d",
    show_default=True,
    help="How long cancelled runs are kept.",
)
@click.option("--values-only", is_flag=True, help="Delete only large values, no runs.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@journals.journal_path
@options.as_json
def prune(
    done: float | None,
    failed: float | None,
    cancelled: float | None,
    values_only: bool,
    dry_run: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Delete runs that ended long ago.

    After the age for its status, the values of a run above 64 KiB are deleted; their hashes are kept, and the
    run can still be verified. After twice that age the run is deleted. Runs that are running, waiting or in
    doubt are kept. A forked run does not depend on its parent. An AGE is 30d, 12h, 8w, 1y or never.

    \b
    Example:
      callsheet runs prune --done 7d --dry-run
    """
    from callsheet.store import retention  # noqa: PLC0415 - imports sqlite3
    from callsheet.store.label_transfer import forget_stale  # noqa: PLC0415 - as above
    from callsheet.store.writer import RunStatus  # noqa: PLC0415 - as above

    max_ages = {
        RunStatus.DONE: done,
        RunStatus.FAILED: failed,
        RunStatus.REFUSED: failed,
        RunStatus.CANCELLED: cancelled,
    }
    with journals.open_recorded(journal) as opened:
        due = retention.due_now(opened.parts, max_ages, values_only=values_only)
        pruned = retention.prune(opened.parts, due, dry_run=dry_run)
        remaining = {info.run_id for info in opened.runs()} - (set(pruned.runs) if dry_run else set())
        labels = forget_stale(opened.path, remaining, dry_run=dry_run)
    with ignoring_broken_pipe():
        if as_json:
            removed_labels = [{"root": n.root, "name": n.name, "label": str(n.label)} for n in labels]
            print_json({"dry_run": dry_run, **pruned._asdict(), "labels": removed_labels})
        else:
            _report(pruned, len(labels), dry_run=dry_run)
    return Exit.OK


def _report(pruned: Pruned, labels: int, *, dry_run: bool) -> None:
    would = "would be deleted" if dry_run else "deleted"
    for run_id in pruned.runs:
        click.echo(f"{run_id:<22} run {would}")
    for run_id in pruned.values:
        click.echo(f"{run_id:<22} large values {would}")
    runs, values = len(pruned.runs), pruned.blobs
    text = f"{runs} run{'s' * (runs != 1)} and {values} large value{'s' * (values != 1)}"
    text += f" ({format_bytes(pruned.bytes)}) {would}"
    if pruned.orphans:
        text += f", {pruned.orphans} unreferenced values"
    if labels:
        text += f", {labels} label{'s' * (labels != 1)} of deleted files and notes"
    to_stderr(text + ("; the file was compacted" if pruned.compacted else ""))
