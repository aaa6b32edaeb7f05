"""`callsheet policy init|check|propose|explain|share|show`: writes, checks, explains and stores policies."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.arguments import try_read_plan
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.group import CommandEntry, LazyCommands
from callsheet.apps.cli.output import (
    format_diagnostics,
    is_terminal,
    print_diagnostics,
    print_json,
    print_text,
    to_stderr,
    writing,
)
from callsheet.apps.operations.schema import DiagnosticRow, diagnostic_rows
from callsheet.apps.rendering.values import preview, without_controls
from callsheet.diagnostics import CallsheetError, Source, Span, to_json
from callsheet.policy.calls import CODES

if TYPE_CHECKING:
    from callsheet.api.policy_draft import Asked
    from callsheet.apps.operations.printed_rows import PolicyPlace
    from callsheet.apps.setup import Setup
    from callsheet.ir import Plan


@click.command()
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@options.as_json
def check(policies: tuple[str, ...], as_json: bool) -> int:
    """Report errors in each POLICY, a file or a built-in policy; the exit status is 2 if there is one."""
    rows: list[DiagnosticRow] = []
    is_wrong = False
    for policy in policies:
        try:
            _validate(policy)
        except CallsheetError as error:
            is_wrong = True
            rows.extend(diagnostic_rows(error.diagnostics, error.source or Source(policy, ""), named=True))
            if not as_json:
                click.echo(format_diagnostics(error.diagnostics, error.source))
        else:
            if not as_json:
                click.echo(f"{preview(policy, 1_000)}: ok")
    if as_json:
        print_json({"ok": not is_wrong, "diagnostics": rows})
    return Exit.WRONG if is_wrong else Exit.OK


def _validate(policy: str) -> None:
    """Load a policy and compile its predicates. Raises CallsheetError with all errors."""
    from callsheet.api.policies import load_policy, policy_source  # noqa: PLC0415 - not for --help
    from callsheet.policy.file_values import key_spans  # noqa: PLC0415 - as above
    from callsheet.policy.predicates import faults_of  # noqa: PLC0415 - as above

    rules = load_policy(policy).rules
    faults = faults_of(rules)
    if faults:
        source = policy_source(policy)
        keys = key_spans(source.text)
        placed = [
            replace(
                fault, span=_place(rules[number].when, fault.span, keys.get(("rule", number, "when")), source)
            )
            for number, fault in faults
        ]
        raise CallsheetError(placed, source)


def _place(when: str, within: Span | None, key: Span | None, source: Source) -> Span | None:
    """The span in a file of a predicate, or of the error `within` it.

    The predicate follows the `key` of its rule. The span is that of the key if the predicate has escapes, and
    None if it belongs to an extended policy.
    """
    at = source.text.find(when, 0 if key is None else key.end)
    if at < 0 or (key is not None and source.text[key.end : at].strip(" \t='\"\n")):
        return key
    return Span(at, at + len(when)) if within is None else Span(at + within.start, at + within.end)


_PACKAGE = "callsheet.apps.cli.policy"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry(f"{_PACKAGE}:init", "Write a policy for the available tools.", _SECTION),
    "check": CommandEntry(f"{_PACKAGE}:check", "Report errors in policies.", _SECTION),
    "propose": CommandEntry(f"{_PACKAGE}:propose", "Write the smallest policy for some plans.", _SECTION),
    "explain": CommandEntry(f"{_PACKAGE}:explain", "Say what a policy newly permits.", _SECTION),
    "share": CommandEntry(f"{_PACKAGE}:share", "Store a policy in the shared store.", _SECTION),
    "show": CommandEntry(f"{_PACKAGE}:show", "Print a policy.", _SECTION),
}


@click.group("policy", cls=LazyCommands, entries=COMMANDS, epilog=None)
def policy() -> None:
    """Manage policies: which tools plans may call, where data may flow, what needs approval."""


@click.command()
@options.checked_tools
@click.option(
    "--base",
    type=click.Choice(["strict", "workspace", "open"]),
    default="workspace",
    show_default=True,
    help="The built-in policy to extend.",
)
@options.output(
    "The file to write; - is standard output.",
    kind=options.PATH,
    default=Path("policy.toml"),
    show_default=True,
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@options.as_json
def init(setup: Setup, base: str, output: Path, force: bool, as_json: bool) -> int:
    """Write a policy for the available tools: a line for each class, such as those that only read.

    What nobody has declared is assumed from the names of tools and arguments, and marked; in a terminal you
    are asked where they do not tell. Servers that are not in the lock file are started to list their tools.
    If one cannot be started, the first lines of the file say so, and the exit status is 1.

    \b
    Example:
      callsheet policy init --mcp-config mcp.json -o policy.toml
    """
    from callsheet.api.policy_draft import draft_of, draft_text  # noqa: PLC0415 - not for --help
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.cli.tools import open_tools  # noqa: PLC0415 - as above

    to_screen = str(output) == "-"
    if not to_screen and os.path.exists(output) and not force:
        raise CallsheetError.single(
            "CFG014", f"{output} already exists", help="name another file with -o, or add --force"
        )
    toolbox = run_async(open_tools(setup))
    specs = {name: tool.spec for name, tool in zip(toolbox.registry.names(), toolbox.registry, strict=True)}
    draft = draft_of(specs) if as_json or not is_terminal(sys.stdin) else draft_of(specs, _ask)
    failures = [d.message for d in toolbox.diagnostics if d.is_error]
    text = draft_text(draft, base, "policy.toml" if to_screen else output.name, failures)
    print_diagnostics(() if as_json else toolbox.diagnostics, None)
    if not to_screen:
        _write(output, text, force=force)
    if as_json:
        written = {"text": text} if to_screen else {"file": str(output)}
        print_json(
            {
                **written,
                "base": base,
                "tools": draft.count,
                "unknown": draft.unknown,
                "diagnostics": to_json(toolbox.diagnostics, None),
            }
        )
    elif to_screen:
        print_text(text, nl=False)
    else:
        lines = text.count("\n")
        to_stderr(f"wrote {output}: {lines} lines, extends {base}, {draft.count} tools to review")
        if draft.unknown:
            to_stderr(f"in no class yet: {', '.join(draft.unknown)}")
        if failures:
            to_stderr("it lacks the tools of what could not be opened: repair that, and repeat with --force")
    return Exit.FAILED if failures else Exit.OK


def _ask(asked: Asked) -> str | None:
    """Ask a person at the terminal; an empty answer leaves the tool out."""
    click.echo(
        f"{without_controls(asked.question)} ({', '.join(asked.options)}; Enter: leave it out)", err=True
    )
    while True:
        given = click.prompt("  ", default="", show_default=False, prompt_suffix="", err=True).strip()
        if not given:
            return None
        if given in asked.options:
            return given
        likely = [option for option in asked.options if option.startswith(given)]
        if len(likely) == 1:
            return likely[0]
        click.echo(f"  one of {', '.join(asked.options)}", err=True)


def _write(path: Path, text: str, *, force: bool) -> None:
    with (
        writing(path, "name a file that can be written: -o FILE"),
        path.open("w" if force else "x", encoding="utf-8") as file,
    ):
        file.write(text)


@click.command()
@click.option(
    "--from",
    "sources",
    multiple=True,
    required=True,
    metavar="PLAN|RUN",
    help="A plan that should pass, a file, or a run whose plan should; may be repeated.",
)
@options.policy_option
@options.checked_tools
@options.output("The file to write; default: standard output.", kind=options.PATH, default=Path("-"))
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@journals.journal_path
@options.as_json
def propose(
    sources: tuple[str, ...],
    policy: str,
    setup: Setup,
    output: Path,
    force: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Write the smallest policy that extends POLICY and under which the given plans pass.

    Each line is proved to be needed. Where a person can judge, a line turns a refusal into a question. What
    no line can allow is listed on standard error, and the exit status is 3.

    \b
    Example:
      callsheet policy propose --from plan.ltp --from last --policy workspace --tools tools.py
    """
    from callsheet.api.policy_changes import proposal  # noqa: PLC0415 - not for --help
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.cli.tools import open_tools  # noqa: PLC0415 - as above
    from callsheet.policy.calls import Rule  # noqa: PLC0415 - as above

    policy = options.required_policy(policy, setup)
    plans = [_plan_of(source, journal) for source in sources]
    toolbox = run_async(open_tools(setup))
    found = proposal(plans, policy, toolbox.registry)
    to_screen = str(output) == "-"
    if not to_screen:
        _write(output, found.text, force=force)
    refused = [f"{each} ({CODES[each.rule]})" for each in found.refused]
    if as_json:
        lines = [str(line) for line in found.lines]
        rows = {"text": found.text} if to_screen else {"file": str(output)}
        print_json({**rows, "lines": lines, "questions": found.questions, "refused": refused})
        return Exit.REFUSED if refused else Exit.OK
    if to_screen:
        print_text(found.text, nl=False)
    numbers = ((len(found.lines), "line"), (len(plans), "plan"), (found.questions, "question"))
    said = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in numbers]
    to_stderr(f"{said[0]} for {said[1]}, with {said[2]}")
    for each in refused:
        to_stderr(f"no line allows this: {preview(each, 1_000)}")
    if any(each.rule is Rule.AGENT for each in found.refused):
        to_stderr(
            "what an agent did, a session of the gate too, is a plan with: callsheet distil RUN -o plan.py"
        )
    return Exit.REFUSED if refused else Exit.OK


