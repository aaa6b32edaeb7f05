"""What commands print for programs."""

from __future__ import annotations

import json

import pytest

from callsheet.apps.cli.output import print_json


def test_long_lists_are_printed_with_an_item_on_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    told = {
        "a": {"b": [1, "two\nlines"]},
        "many": [{"n": n, "text": "\x9b\n"} for n in range(1_001)],
        "none": [],
    }
    print_json(told)
    text = capsys.readouterr().out
    assert json.loads(text) == told
    assert text.count("\n") < 1_030
    assert '\n    {"n": 7, "text": "\\u009b\\n"},\n' in text
    assert '\n  "a": {\n    "b": [\n      1,' in text
