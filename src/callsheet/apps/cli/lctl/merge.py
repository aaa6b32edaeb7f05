"""`callsheet lctl merge`: the document that joins parallel branches."""

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
from callsheet.trace.lctl.reading import Reading
from callsheet.trace.lctl.receive import Received, receive
from callsheet.trace.lctl.receive import merge as merge_branches
from callsheet.trace.lctl.write import to_data, write


class _MergeOptions(NamedTuple):
    """Who joins, who goes on, and with what."""

    to: str
    agent: str | None
    instruction: str | None
    action: str | None

    def work(self, branches: list[Received]) -> Work:
        """The work of joining these branches; it is as sure as the least sure of their facts."""
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
    to=click.option("--to", required=True, metavar="NAME", help="Who goes on with the joined document."),
    agent=click.option(
        "--agent", metavar="NAME", help="Who joins; by default the target that all branches name."
    ),
    instruction=click.option(
        "--instruction", metavar="TEXT", help="By default the instructions of the branches."
    ),
    action=click.option("--action", metavar="TEXT", help="What joining took, as an entry of the trace."),
)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_joining
@click.option("--parent", metavar="FILE", help="The document that the branches came from.")
@click.option("--rename", is_flag=True, help="Give ids that branches use for different facts anew.")
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
    """Join the branches FILE... of one chain: all traces and facts, of one in several the least sure version.

    Where branches give one id to different facts the merge is refused (M01), or one gets another id with
    --rename. What they do not agree on is told, and stands among the warnings of the document.
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
    return replace(diagnostic, help=f"{diagnostic.help}; --rename does that for facts that are new in them")


def _require_document(reading: Reading) -> Reading:
    if reading.document is None:
        raise LctlError.of(reading.findings, reading.source)
    return reading


def _common_target(branches: list[Received]) -> str:
    targets = list(dict.fromkeys(branch.document.chain.target or "" for branch in branches))
    if len(targets) > 1:
        raise click.UsageError(f"the branches are for {', '.join(targets)}: say who joins them, with --agent")
    return targets[0]


def _rename_clashes(
    branches: list[Received], files: tuple[str, ...], parents: list[Reading]
) -> list[Received]:
    """The branches; of ids that stand for different facts, those of all branches but the first are new."""
    renamed: list[Received] = []
    new_names = new_ids([branch.hop for branch in branches])
    for branch, name, names in zip(branches, files, new_names, strict=True):
        for old, new in names.items():
            to_stderr(f"{name}: {old} is {new} in the merge")
        renamed.append(receive(rename_facts(branch.document, names), after=parents) if names else branch)
    return renamed
