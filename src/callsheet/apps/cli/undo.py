"""`callsheet undo`: takes back what the calls of a run did, after confirmation, as a run of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.apps.cli.resume import execute_resume, resume_options
from callsheet.apps.cli.terminal import is_terminal
from callsheet.apps.rendering.values import without_controls

if TYPE_CHECKING:
    from callsheet.apps.cli.resume import Moved
    from callsheet.apps.masking import Masker
    from callsheet.ir import JSON
    from callsheet.runtime.undo import Undoing
    from callsheet.store.journal import Journal


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--from",
    "start",
    default="",
    metavar="STEP",
    help="Take back only what was called from this step on.",
)
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask for confirmation.")
@resume_options
def undo(run: str, start: str, assume_yes: bool, **arguments: Any) -> int:
    """Take back what the calls of RUN did: the inverse of each, newest first, as a run of its own.

    RUN is a run id, a unique prefix of one, or `last`; it has ended, and is not changed. The inverse of a
    tool is declared with it: @tool(undo="delete_event(event_id=result.id)"), or "undo" in the effects of an
    MCP server. The calls are shown first, those that cannot be undone before all others, and need
    confirmation; without a terminal --yes is required, otherwise the exit status is 4 and nothing is done.

    The run that undoes is under the policy of RUN, stops at the first inverse that fails, and is continued
    by the same command, also after a crash: what is undone already is not undone again.

    \b
    Examples:
      callsheet undo last
      callsheet undo last --from S3 --yes
    """
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above

    if arguments["accept_changed_policy"]:
        raise click.UsageError("--accept-changed-policy is for resume: --policy alone names another")
    as_json = arguments["as_json"]
    masker = Masker(load_settings().secrets.shapes, shows_all=arguments["shows_secrets"])

    def agrees(undoing: Undoing) -> bool:
        return _is_confirmed(undoing, masker, assume_yes=assume_yes, as_json=as_json)

    with journals.open_recorded(arguments["journal"]) as opened:
        run_id = opened.find_run(run).run_id
        terms = _Terms(start, arguments["moved"], arguments["model"], arguments.pop("policy"))
        with redirect_stdout(sys.stderr):  # what the files of tools print
            name = run_async(_begin(opened, run_id, terms, agrees))
    if name is None:
        return Exit.UNDECIDED
    return execute_resume(lambda opened: opened.find_run(name), policy="", **arguments)


class _Terms(NamedTuple):
    """From which step on a run is undone, with its tools at which places, and under which policy."""

    start: str
    moved: Moved
    model: str
    policy: str


async def _begin(
    journal: Journal, run_id: str, terms: _Terms, agrees: Callable[[Undoing], bool]
) -> str | None:
    """The id of the run that undoes another, which is recorded and not begun; None without consent."""
    from callsheet.api.undo import UndoTerms, begin_undo  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.cli.options import resolve_policy  # noqa: PLC0415 - as above
    from callsheet.apps.equipment import equip, needs_of_recorded  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - as above
    from callsheet.runtime.edits import ParentHistory  # noqa: PLC0415 - as above

    history = ParentHistory(journal, journal.find_run(run_id))
    launch = history.first()
    needs = needs_of_recorded(terms.moved.setup(launch), history.plan, launch.limits, to_stderr, terms.model)
    async with open_toolbox(needs.setup, needs.plan, needs.agents) as toolbox:
        equipment, _, setup = equip(needs, toolbox, journal.path)
        note: dict[str, JSON] = {"plan": f"undo {run_id}", "setup": setup.to_note()}
        policy = resolve_policy(terms.policy, needs.setup)
        named, default = (policy, None) if terms.policy else (None, policy)
        what = UndoTerms(terms.start, launch.limits, note, named, default)
        name = await begin_undo(journal, run_id, equipment, what, agrees)
    if name is not None:
        to_stderr(f"run {name} undoes run {run_id}")
    return name


def _is_confirmed(undoing: Undoing, masker: Masker, *, assume_yes: bool, as_json: bool) -> bool:
    """Whether the calls may be made: they are shown, and the user is asked unless that was answered."""
    from callsheet.api.undo import undo_json, undo_lines  # noqa: PLC0415 - imports the runtime

    masker.add_secrets(undoing.known)
    if not as_json:
        to_stderr("\n".join(masker.value([without_controls(line) for line in undo_lines(undoing)])))
    if assume_yes:
        return True
    if as_json:
        print_json(
            {"run_id": None, "status": "not started", **masker.value(undo_json(undoing)), "needs": "--yes"}
        )
        return False
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        return click.confirm("Undo?", err=True)
    to_stderr("no terminal for a confirmation: nothing was done; use --yes to continue")
    return False
