"""The modules of a compiled wheel meet mypyc's requirements, as far as can be checked quickly."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys

from scripts import wheel

import callsheet


def test_named_modules_exist() -> None:
    names = list(wheel.compiled())
    assert len(names) == len(set(names))
    for name in (*names, *wheel.APART):
        assert (wheel.PACKAGE / f"{name}.py").is_file(), name
    for name in wheel.APART:
        assert name.rpartition("/")[0] in wheel.PACKAGES, f"{name} is in no package that is compiled"


def test_subclasses_of_compiled_classes_are_compiled() -> None:
    """An interpreted class cannot inherit from a compiled one: its module could not be imported."""
    compiled = {f"callsheet.{name.replace('/', '.')}" for name in wheel.compiled()}
    for found in pkgutil.walk_packages(callsheet.__path__, "callsheet."):
        if not found.name.endswith(".__main__"):
            importlib.import_module(found.name)
    classes = [
        found
        for name in compiled
        for found in vars(sys.modules[name]).values()
        if isinstance(found, type) and found.__module__ == name
    ]
    assert len(classes) > 100
    outside = [
        f"{heir.__module__}.{heir.__name__} inherits from {one.__module__}.{one.__name__}"
        for one in classes
        for heir in one.__subclasses__()
        if heir.__module__.startswith("callsheet.") and heir.__module__ not in compiled
    ]
    assert outside == []


def test_nothing_is_awaited_in_except_block() -> None:
    """In code of mypyc 2.4 the handled error would remain current for all later code of the coroutine."""
    waits = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)
    found: list[str] = []
    for name in wheel.compiled():
        tree = ast.parse((wheel.PACKAGE / f"{name}.py").read_text())
        handled = [
            statement
            for attempt in ast.walk(tree)
            if isinstance(attempt, ast.Try)
            for statement in (*attempt.handlers, *attempt.finalbody)
        ]
        found += [
            f"{name}:{node.lineno}"
            for statement in handled
            for node in ast.walk(statement)
            if isinstance(node, waits)
        ]
    assert found == []


def test_fields_of_tuples_name_types_that_are_imported() -> None:
    """Compiled code reads the type of a NamedTuple's field when it is imported, unless it is quoted."""
    found: list[str] = []
    for name in wheel.compiled():
        tree = ast.parse((wheel.PACKAGE / f"{name}.py").read_text())
        only_typed = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for imported in ast.walk(node)
            if isinstance(imported, ast.Import | ast.ImportFrom)
            for alias in imported.names
        }
        found += [
            f"{name}:{field.lineno}"
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            and any(ast.unparse(base) == "NamedTuple" for base in node.bases)
            for field in node.body
            if isinstance(field, ast.AnnAssign)
            and ast.unparse(field.annotation).partition("[")[0] in only_typed
        ]
    assert found == []


def test_nothing_is_imported_for_type_checkers_alone_and_otherwise_made() -> None:
    """To mypyc, `else` after `if TYPE_CHECKING` is unreachable: the module could not be imported."""
    found = [
        f"{name}:{node.lineno}"
        for name in wheel.compiled()
        for node in ast.walk(ast.parse((wheel.PACKAGE / f"{name}.py").read_text()))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and node.orelse
    ]
    assert found == []


def test_no_module_imports_itself() -> None:
    """For type checkers alone, as pyright allows: mypy resolves no name of such a module."""
    files = {
        ".".join(file.relative_to(wheel.PACKAGE.parent).with_suffix("").parts): file.read_text()
        for file in wheel.PACKAGE.rglob("*.py")
    }
    found = [name for name, text in files.items() if f"\nif TYPE_CHECKING:\n    from {name} import" in text]
    assert found == []


def test_no_membership_is_asked_of_a_tuple_with_a_star() -> None:
    """mypyc 2.4 takes such a tuple apart, and has no code for the star."""
    found = [
        f"{name}:{node.lineno}"
        for name in wheel.compiled()
        for node in ast.walk(ast.parse((wheel.PACKAGE / f"{name}.py").read_text()))
        if isinstance(node, ast.Compare)
        for asks, asked in zip(node.ops, node.comparators, strict=True)
        if isinstance(asks, ast.In | ast.NotIn) and isinstance(asked, ast.Tuple | ast.List)
        if any(isinstance(each, ast.Starred) for each in asked.elts)
    ]
    assert found == []
