"""Creates the model for a name: `provider:model`, or the URL of a server.

In: a name and settings. Out: a LanguageModel, or CallsheetError (MDL001, MDL002, CFG016). Nothing is
contacted or started yet. Each provider is one row of a table.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from callsheet.diagnostics import CallsheetError, meant
from callsheet.diagnostics.wrong_type import wanted
from callsheet.ports.models.endpoint import EndpointModel
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Strength,
    Syntax,
    context_of,
    identify,
    strength_of,
)
from callsheet.ports.models.prompts import Messages
from callsheet.ports.models.settings import Kind, ModelSettings, is_address

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0
"""Seconds; if a provider asks for a longer wait, there is no retry."""
_PASSING = frozenset({Failure.LIMITED, Failure.TIMEOUT, Failure.UNREACHABLE, Failure.OVERLOADED})
_ONCE_MORE = frozenset({Failure.EMPTY, Failure.MALFORMED, Failure.TIMEOUT})
"""Failures that are retried only once, since each attempt may cost as much as an answer."""

Sleep = Callable[[float], Awaitable[None]]


class PatientModel:
    """A model with up to `retries` retries, with growing waits between them.

    A provider's `Retry-After` is respected up to a minute. A constraint that the provider refuses is left
    out, now and for the life of this object: the answer is then free text, and `Completion.constrained` is
    False. If `leaves_out` is False, a refusal is a failure of that one call. `worth` are the failures to
    retry; None means all temporary failures of providers.
    """

    def __init__(
        self,
        model: LanguageModel,
        retries: int = 3,
        *,
        worth: Collection[Failure] | None = None,
        leaves_out: bool = True,
        sleep: Sleep = asyncio.sleep,
        first: float = _FIRST_WAIT,
    ) -> None:
        self._model = model
        self._retries = retries
        self._worth = _PASSING | _ONCE_MORE if worth is None else frozenset(worth)
        self._leaves_out = leaves_out
        self._sleep = sleep
        self._first = first
        self._refused: frozenset[Syntax] = frozenset()

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.name

    @property
    def accepts(self) -> Sequence[Syntax]:
        """What the model supports, without what its provider has refused."""
        return tuple(syntax for syntax in self._model.accepts if syntax not in self._refused)

    @property
    def strength(self) -> Strength:
        """The model's own strength."""
        return strength_of(self._model)

    @property
    def context(self) -> int | None:
        """The model's own context."""
        return context_of(self._model)

    async def identify(self) -> None:
        """Have the model find out what it is."""
        await identify(self._model)

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Ask until there is an answer or no retry is left; raises the ModelFailed of the last attempt."""
        if constraint is not None and constraint.syntax not in self._model.accepts:
            raise ValueError(f"{self.name} does not support {constraint.syntax}")
        if constraint is not None and constraint.syntax not in self.accepts:
            constraint = None
        began, tries, again = time.monotonic(), 0, 0
        while True:
            tries += 1
            try:
                answer = await self._model.complete(messages, constraint, max_tokens=max_tokens)
            except ModelFailed as error:
                if error.kind is Failure.CONSTRAINT and constraint is not None and self._leaves_out:
                    self._refused |= {constraint.syntax}
                    constraint = None
                    continue
                wait = self._wait(error, again)
                if wait is None:
                    raise self._after(error, tries) from error
                again += 1
                await self._sleep(wait)
            else:
                seconds = round(time.monotonic() - began, 3)
                return replace(answer, usage=replace(answer.usage, seconds=seconds, tries=tries))

    def _wait(self, error: ModelFailed, again: int) -> float | None:
        """Seconds to wait before the next attempt; None if there is none."""
        most = min(1, self._retries) if error.kind in _ONCE_MORE else self._retries
        if error.kind not in self._worth or again >= most:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= _LONGEST_WAIT else None
        wait = min(self._first * 2**again, _LONGEST_WAIT)
        return wait * random.uniform(0.75, 1.25)

    def _after(self, error: ModelFailed, tries: int) -> ModelFailed:
        """The failure of the last attempt, with the number of attempts and the requested wait in its text."""
        message = str(error)
        if tries > 1:
            message += f" (asked {tries} times)"
        waits = error.retry_after
        if waits is not None and _LONGEST_WAIT < waits < math.inf:
            message += f"; it asks to wait {waits:,.0f} s"
        return ModelFailed(error.kind, message, retry_after=waits, model=self.name)


Opener: TypeAlias = Callable[[str, ModelSettings], LanguageModel]
"""Creates a provider's model from the text after `provider:` and the settings."""


def open_model(spec: str, settings: ModelSettings | None = None) -> LanguageModel:
    """The model that `spec` names; if that is empty, the one in the settings.

    `spec` is `provider:model` (`openai:…`, `anthropic:…`, `ollama:…`), or the URL of a server with OpenAI's
    chat completions API, followed by `#` and the model's name if the server needs one. Raises CallsheetError:
    MDL001 for an unknown provider, MDL002 if a package is missing, CFG016 for an invalid URL.

    >>> open_model("http://127.0.0.1:8080/v1#small").name
    'http://127.0.0.1:8080/v1#small'
    """
    wanted("spec", spec, str, "the name of a model")
    if settings is not None:
        wanted("settings", settings, ModelSettings, "ModelSettings(…)")
    try:
        chosen = (settings or ModelSettings()).naming(spec)
    except ValueError as error:
        raise CallsheetError.single("CFG016", f"the model's address: {error}", help=_HINT) from error
    named = chosen.model or chosen.url
    if not named:
        raise CallsheetError.single("MDL001", "no model is named", help=_HINT)
    provider, colon, model = named.partition(":")
    try:
        if is_address(named):
            return _server_model(named, chosen)
        if colon and provider in PROVIDERS:
            return PROVIDERS[provider](model, chosen)
    except ValueError as error:
        raise CallsheetError.single("CFG016", f"the model {named[:200]}: {error}", help=_HINT) from error
    raise _unknown(named, provider)


