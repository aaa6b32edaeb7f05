"""The area `ltp` on Temporal: the documented API, with runs on a server and a worker.

In: a case and a fleet. Out: the differences. Only cases with plans that run differ from the area `ltp`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.conformance import ltp
from tests.conformance.findings import difference
from tests.conformance.form import Case
from tests.conformance.world import World
from tests.temporal.fleet import Fleet

from callsheet import compat
from callsheet.compat import runtime

_LONG_CALL = 0.2
"""Seconds that a call takes where others are to be under way with it."""


def differences(case: Case, fleet: Fleet) -> list[str]:
    """The unmet expectations of a case and differences from its local end; an empty list if it is met."""
    waited, ends = list[float](), list[dict[str, Any]]()

    carried = fleet.stand_in(waited)

    class Runtime(compat.LTPRuntime):
        async def execute(self, *args: Any, **more: Any) -> dict[str, Any]:
            with patch.object(runtime, "run_unrecorded", carried):
                ends.append(await super().execute(*args, **more))
                return ends[-1]

    class Here(compat.LTPRuntime):
        async def execute(self, *args: Any, **more: Any) -> dict[str, Any]:
            ends.append(await super().execute(*args, **more))
            return ends[-1]

    @contextmanager
    def noted(case: Case, world: World) -> Generator[None]:
        world.slept = waited
        if "concurrency_min" in case.expect:
            world.linger = _LONG_CALL
        yield

    found = ltp.differences(case, _product(Runtime), noted)
    found += ltp.differences(case, _product(Here))
    told = [{name: value for name, value in end.items() if name != "usage"} for end in ends]
    return found or [
        difference("what it comes to", here, there) for there, here in pairwise(told) if here != there
    ]


def _product(runtime: type[compat.LTPRuntime]) -> SimpleNamespace:
    """The documented API with another runtime."""
    return SimpleNamespace(
        **{name: getattr(compat, name) for name in compat.__all__} | {"LTPRuntime": runtime}
    )
