"""The argument types of the MCP tools, which give their JSON Schemas and parse what clients send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from callsheet.apps.operations.schemas import ANY_JSON
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, did_you_mean

MOST_CHARACTERS = 2_000_000
"""A text is refused that is longer."""

Arguments = TypeVar("Arguments", bound="Given")


class Given(BaseModel):
    """The arguments of a tool; there are no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_NAMES = Field(default=(), description="The names of variables that a run will be given.", max_length=1_000)


SyntaxName = Annotated[
    Literal["auto", "ltp", "micro", "dag"], Field(description="How the plan is written; auto: as it looks.")
]


_AnyJson = Annotated[Any, WithJsonSchema(ANY_JSON)]


class PlanGiven(Given):
    """A plan as text."""

    ltp_text: str = Field(
        description="The plan: LTP text, or Micro-CLI, or a JSON plan.", max_length=MOST_CHARACTERS
    )
    syntax: SyntaxName = "auto"


class ParseGiven(PlanGiven):
    """For `parse_plan`."""

    strict: bool = Field(default=False, description="Take loose spellings for errors.")


class ValidateGiven(PlanGiven):
    """For `validate_plan`."""

    inputs: tuple[str, ...] = _NAMES
    tools: bool = Field(
        default=True, description="Check the calls against the tools that there are; false: the plan alone."
    )


class VisualizeGiven(PlanGiven):
    """For `visualize_plan`."""

    format: Literal["mermaid", "terminal"] = Field(
        default="mermaid", description="A Mermaid flow chart, or lines of text."
    )


class FormatGiven(PlanGiven):
    """For `format_plan`."""

    to: Literal["same", "ltp", "micro", "dag"] = Field(
        default="same", description="The spelling to print it in: LTP text, Micro-CLI, or a JSON plan."
    )


PolicyName = Literal["configured", "strict", "workspace", "open"]


class VerifyGiven(PlanGiven):
    """For `verify_plan`."""

    policy: PolicyName = Field(
        default="configured",
        description="What the plan is held against; configured: the server's own, strict where it has none.",
    )
    inputs: tuple[str, ...] = _NAMES
    approved: tuple[str, ...] = Field(
        default=(), description="The ids of steps to which somebody has said yes.", max_length=1_000
    )
    unattended: bool = Field(default=False, description="Nobody can be asked while it runs.")


_GOAL = Field(
    min_length=1,
    max_length=20_000,
    description="What is to be reached, with every name, path and number that the steps need.",
)
_CONTEXT = Field(default="", max_length=100_000, description="Data about the goal that the model is told.")


class CompileGiven(Given):
    """For `compile_plan`."""

    goal: str = _GOAL
    context: str = _CONTEXT
    use_library: bool = Field(
        default=True, description="Take the plan that was kept for this very goal, without asking a model."
    )
    save_as: str = Field(default="", description="Keep it under this id, as a new version of what is there.")


_VARIABLES = Field(
    default_factory=dict,
    description="Variables of the plan by name; they go before its own values.",
)
_SECRETS = Field(
    default=(), description="The names of variables that are secret: they are sealed in the journal."
)
_WAIT = Field(
    default=True,
    description="Wait for the run to end; false: give its id at once, and it goes on (explain_run).",
)


class CreateGiven(Given):
    """For `plan_create`."""

    goal: str = _GOAL
    context: str = _CONTEXT
    plan_id: str = Field(default="", description="The id to keep it under; default: one made of its title.")


_PLAN_ID = Field(
    default="", description="A plan of the library: its id, or ID@N for its version N. This or ltp_text."
)
_PLAN_TEXT = Field(default="", max_length=MOST_CHARACTERS, description="A plan as text. This or plan_id.")


class ExecuteGiven(Given):
    """For `plan_execute`."""

    plan_id: str = _PLAN_ID
    ltp_text: str = _PLAN_TEXT
    syntax: SyntaxName = "auto"
    variables: dict[str, Any] = _VARIABLES
    secrets: tuple[str, ...] = _SECRETS
    wait: bool = _WAIT


class DryRunGiven(Given):
    """For `dry_run_plan`."""

    plan_id: str = _PLAN_ID
    ltp_text: str = _PLAN_TEXT
    syntax: SyntaxName = "auto"
    variables: dict[str, Any] = _VARIABLES
    assume: dict[str, Any] = Field(
        default_factory=dict, description="Results of steps that are taken as given, by the step's id."
    )


class CreateAndExecuteGiven(Given):
    """For `plan_create_and_execute`."""

    goal: str = _GOAL
    context: str = _CONTEXT
    variables: dict[str, Any] = _VARIABLES
    wait: bool = _WAIT


_RUN = Field(description="The id of a run, the beginning of one, or last.")


class RunGiven(Given):
    """For tools on one run."""

    run_id: str = _RUN


class ResumeGiven(RunGiven):
    """For `resume_run`."""

    wait: bool = _WAIT


_EFFECTS = Field(
    default=False,
    description="Whether what changes something outside may happen once more; without it the answer is a "
    "refusal that lists what would. Say true only where the user has agreed.",
)


