"""The smallest real model on the real server: answers, constraints, failures, processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from callsheet.authoring.prompt import compile_messages, read_answer_plan
from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.local import LocalModel, LocalSettings, open_local
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Stop,
    Strength,
    Syntax,
    context_of,
    identify,
    strength_of,
)
from callsheet.ports.models.opening import open_model
from callsheet.ports.models.settings import ModelSettings

pytestmark = pytest.mark.models

ASK = [
    {"role": "system", "content": "You answer in few words, and you are friendly to whoever asks."},
    {"role": "user", "content": "Name a colour."},
]
LONG = Constraint(Syntax.GBNF, "root ::= [a-z]{300}")
ENDLESS = Constraint(Syntax.GBNF, "root ::= [a-z]{1200}")
HELD = [
    Constraint(Syntax.GBNF, 'root ::= "teal-" [0-9] [0-9]'),
    Constraint(Syntax.LARK, 'start: "teal-" /[0-9]{2}/'),
    Constraint(Syntax.LARK, '%llguidance {}\nstart: "teal-" /[0-9]{2}/'),
]
UNKNOWN = [
    Constraint(Syntax.GBNF, "root ::= colour"),
    Constraint(Syntax.GBNF, 'root = "teal"'),
    Constraint(Syntax.LARK, "start: colour"),
    Constraint(Syntax.LARK, 'colour: "teal"'),
    Constraint(Syntax.JSON_SCHEMA, '{"type": "colour"}'),
]


async def test_local_model_answers_with_its_token_counts(model: LocalModel) -> None:
    assert isinstance(model, LanguageModel)
    assert model.name.startswith("local:")
    answer = await model.complete(ASK, max_tokens=4)
    assert answer.text.strip()
    assert answer.usage.output_tokens == 4
    assert answer.stop is Stop.LENGTH
    assert answer.usage.input_tokens > 20
    assert answer.usage.seconds > 0
    assert answer.usage.cost == 0.0
    assert not answer.constrained


async def test_server_of_llama_cpp_tells_what_it_serves(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await asyncio.to_thread(model.server.ensure)
    monkeypatch.setenv("OWN_KEY", running.key)
    served = open_model("", ModelSettings(url=f"{running.address}/v1", key_env="OWN_KEY"))
    await identify(served)
    assert (strength_of(served), context_of(served)) == (Strength.SMALL, 512)
    answer = await served.complete(ASK, HELD[0])
    assert re.fullmatch(r"teal-\d\d", answer.text)


async def test_answer_is_independent_of_earlier_requests(model: LocalModel) -> None:
    """To the last digit: cached blocks are reused, and the rest is computed as the first time."""
    card = "You answer in few words. " + " ".join(f"Rule {n}: be kind to {n * 7} people." for n in range(20))

    async def ask(text: str) -> Completion:
        messages = [{"role": "system", "content": card}, {"role": "user", "content": text}]
        return await model.complete(messages, max_tokens=12)

    questions = ["Name a colour.", "Name a tree.", "Name a colour of trees, please."]
    first = [await ask(question) for question in questions]
    assert [answer.usage.cached_tokens % 64 for answer in first] == [0, 0, 0]
    assert first[1].usage.cached_tokens > 64
    again = {n: await ask(questions[n]) for n in (0, 0, 2, 1, 0)}
    assert {n: answer.text for n, answer in again.items()} == {n: first[n].text for n in again}


@pytest.mark.parametrize("constraint", HELD)
async def test_answer_matches_its_grammar(model: LocalModel, constraint: Constraint) -> None:
    answer = await model.complete(ASK, constraint, max_tokens=20)
    assert re.fullmatch(r"teal-\d\d", answer.text)
    assert answer.stop is Stop.END
    assert answer.constrained


async def test_answer_follows_its_json_schema(model: LocalModel) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["teal", "plum"]}, "shade": {"type": "integer"}},
        "required": ["colour", "shade"],
        "additionalProperties": False,
    }
    answer = await model.complete(ASK, Constraint(Syntax.JSON_SCHEMA, json.dumps(schema)), max_tokens=60)
    said = json.loads(answer.text)
    assert said["colour"] in ("teal", "plum")
    assert isinstance(said["shade"], int)


@pytest.mark.parametrize("constraint", UNKNOWN)
async def test_invalid_constraint_fails(model: LocalModel, constraint: Constraint) -> None:
    with pytest.raises(ModelFailed) as failed:
        await model.complete(ASK, constraint, max_tokens=20)
    assert failed.value.kind is Failure.CONSTRAINT
    assert (await model.complete(ASK, HELD[0], max_tokens=20)).constrained


async def test_conversation_beyond_context_is_refused(model: LocalModel) -> None:
    with pytest.raises(ModelFailed, match="too long") as failed:
        await model.complete([{"role": "user", "content": "word " * 600}], max_tokens=5)
    assert failed.value.kind is Failure.REQUEST


async def test_answer_reaching_context_end_is_marked(model: LocalModel) -> None:
    full = [{"role": "user", "content": "word " * 460}]
    answer = await model.complete(full, ENDLESS, max_tokens=500)
    assert answer.stop is Stop.LENGTH
    assert answer.usage.input_tokens + answer.usage.output_tokens <= 512


async def test_empty_answer_is_failure(model: LocalModel) -> None:
    with pytest.raises(ModelFailed) as failed:
        await model.complete(ASK, Constraint(Syntax.GBNF, 'root ::= " "'), max_tokens=5)
    assert failed.value.kind is Failure.EMPTY


async def test_late_answer_is_failure_and_blocks_nobody(
    model: LocalModel, opened: Callable[..., LocalModel]
) -> None:
    hasty = opened(timeout=0.02)
    assert hasty.server is model.server
    with pytest.raises(ModelFailed) as failed:
        await hasty.complete(ASK, ENDLESS, max_tokens=900)
    assert failed.value.kind is Failure.TIMEOUT
    assert (await model.complete(ASK, HELD[0], max_tokens=20)).text.startswith("teal-")


async def test_cancelled_caller_frees_model(model: LocalModel) -> None:
    await model.complete(ASK, max_tokens=1)
    server = model.server.pid
    assert server is not None
    used = _cpu(server)
    gone = asyncio.create_task(model.complete(ASK, ENDLESS, max_tokens=900))
    await _works(server, used)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert (await model.complete(ASK, HELD[0], max_tokens=20)).text.startswith("teal-")


async def test_killed_server_fails_its_call_and_next_call_starts_another(model: LocalModel) -> None:
    await model.complete(ASK, max_tokens=1)
    before = model.server.pid
    assert before is not None
    used = _cpu(before)
    call = asyncio.create_task(model.complete(ASK, ENDLESS, max_tokens=900))
    await _works(before, used)
    os.kill(before, signal.SIGKILL)
    with pytest.raises(ModelFailed, match="signal 9") as failed:
        await call
    assert failed.value.kind is Failure.UNREACHABLE
    assert (await model.complete(ASK, HELD[0], max_tokens=20)).text.startswith("teal-")
    assert model.server.pid not in (None, before)


async def test_local_model_is_asked_again_after_its_process_was_killed(model_file: Path) -> None:
    plain = open_local(str(model_file))
    named = open_model(f"local:{model_file}", ModelSettings(max_tokens=400))
    await plain.complete(ASK, max_tokens=1)
    before = plain.server.pid
    assert before is not None
    used = _cpu(before)
    call = asyncio.create_task(named.complete(ASK, LONG))
    await _works(before, used)
    os.kill(before, signal.SIGKILL)
    answer = await call
    assert (len(answer.text), answer.usage.tries) == (300, 2)
    with pytest.raises(ModelFailed, match="does not accept the constraint") as refused:
        await named.complete(ASK, Constraint(Syntax.GBNF, "root ::= colour"), max_tokens=1)
    assert refused.value.kind is Failure.CONSTRAINT


async def test_concurrent_callers_on_threads_get_their_answers(model: LocalModel) -> None:
    words = ["red", "green", "blue", "grey"]
    told: dict[str, str] = {}

    async def ask(word: str) -> None:
        constraint = Constraint(Syntax.GBNF, f'root ::= "{word}"')
        told[word] = (await model.complete(ASK, constraint, max_tokens=10)).text

    thread = threading.Thread(target=lambda: asyncio.run(ask(words[0])))
    thread.start()
    await asyncio.gather(*map(ask, words[1:]))
    await asyncio.to_thread(thread.join)
    assert told == {word: word for word in words}


async def test_unauthenticated_connections_are_refused(model: LocalModel) -> None:
    await model.complete(ASK, max_tokens=1)
    address = model.server.ensure().address
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{address}/v1/chat/completions", json={"messages": ASK})
    assert answer.status_code == 401


def test_server_ends_with_parent(model_file: Path) -> None:
    code = (
        "import asyncio, sys, time\n"
        "from callsheet.ports.models.local import LocalSettings, open_local\n"
        "model = open_local(sys.argv[1], LocalSettings(threads=1, context=256))\n"
        "asyncio.run(model.complete([{'role': 'user', 'content': 'hi'}], max_tokens=1))\n"
        "print(model.server.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(model_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _lives(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(child)


def _cpu(pid: int) -> float:
    """The CPU seconds that a process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def _works(pid: int, used: float) -> None:
    """Wait until a server with this CPU time is working on an answer."""
    async with asyncio.timeout(60):
        while _cpu(pid) < used + 0.2:  # noqa: ASYNC110 - another process may be what it waits for
            await asyncio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_truncated_model_file_fails_to_start_with_reason(model_file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    with model_file.open("rb") as file:
        broken.write_bytes(file.read(3_000_000))
    with pytest.raises(ModelFailed, match="does not start") as failed:
        await open_local(str(broken), LocalSettings(threads=1)).complete(ASK, max_tokens=1)
    assert failed.value.kind is Failure.UNREACHABLE
    assert "load" in str(failed.value)


async def test_invalid_plans_of_small_model_give_diagnostics(model: LocalModel) -> None:
    """Its text parses as a plan or is refused with diagnostics; nothing raises."""
    card, goal = compile_messages("What does the file notes.md say?")
    short = [{"role": "system", "content": card["content"][:500]}, goal]
    answer = await model.complete(short, max_tokens=40)
    result = read_answer_plan(answer.text)
    assert result.plan is not None or any(d.is_error and d.message for d in result.diagnostics)


def test_file_of_other_format_is_refused_before_start(tmp_path: Path) -> None:
    other = tmp_path / "notes.gguf"
    other.write_text("not a model")
    with pytest.raises(CallsheetError, match="does not begin as a GGUF file does") as refused:
        open_local(str(other))
    assert refused.value.diagnostics[0].code == "MDL023"
