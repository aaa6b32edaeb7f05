"""`callsheet playback`, `rerun` and `fork`: replay runs, and start new ones from a point of an old one.

Input: a recorded run, a step or an event, edits. Output: the effects that are ahead; the exit status of the
new run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.arguments import actor_name, parse_value, parse_variables
from callsheet.apps.cli.debugging.faces import NOWHERE, Stops, check_breaks, stops
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import can_redraw, ignoring_broken_pipe, is_terminal, print_json, to_stderr
from callsheet.apps.cli.progress.progress import LinePlayback, LivePlayback
from callsheet.apps.cli.resume import checked_terms, execute_resume, resume_options
from callsheet.apps.rendering.values import without_controls

if TYPE_CHECKING:
    from callsheet.api.admission import Equipment
    from callsheet.api.run_branches import BranchRules, Fork, Rerun, Revised
    from callsheet.apps.cli.resume import Moved
    from callsheet.apps.masking import Masker
    from callsheet.ir import JSON, Plan
    from callsheet.runtime.forking import Draft, Forking
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.replay import Moment


_LONGEST = 3.0
"""The maximum pause in seconds: a run may have waited for people for days."""
_QUIT = frozenset("qQ\x03\x04")
_ESCAPE = "\x1b"
_KEYS = "any key: next event, q: quit"


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--from", "start", type=click.IntRange(1), default=1, metavar="SEQ", help="Start at this event."
)
@click.option("--to", "end", type=click.IntRange(1), metavar="SEQ", help="End with this event.")
@click.option(
    "--speed",
    type=FiniteRange(0, min_open=True),
    metavar="X",
    help="The speed, as a factor; default: 1 on a terminal, otherwise without pauses.",
)
@click.option("--step", "by_key", is_flag=True, help="Wait for a key after each event.")
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line for each note.")
def playback(
    run: str,
    start: int,
    end: int | None,
    speed: float | None,
    by_key: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Replay the recording of RUN from its journal. Nothing is executed, and no tool is called.

    RUN is a run id, a unique prefix of one, or `last`. On a terminal this shows the display of `run` at the
    original speed, with pauses of at most three seconds. Otherwise a line is printed per note.

    \b
    Example:
      callsheet playback last --speed 4
    """
    if by_key and speed is not None:
        raise click.UsageError("--step and --speed cannot be combined")
    is_live = not as_json and is_terminal(sys.stdout) and can_redraw(sys.stderr)
    if by_key and not (is_live and is_terminal(sys.stdin)):
        raise click.UsageError("--step needs a terminal")
    if by_key:
        to_stderr(_KEYS)
    with journals.open_to_read(journal) as opened, ignoring_broken_pipe():
        info = opened.find_run(run)
        plan = opened.plan_of(info.plan_hash)
        pace = _Pace(by_key=by_key, speed=1.0 if speed is None and is_live else speed)
        display: LivePlayback | LinePlayback = (
            LivePlayback(plan, info.run_id) if is_live else LinePlayback(plan, as_json=as_json)
        )
        _play(opened, info, plan, _Player(display, pace, start, end or info.events))
    return Exit.OK


def _play(journal: Journal, info: RunInfo, plan: Plan, player: _Player) -> None:
    from callsheet.store.errors import require_event  # noqa: PLC0415 - imports the store
    from callsheet.trace.replay import play  # noqa: PLC0415 - as above

    for seq in (player.start, player.end):
        require_event(seq, info.events)
    try:
        play(plan, journal.events(info.run_id), journal.plan_of, player.on_moment)
    finally:
        player.shown.end()


class _Pace:
    """The delay between events."""

    def __init__(self, *, by_key: bool, speed: float | None) -> None:
        self._by_key = by_key
        self._speed = speed

    def wait(self, between: float) -> bool:
        """Wait between two events. Returns False if the user quits."""
        if self._by_key:
            key = click.getchar()
            return key != _ESCAPE and _QUIT.isdisjoint(key)
        if self._speed is not None and between > 0:
            time.sleep(min(_LONGEST, between / self._speed))
        return True


