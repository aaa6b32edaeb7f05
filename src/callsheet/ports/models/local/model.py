"""`local:NAME` and `local:/path/model.gguf`: a language model in a child process on this machine.

In: a conversation, and optionally a constraint. Out: a Completion, or ModelFailed. Answers are
deterministic by default. The prefix that a conversation shares with the previous one is not evaluated
again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import check_fields
from callsheet.ports.models.local.catalogue import find, has_library, read_gguf
from callsheet.ports.models.local.server import (
    Running,
    Server,
    ServerFailed,
    Serving,
    cut_back,
    server_for,
    threads_now,
)
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
)
from callsheet.ports.models.prompts import Messages

_EXCERPT = 300
_TOO_LONG = "exceed_context_size_error"
_OF_GRAMMARS = ("grammar", "sampler", "schema", "unable to generate parser")


def completion(text: str, seconds: float, model: str) -> Completion:
    """The completion in the body of a successful response; raises ModelFailed (MALFORMED, EMPTY)."""
    try:
        data: Any = json.loads(text)
        choice = data["choices"][0]
        content: Any = choice["message"].get("content")
        usage = cast("dict[str, Any]", data.get("usage") or {})
        details = cast("dict[str, Any]", usage.get("prompt_tokens_details") or {})
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFailed(Failure.MALFORMED, f"{model}: its answer is not a chat completion") from error
    if content is not None and not isinstance(content, str):
        raise ModelFailed(Failure.MALFORMED, f"{model}: its answer is not text")
    if not content or not content.strip():
        raise ModelFailed(Failure.EMPTY, f"{model} returned an empty answer")
    return Completion(
        content,
        Usage(
            input_tokens=count_in(usage.get("prompt_tokens")),
            output_tokens=count_in(usage.get("completion_tokens")),
            cached_tokens=count_in(details.get("cached_tokens")),
            cost=0.0,
            seconds=seconds,
        ),
        Stop.LENGTH if choice.get("finish_reason") == "length" else Stop.END,
        model,
    )


def refusal(status: int, text: str, constraint: Constraint | None, model: str) -> ModelFailed:
    """The failure for a response with a status of 400 or more."""
    kind, message = _error(text)
    if kind == _TOO_LONG:
        return ModelFailed(Failure.REQUEST, f"{model}: the conversation is too long: {message}")
    if constraint is not None and any(word in message.lower() for word in _OF_GRAMMARS):
        where = f"the constraint {constraint.name!r} ({constraint.syntax})"
        return ModelFailed(Failure.CONSTRAINT, f"{model} does not accept {where}: {message}")
    failure = Failure.OVERLOADED if status >= 500 else Failure.REQUEST
    return ModelFailed(failure, f"{model} answered with status {status}: {message}")


def _error(text: str) -> tuple[str, str]:
    """The type and message of an error; if it has none, an empty type and the beginning of the body."""
    try:
        error: Any = json.loads(text)["error"]
        return str(error.get("type", "")), str(error["message"])[:_EXCERPT]
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", " ".join(text.split())[:_EXCERPT]


WHOLE = 10
"""The time limit of a whole response, as a multiple of the limit between two events."""

_WISHES = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
_DATA = "data:"
_FAULT = "error:"
_END = "[DONE]"


def streamed(body: dict[str, Any]) -> dict[str, Any]:
    """The request with streaming, also of the progress of reading the prompt."""
    return {**body, **_WISHES}


async def gathered(lines: AsyncIterator[str], alive: Callable[[], None]) -> tuple[int, str]:
    """The status and body of a streamed response; `alive` is called for each event.

    If the stream breaks off, the body is empty, which is not a chat completion.
    """
    text: list[str] = []
    usage: Any = None
    finish: Any = None
    is_whole = False
    async for line in lines:
        data, is_fault = _event_data(line)
        if data is None:
            continue
        alive()
        if data == _END:
            is_whole = True
            break
        piece = cast("dict[str, Any]", json.loads(data))
        if is_fault or "error" in piece:
            return _fault(piece)
        usage = piece.get("usage") or usage
        for choice in piece.get("choices") or ():
            finish = choice.get("finish_reason") or finish
            text.append(choice.get("delta", {}).get("content") or "")
    if not is_whole:
        return 200, ""
    message = {"role": "assistant", "content": "".join(text)}
    return 200, json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})


def _event_data(line: str) -> tuple[str | None, bool]:
    """The data of an event, and whether it is an error; None for other lines."""
    for mark in (_DATA, _FAULT):
        if line.startswith(mark):
            return line.removeprefix(mark).strip(), mark == _FAULT
    return None, False


def _fault(piece: dict[str, Any]) -> tuple[int, str]:
    """An error within the stream, as the status and body that it would have outside."""
    error: Any = piece.get("error", piece)
    code: Any = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
    return (code if isinstance(code, int) and code >= 400 else 500), json.dumps({"error": error})


PROVIDER = "local"
CONTEXT = 8192
"""Tokens of context, unless set otherwise or the model was trained for fewer."""
_STRONG = 3_000_000_000
"""The bytes of weights from which a model is strong; seven billion parameters of four bits have four GB."""
_POLL = 0.005
_LLGUIDANCE = "%llguidance {}\n"
"""The first line by which the server recognises a Lark grammar."""
_LOG_LAG = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """How local models are run.

    `threads` None uses the cores that are idle when the model is started; `context` is in tokens, None uses
    up to 8,192 of what the model was trained for; `timeout` is the seconds without progress (a token, or a
    block of the prompt evaluated), and a whole answer may take ten times that; `start_timeout` is in seconds;
    `max_tokens` limits every answer. With a `temperature` of 0 the most likely token is always taken,
    otherwise `seed` makes sampling reproducible. `strength` None judges by the size of the model's file.
    """

    threads: int | None = None
    context: int | None = None
    timeout: float = 300.0
    start_timeout: float = 120.0
    max_tokens: int = 2048
    temperature: float = 0.0
    seed: int = 0
    strength: Strength | None = None

    def __post_init__(self) -> None:
        check_fields(self, positive=("timeout", "start_timeout", "max_tokens"), signed=("seed",))


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A LanguageModel that runs locally; created by `open_local`."""

    named: str
    server: Server = field(repr=False)
    settings: LocalSettings = field(default_factory=LocalSettings)

    @property
    def name(self) -> str:
        """`local:` and the name or path that it was opened by."""
        return f"{PROVIDER}:{self.named}"

    @property
    def accepts(self) -> Sequence[Syntax]:
        """Every syntax of constraints."""
        return (Syntax.LARK, Syntax.GBNF, Syntax.JSON_SCHEMA)

    @property
    def strength(self) -> Strength:
        """That of the settings, otherwise by the size of the file: below 3 GB a model is small."""
        if self.settings.strength is not None:
            return self.settings.strength
        path = self.server.serving.path
        try:
            size = path.stat().st_size
        except OSError:  # the next answer reports that
            return Strength.SMALL
        return Strength.SMALL if size < _STRONG else Strength.STRONG

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Continue a conversation, one at a time per server; raises ModelFailed.

        A server that died is restarted by the next call, not within this one.
        """
        body: dict[str, Any] = {
            "messages": messages,
            "temperature": self.settings.temperature,
            "seed": self.settings.seed,
            "max_tokens": min(max_tokens or self.settings.max_tokens, self.settings.max_tokens),
            **_constrained(constraint),
        }
        async with self._turn():
            try:
                running = await asyncio.to_thread(self.server.ensure)
            except ServerFailed as error:
                message = f"{self.name} does not start: {error}"
                raise ModelFailed(Failure.UNREACHABLE, message) from error
            dropped = len(running.log.dropped)
            began = time.monotonic()
            status, text = await self._asked(running, body)
            seconds = time.monotonic() - began
            if status >= 400:
                raise refusal(status, text, constraint, self.name)
            if constraint is not None and constraint.syntax is Syntax.LARK:
                await asyncio.sleep(_LOG_LAG)
                if len(running.log.dropped) > dropped:
                    message = f"{self.name} does not accept the constraint {constraint.name!r} (lark)"
                    raise ModelFailed(Failure.CONSTRAINT, f"{message}: {running.log.dropped[-1]}")
        return replace(completion(text, seconds, self.name), constrained=constraint is not None)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Serialise conversations, across threads and event loops."""
        while not self.server.turn.acquire(blocking=False):  # noqa: ASYNC110 - threads share it
            await asyncio.sleep(_POLL)
        try:
            yield
        finally:
            self.server.turn.release()

    async def _asked(self, running: Running, body: Mapping[str, Any]) -> tuple[int, str]:
        """The status and text of the response; raises ModelFailed (TIMEOUT, MALFORMED, UNREACHABLE)."""
        import httpx2  # noqa: PLC0415 - only where a model is asked

        before, running.read = running.read, []  # the server's cache is unknown until this request succeeds
        headers = {"Authorization": f"Bearer {running.key}"}
        seconds, loop = self.settings.timeout, asyncio.get_running_loop()
        last = loop.time() + WHOLE * seconds
        try:
            async with (
                asyncio.timeout(seconds) as limit,
                httpx2.AsyncClient(timeout=None, trust_env=False, headers=headers) as client,
            ):

                def alive() -> None:
                    limit.reschedule(min(last, loop.time() + seconds))

                async def post(path: str, data: Any) -> tuple[int, str]:
                    answer = await client.post(f"{running.address}{path}", json=data)
                    alive()
                    return answer.status_code, answer.text

                tokens, keeps = await cut_back(post, body["messages"], before)
                request_body = streamed({**body, "cache_prompt": keeps})
                where = f"{running.address}/v1/chat/completions"
                async with client.stream("POST", where, json=request_body) as answer:
                    if answer.status_code >= 400:
                        message = answer.status_code, (await answer.aread()).decode("utf-8", "replace")
                    else:
                        message = await gathered(answer.aiter_lines(), alive)
        except TimeoutError as error:
            is_last = loop.time() >= last
            late = (
                f"no complete answer within {WHOLE * seconds:g} s"
                if is_last
                else f"no output for {seconds:g} s"
            )
            raise ModelFailed(Failure.TIMEOUT, f"{self.name} gave {late}") from error
        except (ValueError, AttributeError, TypeError) as error:
            raise ModelFailed(
                Failure.MALFORMED, f"{self.name}: its answer is not a chat completion"
            ) from error
        except httpx2.HTTPError as error:
            why = await asyncio.to_thread(self.server.how_it_ended) or str(error) or type(error).__name__
            raise ModelFailed(Failure.UNREACHABLE, f"{self.name} broke off: {why}") from error
        if message[0] < 400:
            running.read = tokens
        return message


