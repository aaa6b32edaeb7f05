"""`callsheet trace export`: runs exported as traces."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import prov.model
import pytest
from tests.collector import Collector, attribute

PLAN = ("S1: @ADD (a=1) > $a", "S2: @ADD (a=$a) > $b", 'S3: @RESPOND ("b=$b")')


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def test_run_is_exported_as_tree_and_repeat_adds_nothing(machine, collector):
    machine.run(*PLAN)
    said = machine("trace", "export", "last", "--otlp", collector.url)
    assert said.exit_code == 0
    assert f"sent   to {collector.url}" in said.stdout
    (top,) = collector.tree()[""]
    assert collector.tree() == {"": [top], top: ["execute_tool ADD", "execute_tool ADD", "respond"]}
    assert {attribute(span, "openinference.span.kind") for span in collector.spans.values()} == {
        "CHAIN",
        "TOOL",
    }
    assert {span["schemaUrl"] for span in collector.spans.values()} == {
        "https://opentelemetry.io/schemas/1.41.0"
    }
    assert len(collector.logs) == 2
    assert set(collector.metrics) == {"gen_ai.execute_tool.duration", "gen_ai.invoke_workflow.duration"}
    before = dict(collector.spans), dict(collector.metrics)
    told = machine.json("trace", "export", "r1", "--otlp", collector.url)
    assert (told["spans"], told["sent"]["spans"], told["is_running"]) == (4, 4, False)
    assert (collector.spans, collector.metrics) == before


def test_values_are_exported_only_on_request(machine, collector):
    machine.run('S1: @CHAT (text="hush-hush") > $a', "S2: @RESPOND ($a)")
    machine("trace", "export", "r1", "--otlp", collector.url, "--file", "quiet.json")
    assert "hush-hush" not in repr(collector.spans)
    assert "hush-hush" not in (machine.folder / "quiet.json").read_text()
    machine("trace", "export", "r1", "--file", "loud.json", "--content")
    assert "hush-hush" in (machine.folder / "loud.json").read_text()


def test_file_has_line_per_signal_and_is_deterministic(machine):
    machine.run(*PLAN)
    texts = []
    for _ in range(2):
        assert machine("trace", "export", "r1", "--file", "out.json").exit_code == 0
        texts.append((machine.folder / "out.json").read_bytes())
    assert texts[0] == texts[1]
    lines = [json.loads(line) for line in texts[0].splitlines()]
    assert [*map(set, lines)] == [{"resourceSpans"}, {"resourceLogs"}, {"resourceMetrics"}]


def test_unreachable_collector_is_reported_and_no_span_is_lost(machine, collector):
    machine.run(*PLAN)
    collector.close()
    refused = machine("trace", "export", "r1", "--otlp", collector.url)
    assert refused.exit_code == 1
    assert "TRC001" in refused.stderr
    assert machine("trace", "export", "r1").exit_code == 0


def test_spans_that_the_collector_rejects_are_reported(machine, collector):
    collector.rejects = {"/v1/traces": {"rejectedSpans": 3, "errorMessage": "too old"}}
    plan = machine.plan(*PLAN)
    said = machine("run", plan, "--tools", machine.tools, "--run-id", "r1", "--otlp", collector.url)
    assert said.exit_code == 0
    assert "it rejected" in said.stderr
    exported = machine("trace", "export", "r1", "--otlp", collector.url)
    assert exported.exit_code == 0
    assert "traces: 3 rejected by the collector ('too old')" in exported.stdout
    sent = machine.json("trace", "export", "r1", "--otlp", collector.url)["sent"]
    assert (sent["spans"], sent["rejected"]) == (1, {"traces": {"items": 3, "why": "too old"}})


def test_invalid_collectors_and_headers_are_refused(machine):
    machine.run(*PLAN)
    assert "TRC003" in machine("trace", "export", "r1", "--otlp", "localhost:4318").stderr
    header = machine("trace", "export", "r1", "--otlp", "http://localhost:1", "--header", "a=b")
    assert (header.exit_code, "TRC004" in header.stderr) == (2, True)
    assert machine("trace", "export", "r1", "--header", "a=env:B").exit_code == 2
    assert machine("trace", "export", "r9").exit_code == 2
    assert "CFG014" in machine("trace", "export", "r1", "--file", "nowhere/x.json").stderr


def test_modified_journal_is_not_exported(machine, collector):
    machine.run(*PLAN)
    with closing(sqlite3.connect(machine.journal)) as connection, connection:
        connection.execute("UPDATE events SET body = ? WHERE type = 'ok'", (b'{"value":7}',))
    refused = machine("trace", "export", "r1", "--otlp", collector.url)
    assert (refused.exit_code, collector.requests) == (1, [])
    assert "CHAIN BROKEN" in refused.stderr


def test_provenance_is_read_by_prov_library(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: ?IF ($a > 1) THEN @ADD (a=5) > $b", 'S3: @RESPOND ("$b")')
    assert machine("run", plan, "--tools", machine.tools, "--run-id", "r2").exit_code == 0
    assert machine("trace", "export", "r2", "--prov", "p.json").exit_code == 0
    document = prov.model.ProvDocument.deserialize(str(machine.folder / "p.json"))
    assert (
        document.get_provn()
        == prov.model.ProvDocument.deserialize(str(machine.folder / "p.json")).get_provn()
    )
    said = {
        kind: {
            tuple(str(value) for _, value in record.formal_attributes)
            for record in document.get_records(kind)
        }
        for kind in (prov.model.ProvUsage, prov.model.ProvGeneration, prov.model.ProvDerivation)
    }
    used = {(who, what) for who, what, _ in said[prov.model.ProvUsage]}
    assert used == {("run:S2", "run:w1"), ("run:S3", "run:w2")}
    made = {(what, who) for what, who, _ in said[prov.model.ProvGeneration]}
    assert made == {("run:w1", "run:S1"), ("run:w2", "run:S2"), ("run:w3", "run:S3")}
    # what only decided whether a step is done was used by it, and is in nothing that it made
    assert {row[:2] for row in said[prov.model.ProvDerivation]} == {("run:w3", "run:w2")}
    assert len(list(document.get_records(prov.model.ProvAgent))) == 2


# ---------------------------------------------------------------- while it goes on


def test_run_is_exported_while_running(machine, collector):
    plan = machine.plan(*PLAN)
    said = machine("run", plan, "--tools", machine.tools, "--run-id", "r1", "--otlp", collector.url)
    assert (said.exit_code, said.stdout) == (0, "b=3\n")
    assert f"trace sent to {collector.url}, 4 spans" in said.stderr
    assert len(collector.spans) == 4
    quiet = machine("run", plan, "--tools", machine.tools, "--otlp", collector.url, "--json")
    assert "trace" not in quiet.stderr


def test_run_without_collector_succeeds_and_prints_export_command(machine, collector):
    collector.close()
    plan = machine.plan(*PLAN)
    line = ("run", plan, "--tools", machine.tools, "--run-id", "r1", "--otlp", collector.url)
    said = machine(*line)
    assert (said.exit_code, said.stdout) == (0, "b=3\n")
    assert f"send its trace with: callsheet trace export r1 --otlp {collector.url}\n" in said.stderr


def test_configuration_names_collector_and_resumed_run_keeps_it(machine, collector, monkeypatch):
    config = machine.write("c.toml", f'[otel]\nurl = "{collector.url}"\nheaders = {{ a = "env:AUTH" }}\n')
    monkeypatch.setenv("CALLSHEET_CONFIG", str(machine.folder / config))
    plan = machine.plan("S1: @ADD (a=1) > $a", 'S2: @ASK_HUMAN ("ok?") > $b', "S3: @RESPOND ($a)")
    line = ("run", plan, "--tools", machine.tools, "--run-id", "r1")
    refused = machine(*line)
    assert (refused.exit_code, "TRC004" in refused.stderr) == (2, True)
    monkeypatch.setenv("AUTH", "s3cret")
    assert machine(*line).exit_code == 4
    assert {headers["a"] for _, headers in collector.requests} == {"s3cret"}
    monkeypatch.delenv("CALLSHEET_CONFIG")
    assert machine("approve", "r1", "--answer", "fine").exit_code == 0
    assert machine("resume", "r1").exit_code == 0
    assert len(collector.tree()[""]) == 2  # a root for each process, in one trace
    assert len({span["traceId"] for span in collector.spans.values()}) == 1
    assert "s3cret" not in repr(list(machine.json("show", "r1", "--events")))


def test_invalid_export_options_are_refused_before_run(machine):
    plan = machine.plan(*PLAN)
    wrong = machine("run", plan, "--tools", machine.tools, "--otlp", "localhost:1")
    assert (wrong.exit_code, "TRC003" in wrong.stderr) == (2, True)
    assert (
        machine("run", plan, "--tools", machine.tools, "--otlp", "http://l:1", "--no-journal").exit_code == 2
    )
