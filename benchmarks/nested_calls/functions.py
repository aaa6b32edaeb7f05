"""The arithmetic functions that the sequences call, as tools: each returns `{"result": number}`.

As in the data, `sqrt` is the integer square root, and `reminder` a second name of the remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from callsheet import tool

_ONE: dict[str, Callable[[Any], float]] = {
    "circle_area": lambda r: math.pi * r**2,
    "circumface": lambda r: 2 * math.pi * r,
    "cube_edge_by_volume": lambda v: v ** (1 / 3),
    "factorial": lambda n: math.factorial(int(n)),
    "floor": math.floor,
    "inverse": lambda x: 1 / x,
    "max_number": max,
    "min_number": min,
    "negate": lambda x: -x,
    "negate_prob": lambda p: 1 - p,
    "sqrt": lambda x: math.isqrt(int(x)),
    "square_area": lambda a: a**2,
    "square_edge_by_area": lambda a: a**0.5,
    "square_edge_by_perimeter": lambda p: p / 4,
    "square_perimeter": lambda a: 4 * a,
    "surface_cube": lambda a: 6 * a**2,
    "surface_sphere": lambda r: 4 * math.pi * r**2,
    "volume_cube": lambda a: a**3,
    "volume_sphere": lambda r: 4 / 3 * math.pi * r**3,
}
_TWO: dict[str, Callable[[Any, Any], float]] = {
    "add": lambda a, b: a + b,
    "choose": lambda n, r: math.comb(int(n), int(r)),
    "diagonal": math.hypot,
    "divide": lambda a, b: a / b,
    "gcd": lambda a, b: math.gcd(int(a), int(b)),
    "lcm": lambda a, b: math.lcm(int(a), int(b)),
    "log": math.log,
    "multiply": lambda a, b: a * b,
    "permutation": lambda n, r: math.perm(int(n), int(r)),
    "power": lambda a, b: a**b,
    "rectangle_area": lambda a, b: a * b,
    "rectangle_perimeter": lambda a, b: 2 * (a + b),
    "remainder": lambda a, b: a % b,
    "reminder": lambda a, b: a % b,
    "rhombus_area": lambda a, b: a * b / 2,
    "speed": lambda distance, time: distance / time,
    "subtract": lambda a, b: a - b,
    "surface_cylinder": lambda r, h: 2 * math.pi * r * (r + h),
    "triangle_area": lambda base, height: base * height / 2,
    "volume_cone": lambda r, h: math.pi * r**2 * h / 3,
    "volume_cylinder": lambda r, h: math.pi * r**2 * h,
}


def worked_out(name: str, arguments: Sequence[Any]) -> float:
    """The result of a function; raises KeyError for an unknown one, and errors of arithmetic."""
    return _ONE[name](*arguments) if name in _ONE else _TWO[name](*arguments)


def function_tools() -> list[Callable[..., Any]]:
    """All functions as tools that callsheet calls."""
    return [*(_one(name, work) for name, work in _ONE.items()), *(_two(n, work) for n, work in _TWO.items())]


def _one(name: str, work: Callable[[Any], float]) -> Callable[..., Any]:
    @tool(name=name, effect="pure")
    def function(arg_0: Any) -> dict[str, float]:
        """Evaluate a function of one argument."""
        return {"result": work(arg_0)}

    return function


def _two(name: str, work: Callable[[Any, Any], float]) -> Callable[..., Any]:
    @tool(name=name, effect="pure")
    def function(arg_0: Any, arg_1: Any) -> dict[str, float]:
        """Evaluate a function of two arguments."""
        return {"result": work(arg_0, arg_1)}

    return function
