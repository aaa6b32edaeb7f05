"""Commands that inspect recorded runs: `callsheet why`, `at`, `diff`, `blame`."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.operations.lineage import (
    MAX_LINES,
    compared_json,
    diff_lines,
    flow_json,
    origins_of,
    run_at_event_json,
    slice_json,
)
from callsheet.apps.rendering.values import format_seconds, iso, preview
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.api.explaining import Explanation, FailureReport, FaultyValue, RunMoment
    from callsheet.apps.operations.printed_rows import Blamed, FailedCall
    from callsheet.store.folded import Folded
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.comparing import Slower
    from callsheet.views.describe import Wording


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("seq", metavar="[SEQ]", type=int, required=False)
@journals.journal_path
@options.as_json
def at(run: str, seq: int | None, journal: Path | None, as_json: bool) -> int:
    """Show the state of RUN after its event SEQ: status, position, pending calls, loops, variables.

    Without SEQ it is the state now. Loops under way have the results of their items so far, with --json all
    of them. RUN is a run id, a unique prefix of one, or `last`. `callsheet show RUN --events` lists the
    events with their numbers. Nothing is executed.

    \b
    Example:
      callsheet at last 8
    """
    from callsheet.api.explaining import run_at  # noqa: PLC0415 - imports the store

    with journals.open_to_read(journal) as opened:
        moment = run_at(opened, run, seq)
        events = opened.find_run(moment.run_id).events
    with ignoring_broken_pipe():
        if as_json:
            print_json(run_at_event_json(moment))
        else:
            _print_state(moment, events)
    return Exit.OK


def _print_state(moment: RunMoment, events: int) -> None:
    from callsheet.views.describe import wording_of  # noqa: PLC0415 - as above

    event, folded = moment.event, moment.folded
    words = wording_of(folded.machine.program.plan)
    key = f" {event.key}" if event.key else ""
    told = f"event {event.seq} of {events}: {event.type}{key}, {iso(event.ts)}"
    print_text(f"run      {moment.run_id} after {told}")
    print_text(f"status   {moment.status}, {_position(folded)}")
    print_text(f"used     {moment.usage.describe()}")
    for command in folded.waiting.values():
        print_text(f"pending  {command.key}  {_describe_command(command, words)}")
    for loop in moment.loops:
        failed = f", {len(loop.failed)} failed" if loop.failed else ""
        given = f"; so far {preview([*loop.results.values()], 100)}" if loop.variable and loop.results else ""
        done = f"{len(loop.results.keys() - loop.failed.keys()):,} of {loop.items:,} items done{failed}"
        into = f" > {words.variable(loop.variable)}" if loop.variable else ""
        print_text(f"loop     {loop.place}{into}: {done}{given}")
    variables = [
        f"{words.variable(name)} = {preview(value, 100)}" for name, value in moment.variables.items()
    ]
    if variables:
        print_text("\n".join(variables))
    if folded.machine.result is not None:
        print_text(f"{'answer' if moment.error is None else 'error'}: {moment.error or moment.response}")


def _position(folded: Folded) -> str:
    """The position of a run in its plan, in words."""
    machine = folded.machine
    steps = machine.program.steps
    if machine.result is not None:
        return f"ended at {machine.result.ended_at}" if machine.result.ended_at else "ended"
    if machine.tree is not None:
        from callsheet.machine.keys import place_in_tree  # noqa: PLC0415 - only for version 2

        places = list(dict.fromkeys(place_in_tree(key) for key in machine.open_keys()))
        more = f" and {len(places) - 3} more places" if len(places) > 3 else ""
        return f"at {', '.join(places[:3])}{more}" if places else "between two events"
    if machine.schedule is not None:
        done, failed = len(machine.schedule.numbers_done()), len(machine.schedule.failures)
        message = f"{done} of {len(steps)} steps done, {machine.schedule.open} running"
        return message + (f", {failed} failed" if failed else "")
    if machine.pc >= len(steps):
        return "after the last step"
    group = machine.group
    if group is not None:
        return f"in the group {steps[machine.pc].id} to {steps[group.end - 1].id}"
    return f"at {steps[machine.pc].id}"


def _describe_command(command: object, words: Wording) -> str:
    calls = {"CallTool": "tool call", "CallModel": "model call", "RunAgent": "agent"}
    kind = type(command).__name__
    tool = getattr(command, "tool", "")
    return f"{calls.get(kind, kind)} {words.tool(tool)}" if tool else _OTHERS.get(kind, kind)


_OTHERS = {
    "Ask": "request to a person",
    "AgentTurn": "model call of an agent",
    "Sleep": "delay before the next attempt",
    "Compile": "new plan from a model",
    "Probe": "probe: whether the call took place",
}


@click.command()
@click.argument("run", metavar="RUN")
@journals.journal_path
@options.as_json
def blame(run: str, journal: Path | None, as_json: bool) -> int:
    """Show where RUN failed and, separately, the likely cause, with the evidence.

    RUN is a run id, a unique prefix of one, or `last`. The likely cause is a guess by rule. Among all data
    that flowed into the failed step it is the first error, otherwise the first value that could not be cast,
    otherwise a value that was not set or was empty.
    """
    from callsheet.api.explaining import blame_run  # noqa: PLC0415 - imports the store
    from callsheet.apps.rendering.failures import failure_lines  # noqa: PLC0415 - as above

    with journals.open_to_read(journal) as opened:
        report = blame_run(opened, run)
    with ignoring_broken_pipe():
        if as_json:
            print_json(_json(report))
        else:
            for line in failure_lines(report):
                print_text(line)
    return Exit.OK


def _json(report: FailureReport) -> Blamed:
    causes = [_cause_json(cause) for cause in report.causes]
    failed: FailedCall | None = None
    if report.step is not None:
        failed = {
            "step": report.step,
            "visit": report.visit,
            "event": report.event,
            "call": report.call,
            "preview": preview(report.arguments, 200) if report.call else None,
            "traceback": report.traceback,
        }
    return {
        "run_id": report.run_id,
        "failed": failed,
        "error": report.error,
        "likely_cause": causes[0] if causes else None,
        "method": "backward slice: the first error, else odd cast, else what is not set, else empty",
        "evidence": causes,
    }


def _cause_json(cause: FaultyValue) -> dict[str, Any]:
    return {
        "what": cause.what,
        "variable": cause.variable,
        "path": list(cause.path),
        "preview": preview(cause.value, 200),
        "step": cause.step,
        "event": cause.event,
        "call": cause.call,
        "error": cause.error,
        "traceback": cause.traceback,
        "way": [flow_json(flow) for flow in cause.way],
    }


_PERCENT = 100


class ToleranceType(click.ParamType[float]):
    """A fraction of a time, such as `20%` or `0.2`."""

    name = "FRACTION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The fraction as a number of at least 0."""
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            part = float(text.removesuffix("%")) / (_PERCENT if text.endswith("%") else 1)
        except ValueError:
            part = -1.0
        if not 0 <= part < float("inf"):
            self.fail(f"{text!r} is not a fraction; write 20% or 0.2", param, ctx)
        return part


