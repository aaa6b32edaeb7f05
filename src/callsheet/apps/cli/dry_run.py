"""`callsheet dry-run`, and `run --dry-run`: what a plan would do, told without doing any of it.

The plan is checked as `run` checks it. No server is started unless it is asked for, and no
journal is opened.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import json_rows, print_diagnostics, print_json, say
from callsheet.apps.cli.plan.library import bound
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity

if TYPE_CHECKING:
    from callsheet.api.dryrun import DryRun
    from callsheet.api.proving import Proof
    from callsheet.apps.operations.reading import PlanText
    from callsheet.apps.session import Setup
    from callsheet.ports.tools import Registry

_PIPED_COLUMNS = 100
_NOT_HERE = "CHK040"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a dry run is told besides the plan: results, a price, and whether servers are asked."""

    assumed: tuple[str, ...] = ()
    price: float | None = None
    ask_servers: bool = False

    @property
    def are_given(self) -> bool:
        """Whether anything is said that makes sense in a dry run alone."""
        return bool(self.assumed) or self.price is not None or self.ask_servers


@dataclass(frozen=True, slots=True)
class Rules:
    """What the run would be held to: tools before which a person is asked, a policy, and the steps approved.

    `is_recorded` says that it would have a journal.
    """

    approve: tuple[str, ...] = ()
    policy: str = ""
    approved: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    """The names of variables whose values are secret."""
    is_recorded: bool = True


assumptions = options.folded(
    "assumptions",
    Assumptions,
    assumed=click.option(
        "--assume",
        "assumed",
        multiple=True,
        metavar="STEP=VALUE",
        help="Dry run: take the step's result as given; VALUE is JSON, or else text. May be repeated.",
    ),
    price=click.option(
        "--price",
        type=click.FloatRange(0),
        metavar="N",
        help="Dry run: what a million tokens of prompts cost, in any currency.",
    ),
    ask_servers=click.option(
        "--ask-servers", is_flag=True, help="Dry run: start MCP servers to ask what their tools are."
    ),
)
"""The options of a dry run, as `assumptions`."""


@click.command(name="dry-run")
@options.plan
@options.tool_sources
@options.variables
@assumptions
@options.policy_if_any
@options.approved
@options.as_json
def dry_run(
    plan: options.NamedPlan,
    setup: Setup,
    variables: tuple[str, ...],
    assumptions: Assumptions,
    policy: str,
    approved: tuple[str, ...],
    as_json: bool,
) -> int:
    """Say what PLAN, a file or - for standard input, would do, and do nothing of it.

    Every argument that can be resolved is; what only a run will know stands in <…>. Both sides of a
    guard that cannot be decided are followed. Under a policy each step says what it refuses, what a
    person is asked, and what is seen to; the exit status is 3 where the plan is refused.
    """
    rules = Rules(policy=policy, approved=approved)
    return tell_dry_run(plan, setup, variables, assumptions, rules, as_json=as_json)


def tell_dry_run(
    plan: options.NamedPlan,
    setup: Setup,
    variables: Iterable[str],
    assumptions: Assumptions,
    rules: Rules,
    *,
    as_json: bool,
) -> Exit:
    """Check a plan and print its dry run; raises CallsheetError for one that would not be run.

    A person is asked before the calls of the tools that `rules` or the settings name.
    """
    from callsheet.api.dryrun import dry_run_of  # noqa: PLC0415 - not for a wrong command line
    from callsheet.api.reach import facts_of  # noqa: PLC0415 - as above

    inputs = options.parse_variables(variables)
    assumed = parse_assumed(assumptions.assumed)
    text = plan.read(inputs)
    inputs = bound(text, inputs, variables)
    steps = text.require()
    registry, warnings, not_asked = _checked(text, setup, inputs, asks_servers=assumptions.ask_servers)
    facts, asks = facts_of(steps, registry, agents=setup.agents), (*setup.settings.approve, *rules.approve)
    told = dry_run_of(steps, facts, inputs, assumed, asks, assumptions.price)
    proof = _proof(text, setup, registry, inputs, rules)
    if proof is not None:
        told, warnings = told.under(proof), (*warnings, *proof.diagnostics)
    ok = proof is None or proof.ok
    if as_json:
        rows = json_rows(warnings, text.source)
        print_json({"ok": ok, "plan": text.source.name, **told.to_json(), "diagnostics": rows})
    else:
        print_diagnostics([d for d in warnings if d.code != _NOT_HERE and not d.is_error], text.source)
        if not_asked is not None:
            absent = sum(d.code == _NOT_HERE for d in warnings)
            say(
                f"{absent} call{'s' if absent != 1 else ''} of tools that are not here, and {not_asked} was"
                " not asked: --ask-servers starts the servers"
            )
        _print(told, text.source.name)
    return Exit.OK if ok else Exit.REFUSED


