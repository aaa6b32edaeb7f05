"""A model behind an HTTP endpoint with OpenAI's chat completions API, such as a local server.

In: a conversation. Out: a Completion, or ModelFailed. One request per call; the key is read from the
environment for each call and appears in no message and no journal.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callsheet.ports.models.bounded import TooLarge, bounded_client, bytes_for
from callsheet.ports.models.chat import read_completion
from callsheet.ports.models.constraints import fields_for, supported_syntaxes
from callsheet.ports.models.failures import refusal, seconds_in, words
from callsheet.ports.models.model import Completion, Constraint, Failure, ModelFailed, Strength, Syntax, Usage
from callsheet.ports.models.prompts import Messages
from callsheet.ports.models.settings import ModelSettings
from callsheet.ports.urls import server_host

_OPENAI = "api.openai.com"


class EndpointModel:
    """The model of a server, given by `url`, `name`, `kind` and key in the settings.

    `spec` is how it was named, by default the URL and the model's name. Raises ValueError if the URL is not
    that of a server.
    """

    def __init__(self, settings: ModelSettings, spec: str = "") -> None:
        try:
            self._host = server_host(settings.url)
        except ValueError as error:
            raise ValueError(f"{settings.url!r} is not the address of a server: {error}") from None
        self._settings = settings
        self._spec = spec or settings.spec
        self._address = f"{settings.url.partition('#')[0].rstrip('/')}/chat/completions"

    @property
    def name(self) -> str:
        """How the model was named."""
        return self._spec

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraint syntaxes that this kind of server supports."""
        return supported_syntaxes(self._settings.kind, llguidance=self._settings.llguidance)

    @property
    def strength(self) -> Strength:
        """That of the settings, otherwise strong: what serves a model does not tell its size."""
        return self._settings.stated_strength or Strength.STRONG

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Ask once; raises ModelFailed."""
        most = min(max_tokens or self._settings.max_tokens, self._settings.max_tokens)
        body = self._body(messages, constraint, most)
        began = time.monotonic()
        status, text, waits = await self._post(body, most)
        if status >= 400:
            raise refusal(
                status,
                text,
                constrained=constraint is not None,
                retry_after=seconds_in(waits),
                secrets=(self._key(),),
            )
        if status >= 300:
            raise ModelFailed(Failure.REQUEST, f"it answered with status {status}, a redirect")
        seconds = round(time.monotonic() - began, 3)
        completion = read_completion(
            text, seconds, constrained=constraint is not None, secrets=(self._key(),)
        )
        priced = replace(completion.usage, cost=self._cost_of(completion.usage))
        return replace(completion, usage=priced, model=completion.model or self._settings.name)

    def _cost_of(self, usage: Usage) -> float | None:
        return self._settings.prices.cost_of(usage) if usage.input_tokens or usage.output_tokens else None

    def _key(self) -> str:
        """The key, empty if none is configured; raises ModelFailed if its variable is not set."""
        variable = self._settings.key_env
        if not variable:
            return ""
        key = os.environ.get(variable, "").strip()
        if not key:
            raise ModelFailed(Failure.KEY, f"the environment variable {variable} with its key is not set")
        return key

    def _body(self, messages: Messages, constraint: Constraint | None, most: int) -> dict[str, Any]:
        settings = self._settings
        limit = "max_completion_tokens" if self._host == _OPENAI else "max_tokens"
        body: dict[str, Any] = {"messages": messages, limit: most, "stream": False}
        if settings.name:
            body["model"] = settings.name
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.seed is not None:
            body["seed"] = settings.seed
        if constraint is not None:
            if constraint.syntax not in self.accepts:
                raise ValueError(f"{self.name} does not support {constraint.syntax}")
            body |= fields_for(constraint, settings.kind)
        return body

    async def _post(self, body: dict[str, Any], most: int) -> tuple[int, str, str | None]:
        """The status, text and Retry-After header of the response."""
        import httpx2  # noqa: PLC0415 - only where a model is asked

        key = self._key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = self._settings.timeout
        try:
            async with (
                asyncio.timeout(timeout),
                bounded_client(bytes_for(most), timeout, trust_env=False) as client,
            ):
                answer = await client.post(self._address, json=body, headers=headers)
                return answer.status_code, answer.text, answer.headers.get("retry-after")
        except TooLarge as error:
            raise ModelFailed(Failure.MALFORMED, str(error)) from error
        except httpx2.ConnectTimeout as error:
            raise ModelFailed(Failure.UNREACHABLE, "the connection is not accepted") from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise ModelFailed(Failure.TIMEOUT, f"no answer within {timeout:g} s") from error
        except httpx2.ConnectError as error:
            message = words(str(error)) or "nothing listens there"
            raise ModelFailed(Failure.UNREACHABLE, f"it cannot be reached: {message}") from error
        except httpx2.DecodingError as error:
            raise ModelFailed(Failure.MALFORMED, "its answer cannot be unpacked") from error
        except httpx2.HTTPError as error:
            message = words(str(error)) or type(error).__name__
            raise ModelFailed(Failure.UNREACHABLE, f"the connection broke: {message}") from error
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise ModelFailed(
                Failure.REQUEST, f"{self._settings.url!r} is not an address: {error}"
            ) from error
