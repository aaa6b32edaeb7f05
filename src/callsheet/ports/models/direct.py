"""Models of the providers that pydantic-ai supports, by its direct model requests.

In: a conversation. Out: a Completion, or ModelFailed. pydantic-ai comes with the extra `callsheet[models]`
and is imported when a model is called. Its retries are switched off, because `retrying` retries for all
models alike.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.endpoint import bounded_client, bytes_for, is_strict, schema_of, too_large
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Stop,
    Strength,
    Syntax,
    Usage,
    refusal,
    seconds_in,
    words,
)
from callsheet.ports.models.prompts import Messages
from callsheet.ports.models.served_model import parameters_named, strength_by
from callsheet.ports.models.settings import ModelSettings

if TYPE_CHECKING:
    import httpx2
    from openai.types.responses import Response
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings as RequestSettings

_WHAT = "Takes the answer. Call it once, with the whole answer."


async def complete_by_tool(
    settings: ModelSettings,
    messages: Messages,
    constraint: Constraint,
    most: int,
    client: httpx2.AsyncClient,
    key: str,
) -> Completion:
    """The input that the model `settings.name` gives to the tool, of at most `most` tokens.

    Raises ModelFailed, and ImportError if the library is not installed.
    """
    import openai  # noqa: PLC0415 - only where a model is asked

    try:
        opened = openai.AsyncOpenAI(
            api_key=key or None, base_url=settings.url or None, http_client=client, max_retries=0
        )
    except openai.OpenAIError as error:
        raise ModelFailed(Failure.KEY, words(str(error))) from error
    grammar = {"type": "grammar", "syntax": "lark", "definition": constraint.text}
    tool = {"type": "custom", "name": constraint.name, "description": _WHAT, "format": grammar}
    try:
        async with asyncio.timeout(settings.timeout):
            answer = await opened.responses.create(
                model=settings.name,
                input=cast("Any", messages),
                tools=cast("Any", [tool]),
                tool_choice=cast("Any", {"type": "custom", "name": constraint.name}),
                parallel_tool_calls=False,
                max_output_tokens=most,
                temperature=openai.omit if settings.temperature is None else settings.temperature,
            )
    except (openai.APITimeoutError, TimeoutError) as error:
        raise ModelFailed(Failure.TIMEOUT, f"no answer within {settings.timeout:g} s") from error
    except openai.APIStatusError as error:
        raise refusal(
            error.status_code,
            error.response.text,
            constrained=True,
            retry_after=seconds_in(error.response.headers.get("retry-after")),
            secrets=(opened.api_key,),
        ) from error
    except openai.APIConnectionError as error:
        large = too_large(error)
        if large is not None:
            raise ModelFailed(Failure.MALFORMED, str(large)) from error
        cause = words(str(error.__cause__ or error))
        raise ModelFailed(Failure.UNREACHABLE, f"the connection failed: {cause}") from error
    return _read(answer)


def _read(answer: Response) -> Completion:
    """The tool's input in a response; raises ModelFailed if the tool was not called."""
    used = answer.usage
    cached = 0 if used is None else used.input_tokens_details.cached_tokens
    usage = Usage() if used is None else Usage(used.input_tokens, used.output_tokens, cached)
    text = "".join(item.input for item in answer.output if item.type == "custom_tool_call")
    output = answer.output_text
    if not text and "refusal" in {
        part.type for item in answer.output if item.type == "message" for part in item.content
    }:
        raise ModelFailed(Failure.REFUSED, "it refuses to answer")
    if not text.strip():
        raise ModelFailed(Failure.EMPTY, f"it called no tool{': ' + words(output) if output else ''}")
    stop = Stop.LENGTH if answer.status == "incomplete" else Stop.END
    return Completion(text, usage, stop, answer.model, constrained=True)


_WITH_GRAMMAR_TOOLS = re.compile(r"gpt-(?:[5-9]|\d\d)")
"""OpenAI's models that support grammars for the input of a tool."""


def open_direct(provider: str, model: str, settings: ModelSettings) -> LanguageModel:
    """The model of a provider; raises CallsheetError (MDL002) if pydantic-ai is not installed."""
    if not model:
        raise ValueError(f"name a model: {provider}:MODEL")
    if find_spec("pydantic_ai") is None:
        message = f"the model {provider}:{model} needs a package that is not installed (pydantic_ai)"
        raise CallsheetError.single("MDL002", message, help="pip install 'callsheet[models]'")
    return DirectModel(provider, model, settings)