def open_local(named: str, settings: LocalSettings | None = None) -> LocalModel:
    """The model that `local:{named}` means; its process is started by the first call.

    Raises CallsheetError: MDL020 without the extra, MDL021 for an unknown name, MDL022 for a model that was
    not fetched, MDL023 for an invalid file.
    """
    chosen = settings or LocalSettings()
    if not has_library():
        raise CallsheetError.single(
            "MDL020",
            "local models need the extra `local`, which is not installed",
            help="pip install 'callsheet[local]'",
        )
    path = find(named)
    context = fitting_context(path, chosen.context)
    threads = chosen.threads or threads_now()
    server = server_for(Serving(path, context, threads, chosen.start_timeout))
    return LocalModel(named, server, chosen)


def fitting_context(path: Path, wished: int | None) -> int:
    """The context in tokens to serve a file with; raises CallsheetError (MDL023) for an invalid file."""
    try:
        trained = read_gguf(path).context
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CallsheetError.single(
            "MDL023",
            f"{path} is not a usable model: {why}",
            help="give the path of a GGUF file, or a name of `callsheet models list`",
        ) from error
    most = wished or CONTEXT
    return min(most, trained) if trained else most


def _constrained(constraint: Constraint | None) -> dict[str, Any]:
    """The request fields for a constraint."""
    if constraint is None:
        return {}
    match constraint.syntax:
        case Syntax.GBNF:
            return {"grammar": constraint.text}
        case Syntax.LARK:
            return {"grammar": _as_lark(constraint.text)}
        case Syntax.JSON_SCHEMA:
            return {"response_format": _schema(constraint)}


def _as_lark(text: str) -> str:
    return text if text.startswith("%llguidance") else _LLGUIDANCE + text


def _schema(constraint: Constraint) -> dict[str, Any]:
    import json  # noqa: PLC0415 - only for this syntax

    schema = {"name": constraint.name, "schema": json.loads(constraint.text), "strict": True}
    return {"type": "json_schema", "json_schema": schema}
