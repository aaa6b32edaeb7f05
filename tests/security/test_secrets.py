"""Secrets: a server gets only its own, and none is written to a file, a journal or a terminal."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

CANARY = "canary-5f2c"


@pytest.fixture
def told(user: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A user whose server has a secret, in an environment with another."""
    monkeypatch.setenv("SOME_API_KEY", CANARY)
    server = {**user.changeling.command, "env": {"SERVER_KEY": "${env:SOME_API_KEY}"}}
    (user.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"hall": server}}))
    user.plan('S1: @LOOK (thing="x") > $a', "S2: @RESPOND ($a)")
    return user


def run(user: Any) -> Any:
    return user("run", "plan.ltp", "--run-id", "run", "--journal", "kept/journal.db")


def test_server_sees_only_its_configured_environment(told: Any) -> None:
    told.changeling.answer(look="environment")
    seen = run(told).stdout.split()
    assert "SERVER_KEY" in seen
    assert "SOME_API_KEY" not in seen
    assert not [name for name in seen if name.startswith(("CALLSHEET_", "PYTEST_"))]


@pytest.mark.parametrize(
    "wrong", [{}, {"command": "no-such-program"}, {"args": ["-c", "raise SystemExit(3)"]}]
)
def test_no_secret_is_in_output_or_written_files(told: Any, wrong: dict[str, Any]) -> None:
    table = json.loads(Path("mcp.json").read_text())
    table["mcpServers"]["hall"] |= wrong
    Path("mcp.json").write_text(json.dumps(table))
    ended = run(told)
    assert (ended.exit_code == 0) is (wrong == {})
    shown = [ended] + [
        told(*line.split()) for line in ("tools", "trust list", "show run --journal kept/journal.db")
    ]
    assert CANARY not in "".join(result.output for result in shown)
    written = [path for path in Path().rglob("*") if path.is_file()]
    assert [path for path in written if CANARY.encode() in path.read_bytes()] == []


def test_journal_is_readable_by_owner_only(told: Any) -> None:
    """It contains the output of plans and tools."""
    run(told)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in Path("kept").rglob("*")}
    assert Path("kept/journal.db") in modes
    assert [path for path, mode in modes.items() if mode & 0o077] == []
