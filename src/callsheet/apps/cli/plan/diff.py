"""`callsheet plan diff`: the differences between two plans, step by step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import STDIN, NamedPlan
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import columns, is_coloured, print_json, print_report
from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import Diagnostic, Severity, Source
from callsheet.ir import Plan
from callsheet.ir.diff import Piece, PieceDiff, PlanDiff, StepDiff, TreeDiff, diff_plans

if TYPE_CHECKING:
    from callsheet.frontends.spelling import Syntax


@click.command()
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@options.syntax
@options.plans_folder
@click.option("--exit-code", is_flag=True, help="Exit 1 if the plans differ.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the output; auto: on a terminal, unless NO_COLOR is set.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json", "markdown", "sarif", "github", "gitlab", "junit"]),
    default="text",
    show_default=True,
    help="How to print it; markdown: for a comment in a review, with a picture; sarif, github, gitlab, junit:"
    " for CI services.",
)
@options.as_json
def diff(
    old: str,
    new: str,
    syntax: Syntax | None,
    plans_folder: Path | None,
    exit_code: bool,
    color: str,
    shape: str,
    as_json: bool,
) -> int:
    """Show the differences of the plans A and B: steps added, removed, changed, moved, renamed.

    Statements of plans with blocks are matched wherever they stand.

    Each is a file, or a plan of the library: its id, or ID@N for version N. One of them may be - for standard
    input. Comments and formatting are ignored.
    """
    if old == new == STDIN:
        raise click.UsageError("only one of the two plans can come from standard input")
    before, after = _read(old, syntax, plans_folder), _read(new, syntax, plans_folder)
    difference = diff_plans(before.require(), after.require())
    if as_json and shape not in ("text", "json"):
        raise click.UsageError(f"--json and --format {shape} cannot be combined")
    if as_json or shape == "json":
        from callsheet.views.plan_diff import plan_diff_json  # noqa: PLC0415 - one of three

        print_json(plan_diff_json(difference, before.source.name, after.source.name))
    elif shape == "markdown":
        from callsheet.views.plan_review import Standing, review  # noqa: PLC0415 - as above

        told = review(after.source.name, Standing(before.plan), Standing(after.plan))
        click.echo(told.encode("utf-8", "backslashreplace"))
    elif shape == "text":
        click.echo(_text(difference, before, after, color).encode("utf-8", "backslashreplace"))
    else:
        print_report(_for_ci(shape, difference, before, after))
    return Exit.FAILED if exit_code and not difference.is_same else Exit.OK


def _read(argument: str, syntax: Syntax | None, folder: Path | None) -> PlanText:
    """The plan; the null device, which git uses for a missing file, is a plan without steps."""
    if argument == os.devnull:
        return PlanText(None, Source(argument, ""), Plan(()), ())
    text = NamedPlan(argument, syntax, folder).read()
    if text.stored is None:
        return text
    source = replace(
        text.source, name=argument
    )  # the name on the command line, not the path of the stored file
    original = text.stored.result.plan  # the id in the library is not part of the plan
    return replace(text, source=source, plan=None if text.plan is None else original)


def _text(difference: PlanDiff | TreeDiff, before: PlanText, after: PlanText, color: str) -> str:
    from callsheet.views.plan_diff import plan_diff_text  # noqa: PLC0415 - one of three

    ansi = is_coloured() if color == "auto" else color == "always"
    text = plan_diff_text(difference, before.source.name, after.source.name, ansi=ansi, columns=columns())
    if difference.is_same and before.source.text != after.source.text:
        text += "; only the text differs (comments, formatting or spelling)"
    return text


def _for_ci(shape: str, difference: PlanDiff | TreeDiff, before: PlanText, after: PlanText) -> str:
    """The differences as findings at their lines: of the new plan, and what was removed of the old one."""
    from callsheet.apps.rendering.annotations import (  # noqa: PLC0415 - only for CI services
        Checked,
        Format,
        findings_of,
        rendered,
    )
    from callsheet.views.plan_diff import differences  # noqa: PLC0415 - as above

    findings = (
        finding
        for pair, lines in differences(difference)
        if lines
        for finding in findings_of([_diagnostic(pair, lines)], _source(_side(pair, before, after)))
    )
    name = f"{before.source.name} → {after.source.name}"
    return rendered(
        Format(shape), [Checked(name=name, group="callsheet plan diff", findings=tuple(findings))]
    )


def _side(pair: StepDiff | PieceDiff | None, before: PlanText, after: PlanText) -> PlanText:
    return before if pair is not None and pair.is_removed else after


def _source(text: PlanText) -> Source:
    """The text, without a name if it is no file but a plan of the library."""
    return text.source if text.stored is None else replace(text.source, name=STDIN)


def _diagnostic(pair: StepDiff | PieceDiff | None, lines: Sequence[str]) -> Diagnostic:
    place = None if pair is None else pair.new or pair.old
    node = place.node if isinstance(place, Piece) else place
    return Diagnostic("DIF001", Severity.HINT, "\n".join(lines), getattr(node, "span", None))