_HINT = (
    "name it as `provider:model` or by the address of its server, with --model, in CALLSHEET_MODEL or in"
    " [model] of config.toml"
)


def _unknown(named: str, provider: str) -> CallsheetError:
    hint = meant(provider, PROVIDERS, _HINT, "{}:")
    return CallsheetError.single("MDL001", f"no model provider is called {named[:200]!r}", help=hint)


def _server_model(address: str, settings: ModelSettings, spec: str = "") -> LanguageModel:
    """The model of a server with OpenAI's chat completions API."""
    url, _, name = address.partition("#")
    own = replace(settings, model="", url=url, name=name or settings.name)
    return PatientModel(EndpointModel(own, spec), own.retries)


def _served_by(kind: Kind, url: str) -> Opener:
    """Opener for servers of one kind, by default at their usual URL on this machine."""

    def opened(model: str, settings: ModelSettings) -> LanguageModel:
        own = replace(settings, kind=kind, name=model)
        return _server_model(settings.url or url, own, f"{kind}:{model}")

    return opened


def _direct(provider: str) -> Opener:
    """Opener for a provider that pydantic-ai supports."""

    def opened(model: str, settings: ModelSettings) -> LanguageModel:
        from callsheet.ports.models.direct import open_direct  # noqa: PLC0415 - only where one is named

        return PatientModel(open_direct(provider, model, settings), settings.retries)

    return opened


_DIRECT = (
    *("openai", "openai-chat", "anthropic", "google", "azure", "bedrock", "cerebras", "cohere", "deepseek"),
    *("fireworks", "groq", "huggingface", "mistral", "moonshotai", "openrouter", "together", "xai"),
)
"""Providers that pydantic-ai supports; some need a further package besides the extra."""


def _on_this_machine(model: str, settings: ModelSettings) -> LanguageModel:
    """A model file, run in a child process; settings that are not given have the defaults of local models.

    It is retried once if the process died, since it is then restarted. Other failures would recur, because
    answers are deterministic, unless a temperature is set. It supports every constraint syntax, so a refusal
    concerns one grammar and the constraint must not be dropped for later calls.
    """
    from callsheet.ports.models.local import LocalSettings, open_local  # noqa: PLC0415 - where it is wished

    usual = LocalSettings()
    is_set = settings.max_tokens != ModelSettings().max_tokens
    own = LocalSettings(
        timeout=settings.timeout,
        max_tokens=settings.max_tokens if is_set else usual.max_tokens,
        temperature=usual.temperature if settings.temperature is None else settings.temperature,
        seed=usual.seed if settings.seed is None else settings.seed,
        strength=settings.stated_strength,
    )
    worth = {Failure.UNREACHABLE, *((Failure.EMPTY, Failure.MALFORMED) if own.temperature > 0 else ())}
    return PatientModel(open_local(model, own), min(1, settings.retries), worth=worth, leaves_out=False)


PROVIDERS: Mapping[str, Opener] = {
    "local": _on_this_machine,
    "llama.cpp": _served_by("llama.cpp", "http://127.0.0.1:8080/v1"),
    "ollama": _served_by("ollama", "http://127.0.0.1:11434/v1"),
    "vllm": _served_by("vllm", "http://127.0.0.1:8000/v1"),
    **{provider: _direct(provider) for provider in _DIRECT},
}
"""The openers by provider name (the part before the colon)."""


_MOST_TOKENS = 1_024
"""Enough for models that reason before they answer; others need three."""
_ASK: Messages = [{"role": "user", "content": "Answer with the one word: ready"}]
_HELD: Messages = [{"role": "user", "content": "Name a colour."}]
"""A question whose unconstrained answer violates the constraints below."""
_WORD = "xyzzy-17"
_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": [_WORD]}},
    "required": ["word"],
    "additionalProperties": False,
}
_TEXTS = {
    Syntax.LARK: f'start: "{_WORD}"',
    Syntax.GBNF: f'root ::= "{_WORD}"',
    Syntax.JSON_SCHEMA: json.dumps(_SCHEMA),
}


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The result: the answer, the constraints that work, and those that do not, with the reason."""

    answer: Completion
    kept: tuple[Syntax, ...]
    broken: tuple[tuple[Syntax, str], ...]


async def try_model(model: LanguageModel) -> SelfTest:
    """Test a model; raises ModelFailed if it does not answer even without a constraint."""
    answer = await model.complete(_ASK, max_tokens=_MOST_TOKENS)
    syntaxes: list[Syntax] = []
    broken: list[tuple[Syntax, str]] = []
    for syntax in tuple(model.accepts):
        why = await _broken(model, syntax)
        if why is None:
            syntaxes.append(syntax)
        else:
            broken.append((syntax, why))
    return SelfTest(answer, tuple(syntaxes), tuple(broken))


async def _broken(model: LanguageModel, syntax: Syntax) -> str | None:
    """Why a constraint syntax does not work with a model; None if it does."""
    constraint = Constraint(syntax, _TEXTS[syntax], "colour")
    try:
        completion = await model.complete(_HELD, constraint, max_tokens=_MOST_TOKENS)
    except ModelFailed as error:
        return str(error)
    if not completion.constrained:
        return "its provider refuses it"
    return None if _is_held(completion.text, syntax) else "its answer does not follow it"


def _is_held(text: str, syntax: Syntax) -> bool:
    if syntax is not Syntax.JSON_SCHEMA:
        return text.strip() == _WORD
    try:
        return json.loads(text) == {"word": _WORD}
    except ValueError:
        return False