def _plan_of(source: str, journal: Path | None) -> Plan:
    """The plan in a file, or of a run."""
    if os.path.exists(source):
        return try_read_plan(source, syntax=None, variables={}).require()
    with journals.open_to_read(journal) as opened:
        return opened.plan_of(opened.find_run(source).plan_hash)


@click.command()
@click.argument("policy", metavar="POLICY")
@click.option("--before", metavar="POLICY", help="The policy to compare with; default: the one it extends.")
@options.checked_tools
@options.as_json
def explain(policy: str, before: str | None, setup: Setup, as_json: bool) -> int:
    """Say what POLICY permits, asks about or refuses that the policy before it did not.

    Both policies judge the same kinds of calls of each available tool, so what is said follows from their
    rules. Servers that are not in the lock file are started to list their tools.

    \b
    Example:
      callsheet policy explain policy.toml --before old.toml --tools tools.py
    """
    from callsheet.api.policies import extended_policy, load_policy  # noqa: PLC0415 - not for --help
    from callsheet.api.policy_entries import explanation  # noqa: PLC0415 - as above
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.cli.tools import open_tools  # noqa: PLC0415 - as above

    old = extended_policy(policy) if before is None else load_policy(before)
    toolbox = run_async(open_tools(setup))
    found = explanation(old, load_policy(policy), toolbox.registry)
    if as_json:
        shifts = [
            {**each._asdict(), "before": each.before.word, "now": each.now.word} for each in found.shifts
        ]
        print_json({"shifts": shifts, "others": [str(each) for each in found.others]})
    else:
        for line in found.lines():
            print_text(line)
    print_diagnostics(() if as_json else toolbox.diagnostics, None)
    return Exit.OK


