"""`callsheet lctl emit|merge`: writes a recorded run, or the merge of branches, as an LCTL document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.lctl.reading import STDIN, read_block
from callsheet.apps.cli.options import grouped
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr, writing
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.trace.lctl.emit import Work, new_ids, rename_facts
from callsheet.trace.lctl.findings import LctlError
from callsheet.trace.lctl.model import Document, shown_name
from callsheet.trace.lctl.reading import Reading
from callsheet.trace.lctl.receive import Received, receive
from callsheet.trace.lctl.receive import merge as merge_branches
from callsheet.trace.lctl.write import to_data, write


def save(path: Path, text: str) -> None:
    """Write a text to a file. Raises CallsheetError (CFG014)."""
    with writing(path):
        path.write_text(text, encoding="utf-8")


def _write(document: Document, output: Path | None, *, as_json: bool) -> None:
    """Write a document to a file, if one is named, and print it as data, or as text if it has no file."""
    with ignoring_broken_pipe():
        if output is not None:
            save(output, write(document))
        if as_json:
            print_json(to_data(document))
        elif output is None:
            print_text(write(document).removesuffix("\n"))


def _parse_position(at: str | None, step: str | None) -> str | int | None:
    """The event or the step after which the run is described."""
    if at is not None and step is not None:
        raise click.UsageError("--at and --step cannot be combined")
    if at is None:
        return step
    return int(at) if at.isascii() and at.isdigit() else at


def _confidences(
    _context: click.Context, _option: click.Parameter, assignments: tuple[str, ...]
) -> dict[str, float]:
    """The confidences of `TOOL=NUMBER` by canonical tool name."""
    from callsheet.ir import canonical_tool_name  # noqa: PLC0415 - not for --help

    confidences: dict[str, float] = {}
    for text in assignments:
        tool, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not tool or not 0 <= value <= 1:
            raise click.BadParameter(f"{text}: write TOOL=NUMBER with a number from 0 to 1, as in price=0.9")
        confidences[canonical_tool_name(tool)] = value
    return confidences


_moment = grouped(
    "moment",
    _parse_position,
    at=click.option(
        "--at", metavar="SEQ", help="Describe the run after this event, or after a step: --at S3."
    ),
    step=click.option(
        "--step",
        metavar="STEP",
        help="Describe the run after the last visit of STEP, or after a visit: S3@2.",
    ),
)


def _kind_of(debug: bool, handoff: bool) -> bool | None:
    if debug and handoff:
        raise click.UsageError("--debug and --handoff cannot be combined")
    return True if debug else False if handoff else None


_kind = grouped(
    "is_debug",
    _kind_of,
    debug=click.option("--debug", is_flag=True, help="Write a post-mortem, even if the run did not fail."),
    handoff=click.option("--handoff", is_flag=True, help="Write a hand-off, even if the run failed."),
)


@click.command()
@click.argument("run", metavar="RUN")
@_moment
@_kind
@click.option("--items", is_flag=True, help="Add a fact for each result of a FOREACH: F5-0, F5-1, …")
@click.option(
    "--confidence",
    "confidences",
    metavar="TOOL=NUMBER",
    multiple=True,
    callback=_confidences,
    help="The confidence of results of a tool, from 0 to 1; may be repeated.",
)
@options.output("Write to FILE.")
@journals.journal_path
@options.as_json
def emit(
    run: str,
    moment: str | int | None,
    is_debug: bool | None,
    items: bool,
    confidences: dict[str, float],
    output: Path | None,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Write RUN as an LCTL document.

    RUN is a run id, a unique prefix of one, or `last`. The document describes the current state of the run,
    or the state after a step or an event. It has a fact for each variable, with its confidence and the
    reason; facts that are still needed are critical. A failed run is written as a post-mortem.

    The exit status is 1, and nothing is written, if the hash chain of the events is broken.

    \b
    Example:
      callsheet lctl emit last -o handoff.yaml
    """
    from callsheet.runtime.reporting import lctl_of  # noqa: PLC0415 - imports the runtime

    if is_debug and moment is not None:
        raise click.UsageError("--debug describes the whole run: remove --at and --step")
    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        if not journals.is_intact(opened, info.run_id):
            return Exit.FAILED
        document = lctl_of(opened, info.run_id, moment, debug=is_debug, with_items=items, by_tool=confidences)
    _write(document, output, as_json=as_json)
    return Exit.OK


