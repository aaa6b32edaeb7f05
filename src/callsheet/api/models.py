"""Adapts whatever a user gives as a model, agent or compiler to the ports of a run."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.api.plan import Plan
from callsheet.authoring.shapes import Shared, is_shared
from callsheet.diagnostics.wrong_type import wanted_function
from callsheet.ir import JSON
from callsheet.ir.labels import Label, join
from callsheet.lazy import dataclass, deferred
from callsheet.machine import CallModel, Compile, RunAgent, to_text
from callsheet.ports.calls import CallContext
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Syntax,
    Usage,
)
from callsheet.ports.python_tools import to_json
from callsheet.runtime.gateway import AgentPort, ModelPort

if TYPE_CHECKING:
    from callsheet.ports.models import operations
    from callsheet.ports.models.operations import Complete, ModelAnswer
    from callsheet.ports.models.prompts import Messages
else:
    operations = deferred("callsheet.ports.models.operations")

Answer: TypeAlias = "str | ModelAnswer"
"""A model's answer: text alone, or with tokens and cost."""
PromptFunction: TypeAlias = "Callable[[str], Answer | Awaitable[Answer]]"
"""Takes a prompt, returns the model's answer."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that takes a conversation: a list of messages, each a dict with `role` and `content`.

    With `strict`, an answer that the operation does not allow (not a category of the list, not TRUE or
    FALSE) is asked for once more; then the step fails.
    """

    complete: Callable[[list[dict[str, str]]], Answer | Awaitable[Answer]]
    strict: bool = True