@click.command()
@click.argument("policy", metavar="POLICY")
@click.option("--as", "name", metavar="NAME", help="The name in the store; default: the name of the file.")
@options.as_json
def share(policy: str, name: str | None, as_json: bool) -> int:
    """Store POLICY, a file, in the shared store ($CALLSHEET_STORE), for use as `--policy store:NAME`.

    The policy is checked first. It may extend only a built-in policy or one of the store. Running runs keep
    the policy that they were started with.
    """
    from callsheet.api.policies import (  # noqa: PLC0415 - not for --help
        SHARED,
        load_shared,
        policy_source,
        share_policy,
    )

    source = policy_source(policy)
    load_shared(source)
    store_name = name or PurePath(source.name).stem
    place = share_policy(store_name, source.text)
    address = f"{SHARED}{store_name.removeprefix(SHARED)}"
    if as_json:
        shared: PolicyPlace = {"policy": address, "place": str(place)}
        print_json(shared)
    else:
        click.echo(address)
        to_stderr(f"saved in {place}")
    return Exit.OK


@click.command()
@click.argument("policy", metavar="POLICY")
@options.as_json
def show(policy: str, as_json: bool) -> int:
    """Print the text of POLICY: strict, workspace, open, or a file."""
    from callsheet.api.policies import load_policy, policy_source  # noqa: PLC0415 - not for --help

    load_policy(policy)
    source = policy_source(policy)
    if as_json:
        print_json({"policy": source.name, "text": source.text})
    else:
        print_text(source.text, nl=False)
    return Exit.OK
