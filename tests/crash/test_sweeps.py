"""A run that is killed at any moment and resumed ends like an uninterrupted one.

These are the sweeps of `benchmarks/crash.py` with few kills; the conditions are described there.
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


def test_python_tools_killed_at_random_moments_lose_nothing(sweep: Sweep) -> None:
    assert sweep("--plan", "tools", "--kills", "10", "--seed", "1")["kills"] == 10


def test_kill_at_every_journal_write_loses_nothing(sweep: Sweep) -> None:
    """For a plan of twenty steps, and again while it is resumed."""
    figures = sweep("--plan", "points", "--every", "3")
    assert figures["trials"] > 26
    assert figures["before_the_run"] > 0
    assert figures["retried"] > 0
    assert figures["skipped"] > 0


@pytest.mark.parametrize("durability", ["normal", "off"])
def test_kill_at_unshared_journal_writes_loses_nothing(sweep: Sweep, durability: str) -> None:
    assert sweep("--plan", "points", "--small", "--durability", durability, "--every", "5")["trials"] >= 8


def test_kill_at_every_write_of_synced_tail_loses_nothing(sweep: Sweep) -> None:
    """For a plan of nine steps whose commits use a tail as early as possible."""
    figures = sweep("--plan", "points", "--small", "--tails", "--every", "3")
    assert figures["trials"] > 20
