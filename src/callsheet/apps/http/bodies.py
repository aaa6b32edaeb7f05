"""The models of request bodies: strict, without unknown fields.

Lists stand for lists and numbers for numbers: nothing is taken for what it is not.
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
    _DOCUMENT: "it is 32 of 0-9 and a-f",
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
    """In the place of what each form of a time has against it, what a time is."""
    try:
        approval_timeouts(cast("ApprovalTimeout | None", given))
    except (TypeError, ValueError, AttributeError):
        wanted = (
            "seconds or a text such as 45m, 12h or 3d, at most a year; or an object of such times by tool"
        )
        raise PydanticCustomError("time", wanted) from None
    return given


class Body(BaseModel):
    """A body of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Query(BaseModel):
    """The query of a request, whose values are texts."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanBody(Body):
    """A plan as a text."""

    plan: str = Field(description="The plan: LTP text, Micro-CLI, or a JSON plan as a text.")
    syntax: SyntaxName | None = Field(None, description="How it is written; by default as it looks.")
    name: Text = Field("plan", description="What diagnostics call the text.")


class FormatBody(PlanBody):
    """A plan to be written in its canonical form, or in another spelling."""

    to: SyntaxName | None = Field(None, description="Another spelling; by default the plan's own.")


class CheckBody(PlanBody):
    """A plan to be looked at on the tools that there are."""

    inputs: list[Name] = Field([], description="Names of variables that the run will be given.")
    tools: bool = Field(True, description="Whether tools are looked at.")
    servers: bool = Field(True, description="Whether MCP servers are asked for tools that are not here.")


class PictureBody(PlanBody):
    """A plan to be drawn."""

    format: Literal["mermaid", "terminal", "graph"] = "mermaid"


class VerifyBody(PlanBody):
    """A plan to be held against a policy."""

    policy: PolicyName | None = Field(None, description="By default the one that all runs are under.")
    inputs: list[Name] = []
    approved: list[Text] = Field([], description="Ids of steps to which somebody says yes.")
    unattended: bool = Field(False, description="Whether nobody can be asked during the run.")
    servers: bool = True


class CompileBody(Body):
    """A goal for which a plan is to be made."""

    goal: Annotated[str, Field(min_length=1, max_length=100_000)]
    context: str = ""
    library: bool = Field(False, description="Whether a plan of the library for this very goal is taken.")


class SignInBody(Body):
    """The token, or a code that is good for one sign-in."""

    secret: Annotated[str, Field(min_length=1, max_length=1_000)]


class LimitsBody(Body):
    """Limits of a run; they only make those of the server tighter."""

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
    """A plan to be run: its text, or the id of a plan of the library."""

    plan: str | None = Field(None, description="The plan as a text; or else `plan_id`.")
    plan_id: Text | None = Field(None, description="A plan of the library: its id, or ID@N for a version.")
    syntax: SyntaxName | None = None
    name: Text = "plan"
    inputs: dict[Name, JsonValue] = Field({}, description="Variables of the plan, by name.")
    secrets: dict[Name, str] = Field({}, description="Variables that are sealed in the journal.")
    run_id: RunId | None = Field(None, description="The run's id; by default a new one.")
    limits: LimitsBody = LimitsBody()
    approve: list[Text] = Field([], description="Tools before each of whose calls a person is asked.")
    approval_timeout: Annotated[Time | dict[str, Time] | None, BeforeValidator(_is_time)] = Field(
        None,
        description="How long there is for a yes: seconds or a text such as 45m or 3d, for all calls"
        " or by tool; the name '' stands for all others.",
    )
    on_in_doubt: Literal["ask", "fail", "retry"] | None = None
    policy: PolicyName | None = None
    approved: list[Text] = []
    accept_changed_tools: bool = False


class DryRunBody(Body):
    """A plan of which is to be told what it would do."""

    plan: str | None = None
    plan_id: Text | None = None
    syntax: SyntaxName | None = None
    name: Text = "plan"
    inputs: dict[Name, JsonValue] = {}
    assume: dict[str, JsonValue] = Field({}, description="Results of steps that are taken as given.")
    price: Amount | None = Field(None, description="What a million tokens of prompts cost.")
    approve: list[Text] = []
    policy: PolicyName | None = None
    approved: list[Text] = []
    servers: bool = Field(False, description="Whether MCP servers are asked what their tools are.")


class InDoubtBody(Body):
    """What becomes of a call in doubt: made again, passed over, failed, or it took place and gave a value."""

    decision: Literal["retry", "skip", "fail", "value"]
    value: JsonValue = None


class ResumeBody(Body):
    """On what terms a run is carried on."""

    in_doubt: InDoubtBody | None = Field(None, description="What becomes of all calls in doubt.")
    accept_changed_tools: bool = False
    limits: LimitsBody = LimitsBody()


class CancelBody(Body):
    """Why a run is ended."""

    reason: Text = "cancelled"
    patience: Annotated[float, Field(ge=0, le=30)] = Field(10.0, description="Seconds to wait for its end.")


class DecideBody(InDoubtBody):
    """What becomes of single calls in doubt."""

    calls: Annotated[list[Text], Field(min_length=1)] = Field(description="Keys of calls, or steps.")
    every: bool = Field(False, description="Whether a step stands for all of its calls in doubt.")
    resume: bool = Field(True, description="Whether the run goes on when nothing is in doubt any more.")


class ApproveBody(Body):
    """The answer of a person: a yes, a no (`deny`), or the answer to a question."""

    key: Text | None = Field(
        None, description="The key or the step; may be left out where one thing is asked."
    )
    deny: bool = False
    answer: JsonValue = Field(None, description="The answer to a question.")
    by: Text = ""
    note: Text = ""
    digest: Text | None = Field(None, description="Of what was looked at: nothing else is answered.")


class _BranchBody(Body):
    effects: bool = Field(False, description="Whether what changes something outside may happen.")
    run_id: RunId | None = None
    by: Text = ""
    accept_changed_tools: bool = False
    limits: LimitsBody = LimitsBody()


class RerunBody(_BranchBody):
    """A run again from a step of another."""

    step: Annotated[str, Field(min_length=1, max_length=1_000)] = Field(
        description="The step to run again from, such as S3 or S3@2."
    )


class ArgumentBody(Body):
    """Another argument of a step that has not begun."""

    step: Text
    name: Text
    value: JsonValue


class ForkBody(_BranchBody):
    """A run that goes its own way after an event of another."""

    at: Annotated[int, Field(ge=1, le=2**53)] = Field(description="The last event that the new run has.")
    variables: dict[Name, JsonValue] = {}
    arguments: list[ArgumentBody] = []
    steps: dict[str, str] = Field({}, description="Other lines of plan, by the step whose place they take.")


class SavePlanBody(Body):
    """A plan to be kept in the library."""

    plan: str
    syntax: SyntaxName | None = None
    replace: bool = Field(False, description="Whether a plan of this id gets a new version.")
    params: list[Text] | None = Field(
        None, description="Variables that a run is given: NAME[:KIND][=DEFAULT]."
    )
    goal: Text | None = None


class RunsQuery(Query):
    """Which runs are listed."""

    status: Status | None = None
    plan: Annotated[str, Field(max_length=200)] | None = Field(None, description="A part of the plan's name.")
    text: Annotated[str, Field(max_length=200)] | None = Field(
        None,
        description="A part of the run's id, of the plan's name or of the status, in any case of letters.",
    )
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    before: RunId | None = Field(None, description="Only runs that are listed after this one: older ones.")


class EventsQuery(Query):
    """From where a stream of events begins."""

    after: Annotated[int, Field(ge=0, le=2**53)] = Field(0, description="The last event that is known.")


class JournalQuery(EventsQuery):
    """Which events of a journal are given."""

    limit: Annotated[int, Field(ge=1, le=100_000)] = 10_000


class WhyQuery(Query):
    """A place in a value, and the way it is followed."""

    variable: Annotated[str, Field(min_length=1, max_length=1_000)]
    forward: bool = False
    limit: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1_000, description="The most places that are told of, the nearest first."
    )


class DiffQuery(Query):
    """The run with which another one is compared."""

    other: RunId


class DocumentQuery(Query):
    """What the viewer shows beside a run."""

    other: RunId | None = Field(None, description="A run with which it is compared.")
    base: Annotated[str, Field(pattern=_DOCUMENT)] | None = Field(
        None, description="The name of the document that is there: only what has changed since is given."
    )


class LctlQuery(Query):
    """The moment and the kind of a hand-off."""

    at: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="A step, a visit S3@2, or an event."
    )
    debug: bool | None = Field(None, description="The post-mortem (true) or the hand-off (false).")
    items: bool = False


class ReportQuery(Query):
    """What a report shows."""

    other: RunId | None = Field(None, description="A run with which it is compared.")
    redact: bool = False
    max_value: Annotated[int, Field(ge=0, le=2**53)] = 16_384
