"""Commands on plans that execute nothing: `check`, `fmt`, `upgrade`, `graph`, `explain-schedule`, `skill`."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import (
    NamedPlan,
    function_of,
    named_plans,
    parse_variables,
    read_plan,
    try_read_plan,
    warn_of_typed_secrets,
)
from callsheet.apps.cli.exit_status import Exit, exit_for_diagnostics
from callsheet.apps.cli.output import (
    columns,
    count_by_severity,
    format_diagnostics,
    is_coloured,
    output_format,
    print_diagnostics,
    print_json,
    print_report,
    print_text,
    to_stderr,
    writing,
)
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.operations.schema import DiagnosticRow, diagnostic_rows
from callsheet.apps.operations.texts import (
    DrawingFormat,
    Formatted,
    convert_text,
    draw,
    format_text,
    upgrade_text,
)
from callsheet.apps.rendering.annotations import Format, rendered, texts_checked
from callsheet.apps.rendering.values import preview
from callsheet.diagnostics import CallsheetError
from callsheet.files import replace_file
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from callsheet.apps.operations.checking import Checked
    from callsheet.apps.setup import Setup
    from callsheet.frontends.dag.convert import Parameters
    from callsheet.machine.ahead.waits import StepSchedule
    from callsheet.machine.tree.schedule import BlockSchedule


@click.command()
@click.argument("plans", nargs=-1, metavar="[PLAN]...")
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

    PLAN may be a folder or a pattern; without it the plans of the project are formatted.

    A plan is not changed, and the exit status is 2, if it has errors or if text around it would be lost. In a
    JSON plan every argument has a name: with --to dag the names come from the built-in tools and from
    --tools. With --to python, remarks say what Python means differently. A Python file itself stays as it is.

    \b
    Examples:
      callsheet fmt plans/*.ltp
      callsheet fmt --check plan.ltp
      callsheet fmt --to dag plan.ltp > plan.json
      callsheet fmt --to python plan.ltp > plan.py
    """
    writes = not (only_check or show_diff)
    if target is not None:
        argument, *others = plans or ("",)
        if others or not writes or not argument:
            raise click.UsageError("--to prints one plan: give one PLAN, without --check and --diff")
        return _convert(argument, syntax, Syntax(target), tools_files, as_json=as_json)
    plans = named_plans(plans, () if plans else options.setup_from().plans)
    results = (_format(argument, syntax) for argument in plans)
    status, changed = _rewrite(results, writes=writes, show_diff=show_diff, as_json=as_json)
    if not as_json:
        _print_summary(changed, len(plans), writes=writes)
    return Exit.FAILED if changed and not writes and status is Exit.OK else status


def _rewrite(
    results: Iterable[Formatted], *, writes: bool, show_diff: bool, as_json: bool
) -> tuple[Exit, list[str]]:
    """Write, print or compare each text that could be written anew; the status, and which would change.

    A plan that version 2 cannot say (LTP072) is a failure; any other text that stays as it is, is wrong.
    """
    status, changed = Exit.OK, list[str]()
    rows: list[DiagnosticRow] = []
    for result in results:
        text, formatted = result.text, result.formatted
        if formatted is None:
            is_whole = all(one.code == "LTP072" for one in result.diagnostics)
            status = max(status, Exit.FAILED if is_whole else Exit.WRONG)
            rows += diagnostic_rows(result.diagnostics, text.source, named=True)
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
    return status, changed


@click.command()
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@options.syntax
@click.option("--diff", "show_diff", is_flag=True, help="Do not write; print the changes as a diff.")
@options.as_json
def upgrade(plans: tuple[str, ...], syntax: Syntax | None, show_diff: bool, as_json: bool) -> int:
    """Rewrite each PLAN of version 1 in version 2, in place, with the same meaning; - prints the result.

    Jumps become blocks. Where version 1 is lenient, functions v1.… and ON_FAIL CONTINUE keep its meaning, and
    comments say what was added. A plan that blocks cannot say stays as it is: the place is printed, and the
    exit status is 1.

    \b
    Examples:
      callsheet upgrade plans/*.ltp
      callsheet upgrade --diff plan.ltp
      callsheet upgrade - < plan.ltp
    """
    results = (upgrade_text(read_plan(argument, syntax=syntax)) for argument in named_plans(plans, ()))
    status, changed = _rewrite(results, writes=not show_diff, show_diff=show_diff, as_json=as_json)
    for name in () if as_json else changed:
        if name != "<stdin>":
            to_stderr(f"{name}: {'would be in' if show_diff else 'is in'} version 2")
    return status


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
    """Replace a file, keeping its mode; a symbolic link stays a link."""
    target = path.resolve()
    with writing(path, "the file is unchanged; make its folder writable, or use `callsheet fmt - < FILE`"):
        mode = target.stat().st_mode & 0o7777
        replace_file(target, text.encode(), mode)
        target.chmod(mode)  # also what the umask takes away


