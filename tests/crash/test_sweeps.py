"""A run that is killed at any moment and resumed ends like an uninterrupted one.

These are the sweeps of `benchmarks/crash.py` with few kills of real processes; the conditions are described
there. `test_simulation` has the many.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.conftest import Sweep

pytestmark = pytest.mark.crash


@pytest.mark.servers
def test_demo_killed_at_random_moments_loses_nothing(
    sweep: Sweep, demonstration_servers: dict[str, Path]
) -> None:
    servers = [f"--server={package}={command}" for package, command in demonstration_servers.items()]
    assert sweep("--kills", "2", "--seed", "5", *servers)["kills"] == 2


def test_kill_at_every_journal_write_loses_nothing(sweep: Sweep) -> None:
    """For a plan of twenty steps, and again while it is resumed."""
    figures = sweep("--plan", "points", "--every", "3")
    assert figures["trials"] > 26
    assert figures["before_the_run"] > 0
    assert figures["retried"] > 0
    assert figures["skipped"] > 0


def test_kill_at_unsynced_journal_writes_loses_nothing(sweep: Sweep) -> None:
    assert sweep("--plan", "points", "--small", "--durability", "off", "--every", "5")["trials"] >= 8
