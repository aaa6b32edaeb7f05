"""A disk that fails or becomes read-only at its k-th write: the run stops, and nothing is lost.

`disks/sweep.py` runs one plan repeatedly; each time the kernel refuses a later write. Meanwhile an attempt
to resume the run must call nothing; afterwards the run is resumed on a working disk.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.crash.disks.faulty import NOT_OFFERED
from tests.crash.worlds import ROOT

pytestmark = pytest.mark.crash
Sweep = Callable[..., "dict[str, Any]"]


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """Runs `disks/sweep.py` and returns its findings; fails if anything was wrong."""

    def run(*arguments: str) -> dict[str, Any]:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *sys.path])
        done = forked.run(
            [sys.executable, "-m", "tests.crash.disks.sweep", tmp_path, *arguments],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode == NOT_OFFERED:
            pytest.skip("this system lets no process answer for the calls of another")
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["problems"] == []
        return found

    return run


@pytest.mark.parametrize(
    ("error", "durability", "every"),
    [
        *(("EIO", "full", 7), ("EROFS", "full", 13), ("EDQUOT", "full", 15)),
        *(("EIO", "normal", 8), ("EROFS", "normal", 14), ("EDQUOT", "off", 15)),
    ],
)
def test_disk_failing_from_kth_write_stops_run_without_loss(
    sweep: Sweep, error: str, durability: str, every: int
) -> None:
    found = sweep(error, durability, "on", str(every))
    figures = found["figures"]
    assert figures["trials"] > 80 / every
    assert figures["finished"] + figures["begun again"] == figures["trials"]
    assert min(figures["finished"], figures["begun again"], figures["stopped"]) > 1
    assert set(found["codes"]) == {"JRN006", "JRN010"}


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_run_survives_single_failed_write(sweep: Sweep, durability: str) -> None:
    """But for the writes that make the journal and begin the run: then nothing is there, and that is said."""
    found = sweep("EIO", durability, "once", "8")
    figures = found["figures"]
    assert figures["stopped"] == figures["begun again"]
    assert figures["finished"] > figures["trials"] / 3
    assert set(found["codes"]) == {"JRN010"}
