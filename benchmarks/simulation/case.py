"""What a seed decides before anything happens: a plan and the settings of its run; and how a run ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from benchmarks.simulation.plans import random_plan

from callsheet.api.plan import as_plan
from callsheet.ir import JSON, Plan
from callsheet.ir.labels import read_label
from callsheet.machine import Limits
from callsheet.policy.model import Policy, ToolRule, When
from callsheet.store import Durability
from callsheet.store.snapshots import SnapshotIntervals

INPUTS: dict[str, JSON] = {"a": [1, "2", None, "x"], "b": "start", "c": None}
ENDLESS = 500_000
_GOOD, _FOREIGN, _PRIVATE = map(read_label, ("T/pub", "U/pub", "T/priv"))
POLICY = Policy(
    tools={
        "READ": ToolRule(egress=False, destructive=False, returns=_FOREIGN),
        "FAULTY": ToolRule(egress=False, destructive=False, returns=_GOOD),
        "LARGE": ToolRule(egress=False, destructive=False, returns=_PRIVATE),
        "KEEP": ToolRule(egress=False, destructive=False, idempotent=True, returns=_GOOD),
        "WRITE": ToolRule(
            egress=False,
            destructive=False,
            control=("x",),
            approval=When.IF_UNTRUSTED_OR_OUTSIDE,
            returns=_GOOD,
        ),
        "KEYED": ToolRule(egress=True, destructive=False, returns=_GOOD),
        "PROBED": ToolRule(egress=False, destructive=False, control=("x",), returns=_GOOD),
    }
)
"""What READ gives is from outside, what LARGE gives is private: a run is asked or refused by that."""


class Settings(NamedTuple):
    """What a seed decides besides the plan."""

    durability: Durability
    limits: Limits
    enough: int
    """Quick commits before a synced tail is used."""
    intervals: SnapshotIntervals
    waits: bool
    """Whether a process stays while people are asked; without faults one always does."""
    approve: tuple[str, ...]
    policy: Policy | None
    pace: float
    on_server: bool
    """Whether the tools of `world.ON_SERVERS` are those of MCP servers."""
    cancels: bool
    """Whether a person cancels the run at some moment."""
    undoes: bool
    """Whether the run is undone when it has ended."""


def _settings(chance: Random, wide: Random) -> Settings:
    first = chance.choice((3, 10, 40, 8_000))
    limits = Limits(
        max_steps=2_000,
        retry_delay=chance.choice((0.0, 1.0)),
        schedule=chance.choice(("sequential", "auto")),
        window=chance.choice((1, 2, 3, 16)),
        max_concurrency=chance.choice((1, 4)),
        max_calls=chance.choice((ENDLESS, ENDLESS, ENDLESS, 6)),
        max_bytes=3_000_000,
    )
    return Settings(
        chance.choice((Durability.FULL, Durability.FULL, Durability.NORMAL)),
        limits,
        chance.choice((1, 1, 2, 16)),
        SnapshotIntervals(first, chance.choice((3, 20, 1_000)), 1_000_000),
        chance.random() < 0.5,
        ("WRITE",) if chance.random() < 0.15 else (),
        POLICY if chance.random() < 0.25 else None,
        chance.choice((0.02, 0.05, 1.0, 5.0)),
        wide.random() < 0.2,
        wide.random() < 0.1,
        wide.random() < 0.2,
    )


class Case(NamedTuple):
    """A plan, and how it is run."""

    seed: int
    plan: Plan
    text: str
    settings: Settings

    @classmethod
    def of(cls, seed: int, *, stops: bool = False) -> Case:
        """The case of a seed; with `stops`, failures, first items and time limits stop others."""
        chance = Random(f"{seed} plan")
        text = random_plan(chance)
        if stops and text.startswith("# ltp: 2"):
            together = "TOGETHER FIRST" if seed % 2 else "TOGETHER STOP"
            text = text.replace("@PARALLEL", "@PARALLEL STOP").replace("TOGETHER", together)
            text = text.replace("TRY {", "TRY WITHIN (2) {")
        return cls(seed, as_plan(text, INPUTS.keys()).ir, text, _settings(chance, Random(f"{seed} wide")))

    @property
    def stops(self) -> bool:
        """Whether which calls follow may depend on how long those beside them took."""
        return any(word in self.text for word in (" STOP", " FIRST", " WITHIN "))


class End(NamedTuple):
    """How a run ended."""

    status: str
    answer: JSON
    error: str | None
    outcome: str
    effects: dict[str, dict[str, int]]
    """What took place, by tool and arguments; without tools that may do so twice."""


@dataclass
class Report:
    """What one seed came to."""

    seed: int
    problems: list[str] = field(default_factory=list[str])
    trace: list[str] = field(default_factory=list[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0
