"""The MCP tools on texts: parse, validate, draw, format, prove, explain a code, check LCTL blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from callsheet.api.policies import load_policy
from callsheet.api.requirements import parameters_of
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.calling import Caller
from callsheet.apps.mcp.replies import Reply, refusal, with_findings
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.tool import LOOKS, ToolDefinition
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


def read(args: given.PlanArguments, variables: Iterable[str] = (), *, strict: bool = False) -> PlanText:
    """The plan that a call gives."""
    syntax = None if args.syntax == "auto" else Syntax(args.syntax)
    return plan_text(args.ltp_text, syntax=syntax, strict=strict, variables=variables)


async def _parse(server_context: ServerContext, args: given.ParseArguments, caller: Caller) -> Reply:
    parsed = parse_text(read(args, strict=args.strict))
    plan, source = parsed.text.plan, parsed.text.source
    lines = "" if plan is None else "\n".join(map(describe_step, plan.steps))
    text = with_findings(lines, parsed.diagnostics, source)
    return Reply(text or "a plan without steps", parsed.to_json(), is_error=not parsed.ok)


async def _validate(server_context: ServerContext, args: given.ValidateArguments, caller: Caller) -> Reply:
    text = read(args, args.inputs)
    declared = await server_context.shelf_for(text) if args.tools else None
    checked = await asyncio.to_thread(check_text, text, declared, args.inputs)
    steps = 0 if text.plan is None else len(text.plan.steps)
    verdict = f"ok: {steps} step{_s(steps)}" if checked.ok else "this plan cannot run as it is written"
    return Reply(with_findings(verdict, checked.diagnostics, text.source), checked.to_json())


async def _visualize(server_context: ServerContext, args: given.VisualizeArguments, caller: Caller) -> Reply:
    picture = draw(read(args), DrawingFormat(args.format))
    return Reply(picture.fenced, picture.to_json())


async def _format(server_context: ServerContext, args: given.FormatArguments, caller: Caller) -> Reply:
    text = read(args)
    if args.to == "same":
        made = format_text(text)
    else:
        declared = await server_context.shelf_for(text)
        parameters = partial(parameters_of, registry=declared.local)
        made = await asyncio.to_thread(convert_text, text, Syntax(args.to), parameters)
    if made.formatted is None:
        return refusal(CallsheetError(made.diagnostics, text.source))
    return Reply(with_findings(made.formatted, made.diagnostics, text.source), made.to_json())


async def _verify(server_context: ServerContext, args: given.VerifyArguments, caller: Caller) -> Reply:
    text = read(args, args.inputs)
    policy = (
        load_policy(args.policy)
        if args.policy != "configured"
        else server_context.policy or load_policy("strict")
    )
    declared = await server_context.shelf_for(text)
    prove = partial(
        prove_text,
        inputs=args.inputs,
        approved=args.approved,
        can_ask=not args.unattended,
        journal=server_context.host.journal.path,
    )
    proved = await asyncio.to_thread(prove, text, policy, declared)
    lines = "\n".join(_verdict(proved))
    return Reply(with_findings(lines, proved.diagnostics, text.source), proved.to_json())


def _verdict(proved: Proved) -> list[str]:
    if proved.proof is None:
        return ["nothing was proved"]
    name = proved.proof.policy.name
    if not proved.ok:
        return [f"not proved against {name}"]
    obligations = dict.fromkeys((o.step, o.kind, o.detail) for o in proved.proof.obligations)
    duties = [f"  {step}: {kind}{f' ({detail})' if detail else ''}" for step, kind, detail in obligations]
    return [f"proved against {name}", *(["the run sees to:"] if duties else []), *duties]


async def _explain_code(
    server_context: ServerContext, args: given.ExplainCodeArguments, caller: Caller
) -> Reply:
    found = explain_code(args.code)
    return Reply(found.page, found.to_json())


async def _lctl(server_context: ServerContext, args: given.LctlArguments, caller: Caller) -> Reply:
    checked = await asyncio.to_thread(check_blocks, args.blocks)
    verdict = "no rule of level error is broken" if checked.ok else "rules of LCTL are broken"
    return Reply("\n".join([verdict, *checked.lines()]), checked.to_json())


def _s(count: int) -> str:
    return "" if count == 1 else "s"


TEXT_TOOLS = (
    ToolDefinition(
        "parse_plan",
        "Parse a plan",
        "Read a plan and give its steps, its hash and its canonical JSON. A text that is no plan is an error "
        "with every mistake at its line. Nothing is run.",
        given.ParseArguments,
        schemas.PARSED,
        LOOKS,
        _parse,
    ),
    ToolDefinition(
        "validate_plan",
        "Validate a plan",
        "Say everything that is wrong with a plan, or could be better: undefined variables, wrong jumps, "
        "unknown tools, wrong arguments. Nothing is run.",
        given.ValidateArguments,
        schemas.CHECKED,
        LOOKS,
        _validate,
    ),
    ToolDefinition(
        "visualize_plan",
        "Draw a plan",
        "Draw a plan as a Mermaid flow chart, or as lines of text. Nothing is run.",
        given.VisualizeArguments,
        schemas.PICTURE,
        LOOKS,
        _visualize,
    ),
    ToolDefinition(
        "format_plan",
        "Format a plan",
        "Print a plan in its canonical form, or in another spelling: LTP text, Micro-CLI, a JSON plan.",
        given.FormatArguments,
        schemas.FORMATTED,
        LOOKS,
        _format,
    ),
    ToolDefinition(
        "verify_plan",
        "Prove a plan against a policy",
        "Hold a plan against a security policy: whether untrusted or secret data can reach where it must "
        "not. Gives the violations and what a run has to see to. Nothing is run.",
        given.VerifyArguments,
        schemas.PROVED,
        LOOKS,
        _verify,
    ),
    ToolDefinition(
        "explain_code",
        "Explain a diagnostic code",
        "Give the page of a diagnostic code, or of a rule of LCTL: what it means, an example, the repair.",
        given.ExplainCodeArguments,
        schemas.EXPLANATION,
        LOOKS,
        _explain_code,
    ),
    ToolDefinition(
        "lctl_check",
        "Check LCTL blocks",
        "Check the LCTL blocks that agents hand to one another against all rules: form, chain, confidence.",
        given.LctlArguments,
        schemas.LCTL_CHECKED,
        LOOKS,
        _lctl,
    ),
)
"""The tools on texts."""
