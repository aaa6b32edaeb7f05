"""The Python examples of the documentation run and print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/api.md", "docs/plans.md", "docs/models.md", "README.md"])
def test_page_examples_print_documented_output(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, Any] = {"__name__": "__page__"}
    for code, printed in blocks:
        exec(compile(code, page, "exec"), names)
        assert capsys.readouterr().out == printed
