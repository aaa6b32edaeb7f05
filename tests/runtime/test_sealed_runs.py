"""A run with secrets is resumed like any other with the key, and no secret is in its files."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.tools import FACTS, QUICK, plan_of, ports_for, route_to

from callsheet.diagnostics import CallsheetError
from callsheet.machine import Decision, Limits
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime import recording
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.doubt import RunOutcome, fold_run
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.inbox import answer_ahead, answer_run, asks_of
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.sealing.known import Known
from callsheet.store import Durability, Journal, JournalError, snapshots
from callsheet.store.replay import state_from_snapshot
from callsheet.store.seal_keys import KeyStore

TOKEN = "Zk7-canary/val=ue+4711"
SECRET = {"token": TOKEN, "same": TOKEN}
PLAN = """
S1: @READ ("login $token") > $session
S2: ?IF ($token == $same) THEN @WRITE ("by $session") > $done
S3: @KEYED ("$token") > $last
S4: @RESPOND ("ready")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal" / "journal.db"


def bytes_of(path: Path) -> bytes:
    """All bytes in the folder of the journal."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.rglob("*")) if file.is_file())


class World:
    """Tools that record their arguments and return them."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.hangs_at = ""

    @property
    def tools(self) -> dict[str, Any]:
        return dict.fromkeys(FACTS, Route(self._call))

    async def _call(self, args: dict[str, Any], context: CallContext) -> Any:
        if context.key == self.hangs_at:
            await asyncio.sleep(60)
        self.given.append(args["x"])
        return {"echo": args["x"], "n": len(self.given)}

    def ports(self, known: Known | None = None) -> Ports:
        return Ports(route_to(self.tools), known=known or Known())


def launched(limits: Limits = QUICK) -> Launch:
    return Launch(FACTS, inputs=SECRET, limits=limits, source=PLAN, secret=frozenset(SECRET))


async def run_to(world: World, journal: Journal, stop: str, launch: Launch | None = None) -> None:
    """Run the plan until the call with this key is in flight, then stop as if the process ended."""
    world.hangs_at = stop
    task = asyncio.create_task(start_run(plan_of(PLAN), world.ports(), launch or launched(), journal, "run"))
    while stop not in keys_in(journal):  # noqa: ASYNC110 - what is waited for is in a file
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    world.hangs_at = ""


def keys_in(journal: Journal) -> list[str]:
    try:
        return [event.key or "" for event in journal.events("run") if event.type == "intent"]
    except JournalError:
        return []


async def go_on(world: World, journal: Journal, **more: Any) -> RunOutcome:
    return await resume_run(journal, "run", ports_for(world.tools), Amendments(**more))


@pytest.mark.parametrize("durability", [Durability.FULL, Durability.OFF])
async def test_declared_secret_is_stored_nowhere_and_tools_receive_it(
    path: Path, durability: Durability
) -> None:
    world = World()
    with Journal.open(path, durability) as journal:
        outcome = await start_run(plan_of(PLAN), world.ports(), launched(), journal, "run")
        assert TOKEN.encode() not in bytes_of(path)
    assert outcome.result is not None
    assert outcome.result.response == "ready"
    assert world.given[0] == f"login {TOKEN}"
    assert outcome.result.variables["session"] == {"echo": f"login {TOKEN}", "n": 1}
    assert TOKEN.encode() not in bytes_of(path)
    assert b"[sealed k:" in bytes_of(path)


