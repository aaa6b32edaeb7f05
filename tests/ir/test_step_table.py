"""The kinds of actions and failure handlings are told apart only in the step table, by exhaustive matches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.imported import imported

from callsheet.ir import step as table

SOURCE = Path(table.__file__).parents[1]
KINDS = frozenset(f"{table.Action} | {table.Handling}".split(" | "))
MAY_TELL = re.compile(rf"\b(?:{'|'.join(KINDS)})\b|on_fail\s*\.\s*then")
TOLD_APART = frozenset(
    {
        "ir/step.py",
        "ir/canon.py",
        "ir/canon_reader.py",
        "machine/compiling.py",
        "frontends/ltp/steps.py",
        "frontends/ltp/printer.py",
        "frontends/micro/printer.py",
        "frontends/dag/printer.py",
        "frontends/upgrade/steps.py",
        "views/describe.py",
    }
)
"""The table, the machine's compiler, readers and printers of syntaxes, and what rewrites steps as blocks."""


def _kinds(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id in KINDS for part in ast.walk(node))


def _is_wild(case: ast.match_case) -> bool:
    pattern = case.pattern
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None and case.guard is None


def _tests(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) if _kinds(kinds):
                yield f"line {node.lineno}: isinstance; ask the step for its call, course or jumps"
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=[kind]) if _kinds(kind):
                yield f"line {node.lineno}: type(…) is; ask the step for its call, course or jumps"
            case ast.Attribute(attr="then", value=ast.Attribute(attr="on_fail") | ast.Name(id="on_fail")):
                yield f"line {node.lineno}: on_fail.then; ask the step for after_failure or handling"
            case ast.Match(cases=cases) if any(map(_is_wild, cases)):
                named = (part for case in cases for part in ast.walk(case.pattern))
                if any(isinstance(p, ast.MatchClass) and _kinds(p.cls) for p in named):
                    yield f"line {node.lineno}: a match of kinds with `case _`; name the kinds that are left"
            case _:
                pass


def _imports_kinds(text: str) -> bool:
    return any(
        module.startswith("callsheet.ir")
        and module not in ("callsheet.ir.expression", "callsheet.ir.tree")  # other nodes of these names
        and (name in KINDS or name in ("Step", "OnFail", "Plan"))
        for module, name in imported(text)
    )


def test_only_the_table_tells_kinds_of_steps_apart() -> None:
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name in TOLD_APART:
            continue
        text = path.read_text()
        if MAY_TELL.search(text) and _imports_kinds(text):
            found += [f"{name}, {test}" for test in _tests(ast.parse(text))]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(step.action, Call)",
        "isinstance(x, Goto | Terminate)",
        "type(step.action) is Respond",
        "step.on_fail.then is None",
        "match action:\n case Call(): pass\n case _: pass",
    ],
)
def test_a_test_for_a_kind_is_found(code: str) -> None:
    assert len(list(_tests(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(value, Ref | Literal)",
        "step.call is None",
        "match action:\n case Call(): pass\n case Goto(): pass",
        "match value:\n case Ref(): pass\n case _: pass",
    ],
)
def test_other_tests_are_allowed(code: str) -> None:
    assert list(_tests(ast.parse(code))) == []


def test_kinds_are_those_of_the_language() -> None:
    assert {"Call", "Respond", "Terminate", "Goto", "Replan"} <= KINDS
