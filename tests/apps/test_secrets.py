"""`callsheet run --secret`: sources of secrets, and that they are not shown."""

from __future__ import annotations

import json
import re

import pytest
from tests.apps.conftest import Machine
from tests.written import all_bytes

PLAN = 'S1: @CHAT ("login $token") > $s\nS2: @FAIL ("no $token") > $f ON_FAIL GOTO S3\nS3: @RESPOND ("fine")'
TOKEN = "Kq9-canary-4711/xyz"


@pytest.fixture
def plan(machine: Machine) -> str:
    return machine.plan(*PLAN.splitlines())


def test_secret_comes_from_environment_file_or_stdin(
    machine: Machine, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    (machine.folder / "token").write_text(f"{TOKEN}\n")
    for where, given in (("env:TOKEN", None), ("file:token", None), ("-", f"{TOKEN}\n")):
        done = machine("run", plan, "--tools", machine.tools, "--secret", f"token={where}", stdin=given)
        assert done.exit_code == 0, done.output
        assert done.stdout == "fine\n"
    (machine.folder / "token").unlink()
    for options in ((), ("--events",), ("--json",), ("--events", "--json"), ("--timeline",)):
        shown = machine("show", "last", *options)
        assert shown.exit_code == 0
        assert TOKEN not in shown.output
    assert "[sealed k:" in machine("show", "last").stdout
    assert TOKEN.encode() not in all_bytes(machine.folder)


def test_waiting_run_prints_variables_without_secrets(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    plan = machine.plan('S1: @CALC ("6 * 7") > $n', 'S2: @CHAT ("login $token") > $s')
    given = ("--tools", machine.tools, "--secret", "token=env:TOKEN", "--approve", "chat", "--json")
    done = machine("run", plan, *given)
    assert done.exit_code == 4, done.stderr
    assert TOKEN not in done.output
    assert json.loads(done.stdout)["variables"]["n"] == 42


def test_what_is_computed_from_a_secret_is_withheld_not_computed_from_its_placeholder(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    plan = machine.plan("S1: @CALC ('1')")
    (machine.folder / plan).write_text(
        '# ltp: 2\nINPUT $token: str\nLET $n = len($token)\n@RESPOND ("${n} characters")\n'
    )
    done = machine("run", plan, "--tools", machine.tools, "--secret", "token=env:TOKEN")
    assert done.stdout == f"{len(TOKEN)} characters\n"
    shown = machine("show", "last").stdout
    assert "$n = [withheld: computed from a sealed value]" in shown
    assert f"answer: {len(TOKEN)} characters" in shown
    assert "$n = withheld, it is computed from a sealed value" in machine("why", "last", "n").stdout
    assert "$n = [withheld" in machine("at", "last", "1").stdout


def test_every_view_of_a_run_says_what_was_withheld_as_computed_from_a_secret(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    plan = machine.plan("S1: @CALC ('1')")
    (machine.folder / plan).write_text(
        "# ltp: 2\nINPUT $token: str\nLET $n = len($token) + 7000\n"
        'S1: @CHAT ("${n} characters") > $said\n'
        'S2: ?FOREACH ($i IN [1]) {\n  LET $m = $n + $i\n  NOTE ("so ${m}")\n  YIELD ($m)\n} > $rows\n'
        "@RESPOND ($n)\n"
    )
    done = machine("run", plan, "--tools", machine.tools, "--secret", "token=env:TOKEN", "--run-id", "r")
    assert done.exit_code == 0, done.output
    true, wrong = len(TOKEN) + 7000, 7044
    assert str(true) in done.stdout
    machine("report", "r", "--output", "r.html")
    machine("trace", "export", "r", "--content", "--file", "r.jsonl")
    views = {
        "show": machine("show", "r").stdout,
        "show --json": machine("show", "r", "--json").stdout,
        "why": machine("why", "r", "rows").stdout,
        "playback": machine("playback", "r").stdout,
        "LCTL": machine("lctl", "emit", "r").stdout,
        "report": (machine.folder / "r.html").read_text(),
        "OpenTelemetry": (machine.folder / "r.jsonl").read_text(),
    }
    for view, text in views.items():
        assert "withheld" in text, view
        for number in (wrong, wrong + 1):
            assert not re.search(rf"(?<![0-9a-f.+]){number}(?![0-9a-f])", text), (view, number)


def test_events_are_shown_without_sealed_envelopes(
    machine: Machine, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    assert machine("run", plan, "--tools", machine.tools, "--secret", "token=env:TOKEN").exit_code == 0
    first = json.loads(machine("show", "last", "--events", "--json").stdout)[0]
    (told,) = [row for row in first["body"]["sealed"]["secrets"] if row["why"] == "declared"]
    assert (told["kind"], told["size"]) == ("text", len(TOKEN))
    assert set(told) == {"digest", "kind", "size", "why"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["token=s3cr3t"], "neither env:VARIABLE nor file:PATH nor -"),
        (["token"], "has no source"),
        (["token=env:NOT_THERE"], "variable NOT_THERE is not set"),
        (["token=env:EMPTY"], "is empty"),
        (["token=file:missing"], "cannot be read"),
        (["token=env:TOKEN", "token=env:TOKEN"], "given twice"),
    ],
)
def test_unavailable_secret_is_refused(
    machine: Machine, plan: str, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    monkeypatch.setenv("EMPTY", "")
    given = [word for option in options for word in ("--secret", option)]
    done = machine("run", plan, "--tools", machine.tools, *given)
    assert done.exit_code == 2
    assert "SEC005" in done.stderr
    assert said in done.stderr


def test_variable_and_secret_of_same_name_are_refused(
    machine: Machine, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    done = machine("run", plan, "--tools", machine.tools, "--var", "token=x", "--secret", "token=env:TOKEN")
    assert done.exit_code == 2
    assert "given twice" in done.stderr


def test_short_secret_warns_that_it_is_not_searched_for(
    machine: Machine, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIN", "123")
    done = machine("run", plan, "--tools", machine.tools, "--secret", "token=env:PIN")
    assert done.exit_code == 0
    assert "SEC006" in done.stderr


def test_dry_run_needs_and_shows_no_secret(machine: Machine, plan: str) -> None:
    done = machine("run", plan, "--tools", machine.tools, "--dry-run", "--secret", "token=env:NOT_THERE")
    assert done.exit_code == 0, done.output
    assert "[secret]" in done.output


LOOKS = (
    ("show", "r"), ("show", "r", "--json"), ("why", "r", "n"), ("at", "r", "4"), ("playback", "r"),
    ("lctl", "emit", "r"), ("search", "r", "chosen"), ("runs", "diff", "r", "r2"),
    ("trace", "export", "r", "--content", "--file", "spans"),
    ("trace", "export", "r", "--content", "--prov", "prov"), ("report", "r", "-o", "report.html"),
)  # fmt: skip


@pytest.mark.parametrize("has_key", [True, False])
def test_steps_decided_by_secret_are_shown_or_warned_about(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    monkeypatch.delenv("CALLSHEET_SEAL_KEY", raising=False)
    monkeypatch.setenv("CALLSHEET_SEAL_KEY_FILE", str(machine.folder / "key"))
    plan = machine.plan(
        'S1: ?IF ($token contains "canary") THEN @FORMAT ("chosen") > $m',
        'S2: @FORMAT ("no") > $n',
        'S3: @RESPOND ("done $m")',
    )
    for name in ("r", "r2"):
        done = machine("run", plan, "--tools", machine.tools, "--secret", "token=env:TOKEN", "--run-id", name)
        assert done.exit_code == 0, done.output
    if not has_key:
        monkeypatch.setenv("CALLSHEET_SEAL_KEY_FILE", str(machine.folder / "nowhere"))
    for line in LOOKS:
        looked = machine(*line)
        assert looked.exit_code in (0, 1), (line, looked.output)
        assert TOKEN not in looked.output
        assert ("SEC010" in looked.stderr) is not has_key, (line, looked.output)
        if line[0] in ("show", "playback"):
            assert ("skipped" in looked.output) is not has_key, (line, looked.output)
    if has_key:
        assert "$m = chosen" in machine("show", "r").stdout
        assert "chosen" in machine("why", "r", "m").stdout
        assert "chosen" in machine("lctl", "emit", "r").stdout
        assert "chosen" in (machine.folder / "spans").read_text()
        assert "chosen" in (machine.folder / "prov").read_text()