class _Player:
    """Displays the moments between two events at a pace."""

    def __init__(self, shown: LivePlayback | LinePlayback, pace: _Pace, start: int, end: int) -> None:
        self.shown = shown
        self.start = start
        self.end = end
        self._pace = pace
        from callsheet.trace.visits import SteadyTime  # noqa: PLC0415 - brings the store

        self._time = SteadyTime()
        self._last: float | None = None
        self._begun: float | None = None

    def on_moment(self, moment: Moment) -> bool:
        """Display a moment. Returns whether more are to follow."""
        event = moment.event
        now = self._time.of(event)
        self._begun = now if self._begun is None else self._begun
        if event.seq > self.end:
            return False
        if event.seq < self.start:
            self.shown.before(moment)
            return True
        if self._last is None:
            self.shown.begin()
        elif moment.notes and not self._pace.wait(now - self._last):
            return False
        if moment.notes or self._last is None:
            self._last = now
        self.shown.show(moment, now - self._begun)
        return event.seq < self.end


sure = click.option("--yes", "assume_yes", is_flag=True, help="Do not ask for confirmation of side effects.")


def is_confirmed(forking: Forking, masker: Masker, *, assume_yes: bool, as_json: bool) -> bool:
    """Whether the new run may be executed.

    The calls with side effects that it will make, or may make, are printed, masked by `masker`. If there are
    any, the user is asked; without a terminal, `--yes` is required.
    """
    effects = forking.effects
    if forking.kept and not as_json:
        to_stderr("\n".join(masker.value([without_controls(line) for line in forking.kept])))
    if not as_json:
        to_stderr("\n".join(masker.value(_lines(forking))))
    if assume_yes or not effects:
        return True
    if not as_json and _is_interactive():
        return click.confirm("Continue?", err=True)
    if as_json:
        print_json(
            {
                "run_id": None,
                "status": "not started",
                "parent": {"run_id": forking.parent.run_id, "event": forking.at},
                "effects": masker.value([effect.to_json() for effect in effects]),
                **({"kept": masker.value([*forking.kept])} if forking.kept else {}),
                "needs": "--yes",
            }
        )
    else:
        to_stderr("no terminal for a confirmation: nothing was done; use --yes to continue")
    return False


def _is_interactive() -> bool:
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def _lines(forking: Forking) -> list[str]:
    parent = f"run {forking.parent.run_id} up to event {forking.at} of {forking.parent.events}"
    if forking.kept:
        parent = f"these calls of run {forking.parent.run_id}"
    if not forking.effects:
        ended = " and ends there" if forking.folded.machine.result is not None else ""
        return [f"the new run keeps {parent}{ended}; its remaining steps have no side effects"]
    lines = [f"the new run keeps {parent}; its remaining steps may have side effects:"]
    for effect in forking.effects:
        lines += [f"  {effect.title}", *(f"      {line}" for line in effect.lines())]
    return [without_controls(line) for line in lines]


run_id = click.option(
    "--run-id", "new_id", metavar="ID", help="The id of the new run; default: a generated one."
)
by = click.option(
    "--by", metavar="NAME", help="The name that is recorded as the author; default: the current user."
)


