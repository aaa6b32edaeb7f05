"""What users give as model, agent and compiler, as the ports that a run goes out through.

In: functions, async or not. Out: ports. A function that is not async runs in a thread, so that
it cannot hold the run up.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from callsheet.api.plan import Plan
from callsheet.diagnostics.wanted import wanted_function
from callsheet.ir import JSON
from callsheet.machine import CallModel, RunAgent, to_text
from callsheet.ports.calls import CallContext
from callsheet.ports.models.model import LanguageModel
from callsheet.ports.models.operations import Complete, ModelAnswer, ModelOperations
from callsheet.ports.models.prompts import Messages
from callsheet.ports.python_tools import to_json
from callsheet.runtime.gateway import AgentPort, ModelPort

Answer: TypeAlias = "str | ModelAnswer"
"""A model's answer, alone or with the tokens and the cost that it took."""
PromptFunction: TypeAlias = "Callable[[str], Answer | Awaitable[Answer]]"
"""Takes a prompt, gives the model's answer."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that takes a conversation: messages, each a dict with `role` and `content`.

    `strict` holds answers to what the operation promises (a category of the list, TRUE or
    FALSE): an answer that is not is asked for once more, then the step fails.
    """

    complete: Callable[[list[dict[str, str]]], Answer | Awaitable[Answer]]
    strict: bool = True


@dataclass(frozen=True, slots=True)
class OperationModel:
    """A model that carries out whole operations (`@LLM_CLASSIFY`, `@CONSENSUS`, …) itself.

    `carry_out` takes a `ModelRequest` and gives the operation's value.
    """

    carry_out: Callable[[ModelRequest], Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One operation that a plan asks of a model.

    `operation` is its name (`LLM_SUMMARIZE`), `inputs` are its positional values in order,
    `arguments` the named ones; `step` asks.
    """

    operation: str
    inputs: tuple[JSON, ...]
    arguments: Mapping[str, JSON]
    step: str


Model: TypeAlias = "str | LanguageModel | PromptFunction | ChatModel | OperationModel"
"""What `Runtime(model=…)` takes; a text is `provider:model` or the address of a server."""


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What `@AGENT_SOLVE` asks of an agent: a goal, further inputs, and the named arguments.

    `lctl` is the LCTL block that says how sure the inputs are; empty unless the runtime hands out blocks.
    """

    goal: str
    inputs: tuple[JSON, ...] = ()
    arguments: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    lctl: str = ""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent may give instead of the bare value: the value, and an LCTL block about it.

    Where the runtime hands out no blocks, nobody looks at it.
    """

    value: Any
    lctl: str = ""


Agent: TypeAlias = "Callable[[AgentTask], Any]"
"""What `Runtime(agent=…)` takes; gives the value of the step or an `AgentAnswer`, or an awaitable of it."""


@dataclass(frozen=True, slots=True)
class ReplanRequest:
    """Why a plan cannot go on, and the variables that are set; both are data, not instructions."""

    reason: str
    variables: Mapping[str, JSON]


Compiler: TypeAlias = "Callable[[ReplanRequest], Plan | str | Awaitable[Plan | str]]"
"""What `Runtime(compiler=…)` takes: gives the new plan, or its text."""


def opened(model: Model | None) -> Model | None:
    """The model, where it was named the one of that name; raises CallsheetError as `open_model` does."""
    if not isinstance(model, str):
        is_one = isinstance(model, LanguageModel | ChatModel | OperationModel)
        return model if is_one else wanted_function("model", model, "a model, its name or a function")
    from callsheet.ports.models.opening import open_model  # noqa: PLC0415 - only where a model is named

    return open_model(model)


def model_port(model: Model) -> ModelPort:
    """The port of a model."""
    if isinstance(model, OperationModel):
        return _operation_port(model)
    if isinstance(model, ChatModel):
        return ModelOperations(completing(model), strict=model.strict)
    return ModelOperations(completing(model))


def agent_port(agent: Agent) -> AgentPort:
    """The port of an agent: the goal is the argument of that name, else the first input."""

    async def solve(command: RunAgent, context: CallContext) -> JSON:
        arguments, inputs = dict(command.args), list(command.inputs)
        goal = arguments.pop("goal", None)
        if goal is None and inputs:
            goal = inputs.pop(0)
        task = AgentTask(to_text(goal), tuple(inputs), arguments, context.handed)
        answer = await called(agent, task)
        value, block = (answer.value, answer.lctl) if isinstance(answer, AgentAnswer) else (answer, "")
        if context.handed and not block and isinstance(value, str):
            from callsheet.trace.lctl.reply import parted  # noqa: PLC0415 - only where blocks are handed out

            value, block = parted(value)
        context.returned = block
        return to_json(value)

    return solve


async def called(function: Callable[..., Any], *arguments: object) -> Any:
    """What a function gives, async or not; one that is not runs in a thread."""
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
    except StopIteration as error:  # which no future can hold: nobody would hear of the end
        raise RuntimeError("the function raised StopIteration") from error


def completing(model: str | LanguageModel | PromptFunction | ChatModel) -> Complete:
    """How a model that takes prompts or conversations is asked."""
    if isinstance(model, str):
        model = cast("LanguageModel", opened(model))
    if isinstance(model, LanguageModel):
        return model.complete
    if isinstance(model, ChatModel):
        chat = model.complete
        return lambda messages: called(chat, messages)
    return lambda messages: called(model, prompt_text(messages))


def prompt_text(messages: Messages) -> str:
    """A conversation as one prompt; what the model itself said before is introduced.

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
