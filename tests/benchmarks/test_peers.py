"""Results of a harness are compared with the goals."""

from __future__ import annotations

import json
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks import peers

RUN = {
    "cases": {
        "W1/chain/N=10": {"n": 10},
        "W4/dag/seed=11/limit=8": {"n": 60, "bound_s": 0.1},
        "W5/durable/10KB/N=50": {"n": 50, "size": 10_000},
        "W6/parse/N=10": {"n": 10},
        "W7/cli-help": {"n": 0},
    },
    "cells": [
        ["W1/chain/N=10", "callsheet", "", 40e-6, 1.0, 0],
        ["W1/chain/N=10", "floor", "interp", 10e-6, 1.0, 0],
        ["W1/chain/N=10", "floor", "asyncio", 1e-6, 1.0, 0],
        ["W1/chain/N=10", "slow", "", 900e-6, 1.0, 0],
        ["W1/chain/N=10", "other", "", 300e-6, 1.0, 0],
        ["W4/dag/seed=11/limit=8", "callsheet", "", 9.0, 0.113, 0],
        ["W5/durable/10KB/N=50", "callsheet", "process", 1.0, 1.0, 600_000],
        ["W6/parse/N=10", "callsheet", "", 160e-6, 1.0, 0],
        ["W7/cli-help", "callsheet", "", 0.08, 1.0, 0],
    ],
}


def test_each_unit_is_compared_with_goal() -> None:
    found = {row[0]: row[4:] for row in peers.rows(RUN)}
    assert found == {
        "W1/chain/N=10": ("4 x floor", "4", "met"),
        "W4/dag/seed=11/limit=8": ("1.13 x bound", "1.12", "missed"),
        "W5/durable/10KB/N=50 process": ("1.2 x bytes", "1.5", "met"),
        "W6/parse/N=10": ("16 us a step", "15", "missed"),
        "W7/cli-help": ("80 ms", "70", "missed"),
    }


def test_best_peer_is_fastest_excluding_floor() -> None:
    chain = next(row for row in peers.rows(RUN) if row[0] == "W1/chain/N=10")
    assert chain[1:4] == ("4 us", "1 us interp", "30 us other")


def test_compiled_wheel_has_separate_rows_and_is_no_peer() -> None:
    compiled = [["W1/chain/N=10", "compiled", "", 20e-6, 1.0, 0]]
    found = [
        row for row in peers.rows({**RUN, "cells": [*RUN["cells"], *compiled]}) if row[0].startswith("W1")
    ]
    assert found == [
        ("W1/chain/N=10", "4 us", "1 us interp", "30 us other", "4 x floor", "4", "met"),
        ("W1/chain/N=10 compiled", "2 us", "1 us interp", "30 us other", "2 x floor", "4", "met"),
    ]


def test_wheel_is_measured_by_same_adapter(tmp_path: Path) -> None:
    wheel = tmp_path / "callsheet-1-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    ours, compiled = peers.adapters(wheel).values()
    assert list(peers.adapters(None).values()) == [ours]
    heads = [read_inline(text) for text in (ours, compiled)]
    assert heads[0]["tool"]["bench"].pop("editable") == str(Path(peers.__file__).resolve().parent.parent)
    assert heads[0].pop("dependencies") == []
    (needs,) = heads[1].pop("dependencies")
    assert needs == f"callsheet @ {wheel.as_uri()}#sha256={sha256(b'a wheel').hexdigest()}"
    assert (heads[0]["tool"]["bench"].pop("label"), heads[1]["tool"]["bench"].pop("label")) == (
        "callsheet",
        "compiled",
    )
    assert heads[0] == heads[1]
    assert ours.partition('# ///\n"""')[2] == compiled.partition('# ///\n"""')[2] != ""


def read_inline(text: str) -> dict[str, Any]:
    """The inline metadata of a script."""
    head = text.partition("# /// script\n")[2].partition("# ///\n")[0]
    return tomllib.loads("\n".join(line[2:] for line in head.splitlines()))


def test_stored_run_has_row_for_every_goal() -> None:
    kept = [row[0] for row in peers.rows(json.loads(peers.KEPT.read_text()))]
    for goal in (goal for goal in peers.GOALS if goal.cases != "resume/"):
        assert any(row.startswith(goal.cases) and row.endswith(goal.variant) for row in kept), goal


def test_resuming_is_measured_in_addition() -> None:
    run = peers.with_resumed(RUN, steps=300)
    (row,) = [row for row in peers.rows(run) if row[0].startswith("resume")]
    ours, floor = (
        next(c for c in run["cells"][::-1] if c[:2] == ["resume/N=300", who])
        for who in ("callsheet", "floor")
    )
    assert ours[3] > floor[3] > 0
    assert row[2].endswith("ms read")
    assert row[4:] == (f"{ours[3] * 1e3:.3g} ms", "200", "met" if ours[3] <= 0.2 else "missed")
