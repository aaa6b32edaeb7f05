"""Types of run-time values: JSON, and the casts that a step may apply to its result."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A run-time value: JSON data as native Python types."""

Scalar: TypeAlias = "bool | int | float | str | None"
"""A JSON value that is no array or object."""


class Cast(StrEnum):
    """The type that a step's result is converted to after success (`> $n:int`)."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    LIST = "list"
    JSON = "json"
