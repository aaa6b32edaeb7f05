"""A model behind an HTTP endpoint with OpenAI's chat completions API, and a client that bounds responses.

In: a conversation. Out: a Completion, or ModelFailed. One request per call; the key is read from the
environment for each call and appears in no message and no journal. httpx2 is imported at first use.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    ModelFailed,
    Stop,
    Strength,
    Syntax,
    Usage,
    count_in,
    message_in,
    refusal,
    seconds_in,
    words,
)
from callsheet.ports.models.prompts import Messages
from callsheet.ports.models.served_model import (
    ServedModel,
    is_own_server,
    parameters_named,
    served_model,
    strength_by,
)
from callsheet.ports.models.settings import Kind, ModelSettings
from callsheet.ports.urls import server_host

if TYPE_CHECKING:
    import httpx2


_BYTES_A_TOKEN = 24
_BYTES_BESIDE = 65_536
"""The most bytes of a response: so many per requested token, and a fixed amount for the rest."""
_CONNECTING = 10.0
"""Seconds to wait for a connection."""
_BYTES_OF_LIST, _TELLING = 1 << 20, 5.0
"""The most bytes of a list of models, and the most seconds to wait for one."""


class TooLarge(Exception):
    """A response is larger than allowed, or compressed in an unknown way."""


def bytes_for(tokens: int) -> int:
    """The most bytes of the response to a request for so many tokens."""
    return _BYTES_BESIDE + _BYTES_A_TOKEN * tokens


@asynccontextmanager
async def bounded_client(
    most: int, seconds: float, *, trust_env: bool = True
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client whose responses raise TooLarge after `most` bytes; it waits up to `seconds` for each part.

    It asks for no compression; if a response is compressed anyway, its decompressed size counts. `trust_env`
    lets the environment configure a proxy.
    """
    import httpx2  # noqa: PLC0415 - only where a model is asked

    class Bounded(httpx2.AsyncByteStream):
        """The body of a response, decompressed and counted."""

        def __init__(self, stream: httpx2.AsyncByteStream, packed: str) -> None:
            self._stream = stream
            self._packed = packed

        async def __aiter__(self) -> AsyncIterator[bytes]:
            count, unpacked = 0, unpacking(self._packed, most)
            async for part in self._stream:
                chunk = unpacked(part)
                count += len(chunk)
                if count > most:
                    raise TooLarge(f"its answer is larger than {most:,} bytes, more than was requested")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        packed = response.headers.pop("content-encoding", "").strip().lower()
        response.stream = Bounded(response.stream, packed)

    limits = httpx2.Timeout(seconds, connect=min(seconds, _CONNECTING))
    hooks = {"response": [bound]}
    headers = {"Accept-Encoding": "identity"}
    async with httpx2.AsyncClient(
        timeout=limits, trust_env=trust_env, event_hooks=hooks, headers=headers
    ) as client:
        yield client


def unpacking(packed: str, most: int) -> Callable[[bytes], bytes]:
    """A function that decompresses parts of a body, each to at most `most` + 1 bytes; raises TooLarge.

    >>> unpacking("gzip", 3)(zlib.compress(b"a" * 9, wbits=31)), unpacking("", 3)(b"abc")
    (b'aaaa', b'abc')
    """
    if packed in ("", "identity"):
        return lambda part: part
    if packed not in _UNPACKED:
        raise TooLarge(f"its answer is compressed ({packed[:20]!r}), which was not requested")
    decompressor = zlib.decompressobj(_ANY_HEADER)

    def unpack(part: bytes) -> bytes:
        try:
            return decompressor.decompress(part, most + 1)
        except zlib.error as error:
            raise TooLarge(f"its answer is declared to be compressed ({packed}), but is not") from error

    return unpack


_UNPACKED = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_HEADER = 47  # zlib detects a gzip or zlib header


