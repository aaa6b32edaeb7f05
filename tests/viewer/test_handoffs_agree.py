"""The viewer's document for a step is byte for byte the one that `lctl emit` writes."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, plan_of, plan_texts
from tests.trace.projection.runs import scripted, tell
from tests.viewer.test_lineage_agrees import node
from tests.views.report.test_document import run_of

from callsheet.ports.calls import ToolFailed
from callsheet.runtime.reporting import lctl_of, report_document
from callsheet.store import Journal
from callsheet.trace.lctl.write import write

ASK = """
import { documentAt } from "./handed.mjs";
import { readFileSync } from "node:fs";
const steps = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(steps.at.map((row, n) => documentAt(steps, n))));
"""


@pytest.fixture
def compose(tmp_path: Path):
    """The documents of all boundaries as composed by the viewer."""
    program = node()
    (tmp_path / "handed.mjs").write_text((files("callsheet.views") / "viewer" / "handoff.js").read_text())
    (tmp_path / "ask.mjs").write_text(ASK)

    def of(steps: object) -> list[str]:
        done = subprocess.run(
            [program, "ask.mjs"],
            check=False,
            input=json.dumps(steps),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return of


def agrees(journal: Journal, compose) -> int:
    """Whether each composed document is that of its step; returns the number of documents."""
    steps = report_document(journal, "last").to_json()["lctl"].get("steps")
    if steps is None:
        return 0
    for row, text in zip(steps["at"], compose(steps), strict=True):
        label = row[1] if "@" in row[1] or row[1].startswith("r") else f"{row[1]}@1"
        assert text == write(lctl_of(journal, "last", label, debug=False)), label
    return len(steps["at"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(plan_texts(), st.integers(0, 2**32 - 1))
def test_document_after_each_step_equals_command_output(journal, compose, text, world):
    run_of(journal, plan_of(text), world)
    agrees(journal, compose)


def test_doubts_and_attempts_are_shown_where_they_apply(journal, compose):
    plan = (
        "S1: @A > $a\nS2: @LLM_SUMMARIZE ($a) > $b\nS3: @C > $c:float ON_FAIL @RETRY(2)\n"
        'S4: @RESPOND ("$a $b $c")'
    )
    tell(journal, plan, scripted(a="1", llm_summarize="short", c="no number"), facts=FACTS)
    assert agrees(journal, compose) == 4


def test_long_lists_are_on_separate_lines(journal, compose):
    steps = [f'S{n}: @FORMAT ("{n}") > $v{n}' for n in range(1, 60)]
    used = " ".join(f"$v{n}" for n in range(1, 60))
    tell(journal, "\n".join([*steps, f'S60: @RESPOND ("{used}")']), scripted(), facts=FACTS)
    assert agrees(journal, compose) > 20  # formats run side by side, and share a step


def test_failed_run_has_documents_for_steps(journal, compose):
    plan = 'S1: @A > $a\nS2: @B ($a) > $b ON_FAIL TERMINATE ("no: $b")'
    tell(journal, plan, scripted(a="1", b=ToolFailed("no")), facts=FACTS)
    assert agrees(journal, compose) == 2