class DirectModel:
    """A model of a provider; its key is read from the environment at each call."""

    def __init__(self, provider: str, model: str, settings: ModelSettings) -> None:
        self._provider = provider
        self._model = model
        self._settings = settings

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self._provider}:{self._model}"

    @cached_property
    def _takes(self) -> tuple[Syntax, ...]:
        from pydantic_ai.models import infer_model_profile  # noqa: PLC0415 - only where a model is asked

        by_tool = self._provider == "openai" and _WITH_GRAMMAR_TOOLS.match(self._model) is not None
        try:
            takes_schema = infer_model_profile(self.name).get("supports_json_schema_output", False)
        except ImportError:  # the call itself will report that
            takes_schema = False
        return (*((Syntax.LARK,) if by_tool else ()), *((Syntax.JSON_SCHEMA,) if takes_schema else ()))

    @property
    def accepts(self) -> Sequence[Syntax]:
        """What pydantic-ai's profile of the model supports; for OpenAI's newer models grammars, too."""
        return self._takes

    @property
    def strength(self) -> Strength:
        """That of the settings, else by the size in the model's name, else strong."""
        told = strength_by(parameters_named(self._model))
        return self._settings.stated_strength or told or Strength.STRONG

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Ask once; raises ModelFailed."""
        if constraint is not None and constraint.syntax not in await asyncio.to_thread(lambda: self.accepts):
            raise ValueError(f"{self.name} does not support {constraint.syntax}")
        most = min(max_tokens or self._settings.max_tokens, self._settings.max_tokens)
        with self._failures(constrained=constraint is not None):
            async with bounded_client(bytes_for(most), self._settings.timeout) as client:
                model = await asyncio.to_thread(self._opened, client)  # imports are slow
                began = time.monotonic()
                if constraint is not None and constraint.syntax is Syntax.LARK:
                    own = replace(self._settings, name=self._model)
                    completion = await complete_by_tool(own, messages, constraint, most, client, self._key())
                else:
                    response = await self._asked(model, messages, constraint, most)
                    completion = self._read(response, constrained=constraint is not None)
                usage = replace(completion.usage, seconds=round(time.monotonic() - began, 3))
        cost = self._settings.prices.cost_of(usage)
        return replace(completion, usage=replace(usage, cost=usage.cost if cost is None else cost))

    async def _asked(
        self, model: Model, messages: Messages, constraint: Constraint | None, most: int
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request  # noqa: PLC0415 - as above

        settings = self._settings
        options: RequestSettings = {
            "max_tokens": most,
            "timeout": settings.timeout,
            "request_timeout": settings.timeout,
            "max_retries": 0,
            "cache": {"messages": False},  # rules and tools are the same for every goal
        }
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.seed is not None:
            options["seed"] = settings.seed
        return await model_request(
            model,
            _messages(messages),
            model_settings=options,
            model_request_parameters=_parameters(constraint),
        )

    def _opened(self, client: httpx2.AsyncClient) -> Model:
        """pydantic-ai's model, which uses this HTTP client."""
        from pydantic_ai.models import infer_model  # noqa: PLC0415 - as above
        from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415 - as above

        given: dict[str, Any] = {"http_client": client}
        if self._settings.url:
            given["base_url"] = self._settings.url
        key = self._key()
        if key:
            given["api_key"] = key
        return infer_model(self.name, lambda provider: infer_provider_class(provider)(**given))

    def _key(self) -> str:
        """The key in the configured variable; empty if the provider's default variable is to be used."""
        variable = self._settings.key_env
        key = os.environ.get(variable, "").strip() if variable else ""
        if variable and not key:
            raise ModelFailed(Failure.KEY, f"the environment variable {variable} with its key is not set")
        return key

    def _read(self, response: ModelResponse, *, constrained: bool) -> Completion:
        """The completion in a response; raises ModelFailed if it has no text."""
        reason = response.finish_reason
        text = "".join(_texts(response))
        if reason == "content_filter":
            raise ModelFailed(Failure.REFUSED, f"it refuses: {words(text) or 'a filter blocked its answer'}")
        if not text.strip():
            more = ": raise max_tokens of [model]" if reason == "length" else ""
            raise ModelFailed(Failure.EMPTY, f"its answer is empty{more}")
        used = response.usage
        usage = Usage(
            used.input_tokens, used.output_tokens, used.cache_read_tokens, cost=self._known_cost(response)
        )
        stop = Stop.LENGTH if reason == "length" else Stop.END
        return Completion(text, usage, stop, response.model_name or self._model, constrained=constrained)

    def _known_cost(self, response: ModelResponse) -> float | None:
        """The cost by pydantic-ai's price table; None if it does not have the model."""
        if self._settings.url:
            return None  # the prices of another server are unknown
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):
            return None

    @contextmanager
    def _failures(self, *, constrained: bool) -> Generator[None]:
        """Turns every exception of the libraries used into ModelFailed."""
        try:
            yield
        except ModelFailed:
            raise
        except ImportError as error:
            package = f"pip install 'pydantic-ai-slim[{self._provider}]'"
            raise ModelFailed(Failure.REQUEST, f"its provider needs another package: {package}") from error
        except Exception as error:
            raise _failure(error, constrained, self._settings.timeout, self._secrets()) from error

    def _secrets(self) -> list[str]:
        """Texts that no message may repeat: the values of all variables that look like keys."""
        named = self._settings.key_env
        return [
            value
            for name, value in os.environ.items()
            if value and len(value) > _SHORTEST_KEY and (name == named or name.endswith(("_KEY", "_TOKEN")))
        ]


