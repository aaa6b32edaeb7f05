"""The argument types of the MCP tools: their JSON Schemas, and parsing and validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from callsheet.apps.operations.json_schema import ANY_JSON
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, did_you_mean

MOST_CHARACTERS = 2_000_000
"""The maximum length of a text."""

Arguments = TypeVar("Arguments", bound="ToolArguments")


class ToolArguments(BaseModel):
    """The arguments of a tool; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_NAMES = Field(default=(), description="The names of the variables that a run receives.", max_length=1_000)


SyntaxName = Annotated[
    Literal["auto", "ltp", "micro", "dag"], Field(description="The syntax of the plan; auto: detected.")
]


_AnyJson = Annotated[Any, WithJsonSchema(ANY_JSON)]


class PlanArguments(ToolArguments):
    """A plan as text."""

    ltp_text: str = Field(
        description="The plan: LTP text, or Micro-CLI, or a JSON plan.", max_length=MOST_CHARACTERS
    )
    syntax: SyntaxName = "auto"


class ParseArguments(PlanArguments):
    """For `parse_plan`."""

    strict: bool = Field(default=False, description="Treat deviations in spelling as errors.")


class ValidateArguments(PlanArguments):
    """For `validate_plan`."""

    inputs: tuple[str, ...] = _NAMES
    tools: bool = Field(
        default=True, description="Check the calls against the available tools; false: only the plan."
    )


class VisualizeArguments(PlanArguments):
    """For `visualize_plan`."""

    format: Literal["mermaid", "terminal"] = Field(
        default="mermaid", description="A Mermaid flow chart, or lines of text."
    )


class FormatArguments(PlanArguments):
    """For `format_plan`."""

    to: Literal["same", "ltp", "micro", "dag"] = Field(
        default="same", description="The target syntax: LTP text, Micro-CLI, or a JSON plan."
    )


PolicyName = Literal["configured", "strict", "workspace", "open"]


class VerifyArguments(PlanArguments):
    """For `verify_plan`."""

    policy: PolicyName = Field(
        default="configured",
        description="The policy; configured: that of the server, or strict if it has none.",
    )
    inputs: tuple[str, ...] = _NAMES
    approved: tuple[str, ...] = Field(
        default=(), description="The ids of steps that a person has approved.", max_length=1_000
    )
    unattended: bool = Field(default=False, description="No person can be asked while it runs.")


_GOAL = Field(
    min_length=1,
    max_length=20_000,
    description="The goal, with every name, path and number that the steps need.",
)
_CONTEXT = Field(default="", max_length=100_000, description="Data about the goal for the model.")


class CompileArguments(ToolArguments):
    """For `compile_plan`."""

    goal: str = _GOAL
    context: str = _CONTEXT
    use_library: bool = Field(
        default=True, description="Use the stored plan for the same goal, if any, without asking a model."
    )
    save_as: str = Field(default="", description="Save it under this id, as a new version if the id exists.")


_VARIABLES = Field(
    default_factory=dict,
    description="Variables of the plan by name; they override its own values.",
)
_SECRETS = Field(
    default=(), description="The names of secret variables: their values are encrypted in the journal."
)
_WAIT = Field(
    default=True,
    description="Wait for the run to end; false: return its id at once (see explain_run).",
)


_SHOWN = Field(
    default=(),
    max_length=1_000,
    description='The variables to return, by name, or "all"; default: only the answer, and which there are.',
)


class CreateArguments(ToolArguments):
    """For `plan_create`."""

    goal: str = _GOAL
    context: str = _CONTEXT
    plan_id: str = Field(default="", description="The id to save it under; default: made from its title.")


_PLAN_ID = Field(
    default="", description="A plan of the library: its id, or ID@N for its version N. This or ltp_text."
)
_PLAN_TEXT = Field(default="", max_length=MOST_CHARACTERS, description="A plan as text. This or plan_id.")


