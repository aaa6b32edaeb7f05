"""The settings of the table `[model]`: which model is used, with which limits, and its prices.

Pure. They name the environment variable of a key and never contain a key, so they may be journaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from callsheet.diagnostics.wrong_type import check_fields
from callsheet.lazy import dataclass
from callsheet.ports.models.model import Strength, Usage

VARIABLE = "CALLSHEET_MODEL"
"""The environment variable that names the model instead of `[model]`, as `--model` does."""

Kind: TypeAlias = Literal["openai", "llama.cpp", "vllm", "ollama"]
"""The kind of server with OpenAI's chat completions API; decides which constraints are sent, and how."""

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrices:
    """Prices of a million tokens in US dollars; None if unknown.

    `input` is for tokens read, `cached` for those of them that were in the provider's cache (by default as
    `input`), `output` for tokens written.
    """

    input: float | None = None
    cached: float | None = None
    output: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def cost_of(self, usage: Usage) -> float | None:
        """The cost of an answer in US dollars; None if a price that it needs is unknown.

        >>> ModelPrices(input=1.0, cached=0.1, output=4.0).cost_of(Usage(1_000_000, 500_000, 400_000))
        2.64
        >>> ModelPrices(input=1.0).cost_of(Usage(10, 20)) is None
        True
        """
        if self.input is None or self.output is None:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        of_cache = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - cached
        return (fresh * self.input + cached * of_cache + usage.output_tokens * self.output) / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The table `[model]`: which model answers, and how it is asked.

    - `model` is `provider:model`. `url` is what stands before `/chat/completions` of a server that speaks
      OpenAI's chat completions, `name` the model's name there, `kind` what serves it; beside `model`, `url`
      is where that provider is reached.
    - `key_env` is the environment variable with the key, by default the provider's own.
    - `timeout` is in seconds, for one try; `retries` says how often a try that failed for a passing reason
      is made again.
    - `max_tokens` bounds every answer. `temperature` and `seed` are sent where they are given.
    - `llguidance` says that a llama.cpp server was built with llguidance and takes its grammars: one that
      was not ends when it is sent one.
    - `strength` is `"small"` for a model of less than about five billion parameters: it is told about fewer
      tools. None judges by the size of a file, by what the server tells, and by the size in the model's name.
    - `prices` are used in place of known ones.

    Raises ValueError for an address with a key or a password in it.
    """

    model: str = ""
    url: str = ""
    name: str = ""
    kind: Kind = "openai"
    key_env: str = ""
    timeout: float = 300.0
    retries: int = 3
    max_tokens: int = 8_192
    temperature: float | None = None
    seed: int | None = None
    llguidance: bool = False
    strength: Literal["small", "strong"] | None = None
    prices: ModelPrices = field(default_factory=ModelPrices)

    def __post_init__(self) -> None:
        check_fields(self, positive=("timeout", "max_tokens"), signed=("seed",))
        for address in (self.url, self.model if is_address(self.model) else ""):
            if has_secret(address):
                raise ValueError(
                    "an address must not contain a key or password: name its environment variable in key_env"
                )

    @property
    def stated_strength(self) -> Strength | None:
        """The strength that the settings state, None if they state none."""
        return None if self.strength is None else Strength(self.strength)

    @property
    def is_set(self) -> bool:
        """Whether a model is configured."""
        return bool(self.url or self.model)

    @property
    def spec(self) -> str:
        """The model in the form that `--model` takes; empty if there is none."""
        return self.model or (f"{self.url}#{self.name}" if self.name else self.url)

    def naming(self, spec: str) -> ModelSettings:
        """The settings for a differently named model, without what belongs to the configured one alone."""
        if not spec or spec in (self.spec, self.model):
            return self
        own = ModelSettings()
        if spec.partition("#")[0] == self.url and not self.model:
            return replace(self, name=spec.partition("#")[2] or self.name)
        return replace(
            self,
            model=spec,
            url="",
            name="",
            kind=own.kind,
            key_env="",
            llguidance=False,
            strength=None,
            prices=own.prices,
        )


def is_address(spec: str) -> bool:
    """Whether a model is given by the URL of its server."""
    return spec.startswith(("http://", "https://"))


def has_secret(address: str) -> bool:
    """Whether a URL contains a user, a password or a query, and so perhaps a key.

    >>> has_secret("http://me:pw@host/v1"), has_secret("https://host/v1?key=1"), has_secret("http://host/v1#m")
    (True, True, False)
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.username or parts.password or parts.query)


def named_model(given: str, environ: Mapping[str, str]) -> str:
    """The model named for this command: by its option, else by the environment, else empty."""
    return given or environ.get(VARIABLE, "")
