"""`callsheet fork`: starts a new run that continues from an event of another, with edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli.assignments import parse_value, parse_variables
from callsheet.apps.cli.resume import resume_options
from callsheet.apps.cli.time_travel import branching, confirmation

if TYPE_CHECKING:
    from callsheet.ir import JSON


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
    help="Set a variable to another value after the event.",
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
@confirmation.sure
@branching.run_id
@branching.by
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
    from callsheet.api.run_service import Fork  # noqa: PLC0415 - imports the runtime
    from callsheet.runtime.edits import Edits  # noqa: PLC0415 - as above

    edits = Edits(
        parse_variables(variables, "--set"),
        dict(_argument(text) for text in arguments),
        dict(_step(text) for text in steps),
        branching.actor_name(by),
    )
    return branching.start_branch(run, Fork(at, edits), **resume_arguments)


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
