"""The MCP tools on texts: parse, validate, draw, format, prove, explain a code, check LCTL blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from callsheet.api.policies import load_policy
from callsheet.api.proving import Assumptions
from callsheet.api.requirements import parameters_of
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.client_request import ClientRequest
from callsheet.apps.mcp.replies import Reply, error_reply, with_diagnostics
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.tool import READ_ONLY, ToolDefinition
from callsheet.apps.operations import schemas
from callsheet.apps.operations.checking import check_text
from callsheet.apps.operations.drawing import DrawingFormat, draw
from callsheet.apps.operations.explaining import explain_code
from callsheet.apps.operations.formatting import convert_text, format_text
from callsheet.apps.operations.lctl import check_blocks
from callsheet.apps.operations.parsing import parse_text
from callsheet.apps.operations.proving import Proved, prove_text
from callsheet.apps.operations.reading import PlanText, plan_text
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import Syntax
from callsheet.views.describe import describe_step


def plan_text_of(
    args: given.PlanArguments, variables: Iterable[str] = (), *, strict: bool = False
) -> PlanText:
    """The plan in the arguments of a call."""
    syntax = None if args.syntax == "auto" else Syntax(args.syntax)
    return plan_text(args.ltp_text, syntax=syntax, strict=strict, variables=variables)


async def _parse(server_context: ServerContext, args: given.ParseArguments, caller: ClientRequest) -> Reply:
    parsed = parse_text(plan_text_of(args, strict=args.strict))
    plan, source = parsed.text.plan, parsed.text.source
    lines = "" if plan is None else "\n".join(map(describe_step, plan.steps))
    text = with_diagnostics(lines, parsed.diagnostics, source)
    return Reply(text or "a plan without steps", parsed.to_json(), is_error=not parsed.ok)


async def _validate(
    server_context: ServerContext, args: given.ValidateArguments, caller: ClientRequest
) -> Reply:
    text = plan_text_of(args, args.inputs)
    declared = await server_context.declared_tools_for(text) if args.tools else None
    checked = await asyncio.to_thread(check_text, text, declared, args.inputs)
    steps = 0 if text.plan is None else len(text.plan.steps)
    verdict = f"ok: {steps} step{_s(steps)}" if checked.ok else "this plan has errors and cannot run"
    return Reply(with_diagnostics(verdict, checked.diagnostics, text.source), checked.to_json())


async def _visualize(
    server_context: ServerContext, args: given.VisualizeArguments, caller: ClientRequest
) -> Reply:
    picture = draw(plan_text_of(args), DrawingFormat(args.format))
    return Reply(picture.fenced, picture.to_json())


async def _format(server_context: ServerContext, args: given.FormatArguments, caller: ClientRequest) -> Reply:
    text = plan_text_of(args)
    if args.to == "same":
        result = format_text(text)
    else:
        declared = await server_context.declared_tools_for(text)
        parameters = partial(parameters_of, registry=declared.local)
        result = await asyncio.to_thread(convert_text, text, Syntax(args.to), parameters)
    if result.formatted is None:
        return error_reply(CallsheetError(result.diagnostics, text.source))
    return Reply(with_diagnostics(result.formatted, result.diagnostics, text.source), result.to_json())


async def _verify(server_context: ServerContext, args: given.VerifyArguments, caller: ClientRequest) -> Reply:
    text = plan_text_of(args, args.inputs)
    policy = (
        load_policy(args.policy)
        if args.policy != "configured"
        else server_context.policy or load_policy("strict")
    )
    declared = await server_context.declared_tools_for(text)
    assumed = Assumptions(inputs=args.inputs, approved=args.approved, can_ask=not args.unattended)
    journal = server_context.host.journal.path
    proved = await asyncio.to_thread(prove_text, text, policy, declared, assumed, journal=journal)
    lines = "\n".join(_proof_lines(proved))
    return Reply(with_diagnostics(lines, proved.diagnostics, text.source), proved.to_json())


def _proof_lines(proved: Proved) -> list[str]:
    if proved.proof is None:
        return ["nothing was proved"]
    name = proved.proof.policy.name
    if not proved.ok:
        return [f"not proved against {name}"]
    obligations = dict.fromkeys((o.step, o.kind, o.detail) for o in proved.proof.obligations)
    duties = [f"  {step}: {kind}{f' ({detail})' if detail else ''}" for step, kind, detail in obligations]
    return [f"proved against {name}", *(["the run has to ensure:"] if duties else []), *duties]


async def _explain_code(
    server_context: ServerContext, args: given.ExplainCodeArguments, caller: ClientRequest
) -> Reply:
    explanation = explain_code(args.code)
    return Reply(explanation.page, explanation.to_json())


async def _lctl(server_context: ServerContext, args: given.LctlArguments, caller: ClientRequest) -> Reply:
    checked = await asyncio.to_thread(check_blocks, args.blocks)
    verdict = "no LCTL rule of level error is violated" if checked.ok else "LCTL rules are violated"
    return Reply("\n".join([verdict, *checked.lines()]), checked.to_json())


def _s(count: int) -> str:
    return "" if count == 1 else "s"


TEXT_TOOLS = (
    ToolDefinition(
        "parse_plan",
        "Parse a plan",
        "Parse a plan and return its steps, its hash and its canonical JSON. For an invalid text, return all "
        "errors with their positions. Nothing is run.",
        given.ParseArguments,
        schemas.PARSED,
        READ_ONLY,
        _parse,
    ),
    ToolDefinition(
        "validate_plan",
        "Validate a plan",
        "Report all errors and warnings of a plan: undefined variables, invalid jumps, unknown tools, "
        "invalid arguments. Nothing is run.",
        given.ValidateArguments,
        schemas.CHECKED,
        READ_ONLY,
        _validate,
    ),
    ToolDefinition(
        "visualize_plan",
        "Draw a plan",
        "Draw a plan as a Mermaid flow chart, or as lines of text. Nothing is run.",
        given.VisualizeArguments,
        schemas.PICTURE,
        READ_ONLY,
        _visualize,
    ),
    ToolDefinition(
        "format_plan",
        "Format a plan",
        "Return a plan in canonical form, or in another syntax: LTP text, Micro-CLI, a JSON plan.",
        given.FormatArguments,
        schemas.FORMATTED,
        READ_ONLY,
        _format,
    ),
    ToolDefinition(
        "verify_plan",
        "Prove a plan against a policy",
        "Prove a plan against a security policy: whether untrusted or secret data can reach a place where it "
        "must not. Returns the violations, and the obligations of a run. Nothing is run.",
        given.VerifyArguments,
        schemas.PROVED,
        READ_ONLY,
        _verify,
    ),
    ToolDefinition(
        "explain_code",
        "Explain a diagnostic code",
        "Return the page of a diagnostic code or LCTL rule: its meaning, an example, the repair.",
        given.ExplainCodeArguments,
        schemas.EXPLANATION,
        READ_ONLY,
        _explain_code,
    ),
    ToolDefinition(
        "lctl_check",
        "Check LCTL blocks",
        "Check the LCTL blocks that agents hand to one another against all rules: form, chain, confidence.",
        given.LctlArguments,
        schemas.LCTL_CHECKED,
        READ_ONLY,
        _lctl,
    ),
)
"""The tools on texts."""