def too_large(error: BaseException) -> TooLarge | None:
    """The TooLarge among the causes of an error, None if there is none."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, TooLarge):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


_Table: TypeAlias = "dict[str, Any]"


def read_completion(text: str, seconds: float, *, constrained: bool, secrets: Sequence[str]) -> Completion:
    """Parses a chat completion; raises ModelFailed.

    `seconds` is how long the request took, `constrained` whether the answer was constrained, `secrets` are
    texts that no message may repeat.
    """
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        output = words(text, secrets) or "nothing at all"
        raise ModelFailed(Failure.MALFORMED, f"its answer is not JSON: {output}") from None
    table = _table(data)
    if "choices" not in table and message_in(table):  # some servers report errors with the status 200
        code = count_in(_table(table.get("error")).get("code"))
        if code >= 400:
            raise refusal(code, text, constrained=constrained, secrets=secrets)
        raise ModelFailed(
            Failure.MALFORMED, f"it answered with an error: {words(message_in(table), secrets)}"
        )
    try:
        choice: _Table = table["choices"][0]
        message: _Table = choice["message"]
        output = _content(message.get("content"))
        declined, reason = message.get("refusal"), choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelFailed(Failure.MALFORMED, f"its answer is not a chat completion: {error!r}") from error
    if declined or reason == "content_filter":
        why = words(declined, secrets) if isinstance(declined, str) else "a filter blocked its answer"
        raise ModelFailed(Failure.REFUSED, f"it refuses: {why}")
    if not output.strip():
        raise ModelFailed(Failure.EMPTY, _why_empty(message, reason))
    name = table.get("model")
    return Completion(
        output,
        _usage(table, seconds),
        Stop.LENGTH if reason == "length" else Stop.END,
        name if isinstance(name, str) else "",
        constrained=constrained,
    )


def _table(given: object) -> _Table:
    """The value if it is a JSON object, else an empty object."""
    return cast("_Table", given) if isinstance(given, dict) else {}


def _content(given: object) -> str:
    """The text of a message: a string, or the text parts of a list; raises TypeError otherwise."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        parts = cast("list[_Table]", given)
        return "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
    raise TypeError(f"the content is a {type(given).__name__}")


def _why_empty(message: _Table, reason: object) -> str:
    if message.get("tool_calls"):
        return "it called a tool instead of answering"
    if reason == "length":
        return "it used all its tokens before it came to an answer: raise max_tokens of [model]"
    return "its answer is empty"


def _usage(data: _Table, seconds: float) -> Usage:
    """The usage reported in the response; zero where nothing is reported."""
    used = _table(data.get("usage"))
    read = count_in(used.get("prompt_tokens"))
    cached = count_in(_table(used.get("prompt_tokens_details")).get("cached_tokens"))
    if not cached:  # llama.cpp reports it here
        cached = count_in(_table(data.get("timings")).get("cache_n"))
    return Usage(read, count_in(used.get("completion_tokens")), min(cached, read), seconds=seconds)


_TAKEN: dict[Kind, tuple[Syntax, ...]] = {
    "openai": (Syntax.JSON_SCHEMA,),
    "llama.cpp": (Syntax.GBNF, Syntax.JSON_SCHEMA),
    "vllm": (Syntax.GBNF, Syntax.LARK, Syntax.JSON_SCHEMA),
    "ollama": (Syntax.JSON_SCHEMA,),
}
_LLGUIDANCE = "%llguidance"


def supported_syntaxes(kind: Kind, *, llguidance: bool = False) -> tuple[Syntax, ...]:
    """The constraint syntaxes that a kind of server supports, the best first.

    A llama.cpp server supports Lark only if it was built with llguidance; otherwise it would crash.
    """
    more = (Syntax.LARK,) if kind == "llama.cpp" and llguidance else ()
    return (*more, *_TAKEN[kind])


def fields_for(constraint: Constraint, kind: Kind) -> dict[str, Any]:
    """The request fields for a constraint.

    Raises ValueError for a schema that is not a JSON object, and for a constraint that this kind of server
    does not support.
    """
    if constraint.syntax is Syntax.JSON_SCHEMA:
        schema = schema_of(constraint)
        if kind == "llama.cpp":
            return {"json_schema": schema}
        if kind == "vllm":
            return {"structured_outputs": {"json": schema}}
        named = {"name": constraint.name, "schema": schema, "strict": is_strict(schema)}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if kind == "llama.cpp":
        is_lark = constraint.syntax is Syntax.LARK
        return {"grammar": with_mark(constraint.text) if is_lark else constraint.text}
    if kind == "vllm":
        return {"structured_outputs": {"grammar": constraint.text}}
    raise ValueError(f"{kind} does not support {constraint.syntax}")


def with_mark(lark: str) -> str:
    """An llguidance grammar with the first line by which llama.cpp recognises it."""
    return lark if lark.lstrip().startswith(_LLGUIDANCE) else f"{_LLGUIDANCE} {{}}\n{lark}"


