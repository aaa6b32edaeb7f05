"""Constrains an OpenAI model by a grammar: it must call a tool whose input matches the grammar.

In: a conversation and a Lark grammar. Out: the tool's input as the answer. Uses OpenAI's own library.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from callsheet.ports.models.bounded import too_large
from callsheet.ports.models.failures import refusal, seconds_in, words
from callsheet.ports.models.model import Completion, Constraint, Failure, ModelFailed, Stop, Usage
from callsheet.ports.models.prompts import Messages
from callsheet.ports.models.settings import ModelSettings

if TYPE_CHECKING:
    import httpx2
    from openai.types.responses import Response

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