_PLANS = (".ltp", ".micro", ".json", ".yaml", ".yml")


def _reject_plan_files(*names: str) -> None:
    """Raise CallsheetError (CFG010) if all of these names are files of plans."""
    if all(Path(name).suffix in _PLANS and Path(name).is_file() for name in names):
        help_text = f"to compare plans: callsheet plan diff {shlex.join(names)}"
        raise CallsheetError.single("CFG010", f"{names[0]} is a file, not a run", help=help_text)


@click.command("diff")
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option("--all", "compare_all", is_flag=True, help="Show all differences, not only the first ones.")
@click.option("--times", "with_times", is_flag=True, help="Also show which steps became slower or faster.")
@click.option(
    "--noise",
    type=ToleranceType(),
    default="20%",
    show_default=True,
    help="The difference of times that is ignored, as a fraction of the longer one.",
)
@click.option("--exit-code", is_flag=True, help="Exit 1 if the runs differ.")
@journals.journal_path
@options.as_json
def diff_of_runs(
    old: str,
    new: str,
    compare_all: bool,
    with_times: bool,
    noise: float,
    exit_code: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Show where the runs A and B first diverge, and what follows from it.

    A and B are run ids, unique prefixes of them, or `last`. Steps are matched by id and visit, the remaining
    ones by tool and arguments. Times are ignored; --times compares them separately.

    \b
    Examples:
      callsheet diff monday tuesday
      callsheet diff monday last --times --noise 50%
    """
    from callsheet.api.run_differences import diff_runs  # noqa: PLC0415 - imports the store

    _reject_plan_files(old, new)
    with journals.open_to_read(journal) as opened:
        difference = diff_runs(opened, old, new, None if compare_all or as_json else MAX_LINES)
        a, b, compared = difference.a, difference.b, difference.compared
        origins = origins_of(opened, a, b)
        time_differences = compare_step_times(opened, a, b, noise) if with_times else None
    with ignoring_broken_pipe():
        if as_json:
            times = (
                {}
                if time_differences is None
                else {"times": [difference._asdict() for difference in time_differences]}
            )
            print_json({**compared_json(difference, origins), **times})
        else:
            plans = "the same plan" if difference.is_same_plan else "different plans"
            print_text(f"A {a.run_id}, B {b.run_id}, {plans}")
            for name, origin in zip("AB", origins, strict=True):
                if origin is not None:
                    print_text(f"{name} is    {origin.describe()}")
            for line in diff_lines(compared):
                print_text(line)
            if time_differences is not None:
                print_times(time_differences, noise)
    return Exit.FAILED if exit_code and not difference.is_equal else Exit.OK


_MAX_SHOWN = 20


def compare_step_times(journal: Journal, old: RunInfo, new: RunInfo, noise: float) -> list[Slower]:
    """The visits of steps that took longer or shorter in the second run, beyond `noise` (a fraction)."""
    from callsheet.trace.comparing import slower  # noqa: PLC0415 - only with --times

    return slower(_times_of_steps(journal, old), _times_of_steps(journal, new), noise)


def _times_of_steps(journal: Journal, info: RunInfo) -> dict[tuple[str, int], float]:
    from callsheet.trace.visits import account_of  # noqa: PLC0415 - only with --times

    plan = journal.plan_of(info.plan_hash)
    account = account_of(plan, journal.events(info.run_id), journal.plan_of)
    visits: Counter[str] = Counter()
    durations: dict[tuple[str, int], float] = {}
    for visit in account.steps:
        visits[visit.step] += 1
        if visit.ended is not None and visit.calls:
            durations[visit.step, visits[visit.step]] = visit.ended - visit.started
    return durations


def print_times(differences: list[Slower], noise: float) -> None:
    """Print the differences, the largest first."""
    for difference in differences[:_MAX_SHOWN]:
        name = difference.step if difference.visit == 1 else f"{difference.step}@{difference.visit}"
        word = "slower" if difference.new > difference.old else "faster"
        print_text(f"{word:7} {name}: A {format_seconds(difference.old)}, B {format_seconds(difference.new)}")
    if len(differences) > _MAX_SHOWN:
        print_text(f"and {len(differences) - _MAX_SHOWN} more times")
    if not differences:
        print_text(f"times   no step differs by more than {noise:.0%}")


_MAX_NODES = 2_000
"""The number of nodes that are visited for a tree, which shows the nearest ones."""
_MAX_IN_JSON = 1_000
_MAX_CALLS = 20


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("variable", metavar="VAR[.PATH]")
@click.option(
    "--forward",
    "is_forward",
    is_flag=True,
    help="Show what was derived from the value, and the calls that it reached.",
)
@click.option(
    "--depth", type=click.IntRange(1), default=6, show_default=True, help="The depth of the tree, in steps."
)
@click.option("--all", "with_all", is_flag=True, help="With --json: all nodes, not only the nearest 1,000.")
@journals.journal_path
@options.as_json
def why(
    run: str,
    variable: str,
    is_forward: bool,
    depth: int,
    with_all: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Show what a value of RUN was derived from: inputs, literals of the plan, results of tools.

    RUN is a run id, a unique prefix of one, or `last`. VAR is a variable, with its last value, or `answer`.
    PATH is a path in the value, as in plans: rows.0.amount. Of a FOREACH, only the item that the value was
    derived from is followed.

    \b
    Examples:
      callsheet why last answer
      callsheet why last orders.0.total --forward
    """
    from callsheet.api.explaining import explain_value  # noqa: PLC0415 - imports the store

    most, down = (None if with_all else _MAX_IN_JSON, None) if as_json else (_MAX_NODES, depth)
    with journals.open_to_read(journal) as opened:
        found = explain_value(opened, run, variable, forward=is_forward, most=most, depth=down)
    with ignoring_broken_pipe():
        if as_json:
            print_json(slice_json(found))
        else:
            _print_lineage(found, depth)
    return Exit.OK


def _print_lineage(found: Explanation, depth: int) -> None:
    from callsheet.trace.lineage.slices import reached_by  # noqa: PLC0415 - as above
    from callsheet.views.lineage import reached_line, words_of  # noqa: PLC0415 - as above

    for line in found.lines(depth):
        print_text(line)
    if not found.is_forward:
        return
    calls, words = reached_by(found.lineage, found.graph), words_of(found.lineage)
    reach = " up to this depth; increase --depth for more" if found.is_cut else ""
    print_text(f"\n{len(calls)} call{'' if len(calls) == 1 else 's'} received it{reach}")
    for call in calls[:_MAX_CALLS]:
        print_text(f"  {reached_line(found.lineage, call, words)}")
    if len(calls) > _MAX_CALLS:
        print_text(f"  … and {len(calls) - _MAX_CALLS} more (--json --all lists all)")
