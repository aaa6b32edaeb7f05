"""`Operation`: a function on a `Context`, its arguments and result, and its faces: an endpoint, a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from callsheet.api.policies import load_policy
from callsheet.api.requirements import asks_for_all_tools
from callsheet.apps.hosting import Host
from callsheet.apps.hosting.service import Listeners
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.rendering.help_text import MCP
from callsheet.apps.toolbox import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic, Source, render_all
from callsheet.ir import Plan
from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.model import Policy
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.store.library import PlanLibrary
from callsheet.store.runs import RunInfo

DoubtCache: TypeAlias = "dict[tuple[str, int], tuple[DoubtfulCall, ...]]"


class Face(Enum):
    """An interface that offers operations, as the code of an error in the arguments of a call."""

    HTTP = "API008"
    MCP = "MCP001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an operation works on, and who asks for it through which interface.

    `library` opens the plan library. `by` names the client, or the person if those are known by their tokens,
    who has `roles`. `hint` is the option of commands that names the
    journal. `runs` is told the plan that is about to run, and `listeners` follow the run. `reads` is the
    label of what the client has read, which its texts may repeat.
    """

    host: Host
    library: Callable[[], PlanLibrary]
    face: Face
    by: str = ""
    roles: frozenset[str] = frozenset()
    hint: str = ""
    clients_may_answer: bool = False
    reads: Label = LITERAL
    runs: Callable[[Plan], None] = lambda plan: None
    listeners: Listeners = field(default_factory=Listeners)
    doubts: DoubtCache = field(default_factory=dict[tuple[str, int], tuple[DoubtfulCall, ...]])
    """The calls in doubt found last, by run and its number of events."""
    problem: Callable[[CallsheetError], Mapping[str, Any]] = lambda error: {}
    """An error as data, as the interface reports it."""

    @property
    def policy(self) -> Policy | None:
        """The policy of the server, for texts of this client."""
        policy = self.host.config.policy
        return None if policy is None else policy.written_by(self.reads)

    @property
    def journal_path(self) -> Path:
        """The file of the journal."""
        return self.host.journal.path

    def wrong(self, message: str, hint: str | None = None) -> CallsheetError:
        """The error for arguments that do not fit together."""
        return CallsheetError.single(self.face.value, message, help=hint)

    def named(self, by: str) -> str:
        """The name that is recorded: that of the person who is signed in; raises CallsheetError for another.

        Where nobody is known by name, it is what they call themselves.
        """
        if self.face is Face.HTTP and self.by and by not in ("", self.by):
            raise self.wrong(f"by: you are signed in as {self.by}, not {by[:60]}", "leave it out")
        return self.by if self.face is Face.HTTP and self.by else by

    async def run(self, run_id: str) -> RunInfo:
        """The run with an id. For a model also with the beginning of one, or `last`.

        Raises JournalError (JRN002) if there is none.
        """
        host = self.host
        find = host.journal.find_run if self.face is Face.MCP else host.info
        return await host.beside(lambda: find(run_id))

    def policy_for(self, named: str | None) -> Policy:
        """The named policy, else that of the server; for a model at last the strict one."""
        if named is not None:
            return load_policy(named).written_by(self.reads)
        if self.policy is None and self.face is Face.HTTP:
            raise self.wrong("policy: it is missing, and the server has none", "name one, such as strict")
        return self.policy or load_policy("strict")

    async def declared_tools(self, text: PlanText, *, asks_servers: bool = True) -> DeclaredTools:
        """The tools to check a text against: servers are opened for unknown ones, if they are asked."""
        tools, plan = self.host.tools, text.plan or text.partial
        if not asks_servers or plan is None:
            return tools.declared
        agents = tools.setup.agents
        needed = None if asks_for_all_tools(plan, agents) else plan
        return DeclaredTools(tools.setup, await tools.for_plan(needed, agents))


# ---------------------------------------------------------------- arguments


