"""`find_tools` on 200 requests by other people: the Berkeley Function Calling Leaderboard (Apache 2.0).

The requests of its part `multiple` each name the function that answers them, among 1,000 functions of the
leaderboard. They come with the package `bfcl-eval` on PyPI.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from callsheet.apps.gate.offers import GateTool, ToolIndex
from callsheet.ports.tools import ToolSpec
from suites.fetching import python_wheel

SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
PARTS = ("multiple", "simple_python", "parallel", "parallel_multiple", "live_multiple")


@pytest.fixture(scope="module")
def data() -> Path:
    return python_wheel("bfcl-eval", "2026.3.23", SHA256)


def rows(data: Path, name: str) -> list[dict[str, Any]]:
    with zipfile.ZipFile(data) as archive:
        text = archive.read(f"bfcl_eval/data/{name}.json").decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def as_tool(function: dict[str, Any]) -> GateTool:
    name = re.sub(r"\W", "_", function["name"])
    parameters = json.loads(json.dumps(function["parameters"]).replace('"dict"', '"object"'))
    spec = ToolSpec(name.upper(), name, function["description"], parameters)
    return GateTool(function["name"], name.upper(), spec, {})


def test_right_tool_is_among_the_first_five_for_nine_of_ten_requests(data: Path) -> None:
    functions = [  # the first thousand names, those of the requests first
        function for part in PARTS for row in rows(data, f"BFCL_v4_{part}") for function in row["function"]
    ]
    tools = [*{function["name"]: as_tool(function) for function in reversed(functions)}.values()][-1_000:]
    index = ToolIndex(tools)
    answers = {row["id"]: row["ground_truth"] for row in rows(data, "possible_answer/BFCL_v4_multiple")}
    requests = rows(data, "BFCL_v4_multiple")
    assert (len(tools), len(requests)) == (1_000, 200)
    found = 0
    for row in requests:
        text = " ".join(message["content"] for message in row["question"][0] if message["role"] == "user")
        right = {name for call in answers[row["id"]] for name in call}
        found += right <= {tool.name for tool in index.found_for(text, 5)}
    assert found >= 0.9 * len(requests)
