"""The types of values: JSON, and the casts that a step may apply to its result."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A value at run time: what JSON can say, as native Python types."""

Scalar: TypeAlias = "bool | int | float | str | None"
"""A JSON value without parts."""


class Cast(StrEnum):
    """What a step's result is turned into after it succeeds (`> $n:int`)."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    LIST = "list"
    JSON = "json"
