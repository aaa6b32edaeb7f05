"""Lowers pure Python to what its executor understands with the meaning of CPython 3.12.

In: the tree of a program without refusals. Out: a tree that says the same on the executor, and the helpers
that it calls. Helpers are Python of the executor; their names start with `_cs_`, which programs may not use.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

from callsheet.frontends.pure_code.helpers import CORE


class Lowered(NamedTuple):
    """A lowered program: the tree, its helpers, and the bases of each class of exceptions that it makes."""

    tree: ast.Module
    helpers: str
    classes: Mapping[str, tuple[str, ...]]


def lowered(tree: ast.Module) -> Lowered:
    """The program as the executor has to be given it; the tree of the source stays as it is."""
    return Lowered(tree, CORE, {})
