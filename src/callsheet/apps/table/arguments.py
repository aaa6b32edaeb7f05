"""Arguments that several operations take: names, texts of plans, runs, limits and terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema

from callsheet.apps.hosting import ResumeOptions
from callsheet.apps.hosting.service import tightened
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.reading import PlanText, plan_text
from callsheet.apps.operations.schema import ANY_JSON
from callsheet.apps.table.operation import HTTP_ONLY, MCP_ONLY, Arguments, Context, Face, in_http, in_mcp
from callsheet.frontends.spelling import Syntax
from callsheet.machine import Decision, Limits, TookPlace
from callsheet.runtime.doubt import Resolution

MOST_CHARACTERS = 2_000_000
"""The maximum length of a text that a model sends."""
NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
NAME_SPELLING = "a name is made of A-Z, a-z, 0-9 and underscore, and does not begin with a digit"
Name = Annotated[str, Field(pattern=NAME, max_length=200)]
PlacedName = Annotated[str, Field(pattern=r"^([^/\s]+/)*[A-Za-z_][A-Za-z0-9_]*$", max_length=1_000)]
"""The name of a variable of a run; one of an item or sub-plan has its path before it, as in S2[4]/left."""
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
LongText = Annotated[str, Field(max_length=MOST_CHARACTERS)]
_LTP_TEXT = in_mcp(
    "ltp_text", kind=LongText, description="The plan: LTP text, Python, Micro-CLI, or a JSON plan."
)
UNNAMED = in_mcp(is_absent=True, default="<plan>")
Approved = Annotated[list[Line], in_mcp(kind=Lines)]
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
        syntax, name = syntax_of(self.syntax), named or self.name
        return plan_text(self.plan, name, syntax=syntax, strict=strict, variables=variables)


def syntax_of(word: str | None) -> Syntax | None:
    """The syntax of its word."""
    return None if word is None else Syntax(word)


class NamedPlanArguments(Arguments):
    """A plan: its text, or its id in the library."""

    plan: Annotated[
        str | None,
        in_mcp("ltp_text", kind=LongText, unset="", description="A plan as text. This or plan_id."),
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
        syntax = syntax_of(self.syntax)
        return await context.host.beside(
            lambda: plan_text(self.plan or "", self.name, syntax=syntax, variables=names)
        )


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


RUN_ID = r"^[a-z0-9][a-z0-9._-]{0,63}$"
RUN_ID_SPELLING = "an id is 1 to 64 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first"
RunId = Annotated[str, Field(pattern=RUN_ID)]
Whole = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[int, Field(ge=1, le=2**53)]


class Part(BaseModel):
    """A part of arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitArguments(Part):
    """Limits of a run; they can only tighten those of the server."""

    max_steps: Number | None = None
    max_calls: Whole | None = None
    max_calls_by_tool: dict[str, Whole] | None = None
    max_model_calls: Whole | None = None
    max_tokens: Whole | None = None
    max_cost: Amount | None = None
    max_bytes: Whole | None = None
    max_seconds: Amount | None = None
    max_items: Whole | None = None
    max_repeats: Whole | None = None
    max_replans: Whole | None = None
    max_concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_concurrency_by_tool: dict[str, Annotated[int, Field(ge=1, le=10_000)]] | None = None
    schedule: Literal["sequential", "auto"] | None = None

    def changes(self) -> Mapping[str, Any]:
        """The limits that are set."""
        return self.model_dump(exclude_none=True)


class VerdictArguments(Part):
    """The decision on a call in doubt: retry, skip, fail, or that it took place and returned a value."""

    decision: Literal["retry", "skip", "fail", "value"]
    value: JsonValue = None

    def resolution(self) -> Resolution:
        """The decision."""
        return TookPlace(self.value) if self.decision == "value" else Decision(self.decision)


class RunArguments(Arguments):
    """A run."""

    run_id: str = Field(description="The id of a run, the beginning of one, or last.")


class ShownArguments(Arguments):
    """What a model gets of a run."""

    show_variables: Annotated[Lines, MCP_ONLY] = Field(
        [],
        description='The variables to return, by name, or "all"; default: only the answer, and which there '
        "are.",
    )


class WaitArguments(ShownArguments):
    """Whether a model waits for a run, and what it gets of it."""

    wait: Annotated[bool, MCP_ONLY] = Field(
        True, description="Wait for the run to end; false: return its id at once (see explain_run)."
    )


class TermArguments(RunArguments):
    """The terms on which a run is continued."""

    accept_changed_tools: Annotated[bool, HTTP_ONLY] = False
    as_recorded: Annotated[
        bool,
        in_mcp(
            description="Whether the recorded plan is continued although it has been edited since, in its "
            "file or the plan library; otherwise such a run is refused. Set it only if the user has agreed."
        ),
    ] = Field(
        False,
        description="Whether the recorded plan is continued although it has been edited since, in its file "
        "or the plan library.",
    )
    limits: Annotated[LimitArguments, HTTP_ONLY] = LimitArguments()

    def answers(self) -> bool:
        """Whether they accept changed tools."""
        return self.accept_changed_tools

    def terms(self, context: Context, verdict: Resolution | None = None) -> ResumeOptions:
        """The options of a resumption."""
        changes = self.limits.changes()

        def change(own: Limits) -> Limits:
            return tightened(own, changes)

        return ResumeOptions(
            in_doubt=verdict,
            accepts_changed_tools=self.accept_changed_tools,
            as_recorded=self.as_recorded,
            limits=change if changes else None,
            unpaused_by=context.by,
            listeners=context.listeners,
        )


class BranchArguments(TermArguments, WaitArguments):
    """How a new run branches off from another one."""

    effects: Annotated[
        bool,
        in_mcp(
            description="Whether calls that change something outside are allowed; otherwise such a run is "
            "refused with a list of them. Set it only if the user has agreed."
        ),
    ] = Field(False, description="Whether calls that change something outside are allowed.")
    consent: Annotated[Line, HTTP_ONLY] = Field(
        "", description="The code of the refusal whose effects are allowed: exactly those calls."
    )
    new_id: Annotated[RunId | None, HTTP_ONLY, in_http("run_id")] = None
    by: Annotated[Line, HTTP_ONLY] = ""
