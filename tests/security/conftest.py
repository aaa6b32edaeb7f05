"""What every test of this folder works on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.world import World

from callsheet.store import Journal


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "work"
    folder.mkdir()
    with Journal.open(tmp_path / "journal.db") as journal:
        yield World(folder, journal)