class _MergeOptions(NamedTuple):
    """The agents and texts of the merged document."""

    to: str
    agent: str | None
    instruction: str | None
    action: str | None

    def work(self, branches: list[Received]) -> Work:
        """The work of merging these branches; its confidence is the lowest of their facts."""
        instruction = self.instruction
        if instruction is None:
            instruction = "\n".join(dict.fromkeys(branch.instruction.strip() for branch in branches))
        known = [value for branch in branches for value in branch.effective.values() if value is not None]
        return Work(
            agent=self.agent or _common_target(branches),
            to=self.to,
            instruction=instruction,
            action=self.action,
            confidence=None if self.action is None else min(known, default=1.0),
        )


_joining = grouped(
    "joining",
    _MergeOptions,
    to=click.option("--to", required=True, metavar="NAME", help="The target of the merged document."),
    agent=click.option(
        "--agent", metavar="NAME", help="The agent that merges; default: the common target of the branches."
    ),
    instruction=click.option(
        "--instruction",
        metavar="TEXT",
        help="The instruction for the target; default: those of the branches.",
    ),
    action=click.option("--action", metavar="TEXT", help="The action of merging, recorded in the trace."),
)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_joining
@click.option("--parent", metavar="FILE", help="The document before the branches.")
@click.option("--rename", is_flag=True, help="Rename ids that branches use for different facts.")
@options.output("Write to FILE.")
@options.as_json
def merge(
    files: tuple[str, ...],
    joining: _MergeOptions,
    parent: str | None,
    rename: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Merge the branches FILE... of one chain: all traces and all facts, of several versions the least
    certain.

    If branches use one id for different facts, the merge fails (M01), or with --rename one fact gets another
    id. Disagreements are printed and added to the warnings of the document.
    """
    if [*files, parent].count(STDIN) > 1:
        raise click.UsageError("only one document can come from standard input")
    parents = [] if parent is None else [_require_document(read_block(parent))]
    branches = [receive(_require_document(read_block(name)), after=parents) for name in files]
    if rename:
        branches = _rename_clashes(branches, files, parents)
    try:
        merged = merge_branches(branches, joining.work(branches))
    except LctlError as error:
        raise CallsheetError([_with_rename_hint(d) for d in error.diagnostics]) from error
    for warning in () if merged.lists is None else merged.lists.warnings:
        to_stderr(f"warning: {warning}")
    _write(merged, output, as_json=as_json)
    return Exit.OK


def _with_rename_hint(diagnostic: Diagnostic) -> Diagnostic:
    if diagnostic.code != "M01":
        return diagnostic
    return replace(diagnostic, help=f"{diagnostic.help}; --rename does this for facts that the branches add")


def _require_document(reading: Reading) -> Reading:
    if reading.document is None:
        raise LctlError.of(reading.findings, reading.source)
    return reading


def _common_target(branches: list[Received]) -> str:
    targets = list(dict.fromkeys(branch.document.chain.target or "" for branch in branches))
    if len(targets) > 1:
        names = ", ".join(map(shown_name, targets))
        raise click.UsageError(f"the branches are for {names}: name the agent that merges them with --agent")
    return targets[0]


def _rename_clashes(
    branches: list[Received], files: tuple[str, ...], parents: list[Reading]
) -> list[Received]:
    """The branches; ids that clash are renamed in all branches but the first."""
    renamed: list[Received] = []
    new_names = new_ids([branch.hop for branch in branches])
    for branch, name, names in zip(branches, files, new_names, strict=True):
        for old, new in names.items():
            to_stderr(f"{name}: renamed {old} to {new}")
        renamed.append(receive(rename_facts(branch.document, names), after=parents) if names else branch)
    return renamed
