"""Presentation of a text: outline, folds, hovers, hints, semantic colours."""

from __future__ import annotations

from hypothesis import given, settings

from callsheet.api.policies import load_policy
from callsheet.api.proving import prove
from callsheet.frontends.ltp import format_plan
from callsheet.ir import Effect
from callsheet.ir.flow import feeders
from callsheet.machine import ToolFacts
from callsheet.machine.ahead.waits import schedule_of
from callsheet.views.editor.annotations import About, concurrent_steps, hints_in, tokens
from callsheet.views.editor.document import Place, Places, PlanDocument, Units, folds, open_document, outline
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.knowledge import Knowledge
from strategies import plans
from views.editor.marks import KNOWN, TOOLS, opened

GROUPED = """PLAN_START
# two
# comments
S1: @READ_FILE (path="a") > $a
@PARALLEL {
  S2: @ADD (a=1) > $b
  S3: @ADD (
    a=2) > $c
}
S4: @SEND ("x
"""
FACTS = {"READ_FILE": ToolFacts(Effect.READ), "ADD": ToolFacts(Effect.READ), "SEND": ToolFacts()}


def known(document: PlanDocument, policy: str | None = None) -> Knowledge:
    schedule = {s.step: s for s in schedule_of(document.partial, FACTS)}
    if policy is None or document.plan is None:
        return Knowledge(TOOLS, {}, schedule)
    proof = prove(document.plan, load_policy(policy))
    return Knowledge(TOOLS, {s.step: s for s in proof.steps}, schedule, policy)


# ---------------------------------------------------------------- outline and folds


def test_outline_contains_groups_and_unreadable_steps() -> None:
    found = outline(open_document(GROUPED))
    assert [s.name for s in found] == ["S1", "@PARALLEL", "S4"]
    assert [child.name for child in found[1].children] == ["S2", "S3"]
    assert found[2].detail == "cannot be read"
    for symbol in found:
        assert symbol.span.start <= symbol.name_span.start <= symbol.name_span.end <= symbol.span.end


def test_groups_long_steps_and_comments_fold() -> None:
    lines = [GROUPED[slice(*fold.span)].splitlines() for fold in folds(open_document(GROUPED))]
    assert [(one[0], one[-1].strip()) for one in lines] == [
        ("# two", "# comments"), ("@PARALLEL {", "}"), ("S3: @ADD (", "a=2) > $c"),
    ]  # fmt: skip


@settings(max_examples=80)
@given(plans())
def test_outline_contains_every_step_once(plan) -> None:
    """For any groups, the steps of the outline are those of the plan, in order."""
    found = outline(open_document(format_plan(plan)))
    names = [name for s in found for name in ([c.name for c in s.children] or [s.name])]
    assert names == [step.id for step in plan.steps]


# ---------------------------------------------------------------- hovers


def told(text: str, more: Knowledge = KNOWN) -> str:
    document, offset = opened(text)
    found = hover_at(document, offset, more)
    return "" if found is None else found.markdown


def test_variable_hover_shows_content_definitions_and_uses() -> None:
    said = told('S1: @ADD (a=1) > $x‸:int\nS2: @RESPOND ("$x")')
    assert said.startswith("**`$x`**: whole number")
    assert "S1: @ADD" in said
    assert "used by S2" in said
    assert "no step sets it" in told("S1: @RESPOND ($‸x)")
    assert "each item of `$l`, only in S1" in told("S1: ?FOREACH ($i‸ IN $l) THEN @ADD ($i)")


def test_variable_hover_shows_label_under_policy() -> None:
    text = 'S1: @FETCH_PAGE (url="https://h.test/") > $p\nS2: @RESPOND ($p)'
    document = open_document(text)
    found = hover_at(document, len(text) - 2, known(document, "workspace"))
    assert found is not None
    assert "label `U/pub` under the policy `workspace`: untrusted, readable by everybody" in found.markdown


def test_step_hover_shows_dependencies() -> None:
    text = "S1: @ADD (a=1) > $x\nS2: @ADD ($x) > $y"
    document = open_document(text)
    found = hover_at(document, text.index("S2"), known(document))
    assert found is not None
    assert "S2 waits for S1" in found.markdown


def test_tool_hover_shows_arguments_and_escapes_text() -> None:
    said = told("S1: @ADD‸ (a=1)")
    assert "@ADD (a, b?)" in said
    assert "- `a`: integer — the \\*first\\*" in said
    assert "_effect read · python:tools.py_" in said


