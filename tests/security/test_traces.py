"""Exported traces: no value, no error text, no key of a collector, unless configured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.collector import Collector

from callsheet import Answer, Runtime, tool
from callsheet.runtime.telemetry.live import provenance_of, telemetry_of
from callsheet.store import Journal
from callsheet.views.otel.otlp import documents

MARK = "m4rk-of-a-secret"


@tool(effect="read")
def echo(text: str) -> str:
    return f"{text} again"


@tool(effect="read")
def fail(text: str) -> str:
    raise ValueError(f"no {text}")


async def run(path: Path) -> None:
    text = (
        "S1: @ECHO ($s) > $a\nS2: ?FOREACH ($x IN [$s, $a]) THEN @FAIL ($x) > $b\n"
        'S3: @LLM_SUMMARIZE ("$a") > $c\nS4: @ASK_HUMAN (prompt="$a?") > $d\n'
        "S5: ?IF ($a == $s) THEN @ECHO ($s) > $e\n"
        'S6: @FAIL ($a) > $f ON_FAIL TERMINATE ("$a")'
    )
    runtime = Runtime([echo, fail], model=lambda prompt: f"{MARK} in short", journal=path)
    await runtime.run(text, {"s": MARK}, run_id="r")
    await runtime.answer("r", None, Answer.of(f"{MARK} indeed", by=f"{MARK} Bo"))
    await runtime.resume("r")


async def test_values_error_texts_questions_and_person_names_are_not_exported(tmp_path: Path) -> None:
    await run(tmp_path / "j.db")
    with Journal.open_to_read(tmp_path / "j.db") as journal:
        assert MARK in repr(list(journal.events("r")))
        quiet = documents(telemetry_of(journal, "r"), "1", "r")
        assert len(quiet) == 3
        assert MARK not in json.dumps(quiet)
        assert MARK not in json.dumps(provenance_of(journal, "r"))
        assert MARK in json.dumps(documents(telemetry_of(journal, "r", content=True), "1", "r"))
        assert MARK in json.dumps(provenance_of(journal, "r", content=True))


async def test_collector_key_is_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLECTOR_AUTH", MARK)
    collector = Collector()
    try:
        runtime = Runtime([echo], journal=tmp_path / "j.db")
        await runtime.run('S1: @ECHO ("a") > $a', run_id="r")
        sent = await runtime.export_trace("r", collector.url, headers={"authorization": "env:COLLECTOR_AUTH"})
    finally:
        collector.close()
    assert {headers["authorization"] for _, headers in collector.requests} == {MARK}
    assert MARK not in repr(sent)
    assert MARK not in repr(collector.spans)