_PIPED_COLUMNS = 120


@click.command()
@options.plan
@click.option(
    "--format",
    "shape",
    type=click.Choice([str(shape) for shape in DrawingFormat]),
    default="terminal",
    show_default=True,
    help="The output format: text for a terminal, a Mermaid flow chart, the layout as JSON, or a page with "
    "the graph.",
)
@options.as_json
def graph(plan: NamedPlan, shape: str, as_json: bool) -> None:
    """Draw PLAN as a graph.

    PLAN is a file, - for standard input, or a plan of the library: its id, or ID@N for version N. Tools are
    not checked.

    \b
    Examples:
      callsheet graph plan.ltp
      callsheet graph plan.ltp --format mermaid > plan.mmd
    """
    drawing = draw(plan.read(), DrawingFormat(shape), ansi=is_coloured(), columns=columns(_PIPED_COLUMNS))
    drawn = drawing.drawn if drawing.graph is None else drawing.graph
    if as_json:
        print_json({"plan": drawing.text.source.name, "format": shape, "graph": drawn})
    elif drawing.graph is not None:
        print_json(drawing.graph)
    else:
        click.echo(drawing.drawn.rstrip("\n"))


@click.command(name="explain-schedule")
@options.plan
@options.checked_tools
@click.option(
    "--approve",
    multiple=True,
    metavar="TOOL|STEP",
    help="Assume that each call of this tool, or step, needs approval; may be repeated.",
)
@options.as_json
def explain_schedule(plan: NamedPlan, setup: Setup, approve: tuple[str, ...], as_json: bool) -> None:
    """Show what each step of PLAN, a file or - for standard input, waits for with `--schedule auto`, and why.

    A step that only reads or computes starts as soon as its inputs are known and no earlier step can still
    change the control flow. A step that may write starts in its turn. Of a plan with blocks it says which
    items and members run side by side, and why the others do not.
    """
    from callsheet.machine.questions import approval_rules  # noqa: PLC0415 - not for --help

    text = plan.read()
    rules = approval_rules((*setup.settings.approve, *approve))
    schedule, absent = _schedule(text.require(), setup, rules)
    if as_json:
        steps = [step.to_json() for step in schedule]
        print_json({"plan": text.source.name, "unknown_tools": list(absent), "steps": steps})
        return
    for step in schedule:
        click.echo(step.describe())
    if absent:
        names = ", ".join(f"@{name}" for name in absent)
        to_stderr(
            f"unknown tools, which are assumed to write: {names}; give their files with --tools,"
            " or their servers with --mcp-config"
        )


def _schedule(
    plan: Plan, setup: Setup, rules: tuple[str, ...]
) -> tuple[list[StepSchedule] | list[BlockSchedule], tuple[str, ...]]:
    """The schedule, and the names of unknown tools."""
    from callsheet.api.requirements import absent_tools, facts_of, with_inverses  # noqa: PLC0415 - not for --help
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above
    from callsheet.machine.ahead.waits import schedule_of  # noqa: PLC0415 - as above
    from callsheet.machine.questions import needs_approval  # noqa: PLC0415 - as above

    registry, _, _ = DeclaredTools(setup).tools_for(plan, asks_servers=bool(setup.mcp_configs))
    if plan.tree is not None:
        from callsheet.machine.tree.schedule import tree_schedule  # noqa: PLC0415 - only for version 2

        plan = with_inverses(plan, registry)
        return tree_schedule(plan, facts_of(plan, registry)), tuple(absent_tools(plan, registry))
    facts = facts_of(plan, registry)
    schedule = schedule_of(plan, facts, lambda tool, step: needs_approval(rules, tool, step))
    return schedule, tuple(absent_tools(plan, registry))


