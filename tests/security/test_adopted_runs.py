"""Results that a run takes over from another program have the labels of what they were read from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callsheet import RunStatus, Runtime, tool

POLICY = """
schema = 1
[defaults]
memory = "T/pub"
[sources]
"file:docs/**" = { conf = "pub", integrity = "T" }
"file:box/**" = { conf = "priv" }
[tools."@SHOUT"]
destructive = false
returns = "T/pub"
"""


class Office:
    """A workspace with a private and a public folder, under a policy, and what was sent outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []
        for name in ("docs", "box"):
            (folder / name).mkdir()
            (folder / name / "a.txt").write_text(f"from {name}")
        (folder / "policy.toml").write_text(POLICY)

    def runtime(self) -> Runtime:
        @tool(effect="read")
        def shout(text: str) -> str:
            self.sent.append(text)
            return "heard"

        return Runtime(
            [shout],
            builtins=True,
            workspace=self.folder,
            data=self.folder / "data",
            journal=self.folder / "journal.db",
            policy=self.folder / "policy.toml",
        )

    async def adopted(self, plan: str, done: dict[str, Any]) -> RunStatus:
        async with self.runtime() as runtime:
            return (await runtime.resume(await runtime.adopt(plan, done))).status


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def graph(*calls: tuple[str, dict[str, Any]]) -> str:
    """A plan in which each step depends on the previous one; step N sets the variable vN."""
    steps = [
        {
            "index": str(number),
            "title": called,
            "tool": called,
            "args": args,
            "depends_on": [str(number - 1)] if number > 1 else [],
            "result_variable": f"v{number}",
        }
        for number, (called, args) in enumerate(calls, 1)
    ]
    return json.dumps({"id": "p", "title": "p", "steps": steps})


REMEMBER = (
    'S1: @READ_FILE ("{}/a.txt") > $x\nS2: @STORE_FACT ("the note says: $x") > $y\nS3: @RESPOND ("kept")'
)
RECALL = graph(("query_memory", {"query": "what the note says"}), ("shout", {"text": "${v1}"}))


@pytest.mark.parametrize("source", ["box", "docs"])
async def test_fact_recalled_by_other_program_has_its_label(office: Office, source: str) -> None:
    async with office.runtime() as runtime:
        assert (await runtime.run(REMEMBER.format(source))).ok
        found = await runtime.run('S1: @QUERY_MEMORY ("what the note says") > $f\nS2: @RESPOND ("done")')
    recalled = found.variables["f"]
    assert f"from {source}" in str(recalled)
    status = await office.adopted(RECALL, {"1": recalled})
    is_public = source == "docs"
    assert (status, len(office.sent)) == ((RunStatus.DONE, 1) if is_public else (RunStatus.REFUSED, 0))


@pytest.mark.parametrize("source", ["box", "docs"])
async def test_file_written_by_other_program_has_label_of_content(office: Office, source: str) -> None:
    copying = graph(
        ("read_file", {"path": f"{source}/a.txt"}),
        ("write_file", {"path": "docs/copy.txt", "content": "${v1}"}),
        ("calc", {"expression": "1 + 1"}),
    )
    (office.folder / "docs" / "copy.txt").write_text(f"from {source}")
    assert await office.adopted(copying, {"1": f"from {source}", "2": "written"}) is RunStatus.DONE
    reading = 'S1: @READ_FILE ("docs/copy.txt") > $x\nS2: @SHOUT (text=$x) > $y\nS3: @RESPOND ("done")'
    async with office.runtime() as runtime:
        verdict = await runtime.verify(reading)
    assert verdict.ok is (source == "docs")