class Arguments(BaseModel):
    """The arguments of an operation; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def answers(self) -> bool:
        """Whether they answer, ahead or now, what a person would be asked: not everybody may do that."""
        return False


class NoArguments(Arguments):
    """No arguments."""


A = TypeVar("A", bound=Arguments)
R = TypeVar("R")
_AS_IT_IS: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """How an argument differs in one face, in the `Annotated` of its field.

    `kind` is its type there, with its constraints. `unset` is a word that stands there for None, since models
    handle words better than null.
    """

    face: Face
    name: str = ""
    kind: Any = None
    unset: str | None = None
    default: Any = _AS_IT_IS
    description: str = ""
    is_absent: bool = False
    """Whether the face does not have it: it has its default there."""


def in_mcp(name: str = "", **more: Any) -> In:
    """How an argument differs in the tools."""
    return In(face=Face.MCP, name=name, **more)


def in_http(name: str = "", **more: Any) -> In:
    """How an argument differs over HTTP."""
    return In(face=Face.HTTP, name=name, **more)


HTTP_ONLY = In(face=Face.MCP, is_absent=True)
MCP_ONLY = In(face=Face.HTTP, is_absent=True)


@cache
def face_model(model: type[Arguments], face: Face, without: frozenset[str] = frozenset()) -> type[Arguments]:
    """The arguments as one face takes them, without some that come another way."""
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        here = _difference(info.metadata, face)
        if here.is_absent or name in without:
            continue
        kind = here.kind or _with_constraints(info.annotation, info.metadata)
        default = info.default if here.default is _AS_IT_IS else here.default
        if here.unset is not None:
            kind, default = _with_word(here.kind or _without_none(info.annotation), here.unset), here.unset
        said: dict[str, Any] = {"description": here.description or info.description}
        if info.default_factory is None or here.default is not _AS_IT_IS:
            said["default"] = default
        else:
            said["default_factory"] = info.default_factory
        alias = here.name or None
        fields[name] = (kind, Field(alias=alias, validate_default=here.unset is not None, **said))
    return create_model(model.__name__, __base__=Arguments, __doc__=model.__doc__, **fields)


def _with_constraints(kind: Any, metadata: Sequence[Any]) -> Any:
    constraints = [each for each in metadata if not isinstance(each, In)]
    return Annotated[kind, *constraints] if constraints else kind


def _difference(metadata: Sequence[Any], face: Face) -> In:
    """How a field differs in a face: what is said last counts, as by a field about its type."""
    here = [each for each in metadata if isinstance(each, In) and each.face is face]
    return here[-1] if here else In(face=face)


def _without_none(annotation: Any) -> Any:
    (kind,) = (part for part in get_args(annotation) if part is not type(None))
    return kind


def _with_word(kind: Any, word: str) -> Any:
    """A type with a word in place of None."""
    if get_origin(kind) is Literal:
        kind = Literal[word, *get_args(kind)]
    return Annotated[kind, AfterValidator(lambda given: None if given == word else given)]


def gathered(model: type[A], face: Face, read: BaseModel, path: Mapping[str, Any] | None = None) -> A:
    """The arguments from what a face has read, as its `face_model`, and from its path."""
    elsewhere = path or {}
    values = {name: getattr(read, name) for name in type(read).model_fields} | dict(elsewhere)
    for name, info in model.model_fields.items():
        here = _difference(info.metadata, face)
        if name not in values and here.default is not _AS_IT_IS:
            values[name] = here.default
    return model.model_construct({*read.model_fields_set, *elsewhere}, **values)


def names_of(model: type[BaseModel]) -> list[str]:
    """The names of the arguments as a face has them."""
    return [info.alias or name for name, info in model.model_fields.items()]


# ---------------------------------------------------------------- faces


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFace(Generic[R]):
    """An operation as an endpoint.

    `responses` describes each status of success, the usual one first; `status` chooses another one.
    `problems` are the statuses of errors besides those of every endpoint. One that `is_open` needs no token.
    """

    method: str
    path: str
    summary: str
    tag: str
    responses: Mapping[int, str]
    status: Callable[[R], int] | None = None
    location: Callable[[R], str] | None = None
    """The address of what was made."""
    problems: tuple[int, ...] = ()
    is_open: bool = False
    needs_body: bool = True


def run_endpoint(
    method: str, path: str, summary: str, responses: Mapping[int, str], *problems: int, **more: Any
) -> HttpFace[Any]:
    """The endpoint of an operation on one run; `more` are further fields."""
    return HttpFace(
        method=method,
        path=f"/v1/runs/{{run_id}}{path}",
        summary=summary,
        tag=more.pop("tag", "runs"),
        responses=responses,
        problems=(404, 409, *problems),
        **more,
    )


def text_endpoint(path: str, summary: str, *problems: int) -> HttpFace[Any]:
    """The endpoint of an operation on a text."""
    responses: Mapping[int, str] = {200: "The result."}
    return HttpFace(
        method="POST", path=path, summary=summary, tag="texts", responses=responses, problems=problems
    )


class Hint(Enum):
    """What a tool may do: read only, destructive, idempotent, in an open world."""

    READ_ONLY = (True, False, True, False)
    """Only reads its arguments, the tools and the journal."""
    READ_ONLY_OPEN_WORLD = (True, False, False, True)
    """Changes nothing, and calls a model."""
    ADDS = (False, False, False, True)
    """Adds to the library, and changes nothing existing."""
    DESTRUCTIVE = (False, True, False, True)
    """Calls tools, whose effects are unknown."""
    DESTRUCTIVE_IDEMPOTENT = (False, True, True, False)
    """Ends or deletes runs; a repetition changes nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a tool: text for a model, the same as data, and the run that it is about."""

    text: str
    data: Mapping[str, Any]
    is_error: bool = False
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFace(Generic[A, R]):
    """An operation as an MCP tool.

    `reply` makes its answer; None for an operation that starts a run (its result is `Started`): the tool
    waits for the run. `result` is the type of its data, if another one than that of the operation.
    """

    name: str
    title: str
    description: str
    hint: Hint
    reply: Callable[[Context, A, R], Reply] | None
    result: Any = None
    is_for_answers: bool = False
    """Whether it answers for a person, which only the operator can allow."""


def _as_it_is(result: Any) -> Mapping[str, Any]:
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[A, R]):
    """An operation: a function of a context and arguments, and its faces.

    `result` is the type of its data, which `to_json` makes; None if there is none. The docstring of `work`
    describes the endpoint. `operation` makes one.
    """

    work: Callable[[Context, A], Awaitable[R]]
    arguments: type[A]
    result: Any
    to_json: Callable[[R], Mapping[str, Any]] = _as_it_is
    http: HttpFace[R] | None = None
    mcp: ToolFace[A, R] | None = None


def operation(
    work: Callable[[Context, A], Awaitable[R]],
    *,
    http: HttpFace[R] | None = None,
    mcp: ToolFace[A, R] | None = None,
    result: Any = None,
    to_json: Callable[[R], Mapping[str, Any]] | None = None,
) -> Operation[A, R]:
    """An operation, whose arguments and result are those that the signature of its function names.

    What it returns is the data itself, or has a method `to_json` for them, whose signature names their type.
    Otherwise `result` is given, and what makes it.
    """
    hints = get_type_hints(work, include_extras=True)
    made = hints["return"]
    if result is None and hasattr(made, "to_json"):
        to_json = made.to_json
        result = get_type_hints(made.to_json, include_extras=True)["return"]
    elif result is None and made is not type(None):
        result = made
    to_json = to_json or _as_it_is
    return Operation(work=work, arguments=hints["args"], result=result, to_json=to_json, http=http, mcp=mcp)


def with_diagnostics(text: str, diagnostics: Sequence[Diagnostic], source: Source | None) -> str:
    """A text for a model, followed by the rendered diagnostics."""
    rendered = render_all(MCP.rewrite_all(diagnostics), source)
    return "\n\n".join(part for part in (text.rstrip(), rendered) if part)
