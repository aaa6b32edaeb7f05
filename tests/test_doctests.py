"""The examples in all docstrings of the package are correct."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import callsheet

ROOT = Path(callsheet.__file__).parent.parent
MODULES = [
    found.name
    for found in pkgutil.walk_packages(callsheet.__path__, "callsheet.")
    if not found.name.endswith("__main__")
]


def has_examples(name: str) -> bool:
    """Whether the text of a module has any; to look for some in one without takes most of the time.

    A compiled one without its text counts as one that may have some.
    """
    place = ROOT.joinpath(*name.split("."))
    files = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()]
    return not files or any(">>> " in file.read_text(encoding="utf-8") for file in files)


def test_all_modules_can_be_imported() -> None:
    for name in MODULES:
        importlib.import_module(name)


@pytest.mark.parametrize("name", [name for name in MODULES if has_examples(name)])
def test_module_examples_are_correct(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", ["plan", "findings", "result", "runtime", "oneshot", "models"])
def test_public_modules_have_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"callsheet.api.{name}")).attempted
