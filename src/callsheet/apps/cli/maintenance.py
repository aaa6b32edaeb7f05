"""`callsheet runs verify|heads|prune|export|import|salvage`: keeps a journal, and takes runs out of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, to_stderr
from callsheet.apps.rendering.runs import count_events
from callsheet.apps.rendering.values import format_bytes, iso
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.store.backup import Salvaged
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
    from callsheet.store.runs import seconds_of_age  # noqa: PLC0415 - imports the store

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
            _report_pruned(pruned, len(labels), dry_run=dry_run)
    return Exit.OK


def _report_pruned(pruned: Pruned, labels: int, *, dry_run: bool) -> None:
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


_NAMES = ("--out", "--output", "out")
_out = options.output("The file to write; - is standard output.", *_NAMES, required=True)


@click.command("export")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@_out
@journals.journal_path
@options.as_json
def export_runs(runs: tuple[str, ...], out: Path, journal: Path | None, as_json: bool) -> int:
    """Export the runs RUN..., or all runs, to one file.

    The file is self-contained: it has plans, events and values, as JSON Lines (see docs/journal.md). A
    damaged run is an error; `runs salvage` exports its intact part.

    \b
    Example:
      callsheet runs export last -o run.jsonl
    """
    from callsheet.store.archive import export_run  # noqa: PLC0415 - imports the store

    with journals.open_to_read(journal) as opened:
        infos = selected_runs(opened, runs)
        _refuse_own(out, opened.path)
        size = _write(out, (line for info in infos for line in export_run(opened.parts, info.run_id)))
    _report_transfer(
        {"file": str(out), "bytes": size, "runs": [info.run_id for info in infos]},
        f"{len(infos)} run{'s' * (len(infos) != 1)} in {out}, {format_bytes(size)}",
        as_json=as_json and str(out) != "-",
    )
    return Exit.OK


@click.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@journals.journal_path
@options.as_json
def import_runs(file: Path, journal: Path | None, as_json: bool) -> int:
    """Import runs from a FILE written by `runs export` or `runs salvage`.

    The file is checked first. If it is damaged, or a run id already exists, nothing is imported. Ids and
    hashes are kept.
    """
    from callsheet.store.archive import import_runs as import_archive  # noqa: PLC0415 - imports the store

    with journals.open_journal(journal) as opened:
        try:
            with sys.stdin.buffer if str(file) == "-" else file.open("rb") as lines:
                imported = import_archive(opened.parts, lines)
        except OSError as error:
            raise _file_error(file, error, "read") from error
    rows = [{"run_id": run.run_id, "status": str(run.status), "events": run.events} for run in imported]
    _report_transfer(
        rows,
        "\n".join(f"{run.run_id:<22} {run.status:<10} {count_events(run.events)}" for run in imported),
        as_json=as_json,
    )
    return Exit.OK


@click.command("backup")
@options.output("The file to write; one that is there is replaced.", *_NAMES, required=True)
@click.option("--without-keys", is_flag=True, help="Leave out the keys that open the secrets in the journal.")
@journals.journal_path
@options.as_json
def backup(out: Path, without_keys: bool, journal: Path | None, as_json: bool) -> int:
    """Back the whole journal up into one file, also while runs are going on.

    The file has the database, the large values, the labels of files, and the keys that open its secrets: keep
    it as safe as those. `callsheet runs restore` makes a journal of it again.

    \b
    Example:
      callsheet runs backup -o nightly.tar.gz
    """
    from callsheet.store.backup import back_up  # noqa: PLC0415 - imports the store
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    if str(out) == "-":
        raise click.BadParameter("a backup is written to a file", param_hint="'--output'")
    done = back_up(journal or default_journal_path(), out, with_keys=not without_keys)
    keys = "with the keys of its secrets" if done.has_keys else "without keys"
    _report_transfer(
        {"file": str(out), **done._asdict()},
        f"{done.runs:,} runs and {done.values:,} large values in {out}, {format_bytes(done.bytes)}, {keys}",
        as_json=as_json,
    )
    return Exit.OK


@click.command("restore")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@journals.journal_path
@options.as_json
def restore(file: Path, journal: Path | None, as_json: bool) -> int:
    """Restore a journal from a FILE of `runs backup`, to a place where there is none.

    The file is checked first, and nothing is replaced. Keys that you do not have are added to your key file.
    """
    from callsheet.store.backup import restore as restore_journal  # noqa: PLC0415 - imports the store
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    place = journal or default_journal_path()
    done = restore_journal(file, place)
    text = f"{done.runs:,} runs and {done.values:,} large values restored to {place}"
    text += f"; {done.keys} keys were added to your own" if done.keys else ""
    _report_transfer({"journal": str(place), **done._asdict()}, text, as_json=as_json)
    return Exit.OK


@click.command()
@click.argument("runs", metavar="[RUN_ID]...", nargs=-1)
@_out
@journals.journal_path
@options.as_json
def salvage(runs: tuple[str, ...], out: Path, journal: Path | None, as_json: bool) -> int:
    """Export the intact part of damaged runs.

    The events of each run, or of all runs, are exported up to the first bad one. A run that loses its end is
    unfinished in the export; after an import into an intact journal it can be resumed. The exit status is 1
    if anything was lost.
    """
    from callsheet.store.backup import lists_all, opened, run_ids  # noqa: PLC0415 - imports the store
    from callsheet.store.backup import salvage as salvage_run  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    place = journal or default_journal_path()
    with opened(place) as damaged:
        _refuse_own(out, place)
        parts = damaged.parts
        saved = [salvage_run(parts, run) for run in (runs or run_ids(parts.reader))]
        is_all = bool(runs) or lists_all(parts.reader)
        size = _write(out, (line for run in saved for line in run.lines))
    rows = [{"run_id": run.run_id, "events": run.events, "lost": run.lost} for run in saved]
    _report_transfer(
        {"file": str(out), "bytes": size, "runs": rows, "lists_all": is_all},
        "\n".join([*map(_description, saved), *(() if is_all else (_MORE,))]) or "no runs in this journal",
        as_json=as_json and str(out) != "-",
    )
    return Exit.OK if is_all and all(run.lost is None for run in saved) else Exit.FAILED


_MORE = "there may have been more runs: the list of runs is damaged or truncated"


def _description(run: Salvaged) -> str:
    saved = f"{count_events(run.events)} saved" if run.lines else "nothing saved"
    return f"{run.run_id:<22} {saved}" + ("" if run.lost is None else f"; lost from {run.lost}")


def _report_transfer(as_data: Any, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(as_data)
    else:
        to_stderr(text)


def _refuse_own(out: Path, journal: Path) -> None:
    """Raise CallsheetError (CFG014) for the journal itself as the file to write."""
    with suppress(OSError):
        if out.samefile(journal):
            raise CallsheetError.single(
                "CFG014", f"{out} cannot be written: it is the journal that is read", help="name another file"
            )


def _write(out: Path, lines: Iterable[bytes]) -> int:
    """Write lines to a pipe or a device, or to a file atomically. Returns the number of bytes."""
    if str(out) == "-":
        return sum(_print(line) for line in lines)
    from callsheet.store.journal_paths import is_special  # noqa: PLC0415 - as above

    unfinished = Path(f"{out}.{os.getpid()}.new")  # with_name raises for a path without a name, such as "."
    try:
        if is_special(out):
            with out.open("wb") as device:
                return _copy(device, lines)
        # A run's values are as private as its journal.
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            size = _copy(file, lines)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(out)
    except OSError as error:
        raise _file_error(out, error, "written") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return size


def _print(line: bytes) -> int:
    click.echo(line, nl=False)
    return len(line)


def _copy(file: BinaryIO, lines: Iterable[bytes]) -> int:
    size = 0
    for line in lines:
        size += file.write(line)
    return size


def _file_error(path: Path, error: OSError, done: str) -> CallsheetError:
    return CallsheetError.single(
        "CFG014", f"{path} cannot be {done}: {error.strerror}", help="name another file"
    )