class ExecuteArguments(ToolArguments):
    """For `plan_execute`."""

    plan_id: str = _PLAN_ID
    ltp_text: str = _PLAN_TEXT
    syntax: SyntaxName = "auto"
    variables: dict[str, Any] = _VARIABLES
    secrets: tuple[str, ...] = _SECRETS
    state: str = Field(
        default="",
        max_length=MOST_CHARACTERS,
        description="The text of ID_state.json of another program: its completed steps are not run again.",
    )
    show_variables: tuple[str, ...] = _SHOWN
    wait: bool = _WAIT


class DryRunArguments(ToolArguments):
    """For `dry_run_plan`."""

    plan_id: str = _PLAN_ID
    ltp_text: str = _PLAN_TEXT
    syntax: SyntaxName = "auto"
    variables: dict[str, Any] = _VARIABLES
    assume: dict[str, Any] = Field(default_factory=dict, description="Assumed results, by step id.")
    show_steps: tuple[str, ...] = Field(
        default=(),
        max_length=1_000,
        description='The steps whose arguments and results are shown at length, by id, or "all".',
    )


class CreateAndExecuteArguments(ToolArguments):
    """For `plan_create_and_execute`."""

    goal: str = _GOAL
    context: str = _CONTEXT
    variables: dict[str, Any] = _VARIABLES
    show_variables: tuple[str, ...] = _SHOWN
    wait: bool = _WAIT


_RUN = Field(description="The id of a run, the beginning of one, or last.")


class RunArguments(ToolArguments):
    """For tools on one run."""

    run_id: str = _RUN


_AS_RECORDED = Field(
    default=False,
    description="Whether the recorded plan is continued although it has been edited since, in its file or "
    "the plan library; otherwise such a run is refused. Set it only if the user has agreed.",
)


class ExplainArguments(RunArguments):
    """For `explain_run`."""

    show_variables: tuple[str, ...] = _SHOWN
    from_character: int = Field(
        default=0, ge=0, description="Where to continue a variable that was cut, or without one the answer."
    )


class ResumeArguments(RunArguments):
    """For `resume_run`."""

    as_recorded: bool = _AS_RECORDED
    show_variables: tuple[str, ...] = _SHOWN
    wait: bool = _WAIT


_EFFECTS = Field(
    default=False,
    description="Whether calls that change something outside are allowed; otherwise such a run is "
    "refused with a list of them. Set it only if the user has agreed.",
)


class RerunArguments(RunArguments):
    """For `rerun_run`."""

    step: str = Field(
        min_length=1,
        max_length=1_000,
        description="The step to rerun from: S3, or S3@2 for its second visit.",
    )
    effects: bool = _EFFECTS
    as_recorded: bool = _AS_RECORDED
    show_variables: tuple[str, ...] = _SHOWN
    wait: bool = _WAIT


class ArgumentArguments(ToolArguments):
    """A changed argument of a step that has not begun."""

    step: str
    name: str
    value: _AnyJson


class ForkArguments(RunArguments):
    """For `fork_run`."""

    before: str = Field(
        default="",
        max_length=1_000,
        description="The step before which the new run diverges: S3, or S3@2. This or at.",
    )
    at: int | None = Field(
        default=None, ge=1, description="The last event that the new run shares. This or before."
    )
    variables: dict[str, Any] = Field(default_factory=dict, description="Changed variables, by name.")
    arguments: tuple[ArgumentArguments, ...] = Field(
        default=(), max_length=1_000, description="Changed arguments of steps that have not begun."
    )
    steps: dict[str, str] = Field(default_factory=dict, description="Replaced plan lines, by step id.")
    effects: bool = _EFFECTS
    as_recorded: bool = _AS_RECORDED
    show_variables: tuple[str, ...] = _SHOWN
    wait: bool = _WAIT


class CancelArguments(RunArguments):
    """For `cancel_run`."""

    reason: str = Field(default="cancelled by the client", max_length=1_000)


