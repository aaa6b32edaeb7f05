"""`callsheet rerun`: starts a new run of a plan from a step, keeping the results before it."""

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
    help="The step to start from, such as S3 or S3@2; a step of the first re-plan is r1/S3.",
)
@confirmation.sure
@branching.run_id
@branching.by
@resume_options
def rerun(run: str, place: str, by: str | None, **arguments: Any) -> int:
    """Run the plan of RUN again from a step, as a new run that keeps the earlier results.

    RUN is a run id, a unique prefix of one, or `last`; it is not changed. In a graph, all steps that do not
    depend on the step keep their results; in a @PARALLEL block, the other members do. Earlier usage counts
    against the limits.

    Possible side effects are listed first, and need confirmation. Without a terminal --yes is required,
    otherwise the exit status is 4 and nothing is done.

    \b
    Example:
      callsheet rerun last --from S3
    """
    from callsheet.api.run_service import Rerun  # noqa: PLC0415 - imports the runtime

    return branching.start_branch(run, Rerun(place, branching.actor_name(by)), **arguments)
