"""`callsheet lctl merge`: merges the documents of parallel branches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.lctl.documents import STDIN, read_block
from callsheet.apps.cli.lctl.write_file import save
from callsheet.apps.cli.options import grouped
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.trace.lctl.emit import Work, new_ids, rename_facts
from callsheet.trace.lctl.findings import LctlError
from callsheet.trace.lctl.ids import shown_name
from callsheet.trace.lctl.reading import Reading
from callsheet.trace.lctl.receive import Received, receive
from callsheet.trace.lctl.receive import merge as merge_branches
from callsheet.trace.lctl.write import to_data, write


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
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE."
)
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
    with ignoring_broken_pipe():
        if output is not None:
            save(output, write(merged))
        if as_json:
            print_json(to_data(merged))
        elif output is None:
            print_text(write(merged).removesuffix("\n"))
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
