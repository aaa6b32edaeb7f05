"""The timeout of a local model counts only time without progress; real server, simulated clock."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast

import pytest

from callsheet.ports.models.local import LocalModel, LocalSettings
from callsheet.ports.models.local.server import Server
from callsheet.ports.models.model import Completion, Failure, ModelFailed, Stop

ASK = [{"role": "user", "content": "Name a colour."}]
SILENCE = 100.0
"""Seconds of the loop's clock without progress that the model may take."""


def word(text: str) -> str:
    """An event with another piece of the answer."""
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]})


READ = "data: " + json.dumps({"choices": [], "prompt_progress": {"total": 128, "processed": 64}})
PING = ": ping"
USED = {"prompt_tokens": 7, "completion_tokens": 3}
LAST = "data: " + json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USED})
DONE = "data: [DONE]"


class Slow:
    """A server that sends events and advances the clock of the loop before each."""

    def __init__(self, events: Sequence[tuple[float, str]]) -> None:
        self._events = events
        self._ahead = 0.0
        self._answering: list[asyncio.Task[None]] = []

    def now(self) -> float:
        """The clock of the loop."""
        return time.monotonic() + self._ahead

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request in a task that is awaited at the end."""
        self._answering.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        await reader.readexactly(int(fields["content-length"]))
        if "/v1/chat/completions" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for seconds, event in self._events:
                for _ in range(50):  # what was sent has arrived before the clock goes on
                    await asyncio.sleep(0.001)
                self._ahead += seconds
                writer.write(f"{event}\n\n".encode())
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def asked(self) -> Completion:
        """The answer of a model at this server."""
        asyncio.get_running_loop().time = self.now  # type: ignore[method-assign]
        server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        log = SimpleNamespace(dropped=[])
        running = SimpleNamespace(address=f"http://{host}:{port}", key="k", log=log, read=[])
        stands = SimpleNamespace(ensure=lambda: running, turn=Lock(), how_it_ended=lambda: "")
        model = LocalModel("slow", cast("Server", stands), LocalSettings(timeout=SILENCE))
        try:
            return await model.complete(ASK)
        finally:
            server.close()
            await asyncio.gather(*self._answering)


async def late(events: Sequence[tuple[float, str]]) -> ModelFailed:
    """The failure of an answer that times out."""
    with pytest.raises(ModelFailed) as failed:
        await Slow(events).asked()
    assert failed.value.kind is Failure.TIMEOUT
    return failed.value


async def test_streaming_answer_may_exceed_timeout() -> None:
    events: list[Any] = [(60.0, READ), (60.0, READ), (60.0, word("te")), (60.0, word("al")), (60.0, LAST)]
    answer = await Slow([*events, (0.0, DONE)]).asked()
    assert (answer.text, answer.stop, answer.usage.output_tokens) == ("teal", Stop.END, 3)


async def test_silence_times_out_and_pings_are_no_progress() -> None:
    failed = await late([(60.0, word("te")), (60.0, PING), (60.0, PING), (0.0, LAST), (0.0, DONE)])
    assert "no output for 100 s" in str(failed)


async def test_total_answer_time_is_bounded() -> None:
    failed = await late([(90.0, word("on and ")) for _ in range(13)])
    assert "no complete answer within 1000 s" in str(failed)


@pytest.mark.parametrize("said", ["data: {", "data: 5", "data: [1]", 'data: {"choices": []}'])
async def test_broken_stream_is_no_answer(said: str) -> None:
    with pytest.raises(ModelFailed) as failed:
        await Slow([(0.0, word("te")), (0.0, said)]).asked()
    assert failed.value.kind is Failure.MALFORMED


async def test_error_within_stream_is_reported() -> None:
    fault = "data: " + json.dumps({"error": {"code": 500, "message": "out of memory"}})
    with pytest.raises(ModelFailed, match="out of memory") as failed:
        await Slow([(0.0, word("te")), (0.0, fault)]).asked()
    assert failed.value.kind is Failure.OVERLOADED
