"""The index of runs says what a fold of their events says, and finds what a look at every run finds."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.tools import FACTS, plan_of, ports_for, route_to
from tests.store.conftest import without_index

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.machine import Decision, Limits
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.answers import Answer
from callsheet.runtime.cancelling import cancel_now
from callsheet.runtime.doubt import decide_calls
from callsheet.runtime.gateway import Ports
from callsheet.runtime.inbox import answer_run
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import resume_run, start_run
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED
from callsheet.store import Durability, Journal, JournalError
from callsheet.store.archive import export_run, import_runs
from callsheet.store.listing import (
    RunQuery,
    found_runs,
    index_of,
    listed_runs,
    refresh_index,
    run_counts,
    shown_outcome,
)
from callsheet.store.run_index import check_tags, facts_of_end, tags_in
from callsheet.store.runs import RunFilter, RunInfo, RunSort, Unlisted

LINES = (
    '@READ ("a") > $a',
    '@BREAK ("b") > $b',
    '@BREAK ("b") > $b ON_FAIL TERMINATE ("broken")',
    '@ASK_HUMAN ("go on?") > $c',
    '@LOSE ("c") > $d',
    '@READ ("d") > $e',
)
FACTS_HERE = {**FACTS, "BREAK": FACTS["READ"], "LOSE": FACTS["WRITE"]}


async def _lose(_args: dict[str, Any], _context: CallContext) -> JSON:
    raise ToolFailed("the answer was lost", unsettled=True)


def _break(_args: dict[str, Any]) -> JSON:
    raise ToolFailed("it is broken")


TOOLS: dict[str, Any] = {"READ": "text", "WRITE": 1, "BREAK": _break, "LOSE": _lose}
_run = st.tuples(
    st.lists(st.sampled_from(LINES), min_size=1, max_size=3),
    st.lists(st.sampled_from(["answer", "decide", "resume", "cancel"]), max_size=3),
    st.dictionaries(st.sampled_from(["env", "team"]), st.sampled_from(["prod", "Test", "x=y"]), max_size=2),
)


def _do(journal: Journal, run_id: str, act: str) -> None:
    with suppress(CallsheetError):
        match act:
            case "answer":
                answer_run(journal, run_id, Answer.of("yes"))
                asyncio.run(resume_run(journal, run_id, ports_for(TOOLS)))
            case "decide":
                steps = journal.plan_of(journal.find_run(run_id).plan_hash).steps
                decide_calls(
                    journal, run_id, [step.id for step in steps if "LOSE" in repr(step)], Decision.SKIP
                )
            case "cancel":
                cancel_now(journal, run_id, "enough")
            case _:
                asyncio.run(resume_run(journal, run_id, ports_for(TOOLS)))


def _start(journal: Journal, run_id: str, lines: list[str], tags: dict[str, str]) -> None:
    plan = plan_of(
        f"# goal: Goal of {run_id}\n" + "\n".join(f"S{n}: {line}" for n, line in enumerate(lines, 1))
    )
    launch = Launch(facts=FACTS_HERE, limits=Limits(retry_delay=0.0), note={"tags": dict(tags)})
    asyncio.run(start_run(plan, Ports(route_to(TOOLS)), launch, journal, run_id))


def _columns(journal: Journal) -> dict[str, tuple[Any, ...]]:
    rows = journal.parts.reader.select(
        "SELECT run_id, name, goal, tags, search, ended, failed_step, waits_for, cost, tokens,"
        " indexed IS head_seq FROM runs"
    )
    return {run_id: tuple(row) for run_id, *row in rows}


@settings(max_examples=30, deadline=None)
@given(runs=st.lists(_run, min_size=1, max_size=3))
def test_index_is_a_fold_of_the_events_after_every_change(runs: list[Any]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal.open(Path(folder) / "j.db", Durability.OFF) as journal,
    ):
        for number, (lines, acts, tags) in enumerate(runs):
            run_id = f"run{number}"
            _start(journal, run_id, lines, tags)
            for act in ("", *acts):
                if act:
                    _do(journal, run_id, act)
                ((row_id, status, plan_hash, seq),) = journal.parts.reader.select(
                    "SELECT number, status, plan_hash, head_seq FROM runs WHERE run_id = ?", (run_id,)
                )
                names, facts = index_of(journal, Unlisted(row_id, run_id, status, plan_hash, seq, None))
                kept = _columns(journal)[run_id]
                assert kept == (*names, names.searched(run_id), *facts, 1)
                assert tags_in(names.tags) == tags
        before = _columns(journal)
        wipe = (
            "UPDATE runs SET name = NULL, goal = NULL, tags = NULL, search = NULL, ended = NULL, cost = NULL"
        )
        journal.parts.ledger.maintain(lambda cursor: cursor.execute(f"{wipe}, indexed = NULL"))
        refresh_index(journal)
        assert _columns(journal) == before


@pytest.fixture
def made(path: Path) -> Path:
    with Journal.open(path, Durability.OFF) as journal:
        _start(journal, "good", [LINES[0]], {"env": "prod"})
        _start(journal, "bad", [LINES[2]], {"env": "test"})
        _start(journal, "partly", [LINES[1], LINES[0]], {})
        _start(journal, "asks", [LINES[3]], {"team": "a"})
        _start(journal, "doubtful", [LINES[4]], {})
    return path


_FILTERS = st.builds(
    RunFilter,
    status=st.none()
    | st.sampled_from(["done", "done_with_failures", "failed", "waiting", "in_doubt", "running"]),
    text=st.sampled_from(["", "", "GOAL", "bad", "wait", "env=prod", "nothing", "done with"]),
    plan=st.sampled_from(["", "", "of g", "zz"]),
    goal=st.sampled_from(["", "", "PARTLY"]),
    failed_step=st.sampled_from(["", "", "S1", "S9"]),
    waits_for=st.sampled_from(["", "", "answer", "@lose"]),
    tags=st.sampled_from([(), (), ("env",), ("env=prod",), ("env=prod", "team"), ("ENV",)]),
    least_tokens=st.sampled_from([None, None, 0, 5]),
)


def _fits(info: RunInfo, shown: str, wanted: RunFilter) -> bool:
    """Whether a run is wanted, as a person would judge it by looking at it."""
    outcome, tags = shown_outcome(info, shown), tags_in(info.tags)
    parts = (info.run_id, info.name, info.goal, *(f"{k}={v}" for k, v in tags.items()), outcome)
    parts = (*parts, outcome.replace("_", " "))
    return (
        (wanted.status is None or wanted.status in (shown, outcome))
        and (not wanted.text or any(wanted.text.lower() in (part or "").lower() for part in parts))
        and wanted.plan.lower() in (info.name or "").lower()
        and wanted.goal.lower() in (info.goal or "").lower()
        and (not wanted.failed_step or info.failed_step == wanted.failed_step)
        and wanted.waits_for.lower() in (info.waits_for or "").lower()
        and all(tag in tags or tag in {f"{k}={v}" for k, v in tags.items()} for tag in wanted.tags)
        and (wanted.least_tokens is None or (info.tokens is not None and info.tokens >= wanted.least_tokens))
    )


def test_filters_counts_and_pages_agree_with_a_look_at_every_run(made: Path) -> None:
    with Journal.open_to_read(made) as journal:
        everything = listed_runs(journal, RunQuery())
        assert len(everything) == 5

        @settings(max_examples=150, deadline=None)
        @given(wanted=_FILTERS, sort=st.sampled_from(RunSort), rises=st.booleans())
        def agree(wanted: RunFilter, sort: RunSort, rises: bool) -> None:
            expected = {info.run_id for info, shown in everything if _fits(info, shown, wanted)}
            found = listed_runs(journal, RunQuery(wanted=wanted, sort=sort, rises=rises))
            assert {info.run_id for info, _ in found} == expected
            assert run_counts(journal, wanted) == Counter(shown_outcome(*each) for each in found)
            paged, last = list[str](), None
            while page := listed_runs(
                journal, RunQuery(wanted=wanted, sort=sort, rises=rises, limit=2, before=last)
            ):
                paged += [info.run_id for info, _ in page]
                last = page[-1][0]
            assert paged == [info.run_id for info, _ in found]

        agree()


@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(**{name: text})
        for name in ("text", "plan", "goal", "plan_hash", "failed_step", "waits_for")
        for text in ("%", "__", "' OR 1=1 --", "\udcff")
    ]
    + [RunFilter(tags=("%",)), RunFilter(tags=("\udcff",)), RunFilter(least_tokens=10**30)],
    ids=str,
)
def test_odd_conditions_find_nothing(made: Path, wanted: RunFilter) -> None:
    with Journal.open_to_read(made) as journal:
        assert [info.run_id for info, _ in listed_runs(journal, RunQuery(wanted=wanted))] == []
        assert run_counts(journal, wanted) == {}


def test_lists_are_sorted_by_what_was_asked_for(made: Path) -> None:
    with Journal.open_to_read(made) as journal:
        by_time = [info.created for info, _ in listed_runs(journal, RunQuery())]
        assert by_time == sorted(by_time, reverse=True)
        ends = [
            info.ended or -1 for info, _ in listed_runs(journal, RunQuery(sort=RunSort.ENDED, rises=True))
        ]
        assert ends == sorted(ends)


@pytest.mark.parametrize("more", [(), ("goal", "name")])
@pytest.mark.parametrize("is_readable_only", [False, True])
def test_journal_of_earlier_version_is_listed_as_if_written_today(
    made: Path, more: tuple[str, ...], is_readable_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal.open_to_read(made) as journal:
        before, counts = listed_runs(journal, RunQuery()), run_counts(journal, RunFilter())
    without_index(made, *more)
    if is_readable_only:  # root may write anything, so the answer of the system is replaced
        monkeypatch.setattr(os, "access", lambda *_: False)
    with Journal.open_to_read(made) as journal:
        assert listed_runs(journal, RunQuery()) == before
        assert run_counts(journal, RunFilter()) == counts
    with closing(sqlite3.connect(made)) as connection:
        kept = {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
    assert ("indexed" in kept) is not is_readable_only


def test_run_of_earlier_version_that_is_resumed_before_any_list_is_found(made: Path) -> None:
    without_index(made)
    with Journal.open(made) as journal:
        _do(journal, "asks", "answer")
        _do(journal, "doubtful", "decide")
        team = RunFilter(tags=("team=a",), text="goal of asks")
        assert [info.run_id for info, _ in listed_runs(journal, RunQuery(wanted=team))] == ["asks"]
        assert {info.run_id for info, _ in listed_runs(journal, RunQuery(wanted=RunFilter(text="goal")))} == {
            info.run_id for info in journal.runs()
        }


def test_journal_that_cannot_be_written_for_a_while_is_read_on_afterwards(made: Path) -> None:
    with Journal.open(made, Durability.OFF) as journal:
        journal.parts.ledger.maintain(lambda cursor: cursor.execute("UPDATE runs SET indexed = NULL"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "access", lambda *_: False)
            everything = listed_runs(journal, RunQuery(wanted=RunFilter(tags=("env",))))
            assert {info.run_id for info, _ in everything} == {"good", "bad"}
        _start(journal, "later", [LINES[0]], {"env": "prod"})
        later = listed_runs(journal, RunQuery(wanted=RunFilter(tags=("env=prod",))))
        assert [info.run_id for info, _ in later] == ["later", "good"]
        assert journal.find_run("later").events


@pytest.mark.parametrize("change", ['"usage": 1', '"usage": {"input_tokens": 1e999}', '"failed_steps": 5'])
def test_run_whose_end_makes_no_sense_is_listed(path: Path, change: str) -> None:
    with Journal.open(path) as journal:
        _start(journal, "odd", [LINES[0]], {})
        number = journal.parts.reader.runs.base_of("odd")
        body = f'{{"status": "failed", {change}}}'.encode()

        def damage(cursor: sqlite3.Cursor) -> None:
            cursor.execute("UPDATE events SET body = ? WHERE type = 'end' AND id > ?", (body, number))
            cursor.execute("UPDATE runs SET indexed = NULL")

        journal.parts.ledger.maintain(damage)
        assert [info.run_id for info, _ in listed_runs(journal, RunQuery())] == ["odd"]


def test_run_whose_plan_this_version_cannot_read_is_listed(made: Path) -> None:
    without_index(made, "goal", "name")
    body = b'{"steps":1}'
    name = hashlib.sha256(body).hexdigest()
    with closing(sqlite3.connect(made)) as connection:
        old = connection.execute("SELECT plan_hash FROM runs WHERE run_id = 'bad'").fetchone()
        connection.execute("UPDATE plans SET body = ?, plan_hash = ? WHERE plan_hash = ?", (body, name, *old))
        connection.execute("UPDATE runs SET plan_hash = ? WHERE plan_hash = ?", (name, *old))
        connection.commit()
    with Journal.open(made) as journal:
        with pytest.raises(CallsheetError, match="CFG001"):
            journal.plan_of(name)
        told = {info.run_id: info.name for info, _ in listed_runs(journal, RunQuery())}
        assert told["good"] == "Goal of good"
        assert told["bad"] == f"plan {name[:12]}"


@pytest.mark.parametrize("tokens", [3, 2**70])
def test_any_number_of_tokens_can_be_recorded(tokens: int) -> None:
    end = {"status": "done", "usage": {"input_tokens": tokens, "output_tokens": 0}}
    assert facts_of_end(end, 1.0).tokens == min(tokens, 2**63 - 1)


def test_imported_runs_are_found(made: Path, tmp_path: Path) -> None:
    with Journal.open(made) as journal:
        before = {info.run_id: (info.tags, info.failed_step, info.waits_for) for info in journal.runs()}
        exported = tmp_path / "runs.jsonl"
        with exported.open("wb") as file:
            for run_id in before:
                file.writelines(export_run(journal.parts, run_id))
    with Journal.open(tmp_path / "other.db") as other:
        with exported.open("rb") as file:
            import_runs(other.parts, file)
        assert [info.run_id for info, _ in listed_runs(other, RunQuery(wanted=RunFilter(tags=("env",))))]
        after = {info.run_id: (info.tags, info.failed_step, info.waits_for) for info in other.runs()}
        assert after == before
        assert found_runs(other, "failed", None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("owner", "sup3r-secret-word"),
        ("sup3r-secret-word", "x"),
        ("key", f"AKIA{'Q7' * 8}"),
        ("password", "hunter2-hunter2"),
    ],
)
def test_tag_with_a_secret_is_refused(path: Path, name: str, text: str) -> None:
    start = {"inputs": {}, "launch": {"tags": {name: text}}}
    known = Known.of(["sup3r-secret-word"], DECLARED)
    with Journal.open(path) as journal:
        with pytest.raises(JournalError, match="SEC003") as told:
            journal.create_run("r", plan_of("S1: @RESPOND (1)"), "", start, known=known)
        assert "sup3r-secret-word" not in str(told.value)
        fine = {"inputs": {}, "launch": {"tags": {"commit": "3bf26790" * 5, "env": "prod"}}}
        journal.create_run("r2", plan_of("S1: @RESPOND (1)"), "", fine, known=known).close()


@pytest.mark.parametrize(
    "tags",
    [[("", "x")], [("a=b", "x")], [("a", "x\ny")], [("a", "x,y")], [("a", "x"), ("a", "y")], [("a", 1)]],
)
def test_tag_that_cannot_be_is_refused(tags: list[tuple[str, object]]) -> None:
    with pytest.raises(ValueError, match=r"tag|called"):
        check_tags(tags)
