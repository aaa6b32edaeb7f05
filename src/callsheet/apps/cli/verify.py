"""`callsheet verify` and `callsheet explain-policy`: plans held against a policy; nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit, status_of
from callsheet.apps.cli.output import count_of, json_rows, print_json
from callsheet.diagnostics import CallsheetError, render_all

if TYPE_CHECKING:
    from callsheet.api.proving import Proof
    from callsheet.apps.cli.reading import PlanText
    from callsheet.apps.session import Setup
    from callsheet.diagnostics import Diagnostic

_approved = click.option(
    "--approved",
    multiple=True,
    metavar="STEP",
    help="The id of a step to which somebody has said yes; may be repeated.",
)
_unattended = click.option(
    "--unattended", is_flag=True, help="Nobody can be asked during the run: refuse what needs a yes."
)


@click.command()
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@options.policy_option
@_approved
@_unattended
@options.checked_tools
@options.variables
@options.syntax
@options.as_json
def verify(
    plans: tuple[str, ...],
    policy: str,
    approved: tuple[str, ...],
    unattended: bool,
    setup: Setup,
    variables: tuple[str, ...],
    syntax: Any,
    as_json: bool,
) -> int:
    """Prove each PLAN, a file or - for standard input, against a policy; exit 3 if it refuses one.

    Nothing runs. Servers are asked for their tools only if their configuration is named.
    """
    given = options.parse_variables(variables)
    proved = [_prove(plan, policy, approved, unattended, setup, given, syntax) for plan in plans]
    if as_json:
        print_json(_json(proved))
    else:
        for text, proof, found in proved:
            if found:
                click.echo(render_all(found, text.source))
            for line in _verdict(text, proof, found):
                click.echo(line)
    return max(status_of(found) for _, _, found in proved)


def _prove(
    plan: str,
    named: str,
    approved: tuple[str, ...],
    unattended: bool,
    setup: Setup,
    given: dict[str, Any],
    syntax: Any,
) -> tuple[PlanText, Proof | None, tuple[Diagnostic, ...]]:
    """The text, what came of its proof, and all that is to be said."""
    from callsheet.api.checking import check_plan  # noqa: PLC0415 - not for --help
    from callsheet.api.policies import load_policy  # noqa: PLC0415 - as above
    from callsheet.api.proving import prove  # noqa: PLC0415 - as above
    from callsheet.apps.cli.reading import read_plan  # noqa: PLC0415 - as above
    from callsheet.apps.session import undertaking  # noqa: PLC0415 - as above
    from callsheet.apps.shelf import Shelf  # noqa: PLC0415 - as above

    policy = load_policy(named)
    text = read_plan(plan, syntax=syntax, variables=given)
    if text.plan is None:
        return text, None, text.diagnostics
    options.check_approved(text.plan, approved)
    registry, before, not_asked = Shelf(setup).tools_for(text.plan, asks_servers=bool(setup.mcp_configs))
    checked = check_plan(text.plan, registry, given, not_asked=not_asked, means=setup.means)
    errors = tuple(d for d in (*text.diagnostics, *before, *checked) if d.is_error)
    proof = prove(text.plan, policy, registry, inputs=given, approved=approved, can_ask=not unattended)
    proof = proof.under(undertaking(setup, registry))
    return text, proof, (*errors, *proof.diagnostics)


def _verdict(text: PlanText, proof: Proof | None, found: tuple[Diagnostic, ...]) -> list[str]:
    if proof is None:
        return [f"{text.source.name}: it could not be read"]
    errors = [d for d in found if d.is_error]
    if errors and status_of(errors) is not Exit.REFUSED:
        return [f"{text.source.name}: {count_of(found)}"]
    if errors:
        return [
            f"{text.source.name}: refused by {proof.policy.name}, for {len(errors)} reason{_s(len(errors))}"
        ]
    steps = len(proof.plan.steps)
    lines = [f"{text.source.name}: proved against {proof.policy.name}, {steps} step{_s(steps)}"]
    told = dict.fromkeys((o.step, o.kind, o.detail) for o in proof.obligations)
    lines += [f"  {step}: {kind}{f' ({detail})' if detail else ''}" for step, kind, detail in told]
    return lines


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _json(proved: list[tuple[PlanText, Proof | None, tuple[Diagnostic, ...]]]) -> dict[str, Any]:
    plans: list[dict[str, Any]] = []
    for text, proof, found in proved:
        row: dict[str, Any] = {"plan": text.source.name}
        if proof is not None:
            row |= proof.to_json()
        plans.append({**row, "ok": proof is not None and not any(d.is_error for d in found)})
    rows = [row for text, _, found in proved for row in json_rows(found, text.source)]
    return {"ok": all(plan["ok"] for plan in plans), "plans": plans, "diagnostics": rows}


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
    help="Lines for a terminal, or a Mermaid flow chart with a colour for each label.",
)
@options.as_json
def explain_policy(
    plan: options.NamedPlan,
    policy: str,
    approved: tuple[str, ...],
    setup: Setup,
    variables: tuple[str, ...],
    shape: str,
    as_json: bool,
) -> int:
    """Say of each step of PLAN who may have written and who may read what it takes and gives, and why.

    PLAN is a file or - for standard input. Exits 3 if the policy refuses the plan.
    """
    from callsheet.views.labels import labels_json, labels_mermaid, labels_text  # noqa: PLC0415 - not for --help

    given = options.parse_variables(variables)
    text, proof, found = _prove(plan.plan, policy, approved, False, setup, given, plan.syntax)
    if proof is None:
        raise CallsheetError(found, text.source)
    refused: dict[str, list[str]] = {}
    for diagnostic in found:
        if diagnostic.is_error and diagnostic.step is not None:
            refused.setdefault(diagnostic.step, []).append(f"{diagnostic.code}: {diagnostic.message}")
    if as_json:
        print_json({**proof.to_json(), "plan": text.source.name, "steps": labels_json(proof.steps)})
    elif shape == "mermaid":
        click.echo(labels_mermaid(proof.plan, proof.steps, refused))
    else:
        click.echo(labels_text(proof.plan, proof.steps, refused))
    return Exit(status_of(found))
