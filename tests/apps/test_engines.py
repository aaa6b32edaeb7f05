"""Runs on Temporal without a server, and options that such runs do not support."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.apps.conftest import Machine

from callsheet import CallsheetError, Runtime
from callsheet.apps.cli.journals import report_interrupt
from callsheet.runtime.engines.temporal.run_order import SECRETS
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.store import Journal
from callsheet.store.listing import ENGINE

_NOWHERE = ("--engine", "temporal", "--address", "127.0.0.1:1")


@pytest.fixture
def plan(machine: Machine) -> str:
    return machine.plan('S1: @CALC ("1 + 1") > $x', 'S2: @RESPOND ("$x")')


def test_unreachable_server_is_named_and_nothing_is_recorded(machine: Machine, plan: str) -> None:
    said = machine("run", plan, *_NOWHERE)
    assert said.exit_code == 2
    assert "TMP002: no Temporal server answers at 127.0.0.1:1" in said.stderr
    assert json.loads(machine("runs", "--json").stdout) == []


def test_worker_needs_server(machine: Machine) -> None:
    said = machine("worker", "--address", "127.0.0.1:1")
    assert (said.exit_code, "TMP002" in said.stderr) == (2, True)


@pytest.mark.parametrize("secret", ["NOT_THERE", "token=env:HOME", ""])
def test_worker_without_its_secret_does_not_start(machine: Machine, secret: str) -> None:
    said = machine("worker", "--address", "127.0.0.1:1", "--secret", "HOME", "--secret", secret)
    assert (said.exit_code, "SEC005" in said.stderr) == (2, True)
    assert "--secret DEPLOY_TOKEN" in said.stderr


@pytest.mark.parametrize("secret", ["x=file:x.txt", "x=-", "x"])
def test_temporal_run_takes_secrets_only_from_environment(machine: Machine, plan: str, secret: str) -> None:
    said = machine("run", plan, *_NOWHERE, "--secret", secret)
    assert (said.exit_code, "TMP008" in said.stderr) == (2, True)


@pytest.mark.parametrize(("encrypts", "code"), [("false", "TMP008"), ("true", "TMP002")])
@pytest.mark.parametrize(
    ("default", "given"), [("", ["--var", "x=correct-horse"]), (' = "correct-horse"', [])]
)
def test_temporal_stores_secret_inputs_only_encrypted(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    encrypts: str,
    code: str,
    default: str,
    given: list[str],
) -> None:
    monkeypatch.setenv("CALLSHEET_CONFIG", machine.write("own.toml", f"[temporal]\nencrypt = {encrypts}\n"))
    plan = machine.write("p.ltp", f"# ltp: 2\nINPUT SECRET $x: str{default}\n@RESPOND ($x)\n")
    said = machine("run", plan, *_NOWHERE, *given)
    assert (said.exit_code, f"error {code}: " in said.stderr) == (2, True), said.stderr


_BLOCKS = "# ltp: 2\nINPUT $x: str\nS1: @WEB_SEARCH (query={})\n@RESPOND (1)\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('# ltp: 1\nS1: ?IF ($x == "a") THEN @RESPOND ("yes")\nS2: @RESPOND ($x)\n', "S1 has a condition on"),
        (_BLOCKS.format("$x[0]"), "S1 works with the secret $x"),
        (_BLOCKS.format('"a?t=${x}"'), "TMP002"),
    ],
)
def test_plan_that_decides_by_secret_is_refused_on_temporal(machine: Machine, text: str, told: str) -> None:
    said = machine("run", machine.write("p.ltp", text), *_NOWHERE, "--secret", "x=env:HOME")
    assert (said.exit_code, told in said.stderr) == (2, True), said.stderr


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        ("INPUT $x: str\nINPUT $y: str\n@RESPOND ($x.upper())\n", "respond1 works with the secret $x"),
        ("INPUT $x: str\nINPUT SECRET $y: str\n@RESPOND ($y)\n", "the secret input $y would be clear text"),
    ],
)
def test_an_edited_plan_has_no_secrets_on_temporal_that_a_new_one_may_not_have(
    machine: Machine, edited: str, told: str
) -> None:
    plan = machine.write("p.ltp", "# ltp: 2\nINPUT $x: str\nINPUT $y: str\n@RESPOND ($y)\n")
    machine("run", plan, "--var", "x=[secret x 1f]", "--var", "y=b", "--run-id", "here")
    _copy_on_temporal(machine, {SECRETS: {"[secret x 1f]": "HOME"}})
    said = machine("resume", "there", "--plan", machine.write("p.ltp", "# ltp: 2\n" + edited), "--yes")
    assert (said.exit_code, "TMP008" in said.stderr, told in said.stderr) == (2, True, True), said.stderr
    assert [one["run_id"] for one in json.loads(machine("runs", "--json").stdout)] == ["there", "here"]


def _copy_on_temporal(machine: Machine, more: dict[str, Any]) -> None:
    """Record the start of the run `here` once more, as that of the run `there`, which Temporal executes."""
    with Journal.open(machine.journal) as journal:
        start = next(iter(journal.events("here"))).body or {}
        note = TemporalSettings(address="127.0.0.1:1").to_note()
        body = {**start, "launch": {**start["launch"], ENGINE: note, **more}}
        steps, source = journal.plan(journal.find_run("here").plan_hash)
        with journal.create_run("there", steps, source, body, core_version="1") as writer:
            writer.commit()


def test_engine_options_need_engine_and_exclude_no_journal(machine: Machine, plan: str) -> None:
    assert "need --engine temporal" in machine("run", plan, "--detach").stderr
    assert "cannot be combined" in machine("run", plan, *_NOWHERE, "--no-journal").stderr


def test_copy_of_remote_run_is_not_resumed_locally(machine: Machine, plan: str) -> None:
    machine("run", plan, "--run-id", "here")
    _copy_on_temporal(machine, {})
    for line in (("resume",), ("decide", "S1", "skip"), ("cancel",), ("approve",), ("pause",)):
        said = machine(line[0], "there", *line[1:])
        assert (said.exit_code, "TMP002" in said.stderr) == (2, True), line
    for option in ("--tools", "--policy", "--model"):
        said = machine("resume", "there", option, "other.py")
        assert (said.exit_code, "keeps the options it was started with" in said.stderr) == (2, True), option
    said = machine("runs", "pause", "--text", "there", "--yes")
    assert (said.exit_code != 0, "run there is executed by Temporal" in said.stderr) == (True, True)
    assert "(`callsheet pause there`, or" in said.stderr
    with Journal.open(machine.journal) as journal, journal.claim("there"):  # as while it is updated
        for withdraw in (Runtime.pause_sync, Runtime.cancel_sync):
            with pytest.raises(CallsheetError, match=r"TMP007: .* only commands of the shell") as refused:
                withdraw(Runtime(journal=machine.journal), "there")
            assert "`callsheet pause there`, or resume" in (refused.value.diagnostics[0].help or "")
    shown = machine("show", "there")
    assert shown.exit_code == 0
    assert ", 1 event, chain verified" in shown.stdout
    assert "there                  1 event saved" in machine("runs", "salvage", "-o", "saved.jsonl").stderr
    assert "the output may be out of date" in shown.stderr
    assert shown.stderr.count("TMP002") == 1
    assert '"status": "running"' in json.dumps(json.loads(machine("runs", "--json").stdout))


def test_interrupted_wait_for_remote_run_prints_that_it_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report_interrupt(KeyboardInterrupt(), "r", " --journal j.db", on_server=True) == 130
    told = capsys.readouterr().err
    assert (
        told == "the run continues on the server; wait for it again with: callsheet resume r --journal j.db\n"
    )
