"""Each name on the page for those who come from other packages exists, and no name of theirs is missing."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import callsheet.compat
import callsheet.planning
from callsheet.apps.cli.main import COMMANDS
from callsheet.compat.models import PARAMETERS

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
NAMES = sorted(set(re.findall(r"`(callsheet(?:\.\w+)+)`", PAGE)))
WORDS = sorted(set(re.findall(r"`callsheet ([a-z]+)[ `]", PAGE)))


@pytest.mark.parametrize("name", NAMES)
def test_name_on_the_page_exists(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


def test_commands_on_the_page_exist() -> None:
    assert len(WORDS) > 8
    assert set(WORDS) <= set(COMMANDS)


def test_every_name_of_the_two_apis_and_every_tool_is_on_the_page() -> None:
    public = {*callsheet.compat.__all__, *callsheet.planning.__all__}
    missing = {name for name in public if f".{name}`" not in PAGE}
    assert missing <= {"ValueBinding"}
    assert {tool for tool in PARAMETERS if f"@{tool}`" not in PAGE} == set()