def start_branch(
    run: str,
    what: Rerun | Fork | Revised,
    *,
    new_id: str | None,
    assume_yes: bool,
    journal: Path | None,
    as_json: bool,
    is_strict: bool,
    stops: Stops = NOWHERE,
    **arguments: Any,
) -> int:
    """Record a branch of `run`, after confirmation, and execute it. Returns the exit status."""
    from callsheet.api.run_branches import (  # noqa: PLC0415 - imports the runtime
        Revised,
        branch_off,
        record_branch,
        require_new_id,
        supersede,
    )
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - as above
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - as above
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import (  # noqa: PLC0415 - imports the store
        check_run_id,
        is_owned,
        new_run_id,
        place_of,
    )

    name = new_run_id() if new_id is None else check_run_id(new_id)
    temporal_runs.refresh_copies(journal, run)
    with journals.open_recorded(journal) as opened:
        run_id = opened.find_run(run).run_id
        require_new_id(opened, name)
        terms = checked_terms(opened, run_id, stops=stops, **arguments)
        rules = _rules(opened, run_id, arguments["as_recorded"], arguments["model"], arguments["moved"])
        made = run_async(branch_off(opened, run_id, what, rules))
        if terms.engine is not None:
            temporal_runs.check_branch(made, terms.engine)
        masker = Masker(load_settings().secrets.shapes)
        masker.add_secrets(made.known)
        if terms.face is not None and stops.breaks:
            check_breaks(made, name, terms.face, masker)
        supersedes = isinstance(what, Revised) and what.verb == "resume"
        if supersedes and not as_json and is_owned(place_of(opened.path), run_id):
            to_stderr(
                f"run {run_id} is under way in another process; it is cancelled when the new one begins"
            )
        if not is_confirmed(made, masker, assume_yes=assume_yes, as_json=as_json):
            return Exit.UNDECIDED
        if supersedes:
            if terms.engine is None:
                run_async(supersede(opened, run_id, name))
            else:
                run_async(temporal_runs.supersede_on_temporal(opened, run_id, name, terms.engine))
        ended = run_async(record_branch(opened, made, name, consent=True, hint="--yes"))
        if not as_json:
            to_stderr(f"run {name}, branched off run {made.parent.run_id}")
        if ended is not None:
            from callsheet.apps.cli.outcome import report  # noqa: PLC0415 - as above

            hint = journals.journal_hint(journal)
            return report(masker.outcome(ended), opened.path, as_json=as_json, hint=hint, is_strict=is_strict)
    return execute_resume(
        lambda opened: opened.find_run(name),
        journal=journal,
        as_json=as_json,
        is_strict=is_strict,
        stops=stops,
        **arguments,
    )


def _rules(journal: Journal, run_id: str, as_recorded: bool, model: str, moved: Moved) -> BranchRules:
    """The rules of a branch: an edited plan is checked with the tools of the run, at their new places.

    `model` is the model that the run continues with, empty for the original one.
    """
    from callsheet.api.run_branches import BranchRules  # noqa: PLC0415 - as above
    from callsheet.apps.equipment import equip, needs_of_recorded  # noqa: PLC0415 - as above
    from callsheet.apps.masking import credentials_for  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415 - as above

    @asynccontextmanager
    async def opened(draft: Draft) -> AsyncGenerator[Equipment]:
        start = draft.start
        needs = needs_of_recorded(start, moved.setup(start), draft.plan, start.limits, to_stderr, model)
        async with open_toolbox(needs.setup, needs.plan, needs.agents) as toolbox:
            yield equip(needs, toolbox, journal.path).equipment

    known = partial(credentials_for, journal, run_id)
    return BranchRules(as_recorded=as_recorded, open_for=opened, known=known, has_engine=True)


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--at", required=True, type=int, metavar="SEQ", help="The last event of RUN that the new run keeps."
)
@click.option(
    "--set",
    "variables",
    multiple=True,
    metavar="VAR=JSON",
    help="Set a variable to another value after the event; in an item or sub-plan under way: S2[4]/x=1.",
)
@click.option(
    "--args",
    "arguments",
    multiple=True,
    metavar="STEP.NAME=JSON",
    help="Change an argument of a step that has not started; the value is data, without $variables.",
)
@click.option(
    "--replace",
    "steps",
    multiple=True,
    metavar="STEP='LINE'",
    help="Replace a step that has not started by another plan line; in a graph by a JSON object.",
)
@sure
@run_id
@by
@resume_options
def fork(
    run: str,
    at: int,
    variables: tuple[str, ...],
    arguments: tuple[str, ...],
    steps: tuple[str, ...],
    by: str | None,
    **resume_arguments: Any,
) -> int:
    """Start a new run that continues after event SEQ of RUN, with a variable, argument or step edited.

    RUN is a run id, a unique prefix of one, or `last`; it is not changed. `callsheet show RUN --events` lists
    its events. The new run keeps the results up to the event. --set also replaces a value that the event
    itself has set. Calls that were pending keep the outcomes that RUN recorded for them.

    Possible side effects are listed first, and need confirmation. Without a terminal --yes is required,
    otherwise the exit status is 4 and nothing is done. `callsheet runs diff` compares both runs.

    \b
    Examples:
      callsheet fork last --at 8 --set total=4
      callsheet fork last --at 8 --args 'S5.into="done"' --yes
    """
    from callsheet.api.run_branches import Fork  # noqa: PLC0415 - imports the runtime
    from callsheet.runtime.edits import Edits  # noqa: PLC0415 - as above

    edits = Edits(
        parse_variables(variables, "--set", placed=True),
        dict(_argument(text) for text in arguments),
        dict(_step(text) for text in steps),
        actor_name(by),
    )
    return start_branch(run, Fork(at, edits), **resume_arguments)