class AnswerArguments(RunArguments):
    """For `answer_run`."""

    key: str = Field(description="The key of the question or call, from waiting or in_doubt.")
    verdict: Literal["approve", "deny", "answer", "retry", "skip", "fail", "took_place"] = Field(
        description="For an approval: approve or deny. For a question: answer, with value. For a "
        "call in doubt: retry, skip, fail, or took_place with the value that it returned."
    )
    value: _AnyJson = Field(default=None, description="The answer, or the result of the call in doubt.")
    note: str = Field(default="", max_length=10_000, description="A note recorded with the answer.")


class ListRunsArguments(ToolArguments):
    """For `list_runs`."""

    status: Literal[
        "",
        "running",
        "interrupted",
        "waiting",
        "in_doubt",
        "done",
        "done_with_failures",
        "failed",
        "refused",
        "cancelled",
    ] = Field(default="", description="Only runs with this status.")
    limit: int = Field(default=20, ge=1, le=500)


class DeleteRunsArguments(ToolArguments):
    """For `delete_runs`."""

    run_ids: tuple[str, ...] = Field(
        min_length=1, max_length=500, description="Complete ids of runs that have ended."
    )


class NoneArguments(ToolArguments):
    """For tools without arguments."""


class PlanIdArguments(ToolArguments):
    """For tools on one plan of the library."""

    plan_id: str = Field(description="The id of a plan of the library, or ID@N for version N of it.")


class SavePlanArguments(PlanArguments):
    """For `save_plan`."""

    plan_id: str = Field(default="", description="The id to save it under; default: made from its title.")
    replace: bool = Field(default=False, description="Save a new version if the id exists.")
    goal: str = Field(default="", max_length=20_000, description="The goal of the plan.")


class ExplainCodeArguments(ToolArguments):
    """For `explain_code`."""

    code: str = Field(description="A diagnostic code such as CHK001, or an LCTL rule such as P01.")


class LctlArguments(ToolArguments):
    """For `lctl_check`."""

    blocks: tuple[str, ...] = Field(
        min_length=1,
        max_length=100,
        description="The LCTL blocks of one chain, in its order; each may be the whole answer of an agent.",
    )


def schema_of(model: type[ToolArguments]) -> dict[str, Any]:
    """The JSON Schema of the arguments."""
    schema = model.model_json_schema()
    schema.pop("description", None)
    return cast("dict[str, Any]", _untitled(schema))


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic generates from names."""
    if isinstance(schema, list):
        return [_untitled(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, Any]", schema)
    return {
        key: _untitled(value) for key, value in table.items() if key != "title" or isinstance(value, dict)
    }


def read_arguments(tool: str, model: type[Arguments], given: Mapping[str, Any]) -> Arguments:
    """The arguments of a call; raises CallsheetError (MCP001) with all errors."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        known = list(model.model_fields)
        raise CallsheetError([_wrong(tool, dict(each), known) for each in error.errors()]) from None


def _wrong(tool: str, error: Mapping[str, Any], known: list[str]) -> Diagnostic:
    place = ".".join(str(part)[:60] for part in error["loc"])
    match error["type"]:
        case "missing":
            message, hint = f"{tool} needs {place}", None
        case "extra_forbidden":
            near = did_you_mean(place, known)
            message = f"{tool} has no argument {place}"
            hint = f"did you mean {' or '.join(near)}?" if near else f"it takes {', '.join(known)}"
        case "tuple_type":
            message, hint = f"{tool}: {place}: input should be a list", None
        case "dict_type":
            message, hint = f"{tool}: {place}: input should be a JSON object", None
        case _:
            detail = str(error["msg"])
            message, hint = f"{tool}: {place}: {detail[:1].lower()}{detail[1:]}", None
    return Diagnostic("MCP001", Severity.ERROR, message, help=hint)