def schema_of(constraint: Constraint) -> dict[str, Any]:
    """The schema of a constraint as data; raises ValueError if it is not a JSON object."""
    schema: object = json.loads(constraint.text)
    if not isinstance(schema, dict):
        raise ValueError("a JSON schema is an object")
    return cast("dict[str, Any]", schema)


def is_strict(schema: object) -> bool:
    """Whether providers accept the schema in strict mode.

    That is: every object in it requires all of its properties and allows no others.

    >>> is_strict({"properties": {"a": {}}, "required": ["a"], "additionalProperties": False})
    True
    >>> is_strict({"type": "object", "properties": {"a": {}}})
    False
    """
    if isinstance(schema, list):
        return all(is_strict(item) for item in cast("list[object]", schema))
    if not isinstance(schema, Mapping):
        return True
    table = cast("Mapping[str, Any]", schema)
    if table.get("type") == "object" or "properties" in table:
        names = cast("Mapping[str, Any]", table.get("properties") or {})
        required = cast("list[str]", table.get("required") or [])
        if table.get("additionalProperties") is not False or set(required) != set(names):
            return False
    return all(is_strict(item) for item in table.values())


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
        self._address = settings.url.partition("#")[0].rstrip("/")
        self._served: ServedModel | None = None

    @property
    def name(self) -> str:
        """How the model was named."""
        return self._spec

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraint syntaxes that this kind of server supports."""
        return supported_syntaxes(self._kind, llguidance=self._settings.llguidance)

    @property
    def strength(self) -> Strength:
        """That of the settings, else by the size that the server or the model's name tells, else strong."""
        served = self._served or ServedModel()
        told = strength_by(served.parameters or parameters_named(self._settings.name))
        return self._settings.stated_strength or told or Strength.STRONG

    @property
    def context(self) -> int | None:
        """The tokens of a conversation with its answer, as far as the server told them."""
        return self._served.context or None if self._served is not None else None

    @property
    def _kind(self) -> Kind:
        """The kind of server: what the settings say, or what a server says of which they say nothing."""
        told = None if self._served is None else self._served.kind
        return self._settings.kind if self._settings.kind != "openai" else told or "openai"

    async def identify(self) -> None:
        """Ask a server of the user's own what it serves, before its first answer: see `served_model`.

        It costs one request to this machine or network. A server that does not tell, or not in time, is taken
        as the settings say; one that is not up yet is asked again.
        """
        if self._served is not None:
            return
        if not is_own_server(self._host):
            self._served = ServedModel()
            return
        try:
            status, text, _ = await self._send("GET", "/models", None, _BYTES_OF_LIST, _TELLING)
        except ModelFailed as error:
            self._served = None if error.kind is Failure.UNREACHABLE else ServedModel()
            return
        if status >= 500:
            return
        self._served = ServedModel()
        with suppress(ValueError, RecursionError):
            self._served = served_model(json.loads(text), self._settings.name)

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Ask once; raises ModelFailed."""
        await self.identify()
        most = min(max_tokens or self._settings.max_tokens, self._settings.max_tokens)
        body = self._body(messages, constraint, most)
        began = time.monotonic()
        timeout = self._settings.timeout
        status, text, waits = await self._send("POST", "/chat/completions", body, bytes_for(most), timeout)
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
        elif is_own_server(self._host) and self.strength is Strength.SMALL:
            body["temperature"] = 0.0
        if settings.seed is not None:
            body["seed"] = settings.seed
        if constraint is not None:
            if constraint.syntax not in self.accepts:
                raise ValueError(f"{self.name} does not support {constraint.syntax}")
            body |= fields_for(constraint, self._kind)
        return body

    async def _send(
        self, method: str, path: str, body: dict[str, Any] | None, most: int, seconds: float
    ) -> tuple[int, str, str | None]:
        """The status, text and Retry-After header of the response, which has at most so many bytes."""
        import httpx2  # noqa: PLC0415 - only where a model is asked

        key = self._key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            async with (
                asyncio.timeout(seconds),
                bounded_client(most, seconds, trust_env=False) as client,
            ):
                answer = await client.request(method, f"{self._address}{path}", json=body, headers=headers)
                return answer.status_code, answer.text, answer.headers.get("retry-after")
        except TooLarge as error:
            raise ModelFailed(Failure.MALFORMED, str(error)) from error
        except httpx2.ConnectTimeout as error:
            raise ModelFailed(Failure.UNREACHABLE, "the connection is not accepted") from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise ModelFailed(Failure.TIMEOUT, f"no answer within {seconds:g} s") from error
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