@dataclass(frozen=True, slots=True)
class OperationModel:
    """A model that carries out whole operations (`@LLM_CLASSIFY`, `@CONSENSUS`, …) itself.

    `carry_out` takes a `ModelRequest` and returns the operation's value, or an awaitable of it.
    """

    carry_out: Callable[[ModelRequest], Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model operation of a plan.

    `operation` is its name (`LLM_SUMMARIZE`), `inputs` its positional values in order, `arguments` the named
    ones; `step` is the id of the step that asks.
    """

    operation: str
    inputs: tuple[JSON, ...]
    arguments: Mapping[str, JSON]
    step: str


Model: TypeAlias = "str | LanguageModel | PromptFunction | ChatModel | OperationModel"
"""What `Runtime(model=…)` takes; a string is `provider:model` or the address of a server."""


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What `@AGENT_SOLVE` asks of an agent: a goal, further inputs, and the named arguments.

    `lctl` is the LCTL block that says how certain the inputs are; empty without `Runtime(agent_blocks=…)`.
    """

    goal: str
    inputs: tuple[JSON, ...] = ()
    arguments: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    lctl: str = ""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent may return instead of the bare value: the value with an LCTL block about it.

    The block is ignored without `Runtime(agent_blocks=…)`.
    """

    value: Any
    lctl: str = ""


Agent: TypeAlias = "Callable[[AgentTask], Any]"
"""What `Runtime(agent=…)` takes; returns the step's value or an `AgentAnswer`, or an awaitable of it."""


@dataclass(frozen=True, slots=True)
class ReplanRequest:
    """Why a plan cannot continue, and the variables set so far; both are data, not instructions.

    `refused` is the first answer and why it cannot be used, if this is the second request; "" otherwise.
    """

    reason: str
    variables: Mapping[str, JSON]
    refused: str = ""


Compiler: TypeAlias = "Callable[[ReplanRequest], Plan | str | Awaitable[Plan | str]]"
"""What `Runtime(compiler=…)` takes: returns the new plan or its text, or an awaitable of it."""


def opened(model: Model | None) -> Model | None:
    """The model, opened if it is given by name.

    Raises CallsheetError as `open_model` does, TypeError for what is no model.
    """
    if not isinstance(model, str):
        is_one = isinstance(model, LanguageModel | ChatModel | OperationModel)
        return model if is_one else wanted_function("model", model, "a model, its name or a function")
    from callsheet.ports.models.opening import open_model  # noqa: PLC0415 - only where a model is named

    return open_model(model)


def model_port(model: Model) -> ModelPort:
    """The port that carries out the operations of a model."""
    if isinstance(model, OperationModel):
        return _operation_port(model)
    if isinstance(model, ChatModel):
        return operations.ModelOperations(completing(model), strict=model.strict)
    return operations.ModelOperations(completing(model))


def agent_port(agent: Agent) -> AgentPort:
    """The port of an agent; its goal is the argument `goal`, else the first input."""

    async def solve(command: RunAgent, context: CallContext) -> JSON:
        arguments, inputs = dict(command.args), list(command.inputs)
        goal = arguments.pop("goal", None)
        if goal is None and inputs:
            goal = inputs.pop(0)
        task = AgentTask(to_text(goal), tuple(inputs), arguments, context.handed)
        answer = await called(agent, task)
        value, block = (answer.value, answer.lctl) if isinstance(answer, AgentAnswer) else (answer, "")
        if context.handed and not block and isinstance(value, str):
            from callsheet.trace.lctl.receive import parted  # noqa: PLC0415 - only where blocks are handed out

            value, block = parted(value)
        context.returned = block
        return to_json(value)

    return solve


async def called(function: Callable[..., Any], *arguments: object) -> Any:
    """The result of a function, async or not; one that is not runs in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - whether it is async, not whether it is there
    ):
        given = function(*arguments)
    else:
        given = await asyncio.to_thread(_without_stop, function, arguments)
    return await given if inspect.isawaitable(given) else given


def _without_stop(function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
    try:
        return function(*arguments)
    except StopIteration as error:  # a future cannot hold it, and would never complete
        raise RuntimeError("the function raised StopIteration") from error


def completing(model: str | LanguageModel | PromptFunction | ChatModel) -> Complete:
    """A function that continues a conversation with the given model."""
    if isinstance(model, str):
        model = cast("LanguageModel", opened(model))
    if isinstance(model, LanguageModel):
        return model.complete
    if isinstance(model, ChatModel):
        chat = model.complete
        return lambda messages: called(chat, messages)
    return lambda messages: called(model, prompt_text(messages))


def prompt_text(messages: Messages) -> str:
    """A conversation as one prompt; earlier answers of the model are introduced as such.

    >>> print(prompt_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]))
    Be brief.
    <BLANKLINE>
    Hi
    """
    parts = (
        f"Your answer was:\n{m['content']}" if m["role"] == "assistant" else m["content"] for m in messages
    )
    return "\n\n".join(parts)


def _operation_port(model: OperationModel) -> ModelPort:
    async def carry_out(command: CallModel, context: CallContext) -> JSON:
        request = ModelRequest(command.tool, tuple(command.inputs), command.args, command.step)
        return to_json(await called(model.carry_out, request))

    return carry_out


AnyModel: TypeAlias = "Model | LanguageModel | str"
"""Any form in which a model may be given."""


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A function from messages to an answer as a language model; it supports no constraint."""

    complete_with: Complete = field(repr=False)
    name: str = "function"

    @property
    def accepts(self) -> Sequence[Syntax]:
        """No constraint."""
        return ()

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Ask the function; raises ModelFailed for an answer that is not text, and whatever it raises."""
        del max_tokens  # a function limits its answers itself
        if constraint is not None:
            raise ValueError("a function takes no constraint")
        began = time.monotonic()
        answer = await self.complete_with(messages)
        seconds = time.monotonic() - began
        if isinstance(answer, operations.ModelAnswer):
            usage = Usage(answer.input_tokens, answer.output_tokens, cost=answer.cost, seconds=seconds)
            return Completion(answer.text, usage, model=self.name)
        if not isinstance(answer, str):
            raise ModelFailed(Failure.MALFORMED, f"it returned {type(answer).__name__} instead of a text")
        return Completion(answer, Usage(seconds=seconds), model=self.name)


def language_model(given: AnyModel) -> LanguageModel | None:
    """The given model as a LanguageModel, None for an OperationModel.

    Raises CallsheetError (MDL001, …) for an unknown name.
    """
    if isinstance(given, str):
        from callsheet.ports.models.opening import open_model  # noqa: PLC0415 - only where a name is given

        return open_model(given)
    if isinstance(given, ChatModel):
        return FunctionModel(completing(given), _name_of(given.complete))
    if isinstance(given, OperationModel):
        return None
    if isinstance(given, LanguageModel):
        return given
    return FunctionModel(completing(given), _name_of(given))


def _name_of(function: object) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return f"function:{str(name).strip('<>')}"


def label_of_shared(command: Compile, shared: Shared) -> Label:
    """The joined label of the variables whose values a planner is shown.

    Names, kinds and sizes of variables, and kinds of failures, count as public: they carry only a few bits.
    Field names do not; `withheld_variables` gives the variables for which they are withheld.
    """
    labels = command.labels or {}
    return join(label for name, label in labels.items() if is_shared(name, shared))


def withheld_variables(command: Compile) -> frozenset[str]:
    """The variables whose field names are withheld from a planner: untrusted or not public."""
    labels = command.labels or {}
    return frozenset(name for name, label in labels.items() if label.untrusted or not label.is_public)