@click.command()
@click.argument("plans", nargs=-1, metavar="[PLAN]...")
@options.checked_tools
@options.variables
@options.syntax
@click.option("--no-tools", is_flag=True, help="Do not check tools and their arguments.")
@click.option("--strict", is_flag=True, help="Report loose spellings as errors.")
@click.option("--watch", "watches", is_flag=True, help="Check again whenever a plan or its tools change.")
@output_format
def check(
    plans: tuple[str, ...],
    setup: Setup,
    variables: tuple[str, ...],
    syntax: Syntax | None,
    no_tools: bool,
    strict: bool,
    watches: bool,
    shape: Format,
) -> int:
    """Report errors in each PLAN, a file, a folder, a pattern, or - for standard input.

    Without PLAN the plans of the project are checked.

    The exit status is 2 if there is an error, and 3 if the only errors are tools of MCP servers that are not
    trusted.

    \b
    Examples:
      callsheet check plan.ltp --tools tools.py
      callsheet check plans/*.ltp --no-tools
      callsheet check plans --watch
      callsheet check plans --format github
    """
    inputs = parse_variables(variables)

    def check_all() -> int:
        from callsheet.apps.operations.checking import check_text  # noqa: PLC0415 - not for --help
        from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above

        files = named_plans(plans, setup.plans)
        texts = [try_read_plan(name, syntax=syntax, strict=strict, variables=inputs) for name in files]
        warn_of_typed_secrets((text.plan for text in texts), inputs, runs=False)
        declared, asks_servers = None if no_tools else DeclaredTools(setup), bool(setup.mcp_configs)
        results = [check_text(text, declared, inputs, asks_servers=asks_servers) for text in texts]
        _print_checked(results, shape)
        return exit_for_diagnostics(d for checked in results for d in checked.diagnostics)

    if not watches:
        return check_all()
    if shape is not Format.TEXT or "-" in plans:
        raise click.UsageError("--watch prints text, and cannot watch standard input")

    tools = (*setup.tools_files, *(() if setup.lock is None else (setup.lock,)))

    def watched() -> list[Path]:
        return [Path(function_of(name)[0]) for name in named_plans(plans, setup.plans, tell=lambda _: None)]

    _watch(check_all, watched, tools)
    return Exit.OK


_BETWEEN_LOOKS = 0.3
"""Seconds."""


def _watch(check_all: Callable[[], int], plans: Callable[[], list[Path]], tools: Sequence[Path]) -> None:
    """Check now, and whenever one of the files changes, appears or goes, until Ctrl-C."""
    import time  # noqa: PLC0415 - only where something is watched

    seen: dict[Path, tuple[int, int]] | None = None
    while True:
        files = plans()
        now = {path: _state(path) for path in (*files, *tools)}
        if now != seen:
            if seen is not None:
                click.echo()
            seen = now
            try:
                check_all()
            except CallsheetError as error:  # a broken file of tools may be mended
                print_diagnostics(error.diagnostics, error.source)
            to_stderr(f"watching {len(files)} plan{'' if len(files) == 1 else 's'}; Ctrl-C ends")
        time.sleep(_BETWEEN_LOOKS)


def _state(path: Path) -> tuple[int, int]:
    """What changes when a file does; the same for all that cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _print_checked(results: list[Checked], shape: Format) -> None:
    if shape is Format.JSON:
        _print_json(results)
    elif shape is not Format.TEXT:
        found = [(checked.diagnostics, checked.text.source, 0.0) for checked in results]
        print_report(rendered(shape, texts_checked("callsheet check", found)))
    else:
        for checked in results:
            if checked.diagnostics:
                click.echo(format_diagnostics(checked.diagnostics, checked.text.source))
            click.echo(_verdict(checked))


def _verdict(checked: Checked) -> str:
    name, message = preview(checked.text.title, 1_000), count_by_severity(checked.diagnostics)
    if checked.text.plan is None or not checked.ok:
        return f"{name}: {message}"
    steps = len(checked.text.plan.steps)
    return f"{name}: ok, {steps} step{'s' if steps != 1 else ''}" + (f", {message}" if message else "")


def _print_json(results: list[Checked]) -> None:
    plans = [{"plan": checked.text.title, **checked.row()} for checked in results]
    rows = [
        row
        for checked in results
        for row in diagnostic_rows(checked.diagnostics, checked.text.source, named=True)
    ]
    ok = all(checked.ok for checked in results)
    print_json({"ok": ok, "plans": plans, "diagnostics": rows})


@click.group()
def skill() -> None:
    """Make Agent Skills of plans."""


@skill.command()
@options.plan
@options.output("The folder of the skill; default: one of its name in .claude/skills.", kind=options.FOLDER)
def export(plan: NamedPlan, output: Path | None) -> int:
    """Write a skill that runs PLAN: a folder with SKILL.md and the text of the plan.

    The skill tells a model what the plan is for and what its inputs are, and has it run the plan as a whole.
    An existing skill of the same name is replaced.
    """
    from callsheet.store.library import free_variables  # noqa: PLC0415 - not for --help
    from callsheet.views.skill import skill_name, skill_text  # noqa: PLC0415 - as above

    text = plan.read()
    made = text.require()
    suffix = {"python": ".py", "dag": ".json", "micro": ".micro"}.get(str(text.syntax), ".ltp")
    name = skill_name(made.title or made.id or Path(plan.plan).stem)
    folder = output or Path(".claude") / "skills" / name
    file = f"{name}{suffix}"
    words = skill_text(made, str(folder / file), [] if made.tree is not None else free_variables(made))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text.source.text, "utf-8")
        (folder / "SKILL.md").write_text(words, "utf-8")
    except OSError as error:
        raise CallsheetError.single("CFG012", f"{folder} cannot be written: {error.strerror}") from error
    to_stderr(f"wrote {folder / 'SKILL.md'} and {file}")
    return Exit.OK
