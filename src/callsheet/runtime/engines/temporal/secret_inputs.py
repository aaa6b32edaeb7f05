"""Which secrets a run on Temporal may have: none in clear in its history, none that its plan works with."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan, plan_to_json
from callsheet.runtime.engines.temporal.run_order import SECRETS
from callsheet.store.start import Start

_CONDITION_FIELDS = ("if", "foreach")
"""The fields of a step that decide whether and how often it is executed."""


def check_secrets(plan: Plan, start: Start, *, encrypts: bool) -> None:
    """Raise CallsheetError (TMP008) for a secret that Temporal would store, or that decides what is done.

    One that workers read from their environment has a placeholder there; `encrypts` is whether the others
    are stored encrypted.
    """
    placeholders = cast("Mapping[str, str]", start.launch.get(SECRETS, {}))
    named = [name for name, value in start.inputs.items() if isinstance(value, str) and value in placeholders]
    if not encrypts:
        declared = () if plan.tree is None else (one.name for one in plan.tree.inputs if one.is_secret)
        _check_stored(({*declared, *start.secret} & start.inputs.keys()) - {*named})
    _check_decisions(plan, named)


def _check_stored(names: Collection[str]) -> None:
    for name in sorted(names):
        raise CallsheetError.single(
            "TMP008",
            f"the secret input ${name} would be clear text in the history of a run on Temporal",
            help=f"write --secret {name}=env:VARIABLE, and start workers with --secret VARIABLE; "
            "or set encrypt = true in [temporal]",
        )


def _check_decisions(plan: Plan, secrets: Collection[str]) -> None:
    """Refuse a plan that decides by a secret, which is unknown to its driver.

    In a plan with blocks a secret may only be an argument of a tool, or part of a text, list or mapping that
    is one.
    """
    for name in secrets:
        step = _decides_by(plan, name)
        if step is not None:
            raise CallsheetError.single(
                "TMP008",
                f"step {step} {'works with' if plan.tree is not None else 'has a condition on'} the secret"
                f" ${name}: on Temporal a secret is known only to the workers that call tools, not to the"
                " workflow that drives the plan",
                help="move this into a tool, or run the plan on this machine",
            )


def _decides_by(plan: Plan, name: str) -> str | None:
    """The step of a plan that needs to know the value of a variable; None if there is none."""
    if plan.tree is None:
        for step in plan_to_json(plan)["steps"]:
            if f'{{"ref": {json.dumps(name)}' in json.dumps([step.get(part) for part in _CONDITION_FIELDS]):
                return str(step["id"])
        return None
    from callsheet.ir import expression  # noqa: PLC0415 - not for --help
    from callsheet.ir.tree import Act, all_statements, operands, variables_read  # noqa: PLC0415 - as above

    for one in all_statements(plan.tree):
        if name not in variables_read(one):
            continue
        reading = [operand for operand in operands(one) if name in expression.variables_in(operand)]
        passed = expression.Variable | expression.Text | expression.Display | expression.Mapping
        if not isinstance(one, Act) or not all(
            isinstance(node, passed) or name not in expression.variables_in(node)
            for operand in reading
            for node in expression.nodes(operand)
        ):
            return one.id
    return None
