"""`local:NAME` and `local:/path/model.gguf`: a language model in a child process on this machine.

In: a conversation, and optionally a constraint. Out: a Completion, or ModelFailed. Answers are
deterministic by default. The prefix that a conversation shares with the previous one is not evaluated
again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.settings_types import check_fields
from callsheet.ports.models.local.gguf import read_gguf
from callsheet.ports.models.local.places import find
from callsheet.ports.models.local.prompt_cache import cut_back
from callsheet.ports.models.local.replies import completion, refusal
from callsheet.ports.models.local.server import (
    Running,
    Server,
    ServerFailed,
    Serving,
    has_library,
    server_for,
)
from callsheet.ports.models.local.streaming import WHOLE, gathered, streamed
from callsheet.ports.models.local.threads import threads_now
from callsheet.ports.models.model import Completion, Constraint, Failure, ModelFailed, Strength, Syntax
from callsheet.ports.models.prompts import Messages

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
