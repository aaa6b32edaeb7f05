"""The models of request bodies: strict, without unknown fields.

Values are not converted: a number as a string is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from callsheet.machine.approvals import ApprovalTimeout, approval_timeouts

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_ID = r"^[a-z0-9][a-z0-9._-]{0,63}$"
_DOCUMENT = r"^[0-9a-f]{32}$"
SPELLINGS = {
    _NAME: "a name is made of A-Z, a-z, 0-9 and underscore, and does not begin with a digit",
    _ID: "an id is 1 to 64 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first",
    _DOCUMENT: "it has 32 of the characters 0-9 and a-f",
}
"""What each pattern of a text demands, in words."""
Name = Annotated[str, Field(pattern=_NAME, max_length=200)]
RunId = Annotated[str, Field(pattern=_ID)]
Text = Annotated[str, Field(max_length=10_000)]
Status = Literal[
    "queued",
    "running",
    "interrupted",
    "waiting",
    "in_doubt",
    "done",
    "done_with_failures",
    "failed",
    "refused",
    "cancelled",
    "corrupt",
]
SyntaxName = Literal["ltp", "micro", "dag"]
PolicyName = Literal["strict", "workspace", "open"]
Whole = Annotated[int, Field(ge=0, le=2**53)]
Amount = Annotated[float, Field(ge=0, le=1e15)]
Time = Amount | Text


def _is_time(given: object) -> object:
    """Validate a time, with one message instead of one for each of its forms."""
    try:
        approval_timeouts(cast("ApprovalTimeout | None", given))
    except (TypeError, ValueError, AttributeError):
        wanted = (
            "seconds or a text such as 45m, 12h or 3d, at most a year; or an object of such times by tool"
        )
        raise PydanticCustomError("time", wanted) from None
    return given


class Body(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Query(BaseModel):
    """The query of a request, whose values are strings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanBody(Body):
    """A plan as text."""

    plan: str = Field(description="The plan: LTP text, Micro-CLI, or a JSON plan as a string.")
    syntax: SyntaxName | None = Field(None, description="The syntax; detected by default.")
    name: Text = Field(
        "plan",
        description="The name of the text in diagnostics, and of its run; otherwise that is its goal.",
    )


class FormatBody(PlanBody):
    """A plan to format in its canonical form or in another syntax."""

    to: SyntaxName | None = Field(None, description="The target syntax; by default that of the plan.")


class CheckBody(PlanBody):
    """A plan to check against the available tools."""

    inputs: list[Name] = Field([], description="Names of variables that the run will get.")
    tools: bool = Field(True, description="Whether tools are checked.")
    servers: bool = Field(True, description="Whether MCP servers are queried for unknown tools.")


class PictureBody(PlanBody):
    """A plan to draw."""

    format: Literal["mermaid", "terminal", "graph"] = "mermaid"


class VerifyBody(PlanBody):
    """A plan to prove against a policy."""

    policy: PolicyName | None = Field(None, description="By default the policy of the server.")
    inputs: list[Name] = []
    approved: list[Text] = Field([], description="Ids of steps that a person has approved.")
    unattended: bool = Field(False, description="Whether no person can be asked during the run.")
    servers: bool = True


class CompileBody(Body):
    """A goal to compile into a plan."""

    goal: Annotated[str, Field(min_length=1, max_length=100_000)]
    context: str = ""
    library: bool = Field(False, description="Whether a plan of the library for the same goal is used.")


class SignInBody(Body):
    """The token, or a one-time code."""

    secret: Annotated[str, Field(min_length=1, max_length=1_000)]


class LimitsBody(Body):
    """Limits of a run; they can only tighten those of the server."""

    max_steps: Annotated[int, Field(ge=1, le=2**53)] | None = None
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


class RunBody(Body):
    """A plan to run: its text, or the id of a plan of the library."""

    plan: str | None = Field(None, description="The plan as text; alternatively `plan_id`.")
    plan_id: Text | None = Field(None, description="A plan of the library: its id, or ID@N for a version.")
    syntax: SyntaxName | None = None
    name: Text = "plan"
    inputs: dict[Name, JsonValue] = Field({}, description="Variables of the plan, by name.")
    secrets: dict[Name, str] = Field({}, description="Variables whose values are encrypted in the journal.")
    run_id: RunId | None = Field(None, description="The run's id; by default a new one.")
    limits: LimitsBody = LimitsBody()
    approve: list[Text] = Field([], description="Tools whose calls need approval by a person.")
    approval_timeout: Annotated[Time | dict[str, Time] | None, BeforeValidator(_is_time)] = Field(
        None,
        description="The time for an approval: seconds or a text such as 45m or 3d, for all calls"
        " or by tool; the name '' stands for all others.",
    )
    on_in_doubt: Literal["ask", "fail", "retry"] | None = None
    policy: PolicyName | None = None
    approved: list[Text] = []
    accept_changed_tools: bool = False
    state: str | None = Field(
        None,
        description="The text of a state file (ID_state.json) of another program: its completed steps are not"
        " executed again.",
    )


class DryRunBody(Body):
    """A plan to dry-run."""

    plan: str | None = None
    plan_id: Text | None = None
    syntax: SyntaxName | None = None
    name: Text = "plan"
    inputs: dict[Name, JsonValue] = {}
    assume: dict[str, JsonValue] = Field({}, description="Assumed results, by step id.")
    price: Amount | None = Field(None, description="The price of a million prompt tokens.")
    approve: list[Text] = []
    policy: PolicyName | None = None
    approved: list[Text] = []
    servers: bool = Field(False, description="Whether MCP servers are queried for their tools.")


