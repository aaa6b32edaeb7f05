"""The runner of the area `lctl`: unmet expectations fail, and every expectation is checked."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.form import BadCase
from tests.conformance.lctl import differences
from tests.conformance.lctl_form import lctl_case_of
from tests.conformance.run import main

from lctl_blocks import changed, failed, hop, text

CHAIN = [text(hop(1)), text(changed(hop(2), "facts.F1.confidence", 0.5))]
RIGHT: dict[str, Any] = {
    "ok": True,
    "rules": [
        {"doc": 1, "id": "V03", "severity": "warn"},
        {"doc": 1, "id": "V04", "severity": "warn"},
    ],
    "infos": [{"doc": 1, "id": "X15", "severity": "info"}],
    "effective": {"F1": 0.5},
    "flagged": ["F1"],
    "human_review": ["F1"],
    "blocked": [],
    "lost": [],
    "kinds": ["handoff", "handoff"],
    "source": "checker",
    "value": {"chain.source": "reader", "trace.0.step": 1},
    "roundtrip": True,
    "render": {
        "nodes": ["reader", "checker", "payer"],
        "edges": [["reader", "checker"], ["checker", "payer"]],
        "text_contains": ["human review"],
        "terminal_must_not_contain": ["\x1b"],
        "mermaid_node_count": 3,
        "mermaid_edge_count": 2,
        "max_terminal_width": 100,
    },
}


def found(expect: dict[str, Any], docs: list[str] = CHAIN, **more: Any) -> list[str]:
    return differences(lctl_case_of({"id": "c", "area": "a", "docs": docs, "expect": expect, **more}))


def test_met_case_passes() -> None:
    assert found(RIGHT) == []


@pytest.mark.parametrize(
    "expect",
    [
        {"ok": False},
        {"rules": RIGHT["rules"][:1]},
        {"rules": [*RIGHT["rules"], {"doc": 1, "id": "X13", "severity": "error"}]},
        {"infos": [{"doc": 0, "id": "X15", "severity": "info"}]},
        {"effective": {"F1": 0.96}},
        {"effective": {"F9": 0.96}},
        {"effective": {"F1": None}},
        {"flagged": []},
        {"human_review": ["F2"]},
        {"blocked": ["F1"]},
        {"lost": [{"fact": "F1", "hop": 2}]},
        {"kinds": ["handoff", "debug"]},
        {"source": "reader"},
        {"value": {"chain.step": 2}},
        {"roundtrip": False},
        {"failed_step": 2},
        {"root_cause_step": 1},
        {"max_cpu_seconds": 0},
        {"never_heard_of": 1},
        {"render": {"nodes": ["reader"]}},
        {"render": {"edges": []}},
        {"render": {"text_contains": ["nowhere"]}},
        {"render": {"text_must_not_contain": ["inv-7"]}},
        {"render": {"mermaid_node_count": 2}},
        {"render": {"mermaid_edge_count": 1}},
        {"render": {"max_terminal_width": 10}},
        {"render": {"colour": "red"}},
    ],
    ids=json.dumps,
)
def test_unmet_expectation_fails(expect: dict[str, Any]) -> None:
    assert found(expect)


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        ({"equal": False, "facts_changed": {"F1": ["confidence"]}, "first_divergence_step": None}, True),
        ({"facts_changed": {"F1": {"confidence": [0.96, 0.9]}}}, True),
        ({"facts_changed": {"F1": {"confidence": {"from": 0.96, "to": 0.9}}}}, True),
        ({"facts_changed": {"F1": ["text"]}}, False),
        ({"facts_changed": {"F1": {"confidence": [0.9, 0.96]}}}, False),
        ({"facts_changed": {}}, False),
        ({"equal": True}, False),
        ({"steps_added": ["linter"]}, False),
        ({"else": 1}, False),
    ],
)
def test_all_parts_of_diff_are_checked(wanted: dict[str, Any], passes: bool) -> None:
    docs = [text(hop(2)), text(changed(hop(2), "facts.F1.confidence", 0.9))]
    assert (found({"diff": wanted}, docs, mode="diff") == []) is passes


def test_cause_of_failure_is_checked() -> None:
    docs = [text(failed())]
    assert found({"failed_step": 3, "root_cause_step": 2, "root_cause_by": "analysis"}, docs) == []
    assert found({"root_cause_by": "note"}, docs)
    plain = [text(changed(failed(), "analysis", ...))]
    assert found({"root_cause_step": 3, "root_cause_by": "failed_step"}, plain) == []
    assert found({"root_cause_by": "confidence"}, plain)


def test_documents_may_be_text_bytes_or_generated() -> None:
    raw = base64.b64encode(b"\xff").decode()
    assert found({"rules": [{"doc": 0, "id": "P08", "severity": "error"}]}, [], docs_b64=[raw]) == []
    made = {"prefix": "lctl: [", "repeat": "[", "times": 100, "suffix": ""}
    assert found({"rules": [{"doc": 0, "id": "P07", "severity": "error"}]}, [], docs_gen=[made]) == []


@pytest.mark.parametrize("data", [[], {"id": "c"}, {"id": "c", "area": "a", "expect": {}, "docs": []}])
def test_invalid_cases_are_refused(data: Any) -> None:
    with pytest.raises(BadCase):
        lctl_case_of(data)


def test_unknown_mode_fails_its_case() -> None:
    assert found({}, mode="merge") == ["mode 'merge' is unknown"]


def test_runner_runs_area(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.jsonl"
    cases = [
        {"id": i, "area": "a", "docs": CHAIN, "expect": {"ok": ok}} for i, ok in (("x", True), ("y", False))
    ]
    file.write_text("\n".join(map(json.dumps, cases)))
    assert main(["lctl", str(file)]) == 1
    assert capsys.readouterr().out == "FAIL y\n     ok: expected False, found True\n1 passed, 1 failed\n"
    assert main(["lctl", str(file), "--id", "x"]) == 0
