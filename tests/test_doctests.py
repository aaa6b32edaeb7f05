"""The examples in all docstrings of the package are correct."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import callsheet

MODULES = [
    found.name
    for found in pkgutil.walk_packages(callsheet.__path__, "callsheet.")
    if not found.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_module_examples_are_correct(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0


@pytest.mark.parametrize("name", ["plan", "findings", "result", "runtime", "oneshot", "models"])
def test_public_modules_have_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"callsheet.api.{name}")).attempted
