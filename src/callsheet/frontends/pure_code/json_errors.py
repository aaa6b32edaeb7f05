"""The fields of a JSONDecodeError, of its words: `words: line 1 column 2 (char 1)`.

In: what gives the words, or the body of a handler. Out: Python that an expression or the executor evaluates.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

_PARTS: Final[Mapping[str, str]] = {
    "msg": "{0}.rpartition(': line ')[0]",
    "lineno": "int({0}.rpartition(': line ')[2].partition(' ')[0])",
    "colno": "int({0}.rpartition(' column ')[2].partition(' ')[0])",
    "pos": "int({0}.rpartition(' (char ')[2].removesuffix(')'))",
}
JSON_FIELDS: Final = frozenset(_PARTS)
"""The names of the fields."""


def json_field(words: ast.expr, field: str, place: ast.AST) -> ast.expr:
    """A field of the error with these words."""
    made = ast.parse(_PARTS[field].format(ast.unparse(words)), mode="eval").body
    for one in ast.walk(made):
        ast.copy_location(one, place)
    return made


class JsonFields(ast.NodeTransformer):
    """Reads the fields of the error that a handler's name stands for from its words."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute."""
        if isinstance(node.value, ast.Name) and node.value.id == self.name and node.attr in JSON_FIELDS:
            words = ast.Call(ast.Name("str", ast.Load()), [node.value], [])
            return json_field(words, node.attr, node)
        return self.generic_visit(node)
