"""Creates the model for a name: `provider:model`, or the URL of a server.

In: a name and settings. Out: a LanguageModel, or CallsheetError (MDL001, MDL002, CFG016). Nothing is
contacted or started yet. Each provider is one row of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.diagnostics.wrong_type import wanted
from callsheet.ports.models.endpoint import EndpointModel
from callsheet.ports.models.model import Failure, LanguageModel
from callsheet.ports.models.retrying import PatientModel
from callsheet.ports.models.settings import Kind, ModelSettings, is_address

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
    suggestions = did_you_mean(provider, PROVIDERS)
    hint = f"did you mean {' or '.join(f'{name}:' for name in suggestions)}?" if suggestions else _HINT
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
