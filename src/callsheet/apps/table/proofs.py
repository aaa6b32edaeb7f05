"""Operations that say what a plan would do: its proof against a policy, its labels, a dry run.

Errors of a plan are part of the result: an invalid plan does not make the request invalid.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, JsonValue

from callsheet.api.policies import load_policy
from callsheet.api.proving import Assumptions
from callsheet.apps.operations.library import bound
from callsheet.apps.operations.proofs import (
    LabelsResult,
    Prediction,
    PredictionOptions,
    PredictionResult,
    Proved,
    duties_of,
    predict,
    prove_text,
)
from callsheet.apps.table.arguments import (
    APPROVED,
    Amount,
    Approved,
    Line,
    NamedPlanArguments,
    Names,
    PlanArguments,
    PolicyName,
    Values,
)
from callsheet.apps.table.extent import LeftOut, cut_dry_run, dry_run_lines, limited_dry_run
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    MCP_ONLY,
    Context,
    Hint,
    Operation,
    Reply,
    ToolFace,
    in_mcp,
    operation,
    text_endpoint,
    with_diagnostics,
)

_COLUMNS = 120


# ---------------------------------------------------------------- prove


class VerifyArguments(PlanArguments):
    """A plan to prove against a policy."""

    policy: PolicyName = Field(None, description="By default the policy of the server.")
    inputs: Names = Field([])
    approved: Approved = APPROVED
    unattended: bool = Field(False, description="Whether no person can be asked during the run.")
    servers: Annotated[bool, HTTP_ONLY] = True


async def verify(context: Context, args: VerifyArguments) -> Proved:
    """Prove a plan against a policy; nothing runs."""
    policy = context.policy_for(args.policy)
    text = await context.host.beside(lambda: args.text(args.inputs))
    declared = await context.declared_tools(text, asks_servers=args.servers)
    assumed = Assumptions(inputs=args.inputs, approved=args.approved, can_ask=not args.unattended)
    journal = context.journal_path
    return await context.host.beside(lambda: prove_text(text, policy, declared, assumed, journal=journal))


async def explain_policy(context: Context, args: VerifyArguments) -> Proved:
    """The labels of the data that each step of a plan reads and writes under a policy, and why."""
    return await verify(context, args)


def _proved_reply(context: Context, args: VerifyArguments, proved: Proved) -> Reply:
    text = with_diagnostics("\n".join(_proof_lines(proved)), proved.diagnostics, proved.text.source)
    return Reply(text, proved.to_json())


def _proof_lines(proved: Proved) -> list[str]:
    if proved.proof is None:
        return ["nothing was proved"]
    name = proved.proof.policy.name
    if not proved.ok:
        return [f"not proved against {name}"]
    duties = duties_of(proved.proof)
    return [f"proved against {name}", *(["the run has to ensure:"] if duties else []), *duties]


# ---------------------------------------------------------------- predict
class DryRunArguments(NamedPlanArguments):
    """A plan to dry-run."""

    inputs: Values = Field({}, description="Variables of the plan by name; they override its own values.")
    assume: Annotated[dict[str, JsonValue], in_mcp(kind=dict[str, Any])] = Field(
        {}, description="Assumed results, by step id."
    )
    price: Annotated[Amount | None, HTTP_ONLY] = Field(
        None, description="The price of a million prompt tokens."
    )
    worlds: bool = Field(
        False, description="Whether it is told what is changed with each condition true and false."
    )
    approve: Annotated[list[Line], HTTP_ONLY] = Field([])
    policy: Annotated[PolicyName, HTTP_ONLY] = None
    approved: Annotated[list[Line], HTTP_ONLY] = Field([])
    servers: Annotated[bool, in_mcp(is_absent=True, default=True)] = Field(
        False, description="Whether MCP servers are queried for their tools."
    )
    show_steps: Annotated[tuple[str, ...], MCP_ONLY] = Field(
        default=(),
        max_length=1_000,
        description='The steps whose arguments and results are shown at length, by id, or "all".',
    )


async def dry_run(context: Context, args: DryRunArguments) -> Prediction:
    """Predict what a plan would do, without running it."""
    text = await args.text(context, args.inputs)
    declared = await context.declared_tools(text, asks_servers=args.servers)
    options = PredictionOptions(
        inputs=bound(text, dict(args.inputs), ()),
        assume=args.assume,
        price=args.price,
        worlds=args.worlds,
        approve=args.approve,
        policy=context.policy or (None if args.policy is None else load_policy(args.policy)),
        approved=args.approved,
        journal=context.journal_path,
    )
    return await context.host.beside(lambda: predict(text, declared, options))


class LimitedPrediction(PredictionResult):
    """A predicted run, of which long parts are left out."""

    left_out: LeftOut


def _predicted_reply(context: Context, args: DryRunArguments, made: Prediction) -> Reply:
    data = limited_dry_run(made.to_json(), args.show_steps)
    shown = cut_dry_run(made.dry_run.to_text(_COLUMNS))
    text = "\n".join((shown.rstrip(), *dry_run_lines(data["left_out"])))
    return Reply(with_diagnostics(text, made.diagnostics, made.text.source), data)


PROOF_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        verify,
        http=text_endpoint("/v1/verify", "Prove a plan"),
        mcp=ToolFace(
            name="verify_plan",
            title="Prove a plan against a policy",
            description="Prove a plan against a security policy: whether untrusted or secret data can "
            "reach a place where it must not. Returns the violations, and the obligations of a run. "
            "Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=_proved_reply,
        ),
    ),
    operation(
        explain_policy,
        result=LabelsResult,
        to_json=Proved.labels,
        http=text_endpoint("/v1/explain-policy", "Explain a policy"),
    ),
    operation(
        dry_run,
        http=text_endpoint("/v1/dry-run", "Dry-run a plan", 404, 409),
        mcp=ToolFace(
            name="dry_run_plan",
            title="Dry-run a plan",
            description="Predict what a plan would do, step by step: calls with their known arguments, "
            "effects outside, questions to people, refusals by the policy. Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=_predicted_reply,
            result=LimitedPrediction,
        ),
    ),
)
"""The operations on what a plan would do."""
