"""A lost answer in a living process puts the call in doubt, decided like one after a crash."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from callsheet.frontends.ltp import parse
from callsheet.ir import Effect
from callsheet.machine import Decision, Status, ToolFacts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import Amendments, resume_run, run_unrecorded, start_run
from callsheet.store import Durability, Journal, JournalError

PLAN = parse('S1: @PAY (n=1) > $a ON_FAIL @RETRY(2, delay=0)\nS2: @RESPOND ("paid", $a)').require()


class Bank:
    """A tool that loses its first `lost` answers; every call has its effect."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.keys: list[str] = []

    async def pay(self, args: dict[str, Any], context: CallContext) -> str:
        self.keys.append(context.idempotency_key)
        if len(self.keys) <= self.lost:
            raise ToolFailed("no answer within 1 s", in_doubt=True)
        return "receipt"

    def ports(self) -> Ports:
        return Ports({"PAY": Route(self.pay)}.get)


def launch(effect: Effect) -> Launch:
    return Launch(facts={"PAY": ToolFacts(effect, ("n",))})


async def decide(journal: Journal, bank: Bank, decision: Decision) -> RunOutcome:
    @asynccontextmanager
    async def ports_for(*_: object) -> Any:
        yield bank.ports()

    return await resume_run(journal, "pay", ports_for, Amendments(in_doubt=decision))


@pytest.mark.parametrize(
    ("decision", "calls", "response"),
    [
        (Decision.RETRY, 2, "paid receipt"),
        (Decision.SKIP, 1, "paid"),
        (Decision.FAIL, 1, "paid it is not known"),
    ],
)
async def test_unsafe_call_without_answer_waits_for_decision(
    tmp_path: Path, decision: Decision, calls: int, response: str
) -> None:
    bank = Bank(lost=1)
    with Journal.open(tmp_path / "journal.db", Durability.NORMAL) as journal:
        outcome = await start_run(PLAN, bank.ports(), launch(Effect.UNSAFE), journal, "pay")
        assert outcome.result is None
        assert [(call.step, call.tool, call.args) for call in outcome.in_doubt] == [("S1", "PAY", {"n": 1})]
        assert len(bank.keys) == 1
        decided = await decide(journal, bank, decision)
        assert journal.verify("pay") is None
    assert decided.result is not None
    assert decided.result.response.startswith(response)
    assert len(bank.keys) == calls
    assert len(set(bank.keys)) == 1


async def test_other_group_members_end_before_run_waits(tmp_path: Path) -> None:
    text = "@PARALLEL {\nS1: @PAY (n=1) > $a\nS2: @LOOK () > $b\n}\nS3: @RESPOND ($a, $b)"
    bank = Bank(lost=1)

    async def look(args: dict[str, Any], context: CallContext) -> str:
        await asyncio.sleep(0.01)
        return "seen"

    ports = Ports({"PAY": Route(bank.pay), "LOOK": Route(look)}.get)
    with Journal.open(tmp_path / "journal.db", Durability.NORMAL) as journal:
        outcome = await start_run(parse(text).require(), ports, launch(Effect.UNSAFE), journal, "pay")
        assert outcome.result is None
        kinds = [event.type for event in journal.events("pay")]
    assert kinds.count("ok") == 1
    assert kinds.count("in_doubt") == 1


async def test_keyed_call_without_answer_is_retried_under_same_key(tmp_path: Path) -> None:
    bank = Bank(lost=2)
    with Journal.open(tmp_path / "journal.db", Durability.NORMAL) as journal:
        outcome = await start_run(PLAN, bank.ports(), launch(Effect.KEYED), journal, "pay")
    assert outcome.result is not None
    assert outcome.result.response == "paid receipt"
    assert len(bank.keys) == 3
    assert len(set(bank.keys)) == 1


async def test_call_without_answer_fails_without_journal() -> None:
    result = await run_unrecorded(PLAN, Bank(lost=1).ports(), launch(Effect.UNSAFE))
    assert result.status is Status.DONE
    assert result.response == "paid receipt"


async def test_run_with_modified_journal_is_not_resumed(tmp_path: Path) -> None:
    bank = Bank(lost=1)
    path = tmp_path / "journal.db"
    with Journal.open(path, Durability.NORMAL) as journal:
        await start_run(PLAN, bank.ports(), launch(Effect.UNSAFE), journal, "pay")
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE events SET intents = ? WHERE intents NOT NULL", (b'["S1.0.1","OTHER"]',))
        database.commit()
    with Journal.open(path, Durability.NORMAL) as journal:
        with pytest.raises(JournalError, match="JRN012"):
            await decide(journal, bank, Decision.RETRY)
        assert journal.find_run("pay").status == "corrupt"
    assert len(bank.keys) == 1
