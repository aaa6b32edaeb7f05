"""`callsheet labels list|set|forget`: the labels of the files and facts that runs have written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.group import CommandEntry, LazyCommands
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.diagnostics import CallsheetError, did_you_mean

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_rows import LabelRow
    from callsheet.ir.labels import Label
    from callsheet.store.labels import LabelStore, Noted

_place = click.argument("place", metavar="FILE|TEXT")
_is_fact = click.option(
    "--fact", "is_fact", is_flag=True, help="The argument is the text of a fact in memory, not a file."
)
_workspace = click.option(
    "--workspace",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="DIR",
    help="The workspace of the file tools; default: the current folder.",
)


class _Location(NamedTuple):
    """A labelled file or fact: the names it is stored under, and the name that is printed."""

    root: str
    name: str
    shown: str


@click.command("list")
@click.option("--run", metavar="RUN", help="Only labels that this run has written.")
@journals.journal_path
@options.as_json
def list_labels(run: str | None, journal: Path | None, as_json: bool) -> int:
    """List the labels of files, facts and notes.

    A file without an entry has the label that the policy gives it. Facts are shown by a digest of their text.
    """

    def work(store: LabelStore | None, run_id: str) -> Exit:
        entries = [] if store is None else store.entries(run_id)
        with ignoring_broken_pipe():
            if as_json:
                print_json([_json(noted) for noted in entries])
                return Exit.OK
            for noted in entries:
                rows = _json(noted)
                where = f"  in {rows['where']}" if rows["where"] else ""
                print_text(f"{rows['label']:<10} {rows['kind']:<5} {rows['name']}{where}")
            to_stderr(f"{len(entries)} label{'s' * (len(entries) != 1)}")
        return Exit.OK

    return _with_labels(journal, work, run)


@click.command("set")
@_place
@click.argument("label", metavar="LABEL")
@_is_fact
@_workspace
@journals.journal_path
@options.as_json
def set_label(
    place: str, label: str, is_fact: bool, workspace: Path, journal: Path | None, as_json: bool
) -> int:
    """Set the label of FILE, a path in the workspace, to LABEL: T/pub, U/priv, T/secret or another label.

    Runs use this label until a run writes the file. With --fact, TEXT is the text of a fact in memory.

    \b
    Example:
      callsheet labels set report.md T/pub
    """
    from callsheet.ir.labels import read_label  # noqa: PLC0415 - not for --help

    try:
        new_label = read_label(label)
    except ValueError:
        hint = (
            "write T (trusted) or U, a /, and the readers: pub, priv, secret, or audiences such as user+books"
        )
        raise click.BadParameter(f"{label!r} is not a label: {hint}", param_hint="'LABEL'") from None
    location = _locate(place, workspace, is_fact=is_fact)

    def work(store: LabelStore | None, run_id: str) -> Exit:
        assert store is not None
        before = store.of(location.root, (location.name,))
        store.put(location.root, location.name, new_label)
        if as_json:
            print_json(
                {
                    "place": location.shown,
                    "before": None if before is None else str(before),
                    "label": str(new_label),
                }
            )
        else:
            to_stderr(f"{location.shown}: {'no label' if before is None else before} → {new_label}")
        for name, meant in _likely_typos(new_label):
            to_stderr(f"{name} is read as an audience of a policy; did you mean {meant}?")
        return Exit.OK

    return _with_labels(journal, work, create=True)


@click.command("forget")
@_place
@_is_fact
@_workspace
@journals.journal_path
@options.as_json
def forget(place: str, is_fact: bool, workspace: Path, journal: Path | None, as_json: bool) -> int:
    """Remove the label of FILE, so that it has the label that the policy gives it.

    The exit status is 1 if FILE has no label or a run is writing it.
    """
    location = _locate(place, workspace, is_fact=is_fact)

    def work(store: LabelStore | None, run_id: str) -> Exit:
        forgotten = store is not None and store.forget(location.root, location.name)
        being_written = (
            not forgotten and store is not None and store.of(location.root, (location.name,)) is not None
        )
        if as_json:
            print_json({"place": location.shown, "forgotten": forgotten, "being_written": being_written})
        else:
            reason = "a run is writing it" if being_written else "it has no label"
            to_stderr(f"{location.shown}: {'forgotten' if forgotten else reason}")
        return Exit.OK if forgotten else Exit.FAILED

    return _with_labels(journal, work)


def _likely_typos(label: Label) -> list[tuple[str, str]]:
    """The readers of a label that resemble a known word, each with that word."""
    from callsheet.ir.labels import LINKS, MODEL, TRUSTED, USER  # noqa: PLC0415 - as above

    known = {USER, MODEL, TRUSTED, LINKS}
    words = ("pub", "priv", "secret", USER, MODEL, TRUSTED)
    slips = [(name, did_you_mean(name, words)) for name in sorted((label.readers or frozenset()) - known)]
    return [(name, " or ".join(suggestions)) for name, suggestions in slips if suggestions]


def _locate(place: str, workspace: Path, *, is_fact: bool) -> _Location:
    """The file or fact that is meant. Raises click.BadParameter for a path outside of the workspace."""
    from callsheet.policy.paths import PathRefused, file_key, workspace_path  # noqa: PLC0415 - as above
    from callsheet.store.labels import fact_name  # noqa: PLC0415 - as above

    if is_fact:
        return _Location("", fact_name(place), f"the fact {fact_name(place)[:12]}")
    try:
        return _Location(os.path.abspath(workspace), file_key(workspace_path(place)), place)
    except PathRefused as error:
        raise click.BadParameter(str(error), param_hint="'FILE'") from None


def _with_labels(
    journal: Path | None,
    work: Callable[[LabelStore | None, str], Exit],
    run: str | None = None,
    *,
    create: bool = False,
) -> Exit:
    """Run `work` on the labels beside the journal; None if no label store exists."""
    import sqlite3  # noqa: PLC0415 - not for --help

    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above
    from callsheet.store.label_transfer import has_labels, open_labels  # noqa: PLC0415 - as above

    path, run_id = journal or default_journal_path(), ""
    if run is not None:
        with journals.open_to_read(journal) as opened:
            run_id = opened.find_run(run).run_id
    if not create and not has_labels(path):
        return work(None, run_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_labels(path) as store:
            return work(store, run_id)
    except (OSError, sqlite3.Error) as error:
        raise CallsheetError.single("JRN070", f"the labels beside {path} cannot be used: {error}") from error


def _json(noted: Noted) -> LabelRow:
    from callsheet.store.labels import EVERYWHERE, NOTES  # noqa: PLC0415 - as above

    is_note = noted.root.startswith(NOTES)
    kind = "note" if is_note else "file" if noted.root else "fact"
    name = "(anywhere)" if kind == "file" and noted.name == EVERYWHERE else noted.name
    where = noted.root.removeprefix(NOTES) if is_note else noted.root
    return {"kind": kind, "name": name, "where": where, "label": str(noted.label)}


_PACKAGE = "callsheet.apps.cli.labels"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(f"{_PACKAGE}:list_labels", "List the labels of files, facts and notes.", _SECTION),
    "set": CommandEntry(f"{_PACKAGE}:set_label", "Set the label of a file or a fact.", _SECTION),
    "forget": CommandEntry(f"{_PACKAGE}:forget", "Remove the label of a file or a fact.", _SECTION),
}


@click.group("labels", cls=LazyCommands, entries=COMMANDS, epilog=None)
def labels() -> None:
    """Manage the labels of data that runs under a policy have left in files and in memory."""
