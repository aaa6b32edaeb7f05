"""What pure code may not say is refused with its place, a reason and a rewrite."""

import ast

import pytest

from callsheet.frontends.pure_code import CodeRefused, Fragment, Place, RefusalKind, pure_program, refusals
from callsheet.frontends.pure_code.table import understood


@pytest.mark.parametrize(
    ("source", "kind", "line", "reason"),
    [
        ("x = (", RefusalKind.SYNTAX, 1, "this is not Python: '(' was never closed"),
        ("x = 1\ny = await f()", RefusalKind.STATEMENT, 2, "pure code calls no tool and waits for nothing"),
        (
            "def f():\n    global x\n    x = 1",
            RefusalKind.STATEMENT,
            2,
            "`global` changes names of the file: x",
        ),
        ("t = open('a').read()", RefusalKind.NAME, 1, "`open` is not pure: it touches a file"),
        ("r = eval('1')", RefusalKind.NAME, 1, "`eval` is not pure: it runs a text as code"),
        ("r = id(x)", RefusalKind.NAME, 1, "`id` is not pure: it differs in each run"),
        ("r = memoryview(x)", RefusalKind.NAME, 1, "`memoryview` is not understood"),
        ("import os\nos.getcwd()", RefusalKind.MEMBER, 2, "`os.getcwd` is not pure: it touches the system"),
        (
            "from random import choice",
            RefusalKind.MEMBER,
            1,
            "`random.choice` differs in each run, also when one is resumed",
        ),
        ("import math\nr = math.nope(1)", RefusalKind.MEMBER, 2, "`math.nope` is not understood"),
        ("from re import template", RefusalKind.MEMBER, 1, "`re.template` is not understood"),
        ("r = x.isdecimals()", RefusalKind.MEMBER, 1, "the method .isdecimals() is not understood"),
        (
            "r = 'a'.split(',', 1, 2)",
            RefusalKind.MEMBER,
            1,
            "`.split` is not understood with these arguments",
        ),
        (
            "import json\nr = json.dumps(x, cls=E)",
            RefusalKind.MEMBER,
            2,
            "`json.dumps` is not understood with these arguments",
        ),
        ("r = x.__dict__", RefusalKind.MEMBER, 1, "`__dict__` reaches inside of objects"),
        (
            "r = getattr(x, name)",
            RefusalKind.NAME,
            1,
            "`getattr` with a name that is not literal is not understood",
        ),
        ("_cs_x = 1\nr = _cs_x", RefusalKind.NAME, 1, "names that start with _cs_ are taken"),
        ("class A(B, C):\n    pass", RefusalKind.CLASS, 1, "A inherits from B, C, which is not understood"),
        ("class A(metaclass=M):\n    pass", RefusalKind.CLASS, 1, "a metaclass is not understood"),
        (
            "class A:\n    def __getattr__(self, name):\n        return True",
            RefusalKind.CLASS,
            2,
            "the method __getattr__ is not understood",
        ),
        (
            "class A:\n    x = 1\nA.x = 2",
            RefusalKind.STATEMENT,
            3,
            "`A.x = …` changes a class or a module for everybody",
        ),
        (
            "class A:\n    x = 1\n    @classmethod\n    def up(cls):\n        cls.x += 1",
            RefusalKind.STATEMENT,
            5,
            "`cls.x = …` changes a class or a module for everybody",
        ),
        (
            "class A:\n    x = 1\n    def __init__(self):\n        type(self).x += 1",
            RefusalKind.STATEMENT,
            4,
            "`type(self).x = …` changes a class or a module for everybody",
        ),
        (
            "import json\njson.dumps = None",
            RefusalKind.STATEMENT,
            2,
            "`json.dumps = …` changes a class or a module for everybody",
        ),
        (
            "def g():\n    yield 1\nr = next(g())",
            RefusalKind.GENERATOR,
            3,
            "the generator g is run to its end when it is called",
        ),
        (
            "def g():\n    x = yield 1\nr = list(g())",
            RefusalKind.GENERATOR,
            2,
            "a value that is sent to a generator is not understood",
        ),
        (
            "r = any((m := f(x)) for x in xs)",
            RefusalKind.GENERATOR,
            1,
            "`:=` in a generator that may stop early has no place",
        ),
        ("r = {1: 'a', True: 'b'}", RefusalKind.STATEMENT, 1, "the key True equals one of another type"),
        ("x = 1\ndel x", RefusalKind.STATEMENT, 2, "`del x` of a name is not understood"),
    ],
)
def test_what_is_refused_has_a_place_a_reason_and_a_rewrite(
    source: str, kind: RefusalKind, line: int, reason: str
) -> None:
    with pytest.raises(CodeRefused) as raised:
        pure_program([Fragment(source, line=11)])
    first = raised.value.refusals[0]
    assert (first.kind, first.line - 10, first.reason) == (kind, line, reason)
    assert first.rewrite


@pytest.mark.parametrize(
    "source",
    [
        "def open(x):\n    return x\nr = open(1)",
        "r = [id for id in xs]",
        "def f(hash):\n    return hash",
        "from __future__ import annotations\nfrom typing import Any\nr: Any = 1",
        "r = type(x).__name__ + x.__class__.__name__",
        "import asyncio\nr = 1",
        "r = x.title",
        "class A:\n    def isdecimals(self):\n        return 1\nr = A().isdecimals()",
        "from abc import ABC\nclass A(ABC):\n    pass",
        "from itertools import chain\nr = list(chain.from_iterable(xs))",
        "r = unknown_name",
    ],
)
def test_what_is_pure_is_not_refused(source: str) -> None:
    assert refusals(ast.parse(source)) == []


def test_a_place_in_the_executed_text_leads_to_the_smallest_part_of_the_source() -> None:
    program = pure_program([Fragment("total = sum(x.price for x in rows)\nr = round(total, 2)", 5, 8)])
    line = next(n for n, text in enumerate(program.text.split("\n"), 1) if "round" in text)
    column = program.text.split("\n")[line - 1].index("total") + 1
    assert program.source_place(line, column) == Place(6, 19)


def test_lowering_leaves_the_tree_as_it_is() -> None:
    from callsheet.frontends.pure_code import lowered

    tree = ast.parse("import re\nr = round(x.y, 2)\ndel d['a']\nclass E(ValueError):\n    pass")
    before = ast.dump(tree)
    lowered(tree)
    assert ast.dump(tree) == before


def test_the_table_is_of_the_pinned_interpreter() -> None:
    from callsheet.ports.python_code import interpreter_version

    assert understood().interpreter == interpreter_version()