def _argument(text: str) -> tuple[tuple[str, str], JSON]:
    place, equals, value = text.partition("=")
    step, dot, name = place.rpartition(".")
    if not equals or not dot or not step or not name:
        raise click.UsageError(f"--args {text[:60]!r} is not STEP.NAME=JSON")
    return (step, name), parse_value(f"--args {place}", value)


def _step(text: str) -> tuple[str, str]:
    step, equals, line = text.partition("=")
    if not equals or not step or not line.strip():
        raise click.UsageError(f"--replace {text[:60]!r} is not STEP='LINE'")
    return step.strip(), line


def edited_plan(path: Path, place: str, by: str, verb: str) -> Revised:
    """The edited plan in a file. Raises CallsheetError for one with errors."""
    from callsheet.api.plan import Plan  # noqa: PLC0415 - not for --help
    from callsheet.api.run_branches import Revised  # noqa: PLC0415 - imports the runtime
    from callsheet.api.texts import file_note  # noqa: PLC0415 - as above

    made, text = Plan.load(path), path.read_text(encoding="utf-8")
    return Revised(made.ir, text, {"file": file_note(path, text, None)}, place, by, verb)


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--from",
    "place",
    metavar="STEP[@VISIT]",
    help="The step to start from, such as S3 or S3@2; a step of the first re-plan is r1/S3.",
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run this edited plan with blocks, and keep the finished calls of RUN that are the same in it.",
)
@click.option(
    "--failed-items",
    "failed_items",
    is_flag=True,
    help="Run only the failed items of loops again, and what reads their results.",
)
@sure
@run_id
@by
@stops
@resume_options
def rerun(
    run: str,
    place: str | None,
    plan_file: Path | None,
    failed_items: bool,
    by: str | None,
    **arguments: Any,
) -> int:
    """Run the plan of RUN again from a step, as a new run that keeps the earlier results.

    With --plan an edited plan with blocks is run instead: each finished call with the same tool and arguments
    by the same statement is kept, also under another id, for another item and in sub-plans. With --from as
    well, that statement and those behind it keep nothing.

    With --failed-items the failed items of the loops of RUN, which has ended, are run again, for instance
    after a tool was mended. What the other items gave is kept; later steps run again where they ask for other
    things.

    RUN is a run id, a unique prefix of one, or `last`; it is not changed. In a graph, all steps that do not
    depend on the step keep their results; in a @PARALLEL block, the other members do. Earlier usage counts
    against the limits.

    Possible side effects are listed first, and need confirmation. Without a terminal --yes is required,
    otherwise the exit status is 4 and nothing is done.

    \b
    Example:
      callsheet rerun last --from S3
      callsheet rerun last --from 'S2[1]/S4'
      callsheet rerun last --failed-items
    """
    from callsheet.api.run_branches import Rerun, Revised  # noqa: PLC0415 - imports the runtime

    if failed_items and place is not None:
        raise click.UsageError("--failed-items and --from cannot be combined")
    if plan_file is not None:
        edited = edited_plan(plan_file, place or "", actor_name(by), "rerun")
        return start_branch(run, replace(edited, failed_items=failed_items), **arguments)
    if failed_items:
        what = Revised(by=actor_name(by), failed_items=True, limits=arguments["changes"])
        return start_branch(run, what, **arguments)
    if place is None:
        raise click.UsageError(
            "name the step to start from (--from STEP), an edited plan (--plan FILE), or --failed-items"
        )
    return start_branch(run, Rerun(place, actor_name(by), arguments["changes"]), **arguments)