@pytest.mark.parametrize("stop", ["S1.0.1", "S2.0.1", "S3.0.1"])
@pytest.mark.parametrize("every", [None, 1])
async def test_interrupted_sealed_run_reaches_same_end(
    path: Path, stop: str, every: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if every is not None:  # a snapshot after each event
        monkeypatch.setattr(recording, "INTERVALS", snapshots.SnapshotIntervals(1, every, 1_000_000))
    world, whole = World(), World()
    with Journal.open(path) as journal:
        await run_to(world, journal, stop)
        again = await go_on(world, journal, in_doubt=Decision.RETRY)
    with Journal.open(path.with_name("other.db")) as other:
        once = await start_run(plan_of(PLAN), whole.ports(), launched(), other, "run")
    assert again.result == once.result
    assert world.given == whole.given
    assert TOKEN.encode() not in bytes_of(path)


async def test_sealed_snapshot_is_used_with_key_and_skipped_without(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "INTERVALS", snapshots.SnapshotIntervals(1, 1, 1_000_000))
    with Journal.open(path) as journal:
        await run_to(World(), journal, "S2.0.1")
        seq = journal.last_snapshot("run")
        assert seq is not None
        rows = journal.events("run", seq - 1)
        folded = state_from_snapshot(journal, "run", plan_of(PLAN), rows, opener=journal.opener("run"))
        assert folded.machine.variables()["token"] == TOKEN
        with pytest.raises(snapshots.UnusableSnapshot):
            state_from_snapshot(journal, "run", plan_of(PLAN), journal.events("run", seq - 1))


async def test_run_is_not_resumed_without_key_and_loses_nothing(path: Path, tmp_path: Path) -> None:
    world = World()
    vault = KeyStore(tmp_path / "seal.key", {})
    with Journal.open(path, keys=vault) as journal:
        await run_to(world, journal, "S3.0.1")
    key = (tmp_path / "seal.key").read_text()
    for text, code in (("", "SEC001"), ("00" * 32, "SEC002")):
        (tmp_path / "seal.key").unlink(missing_ok=True)
        if text:
            (tmp_path / "seal.key").write_text(text)
            (tmp_path / "seal.key").chmod(0o600)
        with Journal.open(path, keys=KeyStore(tmp_path / "seal.key", {})) as journal:
            with pytest.raises(JournalError) as refused:
                await go_on(world, journal)
            assert refused.value.diagnostics[0].code == code
            assert fold_run(journal, "run", plan_of(PLAN)).start.inputs["token"] != TOKEN
    (tmp_path / "seal.key").write_text(f"{'00' * 32}\n{key}")
    with Journal.open(path, keys=KeyStore(tmp_path / "seal.key", {})) as journal:
        outcome = await go_on(world, journal)
    assert outcome.result is not None
    assert outcome.result.response == "ready"


async def test_large_value_and_error_with_secret_are_sealed(path: Path) -> None:
    async def large(args: dict[str, Any], context: CallContext) -> Any:
        return ("x" * 200_000 + args["x"]) * 6

    async def failing(args: dict[str, Any], context: CallContext) -> Any:
        try:
            raise ValueError(f"no entry for {args['x']}")
        except ValueError as error:
            raise ToolFailed(f"it failed: {error!r}") from error

    text = 'S1: @READ ($token) > $page\nS2: @WRITE ($token) > $b ON_FAIL GOTO S3\nS3: @RESPOND ("$b")'
    tools = {"READ": large, "WRITE": failing}
    with Journal.open(path) as journal:
        ports = Ports(route_to(tools))
        launch = replace(launched(), source=text)
        outcome = await start_run(plan_of(text), ports, launch, journal, "run")
        assert outcome.result is not None
        assert TOKEN in outcome.result.response
    assert TOKEN.encode() not in bytes_of(path)
    assert any((path.with_name("journal.db.blobs")).rglob("*"))


async def test_configured_secrets_are_sealed_everywhere(path: Path) -> None:
    world = World()
    with Journal.open(path) as journal:
        ports = world.ports(Known.of([TOKEN], "configured"))
        launch = Launch(FACTS, inputs={"a": f"x{TOKEN}y"}, limits=QUICK)
        await start_run(plan_of('S1: @READ ("$a") > $b\nS2: @RESPOND ("$b")'), ports, launch, journal, "run")
    assert world.given == [f"x{TOKEN}y"]
    assert TOKEN.encode() not in bytes_of(path)


async def test_unsealable_secret_is_not_written(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Journal.open(path, keys=KeyStore(tmp_path / "file" / "seal.key", {})) as journal:
        with pytest.raises(JournalError) as refused:
            await start_run(plan_of(PLAN), World().ports(), launched(), journal, "run")
        assert refused.value.diagnostics[0].code == "SEC003"
    assert TOKEN.encode() not in bytes_of(path)


QUESTION = """
S1: @ASK_HUMAN ("which word?") > $word
S2: @READ ("with $word") > $seen
S3: @RESPOND ("ready")
"""
WORD = "wednesday evening"


async def waiting(journal: Journal) -> PendingAsk:
    outcome = await start_run(plan_of(QUESTION), World().ports(), Launch(FACTS, limits=QUICK), journal, "run")
    (ask,) = outcome.waiting
    return ask


async def test_free_text_answer_is_sealed_before_write(path: Path) -> None:
    """A person who answers does not know the secrets of the run."""
    world = World()
    with Journal.open(path) as journal:
        await waiting(journal)
        answer_run(journal, "run", Answer.of(WORD, note=f"not {WORD}"))
        (letter,) = journal.mailbox.unread("run")
        assert letter.payload["value"].startswith("[sealed k:")
        assert WORD.encode() not in bytes_of(path)
        assert [ask.is_answered for ask in asks_of(journal, "run")] == [True]
        await go_on(world, journal)
    assert world.given == [f"with {WORD}"]


async def test_approval_and_question_options_need_no_key(path: Path, tmp_path: Path) -> None:
    text = 'S1: @ASK_HUMAN ("which?", options=["red", "blue"]) > $word\nS2: @RESPOND ("$word")'
    (tmp_path / "file").write_text("")
    with Journal.open(path, keys=KeyStore(tmp_path / "file" / "seal.key", {})) as journal:
        await start_run(plan_of(text), World().ports(), Launch(FACTS, limits=QUICK), journal, "run")
        with pytest.raises(JournalError) as refused:
            answer_run(journal, "run", Answer.of("red", note="as you like"))
        assert refused.value.diagnostics[0].code == "SEC003"
        answer_run(journal, "run", Answer.of("red"))
        outcome = await go_on(World(), journal)
    assert outcome.result is not None
    assert outcome.result.response == "red"


async def test_unreadable_answer_is_ignored_and_may_be_repeated(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world, theirs, ours = World(), KeyStore(tmp_path / "theirs", {}), KeyStore(tmp_path / "ours", {})
    with Journal.open(path, keys=theirs) as journal:
        ask = await waiting(journal)
        answer_run(journal, "run", Answer.of("lost"))
    with Journal.open(path, keys=ours) as journal:
        assert (await go_on(world, journal)).waiting == (replace(ask, is_answered=False),)
        answer_run(journal, "run", Answer.of(WORD))
        with pytest.raises(CallsheetError, match="has been answered already"):
            answer_run(journal, "run", Answer.of("again"))
        outcome = await go_on(world, journal)
    assert world.given == [f"with {WORD}"]
    assert outcome.result is not None
    assert "SEC008" in caplog.text
    assert WORD not in caplog.text


async def test_early_answer_is_sealed(path: Path) -> None:
    world = World()
    with Journal.open(path) as journal:
        await run_to(world, journal, "S2.0.1")
        answer_ahead(journal, "run", "S9.0.1", Answer.of(WORD))
        answer_ahead(journal, "run", "S8.0.1", Answer.of(f"x{TOKEN}", by=TOKEN))
        assert WORD.encode() not in bytes_of(path)
        assert TOKEN.encode() not in bytes_of(path)
        opened = journal.mailbox.opened("run", lambda error: None)
    assert {letter.payload["value"] for letter in opened} == {WORD, f"x{TOKEN}"}