def _proof(
    text: PlanText, setup: Setup, registry: Registry, inputs: dict[str, Any], rules: Rules
) -> Proof | None:
    """What the policy says of the plan; None without one."""
    policy = options.policy_named(rules.policy, setup, rules.approved)
    if policy is None:
        return None
    from callsheet.api.proving import prove  # noqa: PLC0415 - only under a policy
    from callsheet.apps.session import undertaking  # noqa: PLC0415 - as above
    from callsheet.store.records import secret_labels  # noqa: PLC0415 - as above

    plan, is_recorded = text.require(), rules.is_recorded
    options.check_approved(plan, rules.approved)
    labels = secret_labels(policy, rules.secrets)
    proof = prove(
        plan,
        policy,
        registry,
        inputs=inputs,
        labels=labels,
        approved=rules.approved,
        can_ask=is_recorded,
    )
    return proof.under(undertaking(setup, registry, keeps_labels=is_recorded))


def _print(told: DryRun, name: str) -> None:
    from callsheet.views.columns import escaped  # noqa: PLC0415 - as above

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED_COLUMNS
    lines = f"dry run of {escaped(name)}\n{told.to_text(columns)}"
    click.echo(lines.encode("utf-8", "backslashreplace"))


def _checked(
    text: PlanText, setup: Setup, inputs: dict[str, Any], *, asks_servers: bool
) -> tuple[Registry, tuple[Diagnostic, ...], str | None]:
    """The tools, the warnings about the plan, and who was not asked for tools that are not here.

    Raises CallsheetError with all findings where one is an error.
    """
    from callsheet.api.checking import check_plan  # noqa: PLC0415 - as above
    from callsheet.apps.shelf import Shelf  # noqa: PLC0415 - as above

    plan = text.require()
    shelf = Shelf(setup)
    registry, before, not_asked = shelf.tools_for(plan, asks_servers=asks_servers)
    found = (
        *before,
        *check_plan(plan, registry, inputs, not_asked=not_asked, means=setup.means),
        *shelf.wrong_tools(plan, registry, not_asked),
    )
    if any(d.is_error for d in found):
        raise CallsheetError(found, text.source)
    said = (*text.diagnostics, *found)
    return registry, tuple(d for d in said if d.severity is Severity.WARNING), not_asked


def parse_assumed(given: Iterable[str]) -> dict[str, Any]:
    """The results of `--assume` by step id; raises CallsheetError (RUN040) for what is none.

    >>> parse_assumed(['S1={"n": 3}', "S2=some text"])
    {'S1': {'n': 3}, 'S2': 'some text'}
    """
    found: dict[str, Any] = {}
    for said in given:
        step_id, equals, value = said.partition("=")
        step_id = step_id.strip()
        if not equals:
            message = f"--assume {said[:60]!r} has no ="
            raise CallsheetError.single("RUN040", message, help="write --assume STEP=VALUE")
        if step_id in found:
            message = f"--assume gives a result of {step_id[:60]} twice"
            raise CallsheetError.single("RUN040", message, help="give each step one result")
        found[step_id] = options.read_value(f"--assume {step_id[:60]}", value)
    return found
