"""Pure code gives what CPython 3.12 gives: a sample of the corpus, whole programs, and random ones."""

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.pure_code.corpus import FOLDER, Case, agrees, cases, executed, programs, table
from benchmarks.pure_code.reference import outcome
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from callsheet.frontends.pure_code import CodeRefused, pure_program
from callsheet.frontends.pure_code.program import Fragment
from callsheet.ports.python_code import CodeLimits, Kept, Outputs, PythonCode

CORPUS: list[Case] = cases()
REFERENCE: dict[str, Any] = json.loads((FOLDER / "reference.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def code() -> Iterator[PythonCode]:
    with PythonCode(CodeLimits(seconds=5)) as opened:
        yield opened


def test_a_sample_of_the_corpus_gives_the_forms_that_the_table_has(code: PythonCode) -> None:
    names = sorted({case.name for case in CORPUS})[::9]
    sample = [case for case in CORPUS if case.name in names]
    expected = {case: REFERENCE[f"{case.name} | {case.expression}"] for case in sample}
    made = table(expected, {case: executed(code, case.source) for case in sample})
    file = FOLDER.parents[1] / "src/callsheet/frontends/pure_code/understood.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    for kind in ("builtins", "methods"):
        for name, entry in made[kind].items():
            assert stored[kind][name] == entry, name
    for module, members in made["modules"].items():
        for name, entry in members.items():
            assert stored["modules"][module][name] == entry, f"{module}.{name}"


@pytest.mark.parametrize(
    ("source", "expected"),
    list(zip(programs(), json.loads((FOLDER / "programs.json").read_text(encoding="utf-8")), strict=True)),
    ids=lambda value: value.splitlines()[0][:30] if isinstance(value, str) else "",
)
def test_a_program_gives_what_cpython_gives(code: PythonCode, source: str, expected: dict[str, Any]) -> None:
    got = executed(code, source, ["r", "s"])
    assert agrees(expected, got)
    if "raises" in expected and not source.startswith("# place"):
        assert got["line"] == expected["line"]


# ---------------------------------------------------------------- random programs

NAMES = ("a", "b", "c")
NUMBERS = st.sampled_from(["0", "1", "2", "3", "-1", "10", "0.5", "2.675", "1e16", "True"])
TEXTS = st.sampled_from(["''", "'a'", "'b c'", "'12'", "'x,y,z'", "' Abc '", "'é'", "'a1b2'"])


def expressions(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Expressions over some names, of any type: where types do not fit, both sides raise the same error."""
    leaves = st.one_of(st.sampled_from(names), NUMBERS, TEXTS, st.just("None"), st.just("[]"), st.just("{}"))
    return st.recursive(leaves, compound, max_leaves=6)


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def form(text: str) -> st.SearchStrategy[str]:
        count = text.count("@")

        def filled(parts: list[str]) -> str:
            pieces = text.split("@")
            return "".join(a + b for a, b in zip(pieces, [*parts, ""], strict=True))

        return st.lists(inner, min_size=count, max_size=count).map(filled)

    return st.one_of([form(text) for text in FORMS])


FORMS = (
    "(@ + @)", "(@ - @)", "(@ * 2)", "(@ // @)", "(@ % @)", "(@ == @)", "(@ < @)", "(@ and @)", "(@ or @)",
    "(not @)", "(@ if @ else @)", "[@, @]", "(@, @)", "{'k': @, 'j': @}", "@[0]", "@['k']", "@[-1:]",
    "str(@)",
    "repr(@)", "int(@)", "float(@)", "len(@)", "bool(@)", "list(@)", "sorted(@)", "sorted(@, reverse=True)",
    "max(@)", "min(@, @)", "abs(@)", "round(@, 1)", "any(v == @ for v in @)", "all(v for v in @)",
    "next((v for v in @ if v), None)", "[v for v in @]", "[(i, v) for i, v in enumerate(@)]",
    "{str(v): v for v in @}", "list(zip(@, @))", "list(map(str, @))", "list(filter(None, @))", "f'{@}'",
    "f'{@!r:>5}'", "@.upper()", "@.split(',')", "@.get('k')", "@.items()", "','.join(@)", "@.strip()",
    "@ in @", "(lambda v: [v, @])(@)", "tuple(@)", "dict(@)", "isinstance(@, (int, str))", "type(@).__name__",
    "sorted({str(v) for v in @})", "list(reversed(@))", "divmod(@, 3)", "[v for w in @ for v in w]", "-@",
    "@.startswith('a')", "math.floor(@)", "json.dumps(@)", "Counter(@).most_common(1)",
    "re.findall('[a-c]', @)", "max(@, key=str)", "'{:>4}'.format(@)", "list(chain(@, @))", "@ is None",
    *(["sum(@)", "sum([0.1, @, 0.3])"] if sys.version_info >= (3, 12) else []),
)  # fmt: skip


@st.composite
def random_programs(draw: st.DrawFn) -> str:
    """A program of a few statements over a few names, with loops, tests, functions and handlers."""
    lines = ["import json, math, re", "from collections import Counter", "from itertools import chain"]
    lines += ["a = [3, 1, 2]", "b = 'x,y'", "c = {'k': 1, 'j': 'z'}", "out = []"]
    expression = expressions(NAMES)
    for _ in range(draw(st.integers(1, 5))):
        name, one, two = draw(st.sampled_from(NAMES)), draw(expression), draw(expression)
        lines += draw(
            st.sampled_from(
                [
                    [f"{name} = {one}"],
                    [f"out.append({one})"],
                    [f"if {one}:", f"    {name} = {two}", "else:", "    out.append('else')"],
                    [f"for item in {one}:", "    out.append(item)", f"    if {two}:", "        break"],
                    [
                        f"for n, item in enumerate({one}):",
                        "    if n > 2:",
                        "        continue",
                        f"    out.append({two})",
                    ],
                    [
                        "try:",
                        f"    {name} = {one}",
                        "except (TypeError, ValueError) as e:",
                        "    out.append(type(e).__name__)",
                    ],
                    [
                        "try:",
                        f"    out.append({one})",
                        "except LookupError:",
                        f"    {name} = {two}",
                        "finally:",
                        "    out.append('f')",
                    ],
                    [f"def f(x, y={one}):", f"    return [x, y, {two}]", f"{name} = f(1)"],
                    [f"{name}, other = {one}, {two}", "out.append(other)"],
                    [f"{name} += {one}"],
                    [
                        "s = {1, 2}",
                        "t = s",
                        f"s {draw(st.sampled_from('|&-^'))}= {{2, 3}}",
                        "out.append(sorted(t))",
                    ],
                    [
                        f"gen = (v for v in {one} if v != {two})",
                        "out.append(next(gen, 'none'))",
                        "out.extend(gen)",
                    ],
                    ["del c['k']"],
                    [
                        f"match {one}:",
                        "    case [first, *_]:",
                        "        out.append(first)",
                        "    case {'k': k}:",
                        "        out.append(k)",
                        "    case str() | int():",
                        "        out.append('scalar')",
                    ],
                ]
            )
        )
    return "\n".join([*lines, "r = out", "s = (a, b, c)"])


@given(random_programs())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_programs_give_what_this_python_gives(code: PythonCode, source: str) -> None:
    try:
        pure_program([Fragment(source)])
    except CodeRefused:
        reject()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(source, ["r", "s"])
    got = executed(code, source, ["r", "s"])
    assert agrees(expected, got), f"{expected}\n{got}\n{source}"
    if "raises" in expected and "try:" not in source:  # which loses the place of what it lets pass
        assert got["line"] == expected["line"], source


def test_kept_objects_come_back(code: PythonCode) -> None:
    first = code.compute(DEFINITIONS + MAKES, {}, NAMES_OF_OBJECTS)
    assert isinstance(first, Outputs), first
    assert isinstance(first.values["fleet"], Kept)
    second = code.compute(DEFINITIONS + USES, dict(first.values), ["r"])
    assert isinstance(second, Outputs), second
    assert second.values["r"] == [
        "Fleet of 2", "a", True, ["x", "y"], 3, [("a", 2)], [1, 2], "12", "ab1", True,
        Kept("Counter", ({"a": 2, "b": 1},)),
    ]  # fmt: skip


DEFINITIONS = """
import re
from enum import Enum
from dataclasses import dataclass
from collections import Counter, defaultdict, deque
class Fleet:
    def __init__(self, names):
        self.names = names
    def __str__(self):
        return f"Fleet of {len(self.names)}"
@dataclass
class Car:
    name: str
    tags: list
    def __post_init__(self):
        self.tags.append("made")
class Kind(Enum):
    A = 1
    B = 2
"""
MAKES = """
fleet = Fleet(["a", "b"])
kind = Kind.B
car = Car("a", ["x", "y"])
car.tags.pop()
cars = [car, car]
counts = Counter("aab")
groups = defaultdict(list)
groups["q"].append(1)
recent = deque([1, 2], maxlen=2)
digits = re.compile(r"[0-9]+")
found = re.search(r"(?P<head>[a-z]+)([0-9])", "--ab12")
"""
USES = """
groups["new"].append(2)
recent.append(3)
r = [
    str(fleet), car.name, cars[0] is cars[1], car.tags, recent[-1], counts.most_common(1),
    groups["q"] + groups["new"], digits.search("x12").group(), found["head"] + found.group(2),
    kind is Kind.B, counts,
]
"""
NAMES_OF_OBJECTS = ["fleet", "kind", "car", "cars", "counts", "groups", "recent", "digits", "found"]
