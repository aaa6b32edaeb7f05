"""Fixtures: a folder with real tools, plans and a journal, and both protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_room import MODEL, TOOLS, Room


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("CALLSHEET_MODELS", str(tmp_path / "models"))
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "work").mkdir()
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "model.py").write_text(MODEL)
    return Room(tmp_path)


@pytest.fixture(params=["2026-07-28", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """The current protocol and the newest earlier one."""
    return request.param
