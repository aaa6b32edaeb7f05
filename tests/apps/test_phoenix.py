"""A run exported to Arize Phoenix: its tree, and that a second export adds nothing.

Phoenix is too large for every test run: set CALLSHEET_PHOENIX to its program (`phoenix`, from `pip install
arize-phoenix` in an environment of its own) to run this.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.network import free_port
from tests.scripted_models import Scripted

from callsheet import Runtime, tool

PROGRAM = os.environ.get("CALLSHEET_PHOENIX", "")
pytestmark = [
    pytest.mark.phoenix,
    pytest.mark.skipif(not PROGRAM, reason="CALLSHEET_PHOENIX names no program"),
]

PLAN = """S1: @LOOK_UP ("a") > $a
S2: ?FOREACH ($x IN $a) THEN @LOOK_UP ($x) > $b
S3: @LLM_SUMMARIZE ("$b") > $c
S4: @AGENT_SOLVE (goal="g", tools=["look_up"]) > $d
S5: ?IF ($c == "no") THEN @LOOK_UP ("never") > $e
S6: @RESPOND ($d)"""


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ports = [free_port(), free_port()]
    folder = tmp_path_factory.mktemp("phoenix")
    own = {"PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(ports[0]), "PHOENIX_GRPC_PORT": str(ports[1])}
    own |= {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_TELEMETRY_ENABLED": "false"}
    url = f"http://127.0.0.1:{ports[0]}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "serve"], env={**os.environ, **own}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        for _ in range(240):
            try:
                httpx2.get(f"{url}/healthz", trust_env=False).raise_for_status()
                break
            except httpx2.HTTPError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait(60)


@tool(effect="read")
def look_up(name: str) -> list[str]:
    return [name, name]


def shown(url: str, trace: str) -> list[dict[str, Any]]:
    for _ in range(60):
        found = httpx2.get(f"{url}/v1/projects/default/spans", params={"limit": 1000}, trust_env=False)
        if found.is_success:
            spans = [s for s in found.json()["data"] if s["context"]["trace_id"] == trace]
            if spans:
                return spans
        time.sleep(0.5)
    return []


def test_phoenix_shows_tree_and_repeated_export_adds_nothing(phoenix: str, tmp_path: Path) -> None:
    turns = ["short", '{"tool": "look_up", "args": {"name": "b"}}', '{"finish": "done"}']
    runtime = Runtime([look_up], model=Scripted(turns), journal=tmp_path / "runs.db")
    runtime.run_sync(PLAN, run_id="r")
    for _ in range(2):
        sent = runtime.export_trace_sync("r", phoenix)
        time.sleep(2)
        spans = shown(phoenix, sent.trace_id)
        assert len(spans) == sent.spans == 13
        assert set(sent.not_taken) == {"logs", "metrics"}
    names = {span["context"]["span_id"]: span["name"] for span in spans}
    told = sorted((names.get(span["parent_id"], ""), span["name"], span["span_kind"]) for span in spans)
    top = "invoke_workflow plan"
    assert told == sorted(
        [
            ("", top, "CHAIN"),
            (top, "execute_tool LOOK_UP", "TOOL"),
            (top, "foreach LOOK_UP", "CHAIN"),
            ("foreach LOOK_UP", "execute_tool LOOK_UP", "TOOL"),
            ("foreach LOOK_UP", "execute_tool LOOK_UP", "TOOL"),
            (top, "execute_tool LLM_SUMMARIZE", "TOOL"),
            ("execute_tool LLM_SUMMARIZE", "chat scripted:model", "LLM"),
            (top, "invoke_agent AGENT_SOLVE", "AGENT"),
            ("invoke_agent AGENT_SOLVE", "chat scripted:model", "LLM"),
            ("invoke_agent AGENT_SOLVE", "execute_tool LOOK_UP", "TOOL"),
            ("invoke_agent AGENT_SOLVE", "chat scripted:model", "LLM"),
            (top, "execute_tool LOOK_UP", "TOOL"),
            (top, "respond", "CHAIN"),
        ]
    )
