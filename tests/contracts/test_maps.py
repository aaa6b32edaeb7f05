"""The maps from the promises of a contract to the tests that hold them name tests that exist."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize("page", sorted(HERE.glob("*.md")), ids=lambda page: page.name)
def test_each_named_test_exists(page: Path) -> None:
    named = NAMED.findall(page.read_text("utf-8"))
    assert named
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file()
        or not re.search(rf"^\s*(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.M)
    ]
    assert missing == []
