"""A model behind an HTTP endpoint that speaks OpenAI's chat completions, local servers among them.

In: a conversation. Out: the answer with the tokens that it took, or ModelUnreachable. The key is read
from the environment when a call is made and stands in no message and in no journal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, cast

from callsheet.ports.models.operations import ModelAnswer
from callsheet.ports.models.prompts import Messages

_MOST_BYTES = 20_000_000
_EXCERPT = 300


class ModelUnreachable(Exception):
    """The model gave no answer; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The table `[model]`: which model answers.

    `url` is what stands before `/chat/completions`, `name` the model's name there, `key_env` the
    environment variable with the key, `timeout` the seconds for one answer.
    """

    url: str = ""
    name: str = ""
    key_env: str = ""
    timeout: float = 300.0

    @property
    def is_set(self) -> bool:
        """Whether there is a model."""
        return bool(self.url)


async def complete(settings: ModelSettings, messages: Messages) -> ModelAnswer:
    """Ask the model to go on with a conversation; raises ModelUnreachable."""
    import httpx2  # noqa: PLC0415 - only where a model is asked

    headers: dict[str, str] = {}
    if settings.key_env:
        key = os.environ.get(settings.key_env)
        if not key:
            raise ModelUnreachable(f"the environment variable {settings.key_env} with its key is not set")
        headers["Authorization"] = f"Bearer {key}"
    address = f"{settings.url.rstrip('/')}/chat/completions"
    body = {"model": settings.name, "messages": messages}
    try:
        async with httpx2.AsyncClient(timeout=settings.timeout, trust_env=False) as client:
            answer = await client.post(address, json=body, headers=headers)
            if len(answer.content) > _MOST_BYTES:
                raise ModelUnreachable("its answer is larger than 20 MB")
            if answer.status_code >= 400:
                said = " ".join(answer.text.split())[:_EXCERPT]
                raise ModelUnreachable(f"it answered with status {answer.status_code}: {said}")
            return _read(answer.json())
    except httpx2.InvalidURL as error:
        raise ModelUnreachable(f"{settings.url!r} is no address: {error}") from error
    except httpx2.HTTPError as error:
        raise ModelUnreachable(str(error) or type(error).__name__) from error
    except ValueError as error:
        raise ModelUnreachable(f"its answer is not JSON: {error}") from error


def _read(data: Any) -> ModelAnswer:
    """The answer in a chat completion."""
    try:
        text = data["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise ModelUnreachable(f"its answer is no chat completion: {error!r}") from error
    if not isinstance(text, str):
        raise ModelUnreachable("its answer has no text")
    usage = cast("dict[str, Any]", data.get("usage") or {})
    return ModelAnswer(text, _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
