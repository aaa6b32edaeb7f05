"""`callsheet runs export|import|salvage`: exports and imports runs as files, and recovers damaged ones."""

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
from callsheet.apps.cli.maintenance import selected_runs
from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.apps.rendering.runs import count_events
from callsheet.apps.rendering.values import format_bytes
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.store.salvage import Salvaged

_out = click.option(
    "-o",
    "--out",
    "--output",
    "out",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    required=True,
    help="The file to write; - is standard output.",
)


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
    _report(
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
    _report(
        rows,
        "\n".join(f"{run.run_id:<22} {run.status:<10} {count_events(run.events)}" for run in imported),
        as_json=as_json,
    )
    return Exit.OK


@click.command("backup")
@click.option(
    "-o",
    "--out",
    "--output",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    required=True,
    help="The file to write; one that is there is replaced.",
)
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
    _report(
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
    _report({"journal": str(place), **done._asdict()}, text, as_json=as_json)
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
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above
    from callsheet.store.salvage import lists_all, opened, run_ids  # noqa: PLC0415 - imports the store
    from callsheet.store.salvage import salvage as salvage_run  # noqa: PLC0415 - as above

    place = journal or default_journal_path()
    with opened(place) as damaged:
        _refuse_own(out, place)
        parts = damaged.parts
        saved = [salvage_run(parts, run) for run in (runs or run_ids(parts.reader))]
        is_all = bool(runs) or lists_all(parts.reader)
        size = _write(out, (line for run in saved for line in run.lines))
    rows = [{"run_id": run.run_id, "events": run.events, "lost": run.lost} for run in saved]
    _report(
        {"file": str(out), "bytes": size, "runs": rows, "lists_all": is_all},
        "\n".join([*map(_description, saved), *(() if is_all else (_MORE,))]) or "no runs in this journal",
        as_json=as_json and str(out) != "-",
    )
    return Exit.OK if is_all and all(run.lost is None for run in saved) else Exit.FAILED


_MORE = "there may have been more runs: the list of runs is damaged or truncated"


def _description(run: Salvaged) -> str:
    saved = f"{count_events(run.events)} saved" if run.lines else "nothing saved"
    return f"{run.run_id:<22} {saved}" + ("" if run.lost is None else f"; lost from {run.lost}")


def _report(as_data: Any, text: str, *, as_json: bool) -> None:
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
