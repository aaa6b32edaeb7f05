"""`callsheet dry-run` and `run --dry-run`: predict what a plan would do, without doing it.

The plan is checked as by `run`. No server is started unless --ask-servers is given, and no journal is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import NamedPlan, parse_value, parse_variables
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import columns, print_diagnostics, print_json, to_stderr
from callsheet.apps.cli.run_options import PlanCommand
from callsheet.apps.operations.library import bound
from callsheet.diagnostics import CallsheetError
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The inputs of a dry run besides the plan: results of steps, a price, and whether servers are asked."""

    assumed: tuple[str, ...] = ()
    price: float | None = None
    ask_servers: bool = False
    worlds: bool = False

    @property
    def is_given(self) -> bool:
        """Whether any option was given that applies only to a dry run."""
        return bool(self.assumed) or self.price is not None or self.ask_servers or self.worlds


@dataclass(frozen=True, slots=True)
class DryRunRules:
    """The rules of the run: tools that need approval, a policy, and approved steps.

    `is_recorded` states that the run would have a journal.
    """

    approve: tuple[str, ...] = ()
    policy: str = ""
    approved: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    """The names of variables whose values are secret."""
    is_recorded: bool = True
    journal: Path | None = None
    """The path of the journal; None for the default one."""


assumptions = options.grouped(
    "assumptions",
    Assumptions,
    assumed=click.option(
        "--assume",
        "assumed",
        multiple=True,
        metavar="STEP=VALUE",
        help="Dry run: assume this result of a step; VALUE is JSON, otherwise text. May be repeated.",
    ),
    price=click.option(
        "--price",
        type=FiniteRange(0),
        metavar="N",
        help="Dry run: the price of a million prompt tokens, in any currency.",
    ),
    ask_servers=click.option(
        "--ask-servers", is_flag=True, help="Dry run: start MCP servers to list their tools."
    ),
    worlds=click.option(
        "--worlds",
        is_flag=True,
        help="Dry run: also tell what is changed with each condition true and false.",
    ),
)
"""The options of a dry run, as `assumptions`."""


@click.command(name="dry-run", cls=PlanCommand)
@options.plan
@options.tool_sources
@options.variables
@assumptions
@click.option(
    "--approve",
    multiple=True,
    metavar="TOOL|STEP",
    help="As for `run`: require approval of each call of this tool, or step; may be repeated.",
)
@options.policy_if_any
@options.approved
@options.as_json
def dry_run(
    plan: NamedPlan,
    setup: Setup,
    variables: tuple[str, ...],
    assumptions: Assumptions,
    approve: tuple[str, ...],
    policy: str,
    approved: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show what PLAN, a file or - for standard input, would do. Nothing is executed.

    Arguments are shown resolved as far as they are known; values that only a run can know are shown as <…>.
    If a condition cannot be decided, both branches are followed. With --policy, each step shows what the
    policy refuses, what needs approval, and what is enforced at run time. The exit status is 3 if the plan is
    refused.

    \b
    Examples:
      callsheet dry-run plan.ltp --tools tools.py
      callsheet dry-run plan.ltp --assume 'S1=[1, 2]' --policy workspace
      callsheet dry-run plan.py --worlds
    """
    rules = DryRunRules(approve, policy, approved)
    return print_dry_run(plan, setup, variables, assumptions, rules, as_json=as_json)


def print_dry_run(
    plan: NamedPlan,
    setup: Setup,
    variables: Iterable[str],
    assumptions: Assumptions,
    rules: DryRunRules,
    *,
    as_json: bool,
) -> Exit:
    """Check a plan and print its dry run. Raises CallsheetError for a plan that would not be run.

    Calls of the tools that `rules` or the settings name need approval.
    """
    from callsheet.apps.operations.proofs import PredictionOptions, predict  # noqa: PLC0415 - not for --help
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - not for --help

    inputs = parse_variables(variables)
    assumed = parse_assumptions(assumptions.assumed)
    text = plan.read(inputs)
    inputs = bound(text, inputs, variables)
    policy = options.resolve_policy(rules.policy, setup, rules.approved)
    if policy is not None:
        options.check_approved(text.require(), rules.approved)
    prediction_options = PredictionOptions(
        inputs=inputs,
        assume=assumed,
        policy=policy,
        price=assumptions.price,
        worlds=assumptions.worlds,
        asks_servers=assumptions.ask_servers,
        approve=rules.approve,
        approved=rules.approved,
        secrets=rules.secrets,
        is_recorded=rules.is_recorded,
        journal=rules.journal or default_journal_path(),
    )
    ran = predict(text, DeclaredTools(setup), prediction_options)
    if as_json:
        print_json(ran.to_json())
    else:
        print_diagnostics(ran.remarks, text.source)
        if ran.absent:
            to_stderr(f"{ran.absent}: use --ask-servers to start the servers")
        click.echo(ran.to_text(columns()).encode("utf-8", "backslashreplace"))
    return Exit.OK if ran.ok else Exit.REFUSED


def parse_assumptions(texts: Iterable[str]) -> dict[str, Any]:
    """The results of `--assume` by step id. Raises CallsheetError (RUN040) for an invalid one.

    >>> parse_assumptions(['S1={"n": 3}', "S2=some text"])
    {'S1': {'n': 3}, 'S2': 'some text'}
    """
    results: dict[str, Any] = {}
    for assumption in texts:
        step_id, equals, value = assumption.partition("=")
        step_id = step_id.strip()
        if not equals:
            message = f"--assume {assumption[:60]!r} has no ="
            raise CallsheetError.single("RUN040", message, help="write --assume STEP=VALUE")
        if step_id in results:
            message = f"--assume gives a result of {step_id[:60]} twice"
            raise CallsheetError.single("RUN040", message, help="give each step one result")
        results[step_id] = parse_value(f"--assume {step_id[:60]}", value)
    return results
