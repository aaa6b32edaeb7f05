"""Diagrams of chains: fork and join, confidence in words, line lengths, valid diagrams."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.trace.lctl.check import check
from callsheet.trace.lctl.graph import graph_of
from callsheet.views.columns import width
from callsheet.views.lctl import hops_text, mermaid_chain, terminal_chain, terminal_document
from lctl_blocks import branch, changed, failed, hop, joined, minimal, text


def mermaid(*blocks: dict) -> str:
    return mermaid_chain(graph_of(check([text(block) for block in blocks]).hops.values()))


def test_fork_and_join_form_diamond() -> None:
    assert mermaid(changed(joined(), "chain.target", "joiner")).splitlines() == [
        "graph TD",
        '    n1["lead · step 1 · 0.98"]',
        '    n2["web · step 2 · 0.96"]',
        '    n3["api · step 2 · 0.96"]',
        '    n4["joiner"]',
        "    n1 --> n2",
        "    n1 --> n3",
        '    n2 -->|"F1 0.96"| n4',
        '    n3 -->|"F2 0.96"| n4',
    ]
    assert terminal_chain(check([text(joined())])).splitlines()[2:] == [
        "● lead  step 1  0.98  Split the work",
        "│",
        "├─┐",
        "│ ● web  step 2  0.96  Did a part",
        "│ │ F1 0.96",
        "│ ● api  step 2  0.96  Did a part",
        "│ │ F2 0.96",
        "├─┘",
        "○ ops",
    ]


def test_minimal_documents_form_chain() -> None:
    onward = changed(changed(minimal(), "chain.step", 3), "chain.from", "checker")
    graph = graph_of(check([text(minimal()), text(changed(onward, "chain.to", "payer"))]).hops.values())
    assert [node.agent for node in graph.nodes] == ["reader", "checker", "payer"]
    assert [edge[:2] for edge in graph.edges] == [(0, 1), (1, 2)]


def test_branches_without_merge_share_prefix() -> None:
    blocks = [text(branch("web", "F1")), text(branch("api", "F2"))]
    graph = graph_of(check(blocks, {1: ()}).hops.values())
    assert [node.agent for node in graph.nodes] == ["lead", "web", "api", "lead"]
    assert [edge[:2] for edge in graph.edges] == [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_uncertainty_is_shown_in_words() -> None:
    said = terminal_document(check([text(changed(hop(1), "facts.F1.confidence", 0.5))]))
    assert "0.50 low" in said
    assert "[human review]" in said
    said = terminal_document(check([text(changed(hop(1), "facts.F1.confidence", 0.3))]))
    assert "[do not propagate]" in said
    assert "F1 0.30!" in said


def test_post_mortem_marks_failed_step_and_cause() -> None:
    said = terminal_document(check([text(failed())]))
    assert "✗ payer  step 3  0.00  FAILED" in said
    assert "● checker  step 2  0.96  root cause" in said


def test_cause_is_agent_named_by_analysis() -> None:
    block = failed()
    beside = {"step": 2, "agent": "other", "parallel": True, "action": "Did it", "confidence": 0.9}
    block["trace"][1]["parallel"] = True
    block["trace"].insert(2, beside)
    nodes = graph_of(check([text(block)]).hops.values()).nodes
    assert [node.agent for node in nodes if node.is_cause] == ["checker"]


def test_lost_fact_is_marked_where_dropped() -> None:
    report = check([text(hop(1)), text(changed(hop(2), "facts.F1", ...))])
    assert "lost F1" in hops_text(report)
    assert re.search(r"^F1   \.96   x", hops_text(report), re.MULTILINE)
    assert "F1  at hop 2" in terminal_document(report)


NAMES = st.text(max_size=30) | st.sampled_from(
    ['x"] --> evil["y', "end", "a|b", "`", "日" * 80, "\x1b[2J", "%%{init}%%"]
)


def test_fact_name_stays_in_its_arrow_label() -> None:
    block = hop(1)
    block["facts"] = {'x"|<b>': block["facts"]["F1"]}
    block["handoff"] = {"critical_facts": ['x"|<b>'], "context_facts": []}
    block["trace"][0]["facts_added"] = ['x"|<b>']
    assert mermaid(block).splitlines()[-1] == "    n1 -->|\"'x#92;'|#lt;b>' 0.96\"| n2"


@settings(max_examples=60, deadline=None)
@given(NAMES, NAMES, st.integers(20, 120))
def test_names_never_break_lines_or_diagrams(agent: str, said: str, columns: int) -> None:
    block = changed(changed(hop(1), "chain.target", agent), "facts.F1.text", said)
    block = changed(changed(block, "trace.0.action", said), "instruction", said + "x")
    report = check([text(block)])
    drawn = mermaid_chain(graph_of(report.hops.values())).splitlines()
    assert len([line for line in drawn if re.match(r'    n\d+\["[^"]*"\]$', line)]) == 2
    assert len(drawn) == 4
    for picture in (terminal_document, terminal_chain, hops_text):
        lines = picture(report, columns=columns).splitlines()
        assert max(map(width, lines)) <= columns
        assert all(line.isprintable() for line in lines)
