"""What pure code may not say: each part of a program that is refused, its place, the reason, a rewrite.

In: the tree of a program. Out: `Refusal`s in the order of the text. A program without any may be lowered.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class RefusalKind(StrEnum):
    """What is refused."""

    SYNTAX = "syntax"
    STATEMENT = "statement"
    NAME = "name"
    MODULE = "module"
    MEMBER = "member"
    GENERATOR = "generator"
    CLASS = "class"


class Refusal(NamedTuple):
    """A part of a program that is refused; line and column count from 1."""

    kind: RefusalKind
    line: int
    column: int
    reason: str
    rewrite: str


def refusals(tree: ast.Module, given: Iterable[str] = ()) -> list[Refusal]:
    """What pure code may not say of a program whose inputs are `given`, in the order of the text."""
    found: list[Refusal] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef)):
            found.append(
                Refusal(
                    RefusalKind.STATEMENT,
                    node.lineno,
                    node.col_offset + 1,
                    "pure code calls no tool and waits for nothing",
                    "await in the plan's own function, and give the result to this code",
                )
            )
    return sorted(found, key=lambda refusal: (refusal.line, refusal.column))
