"""`callsheet rerun`: runs a plan again from a step, keeping the results before it."""

from __future__ import annotations

from typing import Any

import click

from callsheet.apps.cli.resume import resume_options
from callsheet.apps.cli.time_travel import branching, confirmation


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--from",
    "place",
    required=True,
    metavar="STEP[@VISIT]",
    help="The step to run again from, such as S3 or S3@2; of the first plan that the run made itself r1/S3.",
)
@confirmation.sure
@branching.run_id
@branching.by
@resume_options
def rerun(run: str, place: str, by: str | None, **arguments: Any) -> int:
    """Run the plan of RUN again from a step, as a new run; what came before keeps its results.

    RUN stays as it is. In a graph all steps keep theirs that do not wait for that one, in a block the other
    members. First it is listed what will change something outside, again or for the first time, and a yes is
    asked for; without a terminal --yes is needed, and else the exit status is 4 and nothing is done. Budgets
    that were used up to there count as used.
    """
    from callsheet.runtime import forking  # noqa: PLC0415 - brings the runtime

    return branching.start_branch(
        lambda journal: forking.rerun(journal, run, place, branching.actor_name(by)), **arguments
    )
