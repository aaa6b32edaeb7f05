"""Each of the 99 rules reports the documents that break it, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from callsheet.trace.lctl.check import Report, check
from callsheet.trace.lctl.rules.table import RULES, Level
from lctl_blocks import Block, ack, branch, changed, failed, hop, joined, minimal, text

FORK: Mapping[int, tuple[int, ...]] = {1: (), 2: (0, 1)}
WEB, API = branch("web", "F1"), branch("api", "F2")


def one(path: str, value: Any, block: Block | None = None) -> list[Block | str]:
    return [changed(block if block is not None else hop(2), path, value)]


def two(path: str, value: Any) -> list[Block | str]:
    """A chain with a changed second document."""
    return [hop(1), changed(hop(2), path, value)]


def acked(path: str, value: Any) -> list[Block | str]:
    return [hop(2), changed(ack(), path, value)]


def weak(value: float) -> Block:
    """The second hop with a fact of some confidence."""
    return changed(hop(2), "facts.F1.confidence", value)


def raised(**entry: Any) -> list[Block | str]:
    """A value that is raised on the second hop."""
    second = hop(2)
    second["trace"][1] |= entry
    if entry:
        second["facts"]["F1"] |= {"source": "checker", "step": 2}
    return [changed(hop(1), "facts.F1.confidence", 0.9), second]


def clashing(told: list[str]) -> list[Block | str]:
    """Two branches that give F1 to different facts."""
    api = branch("api", "F1")
    merged = joined()
    merged["trace"][2]["facts_added"] = ["F1"]
    merged["handoff"]["warnings"] = told
    del merged["facts"]["F2"]
    merged["handoff"]["critical_facts"] = ["F1"]
    return [WEB, api, merged]


def differing() -> list[Block | str]:
    """Two branches that give F1 different confidences."""
    api = changed(changed(branch("api", "F1"), "facts.F1.text", "web works"), "facts.F1.confidence", 0.9)
    return [WEB, api, clashing(["they differ"])[2]]


BREAKING: Mapping[str, list[Block | str]] = {
    "P01": ["lctl: [\n"],
    "P02": ["- a\n"],
    "P03": [text(hop(1)) + "lctl: '3.0'\n"],
    "P04": [text(hop(1)) + "---\na: 1\n"],
    "P05": ["lctl: !!binary aGk=\n"],
    "P06": ["lctl: &a [*a]\n"],
    "P07": ["lctl: " + "[" * 65 + "]" * 65],
    "P08": [text(hop(1)) + "# \x07\n"],
    "P09": ["title: a\n"],
    "S01": one("lctl", ...),
    "S02": one("lctl", "2.0"),
    "S03": one("lctl", 3.0),
    "S04": one("lctl", "3.1"),
    "S05": one("purpose", "fun"),
    "S06": one("chain.priority", "high"),
    "S07": one("instruction", 7),
    "S08": one("instruction", " "),
    "S09": one("chain.from", "somebody"),
    "S10": one("chain.from", "checker"),
    "C01": one("chain", ...),
    "C02": one("chain.id", ""),
    "C03": one("chain.step", ...),
    "C04": one("chain.step", True),
    "C05": one("chain.target", ...),
    "C06": one("chain.step", 1),
    "C07": one("chain.step", 4),
    "C08": one("chain.step", 3),
    "T01": one("trace.0.step", ...),
    "T02": one("trace.0.agent", " "),
    "T03": one("trace.0.action", ...),
    "T04": one("trace.0.confidence", ...),
    "T05": one("trace", [{**hop(2)["trace"][1]}, hop(2)["trace"][0]]),
    "T06": one("trace.1.step", 3),
    "T07": one("trace.1.step", 1),
    "T08": one("trace.1.facts_added", ["F3", "F2"]),
    "T09": one("trace.0.facts_modified", ["F3"]),
    "T10": one("facts.F2", ..., changed(hop(2), "handoff.context_facts", [])),
    "T11": one("trace.1.facts_added", []),
    "T12": one("facts.F3.source", "payer"),
    "T13": one("trace.0.duration_ms", float("inf")),
    "T14": one("trace.0.error", "it broke"),
    "F01": one("facts.F1.text", ...),
    "F02": one("facts.F1.confidence", ...),
    "F03": one("facts.9x", hop(2)["facts"]["F1"]),
    "F04": one("facts.F1.step", ...),
    "F05": one("facts.F1.step", 3),
    "V01": one("facts.F1.confidence", "high"),
    "V02": one("facts.F1.confidence", -0.1),
    "V03": [weak(0.69)],
    "V04": [weak(0.59)],
    "V05": [weak(0.39)],
    "V06": one("facts.F1.confidence", 0.9, minimal()),
    "V07": [weak(0.7)],
    "V08": one("trace.0.confidence", 0.5),
    "V09": one("facts.F3.derived_from", ["F1"], weak(0.9)),
    "V10": one("facts.F2.confidence", 0.2, changed(hop(2), "handoff.context_facts", [])),
    "H01": one("handoff.critical_facts", ["F9"]),
    "H02": one("handoff.context_facts", ["F9"]),
    "H03": one("handoff.context_facts", ["F1"]),
    "H04": one("handoff.context_facts", ["F2", "F2"]),
    "M01": clashing(["they differ"]),
    "M02": differing(),
    "M03": [WEB, API, changed(joined(), "facts.F2", ...)],
    "M04": one("chain.parallel_merge", True),
    "M05": [WEB, API, changed(joined(), "chain.parallel_merge", ...)],
    "M06": clashing([]),
    "M07": [WEB, API, changed(joined(), "trace.2.agent", "apj")],
    "X01": two("chain.id", "inv-8"),
    "X02": [hop(1), hop(1)],
    "X03": two("chain.step", 3),
    "X04": two("trace", hop(2)["trace"][1:]),
    "X05": two("trace.0.action", "Opened it"),
    "X06": two("trace.0.confidence", 0.5),
    "X07": two("facts.F1", ...),
    "X08": two("handoff", {"critical_facts": ["F3"], "context_facts": ["F1"]}),
    "X09": [hop(1), changed(changed(hop(2), "facts.F2", ...), "handoff.context_facts", [])],
    "X10": two("chain.source", "somebody"),
    "X11": two("facts.F1.text", "Invoice 881 is paid"),
    "X12": two("facts.F1.source", "checker"),
    "X13": raised(),
    "X14": raised(facts_modified=["F1"]),
    "X15": [hop(1), weak(0.9)],
    "A01": acked("lctl_ack.chain_id", "other"),
    "A02": acked("lctl_ack.step", 4),
    "A03": acked("lctl_ack.agent", "checker"),
    "A04": acked("lctl_ack.facts_loaded", ["F1"]),
    "A05": acked("lctl_ack.facts_loaded", ["F1", "F3", "F7"]),
    "A06": [weak(0.65), ack()],
    "A07": acked("lctl_ack.status", "seen"),
    "A08": acked("lctl_ack.status", ...),
    "D01": one("chain.failed_at_step", 4, failed()),
    "D02": one("chain.failed_at_step", ..., failed()),
    "D03": one("trace.2.error", ..., failed()),
    "D04": one("trace.2.facts_at_failure", ["F1", "F2", "F3", "F9"], failed()),
    "D05": one("trace.2.facts_at_failure", ["F1", "F2"], failed()),
    "D06": one("facts.F2", ..., failed()),
    "D07": one("analysis", ..., failed()),
    "D08": one("chain.status", "DONE", failed()),
    "D09": one("trace.0.duration_ms", ..., failed()),
}


def found_in(docs: list[Block | str]) -> Report:
    blocks = [block if isinstance(block, str) else text(block) for block in docs]
    return check(blocks, FORK if docs[:1] == [WEB] else None)


def test_every_rule_has_example() -> None:
    assert list(BREAKING) == list(RULES)
    assert len(RULES) == 99


@pytest.mark.parametrize("rule", RULES)
def test_example_breaks_rule_in_last_document(rule: str) -> None:
    docs = BREAKING[rule]
    found = {finding.rule for finding in found_in(docs).of(len(docs) - 1)}
    assert rule in found


@pytest.mark.parametrize(
    "docs",
    [[hop(1), hop(2)], [hop(2), ack()], [minimal()], [failed()], [WEB, API, joined()]],
    ids=["chain", "ack", "minimal", "post-mortem", "merge"],
)
def test_valid_documents_break_no_rule(docs: list[Block | str]) -> None:
    findings = found_in(docs).findings
    assert [(f.rule, f.message) for f in findings if f.level is not Level.INFO] == []
    assert {f.rule for f in findings} <= {"C08", "X09"}


def test_finding_is_positioned_at_fault() -> None:
    block = text(changed(hop(2), "facts.F1.confidence", 1.5))
    (found,) = (f for f in check([block]).findings if f.rule == "V02")
    assert found.span is not None
    assert block[slice(*found.span)] == "1.5"
    assert found.path == ("facts", "F1", "confidence")


@pytest.mark.parametrize("name", ["facts_loaded", "confidence_concerns"])
def test_duplicate_id_in_ack_list_is_reported(name: str) -> None:
    findings = found_in(acked(f"lctl_ack.{name}", ["F1", "F3", "F1"])).of(1)
    assert [(f.rule, f.path) for f in findings] == [("H04", ("lctl_ack", name))]


@pytest.mark.parametrize(
    ("docs", "rules"),
    [
        ([changed(hop(1), "chain.id", " "), hop(2)], {(0, "C02")}),
        (two("chain.id", ""), {(1, "C02")}),
        ([changed(hop(1), "chain.target", " "), hop(2)], {(0, "C05")}),
        (two("chain.source", " "), {(1, "C05")}),
        ([changed(hop(2), "chain.id", " "), ack()], {(0, "C02")}),
        ([changed(hop(2), "chain.target", " "), ack()], {(0, "C05")}),
        (acked("lctl_ack", "received"), {(1, "S07")}),
        (two("facts.F1.text", " "), {(1, "F01")}),
        ([changed(hop(1), "facts.F1.text", ""), hop(2)], {(0, "F01")}),
        (one("trace.2.error", " ", failed()), {(0, "D03")}),
        (one("trace.0.error", ""), set()),
    ],
)
def test_blank_or_wrongly_typed_value_is_reported_once(
    docs: list[Block | str], rules: set[tuple[int, str]]
) -> None:
    """A blank name is no other name than that of the next document."""
    findings = found_in(docs).findings
    assert {(f.document, f.rule) for f in findings if f.level is not Level.INFO} == rules


@pytest.mark.parametrize("status", ["received", "RECEIVED", "Received"])
def test_ack_status_is_compared_case_insensitively(status: str) -> None:
    assert "A07" not in {f.rule for f in found_in(acked("lctl_ack.status", status)).findings}


@pytest.mark.parametrize("step", [0, -1, 1.0, True, "2", [2]])
@pytest.mark.parametrize(
    ("block", "path", "rule"),
    [
        (hop(2), "chain.step", "C04"),
        (hop(2), "facts.F3.step", "C04"),
        (ack(), "lctl_ack.step", "C04"),
        (failed(), "chain.failed_at_step", "C04"),
        (hop(2), "trace.1.step", "T01"),
    ],
)
def test_step_is_positive_integer_everywhere(block: Block, path: str, rule: str, step: Any) -> None:
    findings = check([text(changed(block, path, step))]).findings
    assert rule in {f.rule for f in findings}
    assert "S07" not in {f.rule for f in findings}


def test_text_changed_by_one_branch_is_no_conflict() -> None:
    start = hop(1)
    one_ = changed(hop(2), "facts.F1.text", "Invoice 881 is paid")
    one_["trace"][1] |= {"facts_modified": ["F1"], "parallel": True}
    one_["facts"]["F1"] |= {"source": "checker", "step": 2}
    other = changed(changed(hop(2), "trace.1.agent", "looker"), "trace.1.facts_added", ["F4"])
    other["trace"][1]["parallel"] = True
    other["facts"]["F4"] = {**other["facts"].pop("F3"), "source": "looker"}
    other["handoff"]["critical_facts"] = ["F1", "F4"]
    merged = changed(one_, "chain", {**one_["chain"], "step": 3, "parallel_merge": True})
    merged["trace"].append(other["trace"][1])
    merged["facts"]["F4"] = other["facts"]["F4"]
    merged["handoff"]["critical_facts"] = ["F1", "F3", "F4"]
    report = check([text(block) for block in (start, one_, other, merged)], {1: (0,), 2: (0,), 3: (1, 2)})
    assert not {"M01", "X11", "M06"} & {finding.rule for finding in report.of(3)}


def test_blank_text_of_one_branch_is_no_conflict() -> None:
    api = changed(changed(branch("api", "F1"), "facts.F1.text", " "), "facts.F1.confidence", 0.96)
    merged = clashing([])[2]
    assert isinstance(merged, dict)
    findings = found_in([WEB, api, merged]).findings
    assert not {"M01", "M06"} & {f.rule for f in findings}
    assert "F01" in {f.rule for f in findings if f.document == 1}


def test_missing_join_is_reported_once() -> None:
    unmarked = changed(joined(), "chain.parallel_merge", ...)
    after = changed(unmarked, "chain", {"id": "inv-7", "step": 4, "source": "ops", "target": "end"})
    after["trace"].append({"step": 3, "agent": "ops", "action": "Did it", "confidence": 1.0})
    report = check([text(unmarked), text(after)])
    assert [f.document for f in report.findings if f.rule == "M05"] == [0]


def test_other_version_is_not_to_be_renumbered():
    assert 'write lctl: "3.0"' not in RULES["S02"].repair
    assert "LCTL 4" in RULES["S02"].repair
