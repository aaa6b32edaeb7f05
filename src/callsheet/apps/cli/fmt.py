"""`callsheet fmt`: plans in their canonical form, written in place.

A text with an error is left as it is. Files are replaced whole, so that no crash leaves half a plan.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import json_rows, print_diagnostics, print_json, say
from callsheet.apps.cli.reading import PlanText, read_plan
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.frontends.dag.convert import Parameters
from callsheet.frontends.spelling import OUTSIDE_CODES, Syntax, convert_to, format_as
from callsheet.ir import Call, Plan


@click.command()
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@click.option(
    "--to",
    "target",
    type=click.Choice([str(syntax) for syntax in Syntax]),
    help="Print one PLAN in this spelling; no file is written.",
)
@options.syntax
@options.tools_files
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if a plan would change.")
@click.option("--diff", "show_diff", is_flag=True, help="Write nothing; print what would change.")
@options.as_json
def fmt(
    plans: tuple[str, ...],
    target: str | None,
    syntax: Syntax | None,
    tools_files: tuple[Path, ...],
    only_check: bool,
    show_diff: bool,
    as_json: bool,
) -> int:
    """Write each PLAN in its canonical form; - reads standard input and prints the result.

    A plan with errors, or with text around it that would be lost, is not touched; that is
    printed and the exit status is 2. A JSON plan names every argument: with --to dag the names come
    from the built-in tools and from --tools.
    """
    writes = not (only_check or show_diff)
    if target is not None:
        argument, *others = plans
        if others or not writes:
            raise click.UsageError("--to prints one plan: give one PLAN, without --check and --diff")
        return _convert(argument, syntax, Syntax(target), tools_files, as_json=as_json)
    status, changed = Exit.OK, list[str]()
    rows: list[dict[str, object]] = []
    for argument in plans:
        text, formatted, wrong = _format(argument, syntax)
        if formatted is None:
            status = Exit.WRONG
            rows += json_rows(wrong, text.source)
            if not as_json:
                print_diagnostics(wrong, text.source)
            continue
        if formatted != text.source.text:
            changed.append(text.source.name)
        _put_out(text, formatted, writes=writes and not as_json, show_diff=show_diff and not as_json)
        if writes and text.path is not None and formatted != text.source.text:
            _replace(text.path, formatted)
    if as_json:
        print_json({"ok": status is Exit.OK, "changed": changed, "diagnostics": rows})
    else:
        _sum_up(changed, len(plans), writes=writes)
    return Exit.FAILED if changed and not writes and status is Exit.OK else status


def _convert(
    argument: str, syntax: Syntax | None, target: Syntax, tools_files: tuple[Path, ...], *, as_json: bool
) -> Exit:
    """Print a plan in another spelling, and say what stands around it and was left out."""
    text = read_plan(argument, syntax=syntax)
    try:
        plan = text.require()
        formatted, notes = convert_to(target, plan, _parameters(plan, target, tools_files))
    except CallsheetError as error:
        raise CallsheetError([d for d in error.diagnostics if d.is_error], text.source) from error
    said = [*(d for d in text.diagnostics if d.code in OUTSIDE_CODES), *notes]
    if as_json:
        rows = json_rows(said, text.source)
        print_json({"ok": True, "syntax": str(target), "text": formatted, "diagnostics": rows})
    else:
        click.echo(formatted.encode("utf-8", "backslashreplace"), nl=False)
        print_diagnostics(said, text.source)
    return Exit.OK


def _parameters(plan: Plan, target: Syntax, tools_files: tuple[Path, ...]) -> Parameters:
    """The parameters of tools, where a JSON plan is made of calls with arguments that have no name."""
    if target is not Syntax.DAG or not any(
        isinstance(s.action, Call) and s.action.positional for s in plan.steps
    ):
        return {}
    from callsheet.api.reach import parameters_of  # noqa: PLC0415 - no tool is looked at elsewhere
    from callsheet.apps.session import local_tools  # noqa: PLC0415 - as above

    return parameters_of(plan, local_tools(options.setup_from(tools_files)))


def _format(argument: str, syntax: Syntax | None) -> tuple[PlanText, str | None, tuple[Diagnostic, ...]]:
    """The text, its canonical form, and where there is none the errors."""
    text = read_plan(argument, syntax=syntax)
    if text.is_json:
        raise CallsheetError.single(
            "CFG010",
            f"{argument} holds a plan as JSON, and fmt formats texts",
            help="--to ltp prints it as LTP text, --to micro as Micro-CLI, --to dag as a JSON plan",
        )
    if text.is_yaml and text.path is not None:
        raise CallsheetError.single(
            "CFG010",
            f"{argument} holds a plan as YAML, and fmt writes JSON",
            help=f"`callsheet fmt --to dag {argument}` prints it as JSON; comments are lost",
        )
    if text.plan is None or text.syntax is None:
        return text, None, tuple(d for d in text.diagnostics if d.is_error)
    outside = [d for d in text.diagnostics if d.code in OUTSIDE_CODES]
    if text.path is not None and outside:
        way_out = "write it as comments (# …) or remove it: fmt would lose it"
        return text, None, tuple(replace(d, severity=Severity.ERROR, help=way_out) for d in outside)
    try:
        return text, format_as(text.syntax, text.plan), ()
    except CallsheetError as error:
        return text, None, error.diagnostics


def _put_out(text: PlanText, formatted: str, *, writes: bool, show_diff: bool) -> None:
    if show_diff:
        from difflib import unified_diff  # noqa: PLC0415 - only where a difference is shown

        name = text.source.name
        before, after = text.source.text.splitlines(True), formatted.splitlines(True)
        for line in unified_diff(before, after, name, f"{name} (formatted)"):
            click.echo(line, nl=not line.endswith("\n"))
    elif writes and text.path is None:
        click.echo(formatted, nl=False)


def _sum_up(changed: list[str], count: int, *, writes: bool) -> None:
    did = "formatted" if writes else "would be formatted"
    for name in changed:
        if name != "<stdin>":
            say(f"{name}: {did}")
    if not changed and count > 1:
        say(f"nothing to change in {count} plans")


def _replace(path: Path, text: str) -> None:
    """Put `text` where the file was, in one step, with the file's mode; a link stays a link."""
    target = path.resolve()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), target.stat().st_mode & 0o7777)
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CallsheetError.single(
            "CFG014",
            f"{path} cannot be written: {error.strerror or error}",
            help="the file is as it was; make its folder writable, or use `callsheet fmt - < FILE`",
        ) from error
