"""`callsheet fmt`: rewrites plan files in canonical form.

A file with an error is not changed. Files are replaced atomically, so that a crash cannot leave a partial
plan.
"""

from __future__ import annotations

import os
import tempfile
from io import StringIO
from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import json_rows, print_diagnostics, print_json, print_text, to_stderr
from callsheet.apps.cli.plan_input import read_plan
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.operations.texts import Formatted, convert_text, format_text
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag.convert import Parameters
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Plan


@click.command()
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@click.option(
    "--to",
    "target",
    type=click.Choice([str(syntax) for syntax in Syntax]),
    help="Print one PLAN in this syntax; no file is written.",
)
@options.syntax
@options.tools_files
@click.option(
    "--check", "only_check", is_flag=True, help="Do not write; exit with status 1 if a plan would change."
)
@click.option("--diff", "show_diff", is_flag=True, help="Do not write; print the changes as a diff.")
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
    """Format each PLAN in place in its canonical form; - reads standard input and prints the result.

    A plan is not changed, and the exit status is 2, if it has errors or if text around it would be lost. In a
    JSON plan every argument has a name: with --to dag the names come from the built-in tools and from
    --tools.

    \b
    Examples:
      callsheet fmt plans/*.ltp
      callsheet fmt --check plan.ltp
      callsheet fmt --to dag plan.ltp > plan.json
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
        result = _format(argument, syntax)
        text, formatted = result.text, result.formatted
        if formatted is None:
            status = Exit.WRONG
            rows += json_rows(result.diagnostics, text.source)
            if not as_json:
                print_diagnostics(result.diagnostics, text.source)
            continue
        if formatted != text.source.text:
            changed.append(text.source.name)
        _print_result(text, formatted, writes=writes and not as_json, show_diff=show_diff and not as_json)
        if writes and text.path is not None and formatted != text.source.text:
            _replace_file(text.path, formatted)
    if as_json:
        print_json({"ok": status is Exit.OK, "changed": changed, "diagnostics": rows})
    else:
        _print_summary(changed, len(plans), writes=writes)
    return Exit.FAILED if changed and not writes and status is Exit.OK else status


def _convert(
    argument: str, syntax: Syntax | None, target: Syntax, tools_files: tuple[Path, ...], *, as_json: bool
) -> Exit:
    """Print a plan in another syntax, and report the surrounding text that was left out."""

    def parameters(plan: Plan) -> Parameters:
        from callsheet.api.requirements import parameters_of  # noqa: PLC0415 - only for --to
        from callsheet.apps.toolbox import local_tools  # noqa: PLC0415 - as above

        return parameters_of(plan, local_tools(options.setup_from(tools_files)))

    result = convert_text(read_plan(argument, syntax=syntax), target, parameters)
    if result.formatted is None:
        raise CallsheetError(result.diagnostics, result.text.source)
    if as_json:
        print_json(result.to_json(named=True))
    else:
        print_text(result.formatted, nl=False)
        print_diagnostics(result.diagnostics, result.text.source)
    return Exit.OK


def _format(argument: str, syntax: Syntax | None) -> Formatted:
    """The text and its canonical form; for a file, surrounding text that would be lost is an error."""
    text = read_plan(argument, syntax=syntax)
    if text.is_yaml and text.path is not None:
        raise CallsheetError.single(
            "CFG010",
            f"{argument} is a YAML plan, and fmt writes only JSON",
            help=f"`callsheet fmt --to dag {argument}` prints it as JSON; comments are lost",
        )
    return format_text(text, keeps_all=text.path is not None)


def _print_result(text: PlanText, formatted: str, *, writes: bool, show_diff: bool) -> None:
    if show_diff:
        from difflib import unified_diff  # noqa: PLC0415 - only where a difference is shown

        name, old = text.source.name, text.source.text
        for line in unified_diff(_lines(old), _lines(formatted), name, f"{name} (formatted)"):
            print_text(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n", nl=False)
        if ends := old.count("\r\n") - formatted.count("\r\n"):
            only = "; nothing else differs" if old.replace("\r\n", "\n") == formatted else ""
            lines = "1 line ends" if ends == 1 else f"{ends} lines end"
            to_stderr(f"{name}: {lines} with CR LF, which would become LF{only}")
    elif writes and text.path is None:
        print_text(formatted, nl=False)


def _lines(text: str) -> list[str]:
    """The lines of a text with their line ends, split at line feeds only, as programs that apply diffs do."""
    return list(StringIO(text))


def _print_summary(changed: list[str], count: int, *, writes: bool) -> None:
    did = "formatted" if writes else "would be formatted"
    for name in changed:
        if name != "<stdin>":
            to_stderr(f"{name}: {did}")
    if not changed and count > 1:
        to_stderr(f"{count} plans are already formatted")


def _replace_file(path: Path, text: str) -> None:
    """Replace a file atomically, keeping its mode; a symbolic link stays a link."""
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
            help="the file is unchanged; make its folder writable, or use `callsheet fmt - < FILE`",
        ) from error
