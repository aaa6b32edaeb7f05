"""Operations on the texts of plans and goals: parse, check, format, draw, compile, edit; codes and LCTL.

Errors of a plan are part of the result: an invalid plan does not make the request invalid.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from callsheet.api.requirements import parameters_of
from callsheet.apps.compiling import ProofTerms, save_compiled
from callsheet.apps.operations.checking import Checked, check_text
from callsheet.apps.operations.compiling import Compilation, CompileResult, compile_text
from callsheet.apps.operations.editing import (
    AnalysisContext,
    CompletionResult,
    HoverResult,
    MarksResult,
    NameResult,
    RenameResult,
    complete,
    explain_at,
    marks_of,
    name_at,
    renamed,
    tools_of,
)
from callsheet.apps.operations.lctl import LctlChecked, LctlResult, check_blocks
from callsheet.apps.operations.texts import (
    CodePage,
    Drawing,
    DrawingFormat,
    DrawingWord,
    Formatted,
    Parsed,
    convert_text,
    draw,
    explain_code,
    format_text,
    parse_text,
)
from callsheet.apps.table.arguments import GoalArguments, Names, PlanArguments, PolicyName
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    MCP_ONLY,
    Arguments,
    Context,
    Hint,
    HttpFace,
    Operation,
    Reply,
    ToolFace,
    in_http,
    in_mcp,
    operation,
    text_endpoint,
    with_diagnostics,
)
from callsheet.authoring.compiler.request import PlanForm
from callsheet.frontends.spelling import Syntax
from callsheet.store.library import check_plan_id
from callsheet.views.describe import describe_step

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


# ---------------------------------------------------------------- compile
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
        stored = await asyncio.to_thread(
            save_compiled, args.save_as, args.goal, compiled.made, library, context.reads
        )
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


TEXT_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        parse,
        http=text_endpoint("/v1/parse", "Parse a plan"),
        mcp=ToolFace(
            name="parse_plan",
            title="Parse a plan",
            description="Parse a plan and return its steps, its hash and its canonical JSON. For an invalid "
            "text, return all errors with their positions. Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=_parsed_reply,
        ),
    ),
    operation(
        validate,
        http=text_endpoint("/v1/validate", "Check a plan"),
        mcp=ToolFace(
            name="validate_plan",
            title="Validate a plan",
            description="Report all errors and warnings of a plan: undefined variables, invalid jumps, "
            "unknown tools, invalid arguments. Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=_checked_reply,
        ),
    ),
    operation(
        visualize,
        http=text_endpoint("/v1/visualize", "Draw a plan"),
        mcp=ToolFace(
            name="visualize_plan",
            title="Draw a plan",
            description="Draw a plan as a Mermaid flow chart, or as lines of text. Nothing is run.",
            hint=Hint.READ_ONLY,
            reply=lambda context, args, drawing: Reply(drawing.fenced, drawing.to_json()),
        ),
    ),
    operation(
        format_plan,
        http=text_endpoint("/v1/format", "Format a plan"),
        mcp=ToolFace(
            name="format_plan",
            title="Format a plan",
            description="Return a plan in canonical form, or in another syntax: LTP text, Micro-CLI, a JSON "
            "plan, Python.",
            hint=Hint.READ_ONLY,
            reply=_formatted_reply,
        ),
    ),
    operation(
        explain,
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
    operation(
        check_lctl,
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
    operation(
        compile_goal,
        result=CompileResult,
        to_json=lambda made: made[1],
        http=text_endpoint("/v1/compile", "Compile a goal", 503),
        mcp=ToolFace(
            name="compile_plan",
            title="Compile a goal",
            description="Compile a goal to a plan with the server's model, and check it against the "
            "available tools. A plan that was saved for the same goal is returned instead. Nothing is run.",
            hint=Hint.READ_ONLY_OPEN_WORLD,
            reply=_compiled_reply,
        ),
    ),
)
"""The operations on texts."""


class EditedArguments(PlanArguments):
    """A text that is being edited."""

    inputs: Names = Field([], description="Names of variables that the run will get.")
    policy: PolicyName = Field(None, description="By default the policy of the server, if it has one.")

    def terms(self, context: Context) -> AnalysisContext:
        """What the text is checked against; no server is asked for its tools."""
        declared = context.host.tools.declared
        policy = context.policy if self.policy is None else context.policy_for(self.policy)
        inputs = tuple(self.inputs)
        return AnalysisContext(declared.setup, tools_of(declared), policy, inputs, declared.providers)


class PlaceArguments(EditedArguments):
    """A place in a text that is being edited."""

    at: int = Field(ge=0, le=2**53, description="The place, in characters from the beginning of the text.")


class RenameArguments(PlaceArguments):
    """Another name for what stands at a place in a text that is being edited."""

    name: str = Field(description="The new name.", max_length=200)


async def marks(context: Context, args: EditedArguments) -> MarksResult:
    """What an editor shows of a plan: its findings with fixes, and the tokens and hints of its text.

    It is checked as by `/v1/validate`, without asking servers, and under a policy as by `/v1/verify`.
    """
    return await context.host.beside(lambda: marks_of(args.text(args.inputs), args.terms(context)).to_json())


async def completion(context: Context, args: PlaceArguments) -> CompletionResult:
    """What may stand at a place of a plan, which may be incomplete."""
    return await context.host.beside(lambda: complete(args.text(args.inputs), args.at, args.terms(context)))


async def hover(context: Context, args: PlaceArguments) -> HoverResult:
    """What is known of the word at a place of a plan; nothing in the response if nothing is."""
    return await context.host.beside(lambda: explain_at(args.text(args.inputs), args.at, args.terms(context)))


async def name(context: Context, args: PlaceArguments) -> NameResult:
    """What the name at a place of a plan refers to: a variable, a step, a sub-plan."""
    return await context.host.beside(lambda: name_at(args.text(args.inputs), args.at))


async def renaming(context: Context, args: RenameArguments) -> RenameResult:
    """The edits that give a variable, a step or a sub-plan another name."""
    return await context.host.beside(lambda: renamed(args.text(args.inputs), args.at, args.name))


EDITING_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(marks, http=text_endpoint("/v1/editor/marks", "Mark a plan that is edited")),
    operation(completion, http=text_endpoint("/v1/editor/completion", "Complete a plan that is edited")),
    operation(hover, http=text_endpoint("/v1/editor/hover", "Explain a word of a plan that is edited")),
    operation(
        name, http=text_endpoint("/v1/editor/name", "Find what a name of a plan that is edited refers to")
    ),
    operation(renaming, http=text_endpoint("/v1/editor/rename", "Rename a name of a plan that is edited")),
)
"""The operations of an editor."""
