"""`callsheet plan review`: what a branch changes in plans, as the comment of a pull request."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import is_plan_file, plan_files
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.operations.reading import PlanText, text_of
from callsheet.diagnostics import CallsheetError, Source

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.policy.model import Policy
    from callsheet.views.plan_review import Standing

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
    from callsheet.views.plan_review import review as section  # noqa: PLC0415 - not for --help

    if base.startswith("-"):
        raise click.UsageError(f"{base!r} is no revision, such as origin/main")
    chosen = options.resolve_policy(policy, setup)
    given = plans or setup.plans
    wanted = set(map(_plain, plan_files(given))) if given else None
    sections: list[str] = []
    for state, name in _changed(base):
        if not _is_wanted(name, base if state == "D" else None, wanted):
            continue
        old = None if state == "A" else _standing(name, _git("show", f"{base}:./{name}"), chosen, setup)
        new = None if state == "D" else _standing(name, _now(name), chosen, setup)
        sections.append(section(name, old, new))
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


def _standing(name: str, content: bytes, policy: Policy | None, setup: Setup) -> Standing:
    """A version of a plan, with what is wrong with it and, under a policy, its proof."""
    from callsheet.apps.operations.checking import check_with  # noqa: PLC0415 - not for --help
    from callsheet.apps.operations.proofs import prove_text  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above
    from callsheet.views.plan_review import Standing  # noqa: PLC0415 - as above

    try:
        text: PlanText = text_of(Path(name), Source(name, content.decode("utf-8-sig")))
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