def test_keywords_have_hover_outside_texts_and_comments() -> None:
    assert "once for each item" in told("S1: ?FOR‸EACH ($i IN $l) THEN @ADD ($i)")
    assert "Both conditions" in told("S1: ?IF ($a == 1 AND‸ $b == 2) THEN @ADD (1)")
    assert told('S1: @RESPOND ("this AND‸ that")') == ""
    assert told("# this AND‸ that\nS1: @ADD (1)") == ""


# ---------------------------------------------------------------- hints


def test_step_hints_list_concurrent_steps() -> None:
    text = "S1: @ADD (a=1) > $x\nS2: @ADD (a=2) > $y\nS3: @ADD ($x) > $z\nS4: @SEND ($z)\nS5: @ADD ($y)"
    document = open_document(text)
    hints = {hint.offset: hint.text for hint in hints_in(document, known(document))}
    ends = [step.span.end for step in document.steps]
    assert [hints.get(end) for end in ends] == ["∥ S2", "∥ S1, S3", "∥ S2", None, None]


def test_group_members_and_items_are_concurrent() -> None:
    text = "@PARALLEL {\n  S1: @SEND (1) > $l\n  S2: @SEND (2)\n}\n"
    document = open_document(text + "S3: ?FOREACH ($i IN $l) THEN @LLM_EXTRACT ($i) > $x")
    found = [hint.text for hint in hints_in(document, known(document))]
    assert found == ["∥ S2", "∥ S1, S3", "∥ items, S2"]


def test_loops_in_blocks_whose_items_run_side_by_side_say_so() -> None:
    text = "# ltp: 2\nS1: ?FOREACH ($i IN [1, 2]) {\n  S2: @LLM_EXTRACT ($i) > $x\n}\n"
    document = open_document(text + "S3: ?FOREACH ($i IN [1, 2]) {\n  S4: @SEND ($i)\n}\n")
    hints = hints_in(document, known(document))
    assert [hint.text for hint in hints] == ["∥ all items"]
    assert "all its calls only read" in hints[0].tip


@settings(max_examples=80)
@given(plans())
def test_no_step_is_concurrent_with_its_source(plan) -> None:
    """Concurrency is mutual, and never between a step and one that feeds it."""
    document = open_document(format_plan(plan))
    together = concurrent_steps(document, known(document))
    for number, others in enumerate(together):
        assert number not in others
        assert all(number in together[other] for other in others)
    for number, feeding in enumerate(feeders(document.partial)):
        assert not set(feeding) & set(together[number])


def test_result_hints_show_labels_under_policy() -> None:
    text = 'S1: @FETCH_PAGE (url="https://h.test/") > $p\nS2: @RESPOND ($p)'
    document = open_document(text)
    found = [h for h in hints_in(document, known(document, "workspace")) if h.about is About.LABEL]
    assert [(h.text, text[: h.offset].rsplit(" ", 1)[1]) for h in found] == [("U/pub", "$p")]


# ---------------------------------------------------------------- colours by meaning


def test_tokens_distinguish_writes_from_reads() -> None:
    text = "S1: ?FOREACH ($i IN $l) THEN @ADD ($i) > $x"
    found = {(text[slice(*t.span)], t.kind, t.modifiers) for t in tokens(open_document(text), KNOWN)}
    assert ("$i", "variable", ("declaration", "readonly")) in found
    assert ("$i", "variable", ("readonly",)) in found
    assert ("$x", "variable", ("declaration",)) in found
    assert ("$l", "variable", ()) in found
    assert ("@ADD", "function", ("readonly",)) in found


def test_multiline_text_has_token_per_line() -> None:
    text = 'S1: @RESPOND ("""a\nb\n""")'
    assert all("\n" not in text[slice(*token.span)] for token in tokens(open_document(text)))


# ---------------------------------------------------------------- positions


def test_positions_and_offsets_are_inverse() -> None:
    text = "a😀é\r\nb\rc\n\n東"
    for units in Units:
        places = Places(text, units)
        inside = [
            n for n in range(len(text) + 1) if not (text[n - 1 : n] == "\r" and text[n : n + 1] == "\n")
        ]
        assert [places.offset(places.place(n)) for n in inside] == inside
    assert Places(text).place(3) == Place(0, 4)
    assert Places(text).offset(Place(0, 99)) == 3
    assert Places(text).offset(Place(99, 0)) == len(text)