class InDoubtBody(Body):
    """The decision on a call in doubt: retry, skip, fail, or that it took place and returned a value."""

    decision: Literal["retry", "skip", "fail", "value"]
    value: JsonValue = None


_AS_RECORDED = Field(
    False,
    description="Whether the recorded plan is continued although it has been edited since, in its file or "
    "the plan library.",
)


class ResumeBody(Body):
    """How a run is resumed."""

    in_doubt: InDoubtBody | None = Field(None, description="The decision on all calls in doubt.")
    accept_changed_tools: bool = False
    as_recorded: bool = _AS_RECORDED
    limits: LimitsBody = LimitsBody()


class CancelBody(Body):
    """Why a run is cancelled."""

    reason: Text = "cancelled"
    patience: Annotated[float, Field(ge=0, le=30)] = Field(10.0, description="Seconds to wait for its end.")


class DecideBody(InDoubtBody):
    """The decision on single calls in doubt."""

    calls: Annotated[list[Text], Field(min_length=1)] = Field(description="Keys of calls, or steps.")
    every: bool = Field(False, description="Whether a step selects all of its calls in doubt.")
    resume: bool = Field(True, description="Whether the run is resumed if no call is in doubt any more.")


class ApproveBody(Body):
    """The answer of a person: approval, denial (`deny`), or the answer to a question."""

    key: Text | None = Field(
        None, description="The key or the step; optional if only one question is pending."
    )
    deny: bool = False
    answer: JsonValue = Field(None, description="The answer to a question.")
    by: Text = ""
    note: Text = ""
    digest: Text | None = Field(
        None, description="The digest of the question that was read; another one is not answered."
    )


class _BranchBody(Body):
    effects: bool = Field(False, description="Whether calls that change something outside are allowed.")
    consent: Text = Field(
        "", description="The code of the refusal whose effects are allowed: exactly those calls."
    )
    run_id: RunId | None = None
    by: Text = ""
    accept_changed_tools: bool = False
    as_recorded: bool = _AS_RECORDED
    limits: LimitsBody = LimitsBody()


class RerunBody(_BranchBody):
    """A rerun from a step of another run."""

    step: Annotated[str, Field(min_length=1, max_length=1_000)] = Field(
        description="The step to rerun from, such as S3 or S3@2."
    )


class ArgumentBody(Body):
    """A changed argument of a step that has not begun."""

    step: Text
    name: Text
    value: JsonValue


class ForkBody(_BranchBody):
    """A fork of a run after one of its events."""

    at: Annotated[int, Field(ge=1, le=2**53)] = Field(description="The last event that the new run shares.")
    variables: dict[Name, JsonValue] = {}
    arguments: list[ArgumentBody] = []
    steps: dict[str, str] = Field({}, description="Replaced plan lines, by step id.")


class SavePlanBody(Body):
    """A plan to save in the library."""

    plan: str
    syntax: SyntaxName | None = None
    replace: bool = Field(False, description="Whether an existing plan with this id gets a new version.")
    params: list[Text] | None = Field(None, description="Parameters of the plan: NAME[:KIND][=DEFAULT].")
    goal: Text | None = None


class RunsQuery(Query):
    """Which runs are listed."""

    status: Status | None = Field(
        None,
        description="Those that are done include those done_with_failures, which can be asked for alone.",
    )
    plan: Annotated[str, Field(max_length=200)] | None = Field(None, description="A part of the plan's name.")
    text: Annotated[str, Field(max_length=200)] | None = Field(
        None,
        description="A part of the run's id, of the plan's name or of the status; case-insensitive.",
    )
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    before: RunId | None = Field(None, description="Only runs older than this one.")


class EventsQuery(Query):
    """Where an event stream begins."""

    after: Annotated[int, Field(ge=0, le=2**53)] = Field(0, description="The number of the last known event.")


class JournalQuery(EventsQuery):
    """Which events of a journal are returned."""

    limit: Annotated[int, Field(ge=1, le=100_000)] = 10_000


class WhyQuery(Query):
    """A place in a value, and the direction of its lineage."""

    variable: Annotated[str, Field(min_length=1, max_length=1_000)]
    forward: bool = False
    limit: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1_000, description="The maximum number of places, nearest first."
    )


class DiffQuery(Query):
    """The run to compare with."""

    other: RunId


class DocumentQuery(Query):
    """Options of a viewer document."""

    other: RunId | None = Field(None, description="A run to compare with.")
    base: Annotated[str, Field(pattern=_DOCUMENT)] | None = Field(
        None, description="The name of the document that the client has: only the changes since are returned."
    )


class ValueQuery(Query):
    """Options of a value of a viewer document."""

    other: RunId | None = Field(None, description="The run with which the document compares.")


class LctlQuery(Query):
    """The event and the kind of an LCTL document."""

    at: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="A step, a visit such as S3@2, or the number of an event."
    )
    debug: bool | None = Field(
        None, description="A post-mortem (true) or a hand-off (false); by default as the run ended."
    )
    items: bool = False


class ReportQuery(Query):
    """What a report shows."""

    other: RunId | None = Field(None, description="A run to compare with.")
    redact: bool = False
    max_value: Annotated[int, Field(ge=0, le=2**53)] = 16_384
