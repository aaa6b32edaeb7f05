"""The functions of LTP text for Python plans, with its meaning: `ltp.match(pattern, text)`, `ltp.str(value)`.

    from callsheet import ltp

In a plan `ltp.NAME(…)` is the expression `NAME(…)` of LTP text, and `ltp.v1.NAME(…)` the lenient function of
version 1. They raise RuntimeError where they are called outside of a plan.
"""

from __future__ import annotations

from typing import Any

from callsheet.api.functions import only_in_plans


class _Functions:
    """Functions by name, which exist in plans alone."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _OnlyInPlans(f"{self.place}.{name}")


class _OnlyInPlans:
    """A function that raises."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: object, **__: object) -> Any:
        """Raises RuntimeError."""
        only_in_plans(self.name)


v1 = _Functions("ltp.v1")
__getattr__ = _Functions("ltp").__getattr__
