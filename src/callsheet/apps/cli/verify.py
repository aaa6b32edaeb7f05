"""`callsheet verify` and `callsheet explain-policy`: verify plans against a policy. Nothing is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.arguments import NamedPlan, each_plan, parse_variables, plan_files, try_read_plan
from callsheet.apps.cli.exit_status import Exit, exit_for_diagnostics
from callsheet.apps.cli.output import (
    count_by_severity,
    format_diagnostics,
    output_format,
    print_diagnostics,
    print_json,
    print_report,
)
from callsheet.apps.operations.schema import diagnostic_rows
from callsheet.apps.rendering.annotations import Format, rendered, texts_checked
from callsheet.apps.rendering.values import preview
from callsheet.diagnostics import CallsheetError

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
    policy, files = options.required_policy(policy, setup), each_plan(plan_files(plans, setup.plans))
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
    steps = len(proof.plan.steps)
    lines = [f"{name}: proved against {policy}, {steps} step{_s(steps)}"]
    obligations = dict.fromkeys((o.step, o.kind, o.detail) for o in proof.obligations)
    lines += [f"  {step}: {kind}{f' ({detail})' if detail else ''}" for step, kind, detail in obligations]
    return lines


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
