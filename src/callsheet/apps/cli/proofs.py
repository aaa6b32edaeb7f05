"""`callsheet verify`, `explain-policy`, `dry-run`, `run --dry-run`: what is known of a plan before it runs.

Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import (
    NamedPlan,
    named_plans,
    parse_value,
    parse_variables,
    try_read_plan,
    warn_of_typed_secrets,
)
from callsheet.apps.cli.exit_status import Exit, exit_for_diagnostics
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import (
    columns,
    count_by_severity,
    format_diagnostics,
    output_format,
    print_diagnostics,
    print_json,
    print_report,
    to_stderr,
)
from callsheet.apps.cli.run_options import PlanCommand
from callsheet.apps.operations.library import bound
from callsheet.apps.operations.schema import diagnostic_rows
from callsheet.apps.rendering.annotations import Format, rendered, texts_checked
from callsheet.apps.rendering.values import preview
from callsheet.diagnostics import CallsheetError
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_rows import ProvedPlan, ProvedPlans
    from callsheet.apps.operations.proofs import Proved
    from callsheet.apps.setup import Setup

_approved = click.option(
    "--approved",
    multiple=True,
    metavar="STEP",
    help="The id of an approved step, or STEP:whether where untrusted data may decide; may be repeated.",
)
_unattended = click.option(
    "--unattended", is_flag=True, help="Refuse steps that need approval: nobody can be asked during the run."
)


@click.command()
@click.argument("plans", nargs=-1, metavar="[PLAN]...")
@options.policy_option
@_approved
@_unattended
@options.checked_tools
@options.variables
@options.syntax
@output_format
def verify(
    plans: tuple[str, ...],
    policy: str,
    approved: tuple[str, ...],
    unattended: bool,
    setup: Setup,
    variables: tuple[str, ...],
    syntax: Any,
    shape: Format,
) -> int:
    """Verify each PLAN, a file, a folder, a pattern, or - for standard input, against a policy.

    Without PLAN the plans of the project are verified, without --policy against the configured one.

    The proof covers every run of the plan; checks that happen at run time are listed. Nothing is executed.
    Servers are asked for their tools only if --mcp-config is given. Files that earlier runs have written have
    their stored labels (`callsheet labels list`). The exit status is 3 if the policy refuses a plan.

    \b
    Example:
      callsheet verify plan.ltp --policy workspace --tools tools.py
    """
    inputs = parse_variables(variables)
    policy, files = options.required_policy(policy, setup), named_plans(plans, setup.plans)
    proved = [_prove(plan, policy, approved, unattended, setup, inputs, syntax) for plan in files]
    if shape is Format.JSON:
        print_json(_json(proved))
    elif shape is not Format.TEXT:
        found = [(each.diagnostics, each.text.source, 0.0) for each in proved]
        print_report(rendered(shape, texts_checked("callsheet verify", found)))
    else:
        for each in proved:
            if each.diagnostics:
                click.echo(format_diagnostics(each.diagnostics, each.text.source))
            for line in (*_verdict(each), *_way_out(each, policy)):
                click.echo(line)
    return max(exit_for_diagnostics(each.diagnostics) for each in proved)


def _prove(
    plan: str,
    policy_name: str,
    approved: tuple[str, ...],
    unattended: bool,
    setup: Setup,
    inputs: dict[str, Any],
    syntax: Any,
) -> Proved:
    """The text, its proof and all diagnostics."""
    from callsheet.api.policies import load_policy  # noqa: PLC0415 - not for --help
    from callsheet.api.proving import Assumptions  # noqa: PLC0415 - as above
    from callsheet.apps.operations.proofs import prove_text  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import DeclaredTools  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above

    policy = load_policy(policy_name)
    text = try_read_plan(plan, syntax=syntax, variables=inputs)
    warn_of_typed_secrets((text.plan,), inputs, runs=False)
    if text.plan is not None:
        options.check_approved(text.plan, approved)
    return prove_text(
        text,
        policy,
        DeclaredTools(setup),
        Assumptions(inputs=inputs, approved=approved, can_ask=not unattended),
        asks_servers=bool(setup.mcp_configs),
        journal=default_journal_path(),
    )


def _verdict(proved: Proved) -> list[str]:
    proof, diagnostics, name = proved.proof, proved.diagnostics, preview(proved.text.title, 1_000)
    if proof is None:
        return [f"{name}: could not be read"]
    policy = preview(proof.policy.name, 1_000)
    errors = [d for d in diagnostics if d.is_error]
    if errors and exit_for_diagnostics(errors) is not Exit.REFUSED:
        return [f"{name}: {count_by_severity(diagnostics)}"]
    if errors:
        return [f"{name}: refused by {policy}, for {len(errors)} reason{_s(len(errors))}"]
    from callsheet.apps.operations.proofs import duties_of  # noqa: PLC0415 - not for --help

    steps = len(proof.plan.steps)
    return [f"{name}: proved against {policy}, {steps} step{_s(steps)}", *duties_of(proof)]


def _way_out(proved: Proved, policy: str) -> list[str]:
    """After a refusal: what to change so that the plan passes."""
    from callsheet.apps.operations.proofs import way_out  # noqa: PLC0415 - not for --help

    return [] if proved.proof is None else [f"  {line}" for line in way_out(proved.proof, policy)]


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _json(proved: list[Proved]) -> ProvedPlans:
    plans: list[ProvedPlan] = [{"plan": each.text.title, **each.row()} for each in proved]
    rows = [row for each in proved for row in diagnostic_rows(each.diagnostics, each.text.source, named=True)]
    return {"ok": all(each.ok for each in proved), "plans": plans, "diagnostics": rows}


@click.command()
@options.plan_file
@options.policy_option
@_approved
@options.checked_tools
@options.variables
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "mermaid"]),
    default="text",
    show_default=True,
    help="The output format: text for a terminal, or a Mermaid flow chart with a colour for each label.",
)
@options.as_json
def explain_policy(
    plan: NamedPlan,
    policy: str,
    approved: tuple[str, ...],
    setup: Setup,
    variables: tuple[str, ...],
    shape: str,
    as_json: bool,
) -> int:
    """Show for each step of PLAN who may have written and who may read its inputs and its result, and why.

    PLAN is a file or - for standard input. The exit status is 3 if the policy refuses the plan. Errors that
    concern no single step are printed on standard error. --json prints the output of `verify --json`, and
    under `steps` the labels of each step (`reads`, `decided_by`, `gives`) and the steps they derive from
    (`because`).
    """
    from callsheet.policy.calls import Duty  # noqa: PLC0415 - not for --help
    from callsheet.views.labels import labels_json, labels_mermaid, labels_text  # noqa: PLC0415 - as above

    inputs = parse_variables(variables)
    policy = options.required_policy(policy, setup)
    proved = _prove(plan.plan, policy, approved, False, setup, inputs, plan.syntax)
    text, proof, diagnostics = proved.text, proved.proof, proved.diagnostics
    if proof is None:
        raise CallsheetError(diagnostics, text.source)
    refused: dict[str, list[str]] = {}
    for diagnostic in diagnostics:
        if diagnostic.is_error and diagnostic.step is not None:
            refused.setdefault(diagnostic.step, []).append(f"{diagnostic.code}: {diagnostic.message}")
    if as_json:
        data = {**proved.row(), "plan": text.title, "steps": labels_json(proof.steps)}
        print_json({**data, "diagnostics": diagnostic_rows(diagnostics, text.source, named=True)})
    else:
        print_diagnostics([d for d in diagnostics if d.is_error and d.step is None], text.source)
        approvals: dict[str, list[str]] = {}
        for duty in proof.obligations:
            if duty.kind is Duty.APPROVE:
                approvals.setdefault(duty.step, []).append(duty.detail)
        render_labels = labels_mermaid if shape == "mermaid" else labels_text
        click.echo(render_labels(proof.plan, proof.steps, refused, approvals))
    return Exit(exit_for_diagnostics(diagnostics))


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
    warn_of_typed_secrets((text.plan,), inputs.keys() - {*rules.secrets}, runs=False)
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
