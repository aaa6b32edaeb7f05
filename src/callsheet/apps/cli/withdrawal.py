"""`callsheet cancel`, `pause` and `undo`: stop a run, for good or for now, and take back what one did."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import ignoring_broken_pipe, is_terminal, print_json, to_stderr
from callsheet.apps.cli.resume import execute_resume, resume_options
from callsheet.apps.rendering.values import without_controls

if TYPE_CHECKING:
    from callsheet.apps.cli.resume import Moved
    from callsheet.apps.masking import Masker
    from callsheet.ir import JSON
    from callsheet.runtime.doubt import RunOutcome
    from callsheet.runtime.undo import Undoing
    from callsheet.store.journal import Journal


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--reason", default="cancelled", metavar="TEXT", help="The reason, which is recorded in the journal."
)
@click.option(
    "--patience",
    type=FiniteRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the process that executes the run.",
)
@journals.journal_path
@options.as_json
def cancel(run: str, reason: str, patience: float, journal: Path | None, as_json: bool) -> int:
    """Cancel RUN: its status becomes `cancelled`, and no further call is made.

    RUN is a run id, a unique prefix of one, or `last`. It may be running, waiting for people, in doubt or
    interrupted. If it is running, its process stops the pending calls and ends the run, usually within a
    second. Completed calls are not undone. Calls that were sent without an answer are listed, since they may
    have taken place.

    The exit status is 1 if the process has not ended the run within --patience. It still will, or the next
    `callsheet resume` does. A run on Temporal needs a worker to be cancelled; the server keeps the request.
    """
    from callsheet.api import run_service  # noqa: PLC0415
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - imports the store
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as below

    on_server = temporal_runs.runs_on_temporal(journal, run)
    if on_server:
        outcome, run_id = temporal_runs.cancel_on_temporal(journal, run, reason, patience)
    else:
        with journals.open_recorded(journal) as opened:
            run_id = opened.find_run(run).run_id
            outcome = run_async(run_service.cancel(opened, run_id, reason, patience))
    hint = journals.journal_hint(journal)
    with ignoring_broken_pipe():
        return _report(run_id, outcome, hint, as_json=as_json, on_server=on_server)


def _report(run_id: str, outcome: RunOutcome | None, hint: str, *, as_json: bool, on_server: bool) -> Exit:
    """Print the outcome and return the exit status; `on_server` says that the run is on Temporal."""
    from callsheet.apps.operations.outcomes import doubts_json  # noqa: PLC0415 - as above
    from callsheet.apps.rendering.runs import pending_call_lines  # noqa: PLC0415 - imports the runtime
    from callsheet.machine import Status  # noqa: PLC0415 - as above

    result = None if outcome is None else outcome.result
    is_cancelled = result is not None and result.status is Status.CANCELLED
    left = () if outcome is None else outcome.in_doubt
    if as_json:
        status = "asked" if result is None else str(result.status)
        print_json(doubts_json(run_id, status, left))
    elif result is None and on_server:
        to_stderr(
            "the request is on the Temporal server, and no worker has carried it out yet: the run is"
            f" cancelled as soon as one runs (callsheet worker); then: callsheet show {run_id}{hint}"
        )
    elif result is None:
        to_stderr(
            "the process that executes the run was asked to cancel it and has not done so yet;"
            f" if that process ends first, run: callsheet resume {run_id}{hint}"
        )
    elif not is_cancelled:
        to_stderr(f"the run ended before it could be cancelled: {result.status}")
    else:
        for line in pending_call_lines(left):
            to_stderr(line)
        why = "" if result.error == str(result.status) else f": {result.error}"
        to_stderr(f"the run is cancelled{why}; callsheet show {run_id}{hint}")
    return Exit.OK if is_cancelled else Exit.FAILED


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--reason", default="", metavar="TEXT", help="The reason, which is recorded and shown.")
@click.option("--by", metavar="NAME", help="The name of the person who pauses; default: the current user.")
@click.option(
    "--patience",
    type=FiniteRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the calls that are under way.",
)
@journals.journal_path
@options.as_json
def pause(run: str, reason: str, by: str | None, patience: float, journal: Path | None, as_json: bool) -> int:
    """Pause RUN: no further call is made until a person resumes it.

    RUN is a run id, a unique prefix of one, or `last`. Calls that are under way end, and their outcomes are
    kept; the time in which a run is paused does not count. No server, schedule or worker takes it up by
    itself: `callsheet resume RUN` lets it go on where it was.

    The exit status is 1 if calls are still under way after --patience; the run is paused when they have
    ended. A run on Temporal needs a worker to be paused; the server keeps the request.

    \b
    Examples:
      callsheet pause last --reason "the prices look wrong"
      callsheet resume last
    """
    from callsheet.api import run_service  # noqa: PLC0415
    from callsheet.apps.cli.arguments import actor_name  # noqa: PLC0415
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - imports the store
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as below
    from callsheet.apps.operations.runs import pause_json  # noqa: PLC0415 - as above

    on_server, name = temporal_runs.runs_on_temporal(journal, run), actor_name(by)
    if on_server:
        made, run_id = temporal_runs.pause_on_temporal(journal, run, name, reason, patience)
    else:
        with journals.open_recorded(journal) as opened:
            run_id = opened.find_run(run).run_id
            made = run_async(run_service.pause(opened, run_id, name, reason, patience))
    hint = journals.journal_hint(journal)
    with ignoring_broken_pipe():
        if as_json:
            status = "asked" if made is None else "paused"
            print_json({"run_id": run_id, "status": status, "pause": pause_json(made)})
        elif made is None:
            asked = "the process that executes the run was asked to pause it; calls are still under way"
            if on_server:
                asked = (
                    "the request is on the Temporal server; calls are still under way, or no worker has taken"
                    " it up yet (callsheet worker)"
                )
            to_stderr(f"{asked}, and no other is made: callsheet show {run_id}{hint}")
        else:
            to_stderr(f"the run is {without_controls(made.words)}")
            to_stderr(f"let it go on with: callsheet resume {run_id}{hint}")
    return Exit.FAILED if made is None else Exit.OK


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
    from callsheet.api.run_branches import UndoTerms, begin_undo  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.cli.options import resolve_policy  # noqa: PLC0415 - as above
    from callsheet.apps.equipment import equip, needs_of_recorded  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - as above
    from callsheet.runtime.edits import ParentHistory  # noqa: PLC0415 - as above

    history = ParentHistory(journal, journal.find_run(run_id))
    launch = history.first()
    needs = needs_of_recorded(
        launch, terms.moved.setup(launch), history.plan, launch.limits, to_stderr, terms.model
    )
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
    from callsheet.api.run_branches import undo_json, undo_lines  # noqa: PLC0415 - imports the runtime

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
