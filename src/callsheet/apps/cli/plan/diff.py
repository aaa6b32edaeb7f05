"""`callsheet plan diff` and `plan review`: two plans, and what a branch changes in plans."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import STDIN, NamedPlan, function_of, is_plan_file, named_plans
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import columns, is_coloured, print_json, print_report
from callsheet.apps.operations.reading import PlanText, text_of
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.ir import Plan
from callsheet.ir.diff import Piece, PieceDiff, PlanDiff, StepDiff, TreeDiff, diff_plans

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.frontends.spelling import Syntax
    from callsheet.policy.model import Policy
    from callsheet.views.plan_diff import Standing


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
        from callsheet.views.plan_diff import Standing, review  # noqa: PLC0415 - as above

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


_MARK = "<!-- callsheet plan review -->"
"""The first line, by which the comment is found again."""
_MOST = 60_000
"""The most characters of a comment; GitHub takes 65,536."""


@click.command()
@click.argument("base", metavar="REVISION")
@click.argument("plans", nargs=-1, metavar="[PLAN]...")
@options.policy_if_any
@options.checked_tools
def review(base: str, plans: tuple[str, ...], policy: str, setup: Setup) -> int:
    """Tell as Markdown what has changed in plans since a REVISION of git: proof, differences, a picture.

    PLAN is a file, a folder or a pattern; without it the plans of the project count, else all of the working
    folder. With a policy the old and the new version are both proved against it, as it is now. Nothing is
    printed if no plan has changed. The exit status is 0 also for plans with errors: `check` and `verify` fail
    for those.

    \b
    Example:
      callsheet plan review origin/main --policy house.toml > comment.md
    """
    if base.startswith("-"):
        raise click.UsageError(f"{base!r} is no revision, such as origin/main")
    chosen = options.resolve_policy(policy, setup)
    given = plans or setup.plans
    wanted = {_plain(function_of(each)[0]) for each in named_plans(given)} if given else None
    sections: list[str] = []
    for state, name in _changed(base):
        if not _is_wanted(name, base if state == "D" else None, wanted):
            continue
        old = None if state == "A" else _git("show", f"{base}:./{name}")
        new = None if state == "D" else _now(name)
        sections += _sections(name, old, new, chosen, setup)
    if sections:
        click.echo(_comment(sections).encode("utf-8", "backslashreplace"))
    return Exit.OK


def _is_wanted(name: str, revision: str | None, wanted: set[str] | None) -> bool:
    """Whether a changed file is among the wanted plans; `revision` is where a deleted one still is."""
    if revision is not None:
        return is_plan_file(name, lambda: _git("show", f"{revision}:./{name}"))
    if wanted is None:
        return is_plan_file(name, lambda: _now(name))
    return _plain(name) in wanted


def _comment(sections: list[str]) -> str:
    """The sections as one comment; those for which there is no room are counted."""
    shown, left = [_MARK, "## Changed plans"], _MOST
    for number, section in enumerate(sections):
        left -= len(section) + 2
        if left < 0:
            shown.append(f"… and {len(sections) - number} more plans, for which there is no room here.")
            break
        shown.append(section)
    return "\n\n".join(shown)


def _sections(
    name: str, old: bytes | None, new: bytes | None, policy: Policy | None, setup: Setup
) -> Iterator[str]:
    """The section of a file, or where a version has several functions with `@plan`, of each function."""
    from callsheet.views.plan_diff import review as section  # noqa: PLC0415 - not for --help

    before, after = _functions(name, old), _functions(name, new)
    if max(len(before), len(after)) == 1:
        before, after = before and (None,), after and (None,)
    for one in dict.fromkeys((*before, *after)):
        was = None if old is None or one not in before else _standing(name, old, one, policy, setup)
        now = None if new is None or one not in after else _standing(name, new, one, policy, setup)
        yield section(name if one is None else f"{name}:{one}", was, now)


def _functions(name: str, content: bytes | None) -> tuple[str | None, ...]:
    """The functions of a version of a file that are plans; None stands for the file as a whole."""
    if content is None:
        return ()
    if not name.endswith(".py"):
        return (None,)
    from callsheet.frontends.python import functions_marked  # noqa: PLC0415 - only where there is Python

    return functions_marked(content.decode("utf-8", "replace")) or (None,)


def _standing(
    name: str, content: bytes, function: str | None, policy: Policy | None, setup: Setup
) -> Standing:
    """A version of a plan, with what is wrong with it and, under a policy, its proof."""
    from callsheet.apps.operations.checking import check_with  # noqa: PLC0415 - not for --help
    from callsheet.apps.operations.proofs import prove_text  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above
    from callsheet.views.plan_diff import Standing  # noqa: PLC0415 - as above

    try:
        text: PlanText = text_of(Path(name), Source(name, content.decode("utf-8-sig")), function=function)
    except UnicodeDecodeError:
        return Standing(None, ("it is not UTF-8 text",))
    declared = DeclaredTools(setup)
    if policy is None:
        found = check_with(text, declared, {}, asks_servers=False)[0].diagnostics
        return Standing(text.plan, tuple(f"{d.code}: {d.message}" for d in found if d.is_error))
    proved = prove_text(text, policy, declared)
    errors = tuple(dict.fromkeys(f"{d.code}: {d.message}" for d in proved.diagnostics if d.is_error))
    duties = () if proved.proof is None else proved.proof.obligations
    told = dict.fromkeys(f"{each.step}: {each.kind}" for each in duties)
    verdict = "proved against" if proved.ok else "not proved against"
    return Standing(text.plan, errors, tuple(told), f"{verdict} {policy.name}")


def _plain(name: str) -> str:
    return str(Path(name))


def _now(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CallsheetError.single("CFG012", f"{name} cannot be read: {error.strerror or error}") from error


def _changed(base: str) -> list[tuple[str, str]]:
    """The files below this folder that differ from a revision, with A for added, D for deleted, M else.

    Raises CallsheetError (CFG012) if this folder is in no checkout, or git does not know the revision.
    """
    if _asked("rev-parse", "--is-inside-work-tree").returncode != 0:
        raise CallsheetError.single(
            "CFG012",
            "this folder is in no checkout of git",
            help="go to the folder of a checkout; `callsheet plan diff OLD NEW` compares two files",
        )
    if _asked("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}").returncode != 0:
        has_any = _asked("rev-parse", "--verify", "--quiet", "HEAD").returncode == 0
        raise CallsheetError.single(
            "CFG012",
            f"there is no revision {base} here" if has_any else "this repository has no commit yet",
            help="name a commit, a branch or a tag; `git fetch` gets those of the remote repository"
            if has_any
            else "commit the plans as they were; what has changed since then is told",
        )
    told = _git("diff", "--name-status", "--no-renames", "--relative", "-z", base, "--")
    words = told.decode("utf-8", "surrogateescape").split("\0")
    return [(state[:1], name) for state, name in zip(words[::2], words[1::2], strict=False)]


def _git(*arguments: str) -> bytes:
    """What git says; raises CallsheetError (CFG012) with its reason if it fails."""
    done = _asked(*arguments)
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        message = f"git {arguments[0]}: {reason[0] if reason else f'exit status {done.returncode}'}"
        raise CallsheetError.single("CFG012", message, help="look at the checkout with `git status`")
    return done.stdout


def _asked(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError as error:
        raise CallsheetError.single(
            "CFG012", "git cannot be started", help="install git; the plans are compared with its revisions"
        ) from error
