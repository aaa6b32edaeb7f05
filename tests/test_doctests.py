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
def test_the_examples_of_a_module_are_true(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0


@pytest.mark.parametrize("name", ["plan", "errors", "findings", "result", "runtime", "oneshot", "models"])
def test_the_modules_that_users_meet_have_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"callsheet.api.{name}")).attempted
