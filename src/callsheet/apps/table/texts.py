"""Operations on the texts of plans and goals: parse, check, format, draw, prove, predict, compile.

Errors of a plan are part of the result: an invalid plan does not make the request invalid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, WithJsonSchema

from callsheet.api.policies import load_policy
from callsheet.api.proving import Assumptions
from callsheet.api.requirements import parameters_of
from callsheet.apps.compiling import ProofTerms, save_compiled
from callsheet.apps.operations.checking import Checked, CheckResult, check_text
from callsheet.apps.operations.compiling import Compilation, CompileResult, compile_text
from callsheet.apps.operations.lctl import LctlChecked, LctlResult, check_blocks
from callsheet.apps.operations.library import bound, text_of_stored
from callsheet.apps.operations.proofs import (
    LabelsResult,
    Prediction,
    PredictionOptions,
    PredictionResult,
    ProofResult,
    Proved,
    predict,
    prove_text,
)
from callsheet.apps.operations.reading import PlanText, plan_text
from callsheet.apps.operations.schema import ANY_JSON
from callsheet.apps.operations.texts import (
    CodePage,
    Drawing,
    DrawingFormat,
    DrawingResult,
    DrawingWord,
    FormatResult,
    Formatted,
    Parsed,
    ParseResult,
    convert_text,
    draw,
    explain_code,
    format_text,
    parse_text,
)
from callsheet.apps.table.extent import LeftOut, cut_dry_run, dry_run_lines, limited_dry_run
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    MCP_ONLY,
    Arguments,
    Context,
    Face,
    Hint,
    HttpFace,
    Operation,
    Reply,
    ToolFace,
    in_http,
    in_mcp,
    with_diagnostics,
)
from callsheet.authoring.compiler.request import PlanForm
from callsheet.frontends.spelling import Syntax
from callsheet.store.library import check_plan_id
from callsheet.views.describe import describe_step

MOST_CHARACTERS = 2_000_000
"""The maximum length of a text that a model sends."""
_COLUMNS = 120
NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
NAME_SPELLING = "a name is made of A-Z, a-z, 0-9 and underscore, and does not begin with a digit"
Name = Annotated[str, Field(pattern=NAME, max_length=200)]
Line = Annotated[str, Field(max_length=10_000)]
Lines = Annotated[list[str], Field(max_length=1_000)]
Amount = Annotated[float, Field(ge=0, le=1e15)]
AnyJson = Annotated[JsonValue, WithJsonSchema(ANY_JSON)]
Values = Annotated[dict[Name, JsonValue], in_mcp("variables", kind=dict[str, Any])]
SyntaxName = Annotated[
    Literal["ltp", "micro", "dag", "python"] | None,
    in_mcp(unset="auto", description="The syntax of the plan; auto: detected."),
]
PolicyName = Annotated[
    Literal["strict", "workspace", "open"] | None,
    in_mcp(
        unset="configured",
        description="The policy; configured: that of the server, or strict if it has none.",
    ),
]
Names = Annotated[
    list[Name], in_mcp(kind=Lines, description="The names of the variables that a run receives.")
]
_LongText = Annotated[str, Field(max_length=MOST_CHARACTERS)]
_LTP_TEXT = in_mcp(
    "ltp_text", kind=_LongText, description="The plan: LTP text, Python, Micro-CLI, or a JSON plan."
)
UNNAMED = in_mcp(is_absent=True, default="<plan>")
_APPROVED = Annotated[list[Line], in_mcp(kind=Lines)]
APPROVED = Field(default=[], description="The ids of steps that a person has approved.")


class PlanArguments(Arguments):
    """A plan as text."""

    plan: Annotated[str, _LTP_TEXT] = Field(
        description="The plan: LTP text, Python, Micro-CLI, or a JSON plan as a string."
    )
    syntax: SyntaxName = Field(None, description="The syntax; detected by default.")
    name: Annotated[Line, UNNAMED] = Field(
        "plan",
        description="The name of the text in diagnostics, and of its run; otherwise that is its goal.",
    )

    def text(
        self, variables: Iterable[str] = (), *, strict: bool = False, named: str | None = None
    ) -> PlanText:
        """The text, read as a plan; `named` is another name for diagnostics."""
        syntax, name = _syntax(self.syntax), named or self.name
        return plan_text(self.plan, name, syntax=syntax, strict=strict, variables=variables)


def _syntax(word: str | None) -> Syntax | None:
    return None if word is None else Syntax(word)


# ---------------------------------------------------------------- parse


class ParseArguments(PlanArguments):
    """A plan to parse."""

    strict: bool = Field(False, description="Treat deviations in spelling as errors.")


async def parse(context: Context, args: ParseArguments) -> Parsed:
    """Parse a text as a plan."""
    return await context.host.beside(lambda: parse_text(args.text(strict=args.strict)))


def _parsed_reply(context: Context, args: ParseArguments, parsed: Parsed) -> Reply:
    plan = parsed.text.plan
    lines = "" if plan is None else "\n".join(map(describe_step, plan.steps))
    text = with_diagnostics(lines, parsed.diagnostics, parsed.text.source)
    return Reply(text or "a plan without steps", parsed.to_json(), is_error=not parsed.ok)


# ---------------------------------------------------------------- format


class FormatArguments(PlanArguments):
    """A plan to format in its canonical form or in another syntax."""

    to: Annotated[
        Literal["ltp", "micro", "dag", "python"] | None,
        in_mcp(unset="same", description="The target syntax: LTP text, Micro-CLI, a JSON plan, or Python."),
    ] = Field(None, description="The target syntax; by default that of the plan.")


async def format_plan(context: Context, args: FormatArguments) -> Formatted:
    """Format a plan in its canonical form or in another syntax."""
    text = await context.host.beside(args.text)
    if args.to is None:
        return await context.host.beside(lambda: format_text(text))
    has_names = args.to != "dag" or text.plan is None
    declared = context.host.tools.declared if has_names else await context.declared_tools(text)
    parameters = partial(parameters_of, registry=declared.local)
    return await asyncio.to_thread(convert_text, text, Syntax(args.to), parameters)


def _formatted_reply(context: Context, args: FormatArguments, made: Formatted) -> Reply:
    return Reply(with_diagnostics(made.require(), made.diagnostics, made.text.source), made.to_json())


# ---------------------------------------------------------------- check


class CheckArguments(PlanArguments):
    """A plan to check against the available tools."""

    inputs: Names = Field([], description="Names of variables that the run will get.")
    tools: Annotated[
        bool, in_mcp(description="Check the calls against the available tools; false: only the plan.")
    ] = Field(True, description="Whether tools are checked.")
    servers: Annotated[bool, HTTP_ONLY] = Field(
        True, description="Whether MCP servers are queried for unknown tools."
    )


async def validate(context: Context, args: CheckArguments) -> Checked:
    """Check a plan against the available tools."""
    text = await context.host.beside(lambda: args.text(args.inputs))
    declared = await context.declared_tools(text, asks_servers=args.servers) if args.tools else None
    return await context.host.beside(lambda: check_text(text, declared, args.inputs))


def _checked_reply(context: Context, args: CheckArguments, checked: Checked) -> Reply:
    text = checked.text
    steps = 0 if text.plan is None else len(text.plan.steps)
    needs = ", ".join(checked.row().get("needs", ()))
    good = (
        f"ok: {steps} step{'' if steps == 1 else 's'}{f'; a run needs the inputs {needs}' if needs else ''}"
    )
    verdict = good if checked.ok else "this plan has errors and cannot run"
    return Reply(with_diagnostics(verdict, checked.diagnostics, text.source), checked.to_json())


# ---------------------------------------------------------------- draw


class DrawArguments(PlanArguments):
    """A plan to draw."""

    format: Annotated[
        DrawingWord,
        in_mcp(kind=Literal["mermaid", "terminal"], description="A Mermaid flow chart, or lines of text."),
    ] = "mermaid"


async def visualize(context: Context, args: DrawArguments) -> Drawing:
    """Draw a plan."""
    return await context.host.beside(lambda: draw(args.text(), DrawingFormat(args.format)))


# ---------------------------------------------------------------- prove


class VerifyArguments(PlanArguments):
    """A plan to prove against a policy."""

    policy: PolicyName = Field(None, description="By default the policy of the server.")
    inputs: Names = Field([])
    approved: _APPROVED = APPROVED
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
    obligations = dict.fromkeys((o.step, o.kind, o.detail) for o in proved.proof.obligations)
    duties = [f"  {step}: {kind}{f' ({detail})' if detail else ''}" for step, kind, detail in obligations]
    return [f"proved against {name}", *(["the run has to ensure:"] if duties else []), *duties]


# ---------------------------------------------------------------- predict


class NamedPlanArguments(Arguments):
    """A plan: its text, or its id in the library."""

    plan: Annotated[
        str | None,
        in_mcp("ltp_text", kind=_LongText, unset="", description="A plan as text. This or plan_id."),
    ] = Field(None, description="The plan as text; alternatively `plan_id`.")
    plan_id: Annotated[
        Line | None,
        in_mcp(
            kind=str,
            unset="",
            description="A plan of the library: its id, or ID@N for its version N. This or ltp_text.",
        ),
    ] = Field(None, description="A plan of the library: its id, or ID@N for a version.")
    syntax: SyntaxName = None
    name: Annotated[Line, UNNAMED] = "plan"

    async def text(self, context: Context, variables: Iterable[str]) -> PlanText:
        """The text, read as a plan; raises CallsheetError unless there is exactly one of text and id."""
        if (self.plan is None) == (self.plan_id is None):
            either = "plan_id or ltp_text" if context.face is Face.MCP else "plan or plan_id"
            raise context.wrong(
                f"the call needs either {either}", "give one of them; the list of plans has their ids"
            )
        names, plan_id = tuple(variables), self.plan_id
        if plan_id is not None:
            return await context.host.beside(lambda: text_of_stored(context.library().load(plan_id), names))
        syntax = _syntax(self.syntax)
        return await context.host.beside(
            lambda: plan_text(self.plan or "", self.name, syntax=syntax, variables=names)
        )


class DryRunArguments(NamedPlanArguments):
    """A plan to dry-run."""

    inputs: Values = Field({}, description="Variables of the plan by name; they override its own values.")
    assume: Annotated[dict[str, JsonValue], in_mcp(kind=dict[str, Any])] = Field(
        {}, description="Assumed results, by step id."
    )
    price: Annotated[Amount | None, HTTP_ONLY] = Field(
        None, description="The price of a million prompt tokens."
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


# ---------------------------------------------------------------- compile


class GoalArguments(Arguments):
    """A goal."""

    goal: Annotated[
        str,
        Field(min_length=1, max_length=100_000),
        in_mcp(
            kind=Annotated[str, Field(min_length=1, max_length=20_000)],
            description="The goal, with every name, path and number that the steps need.",
        ),
    ]
    context: Annotated[
        str,
        in_mcp(
            kind=Annotated[str, Field(max_length=100_000)], description="Data about the goal for the model."
        ),
    ] = ""


class CompileArguments(GoalArguments):
    """A goal to compile into a plan."""

    library: Annotated[
        bool,
        in_mcp(
            "use_library",
            default=True,
            description="Use the stored plan for the same goal, if any, without asking a model.",
        ),
    ] = Field(False, description="Whether a plan of the library for the same goal is used.")
    form: Annotated[Literal["python", "ltp", "micro", "json"], in_mcp("as"), in_http("as")] = Field(
        "python", description="The form of the plan: a Python function, LTP text, Micro-CLI, or a JSON plan."
    )
    save_as: Annotated[str, MCP_ONLY] = Field(
        "", description="Save it under this id, as a new version if the id exists."
    )


async def compile_goal(context: Context, args: CompileArguments) -> tuple[Compilation, CompileResult]:
    """Compile a goal into a plan with a model; the plan is checked, not run."""
    if args.save_as:
        check_plan_id(args.save_as)
    tools, policy = context.host.tools, context.policy
    compiled = await compile_text(
        args.goal,
        tools.setup,
        await tools.for_plan(None),
        context=args.context,
        form=PlanForm(args.form),
        library=context.library() if args.library else None,
        terms=None if policy is None else ProofTerms(policy, context.journal_path),
    )
    data = compiled.to_json()
    if args.save_as and compiled.ok:
        library = context.library()
        stored = await asyncio.to_thread(save_compiled, args.save_as, args.goal, compiled.made, library)
        data["saved"] = None if stored is None else {"id": stored.id, "version": stored.version}
    return compiled, data


def _compiled_reply(
    context: Context, args: CompileArguments, made: tuple[Compilation, CompileResult]
) -> Reply:
    compiled, data = made
    shown = compiled.made.text or "" if compiled.ok else "the model's answer is not a plan that can run"
    text = with_diagnostics(shown, compiled.diagnostics, compiled.source)
    return Reply(text, data, is_error=not compiled.ok)


# ---------------------------------------------------------------- codes and LCTL


class CodeArguments(Arguments):
    """A diagnostic code, or an LCTL rule."""

    code: str = Field(description="A diagnostic code such as CHK001, or an LCTL rule such as P01.")


async def explain(context: Context, args: CodeArguments) -> CodePage:
    """The page of a diagnostic code or of an LCTL rule."""
    return explain_code(args.code)


class LctlArguments(Arguments):
    """LCTL blocks of one chain."""

    blocks: Annotated[list[str], Field(min_length=1, max_length=100)] = Field(
        description="The LCTL blocks of one chain, in its order; each may be the whole answer of an agent."
    )


async def check_lctl(context: Context, args: LctlArguments) -> LctlChecked:
    """Check the blocks of a chain."""
    return await asyncio.to_thread(check_blocks, args.blocks)


def _lctl_reply(context: Context, args: LctlArguments, checked: LctlChecked) -> Reply:
    verdict = "no LCTL rule of level error is violated" if checked.ok else "LCTL rules are violated"
    return Reply("\n".join([verdict, *checked.lines()]), checked.to_json())


def _post(path: str, summary: str, *problems: int) -> HttpFace[Any]:
    responses: Mapping[int, str] = {200: "The result."}
    return HttpFace(
        method="POST", path=path, summary=summary, tag="texts", responses=responses, problems=problems
    )


TEXT_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        work=parse,
        arguments=ParseArguments,
        result=ParseResult,
        to_json=Parsed.to_json,
        http=_post("/v1/parse", "Parse a plan"),
        mcp=ToolFace(
            name="parse_plan",
            title="Parse a plan",
            description="Parse a plan and return its steps, its hash and its canonical JSON. For an invalid "
            "text, return all errors with their positions. Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=_parsed_reply,
        ),
    ),
    Operation(
        work=validate,
        arguments=CheckArguments,
        result=CheckResult,
        to_json=Checked.to_json,
        http=_post("/v1/validate", "Check a plan"),
        mcp=ToolFace(
            name="validate_plan",
            title="Validate a plan",
            description="Report all errors and warnings of a plan: undefined variables, invalid jumps, "
            "unknown tools, invalid arguments. Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=_checked_reply,
        ),
    ),
    Operation(
        work=visualize,
        arguments=DrawArguments,
        result=DrawingResult,
        to_json=Drawing.to_json,
        http=_post("/v1/visualize", "Draw a plan"),
        mcp=ToolFace(
            name="visualize_plan",
            title="Draw a plan",
            description="Draw a plan as a Mermaid flow chart, or as lines of text. Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=lambda context, args, drawing: Reply(drawing.fenced, drawing.to_json()),
        ),
    ),
    Operation(
        work=format_plan,
        arguments=FormatArguments,
        result=FormatResult,
        to_json=Formatted.to_json,
        http=_post("/v1/format", "Format a plan"),
        mcp=ToolFace(
            name="format_plan",
            title="Format a plan",
            description="Return a plan in canonical form, or in another syntax: LTP text, Micro-CLI, a JSON "
            "plan, Python.",
            hint=Hint.READ_ONLY,
            reply=_formatted_reply,
        ),
    ),
    Operation(
        work=verify,
        arguments=VerifyArguments,
        result=ProofResult,
        to_json=Proved.to_json,
        http=_post("/v1/verify", "Prove a plan"),
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
    Operation(
        work=explain_policy,
        arguments=VerifyArguments,
        result=LabelsResult,
        to_json=Proved.labels,
        http=_post("/v1/explain-policy", "Explain a policy"),
    ),
    Operation(
        work=explain,
        arguments=CodeArguments,
        result=CodePage,
        http=HttpFace(
            method="GET",
            path="/v1/explain/{code}",
            summary="Explain a diagnostic code",
            tag="server",
            responses={200: "The page."},
            problems=(404,),
            is_open=True,
        ),
        mcp=ToolFace(
            name="explain_code",
            title="Explain a diagnostic code",
            description="Return the page of a diagnostic code or LCTL rule: its meaning, an example, the "
            "repair.",
            hint=Hint.READ_ONLY,
            reply=lambda context, args, page: Reply(page["page"], page),
        ),
    ),
    Operation(
        work=check_lctl,
        arguments=LctlArguments,
        result=LctlResult,
        mcp=ToolFace(
            name="lctl_check",
            title="Check LCTL blocks",
            description="Check the LCTL blocks that agents hand to one another against all rules: form, "
            "chain, confidence.",
            hint=Hint.READ_ONLY,
            reply=_lctl_reply,
        ),
    ),
    Operation(
        work=compile_goal,
        arguments=CompileArguments,
        result=CompileResult,
        to_json=lambda made: made[1],
        http=_post("/v1/compile", "Compile a goal", 503),
        mcp=ToolFace(
            name="compile_plan",
            title="Compile a goal",
            description="Compile a goal to a plan with the server's model, and check it against the "
            "available tools. A plan that was saved for the same goal is returned instead. Nothing is run.",
            hint=Hint.READ_ONLY_OPEN_WORLD,
            reply=_compiled_reply,
        ),
    ),
    Operation(
        work=dry_run,
        arguments=DryRunArguments,
        result=PredictionResult,
        to_json=Prediction.to_json,
        http=_post("/v1/dry-run", "Dry-run a plan", 404, 409),
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
"""The operations on texts."""
