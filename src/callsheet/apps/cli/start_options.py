"""The options of `callsheet run` that say how a run starts: id, approvals, policy, state."""

from __future__ import annotations

from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.lazy import dataclass


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a run starts: its id, approvals, policy, state and tags."""

    run_id: str | None
    approve: tuple[str, ...]
    approval_timeout: tuple[str, ...]
    waits: bool
    accepts_changed_tools: bool
    policy: str
    approved: tuple[str, ...]
    state: Path | None
    tags: tuple[str, ...]


start = options.grouped(
    "start",
    StartOptions,
    run_id=click.option("--run-id", metavar="ID", help="The id of the run; default: a new one."),
    approve=click.option(
        "--approve",
        multiple=True,
        metavar="TOOL|STEP",
        help="Require approval of each call of this tool, or step; may be repeated.",
    ),
    approval_timeout=click.option(
        "--approval-timeout",
        multiple=True,
        metavar="TIME|TOOL=TIME",
        help="Deny a call that was not approved in this time, such as 12h or 3d; default: never.",
    ),
    waits=options.waits,
    accepts_changed_tools=click.option(
        "--accept-changed-tools",
        "accepts_changed_tools",
        is_flag=True,
        help="Run a plan of the library although declarations of its tools have changed since it was saved.",
    ),
    policy=click.option(
        "--policy",
        default="",
        metavar="POLICY",
        help="Verify the plan against this policy, and enforce it on each call: strict, workspace, open, or "
        "a file; default: policy in config.toml, otherwise none.",
    ),
    approved=options.approved,
    state=click.option(
        "--state",
        type=click.Path(dir_okay=False, exists=True, path_type=Path),
        metavar="FILE",
        help="Continue from a state file (ID_state.json of another program): its completed steps are not "
        "executed again.",
    ),
    tags=click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="NAME=TEXT",
        help="Tag the run; `callsheet runs` shows its tags and finds it by them. May be repeated.",
    ),
)
"""The options, as an argument `start`."""