_SHORTEST_KEY = 5


def _messages(messages: Messages) -> list[ModelMessage]:
    """A conversation in pydantic-ai's types."""
    from pydantic_ai.messages import (  # noqa: PLC0415 - as above
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    history: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        text = message["content"]
        if message["role"] == "assistant":
            history += [ModelRequest(parts=parts), ModelResponse(parts=[TextPart(text)])]
            parts = []
        else:
            parts.append(SystemPromptPart(text) if message["role"] == "system" else UserPromptPart(text))
    return [*history, ModelRequest(parts=parts)]


def _parameters(constraint: Constraint | None) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415 - as above

    if constraint is None:
        return ModelRequestParameters()
    from pydantic_ai.output import OutputObjectDefinition  # noqa: PLC0415 - as above

    schema = schema_of(constraint)
    wanted = OutputObjectDefinition(schema, constraint.name, strict=is_strict(schema))
    return ModelRequestParameters(output_mode="native", output_object=wanted, allow_text_output=True)


def _texts(response: ModelResponse) -> Iterator[str]:
    from pydantic_ai.messages import TextPart  # noqa: PLC0415 - as above

    return (part.content for part in response.parts if isinstance(part, TextPart))


def _failure(error: Exception, constrained: bool, seconds: float, secrets: Sequence[str]) -> ModelFailed:
    """The ModelFailed for an exception of pydantic-ai or of a provider's library."""
    from pydantic_ai import exceptions as wrong  # noqa: PLC0415 - as above

    large = too_large(error)
    if large is not None:
        return ModelFailed(Failure.MALFORMED, str(large))
    message = words(str(error), secrets)
    match error:
        case wrong.ModelHTTPError():
            body = error.body if isinstance(error.body, str) else _json(error.body)
            return refusal(
                error.status_code,
                body,
                constrained=constrained,
                retry_after=error.retry_after,
                secrets=secrets,
            )
        case TimeoutError() | wrong.ModelTimeoutError() | wrong.ModelRequestTimeout():
            return ModelFailed(Failure.TIMEOUT, f"no answer within {seconds:g} s")
        case wrong.ModelConnectionError():
            return ModelFailed(Failure.UNREACHABLE, f"the connection failed: {message}")
        case wrong.ContentFilterError():
            return ModelFailed(Failure.REFUSED, f"it refuses: {message}")
        case wrong.UnexpectedModelBehavior():
            return ModelFailed(Failure.MALFORMED, f"its answer is invalid: {message}")
        case wrong.UserError() if "_KEY" in message or "api_key" in message.lower():
            return ModelFailed(Failure.KEY, message)
        case wrong.ModelAPIError() if isinstance(error.__cause__, ValueError):
            return ModelFailed(Failure.MALFORMED, f"its answer is not JSON: {message}")
        case wrong.ModelAPIError() | wrong.UserError():
            return ModelFailed(Failure.REQUEST, message)
        case _:
            return ModelFailed(Failure.MALFORMED, f"{type(error).__name__}: {message}")


def _json(body: object) -> str:
    import json  # noqa: PLC0415 - only for errors

    return json.dumps(body, default=str) if body is not None else ""
