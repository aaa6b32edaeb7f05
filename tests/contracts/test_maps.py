"""The maps of the contracts beside this file name tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(tests/[\w/]+\.py)::(\w+)")


@pytest.mark.parametrize("page", sorted(Path(__file__).parent.glob("*.md")), ids=lambda page: page.name)
def test_each_named_test_exists(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert named
    for path, name in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(async )?def {name}\(", text, re.MULTILINE), f"{path}::{name}"