class RerunGiven(RunGiven):
    """For `rerun_run`."""

    step: str = Field(
        min_length=1,
        max_length=1_000,
        description="The step to run again from: S3, or S3@2 for its second visit.",
    )
    effects: bool = _EFFECTS
    wait: bool = _WAIT


class ArgumentGiven(Given):
    """Another argument of a step that has not begun."""

    step: str
    name: str
    value: _AnyJson


class ForkGiven(RunGiven):
    """For `fork_run`."""

    before: str = Field(
        default="",
        max_length=1_000,
        description="The step before which the new run goes its own way: S3, or S3@2. This or at.",
    )
    at: int | None = Field(
        default=None, ge=1, description="The last event of the old run that the new one has. This or before."
    )
    variables: dict[str, Any] = Field(default_factory=dict, description="Other values of variables, by name.")
    arguments: tuple[ArgumentGiven, ...] = Field(
        default=(), max_length=1_000, description="Other arguments of steps that have not begun."
    )
    steps: dict[str, str] = Field(
        default_factory=dict, description="Other lines of plan, by the step whose place they take."
    )
    effects: bool = _EFFECTS
    wait: bool = _WAIT


class CancelGiven(RunGiven):
    """For `cancel_run`."""

    reason: str = Field(default="cancelled by the client", max_length=1_000)


class AnswerGiven(RunGiven):
    """For `answer_run`."""

    key: str = Field(description="The key of what is answered, as waiting and in_doubt have it.")
    verdict: Literal["approve", "deny", "answer", "retry", "skip", "fail", "took_place"] = Field(
        description="To a call that needs a yes: approve or deny. To a question: answer, with value. To a "
        "call in doubt: retry, skip, fail, or took_place with the value that it gave."
    )
    value: _AnyJson = Field(default=None, description="The answer, or what the call in doubt gave.")
    note: str = Field(default="", max_length=10_000, description="What is to be known beside the answer.")


class ListRunsGiven(Given):
    """For `list_runs`."""

    status: Literal[
        "", "running", "interrupted", "waiting", "in_doubt", "done", "failed", "refused", "cancelled"
    ] = Field(default="", description="Only runs of this status.")
    limit: int = Field(default=20, ge=1, le=500)


class DeleteRunsGiven(Given):
    """For `delete_runs`."""

    run_ids: tuple[str, ...] = Field(
        min_length=1, max_length=500, description="Whole ids of runs that have ended."
    )


class NoneGiven(Given):
    """For tools that take nothing."""


class PlanIdGiven(Given):
    """For tools on one plan of the library."""

    plan_id: str = Field(description="The id of a plan of the library, or ID@N for version N of it.")


class SavePlanGiven(PlanGiven):
    """For `save_plan`."""

    plan_id: str = Field(default="", description="The id to keep it under; default: one made of its title.")
    replace: bool = Field(default=False, description="Make a new version of the plan that has this id.")
    goal: str = Field(default="", max_length=20_000, description="What it is for.")


class ExplainCodeGiven(Given):
    """For `explain_code`."""

    code: str = Field(description="A code of a diagnostic, such as CHK001, or a rule of LCTL, such as P01.")


class LctlGiven(Given):
    """For `lctl_check`."""

    blocks: tuple[str, ...] = Field(
        min_length=1,
        max_length=100,
        description="The LCTL blocks of one chain, in its order; each may be the whole answer of an agent.",
    )


def schema_of(model: type[Given]) -> dict[str, Any]:
    """The JSON Schema of the arguments."""
    schema = model.model_json_schema()
    schema.pop("description", None)
    return cast("dict[str, Any]", _untitled(schema))


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names."""
    if isinstance(schema, list):
        return [_untitled(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, Any]", schema)
    return {
        key: _untitled(value) for key, value in table.items() if key != "title" or isinstance(value, dict)
    }


def read_arguments(tool: str, model: type[Arguments], given: Mapping[str, Any]) -> Arguments:
    """The arguments of a call; raises CallsheetError (MCP001) with everything that is wrong with them."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        known = list(model.model_fields)
        raise CallsheetError([_wrong(tool, dict(each), known) for each in error.errors()]) from None


def _wrong(tool: str, error: Mapping[str, Any], known: list[str]) -> Diagnostic:
    place = ".".join(str(part)[:60] for part in error["loc"])
    match error["type"]:
        case "missing":
            message, way_out = f"{tool} needs {place}", None
        case "extra_forbidden":
            near = did_you_mean(place, known)
            message = f"{tool} has no argument {place}"
            way_out = f"did you mean {' or '.join(near)}?" if near else f"it takes {', '.join(known)}"
        case "tuple_type":
            message, way_out = f"{tool}: {place}: input should be a list", None
        case _:
            said = str(error["msg"])
            message, way_out = f"{tool}: {place}: {said[:1].lower()}{said[1:]}", None
    return Diagnostic("MCP001", Severity.ERROR, message, help=way_out)
