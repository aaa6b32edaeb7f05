"""Names in a plan: all occurrences, and the definition of a use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from callsheet.frontends.ltp import format_plan
from callsheet.frontends.spelling import Syntax
from callsheet.ir.flow import uses_of
from callsheet.views.editor.document import open_document
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.occurrences import (
    Kind,
    Role,
    definitions_at,
    named_at,
    occurrences,
    references_at,
    renamable_at,
)
from strategies import plans

CORPUS = sorted((Path(__file__).parents[2] / "frontends" / "corpus").rglob("*.ltp"))


def places(text: str, spans) -> list[str]:
    """Each range as `line:column text`."""
    return [
        f"{text.count(chr(10), 0, s) + 1}:{s - text.rfind(chr(10), 0, s) - 1} {text[s:e]}" for s, e in spans
    ]


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_occurrences_spell_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for found in occurrences(open_document(text)):
        assert text[slice(*found.span)] == found.entity.name


@settings(max_examples=150)
@given(plans())
def test_names_read_set_or_jumped_to_are_found(plan) -> None:
    """A canonical text has as many occurrences as its plan has names."""
    document = open_document(format_plan(plan))
    found = occurrences(document)
    reads = sum(1 for number, step in enumerate(plan.steps) for _ in uses_of(step, number))
    seen = [o for o in found if o.entity.kind is Kind.VARIABLE and o.role is Role.READ]
    assert len([o for o in seen if o.entity.loop is None]) >= reads
    assert {step.id for step in plan.steps} == {
        o.entity.name for o in found if o.entity.kind is Kind.STEP and o.role is Role.WRITE
    }
    outputs = sorted(step.output.var for step in plan.steps if step.output is not None)
    written = [o for o in found if o.entity.kind is Kind.VARIABLE and o.role is Role.WRITE]
    assert sorted(o.entity.name for o in written if o.entity.loop is None) == outputs


@settings(max_examples=150)
@given(plans())
def test_definition_of_every_use_sets_it(plan) -> None:
    """Names that are both read and set have a definition, and each is a write of the same thing."""
    document = open_document(format_plan(plan))
    found = occurrences(document)
    for use in found:
        if use.role is not Role.READ:
            continue
        writes = {o.span for o in found if o.entity == use.entity and o.role is Role.WRITE}
        led_to = set(definitions_at(document, use.span.start))
        assert led_to <= writes
        assert bool(led_to) == bool(writes)


def test_use_leads_to_reaching_definition() -> None:
    text = 'S1: @A > $x\nS2: @B > $x\nS3: ?IF (NOT_EMPTY($x)) THEN @C > $x\nS4: @RESPOND ("$x")'
    assert places(text, definitions_at(open_document(text), text.rindex("x"))) == ["2:10 x", "3:35 x"]


def test_group_member_sees_definition_before_group() -> None:
    text = "S1: @A > $x\n@PARALLEL {\n  S2: @B > $x\n  S3: @C ($x) > $y\n}\nS4: @D ($x)"
    document = open_document(text)
    assert places(text, definitions_at(document, text.index("($x") + 2)) == ["1:10 x"]
    assert places(text, definitions_at(document, text.rindex("($x") + 2)) == ["3:12 x"]


def test_loop_variable_differs_from_variable_of_same_name() -> None:
    text = 'S1: @A > $t\nS2: ?FOREACH ($t IN $t) THEN @B ("$t") > $u\nS3: @RESPOND ($t, $u)'
    document = open_document(text)
    in_loop = named_at(document, text.index('"$t"') + 2)
    assert places(text, [o.span for o in in_loop.all]) == ["2:15 t", "2:35 t"]
    outside = references_at(document, text.index("> $t") + 3)
    assert places(text, [o.span for o in outside]) == ["1:10 t", "2:21 t", "3:15 t"]


def test_step_id_leads_to_step_from_jumps_and_dependencies() -> None:
    text = "S1: @A ON_FAIL @RETRY(2) GOTO S3\nS2: GOTO S1\nS3: @B"
    document = open_document(text)
    assert places(text, definitions_at(document, text.index("S3\n"))) == ["3:0 S3"]
    assert places(text, [o.span for o in references_at(document, text.index("S1:"))]) == ["1:0 S1", "2:9 S1"]
    dag = '{"steps": [{"index": "a", "title": "A", "tool": "x", "args": {}, "depends_on": []},\n'
    dag += '{"index": "b", "title": "B", "tool": "x", "args": {"v": "${r}"}, "depends_on": ["a"]}]}'
    assert places(dag, definitions_at(open_document(dag), dag.rindex('"a"') + 1)) == ["1:22 a"]


def test_command_number_leads_to_its_command() -> None:
    text = 'read "a" > a\n?if $a empty : goto S3\nrespond $a'
    document = open_document(text, syntax=Syntax.MICRO)
    at = text.index("S3")
    assert places(text, definitions_at(document, at)) == ["3:0 respond $a"]
    about = hover_at(document, at)
    assert about is not None
    assert "@RESPOND ($a)" in about.markdown
    assert renamable_at(document, at) is None


def test_names_in_unreadable_steps_are_found() -> None:
    text = 'S1: @A > $x\nS2: @B (\nS3: @C ("${x}"'
    document = open_document(text)
    assert places(text, definitions_at(document, text.rindex("x"))) == ["1:10 x"]
    assert places(text, [o.span for o in references_at(document, text.index("$x"))]) == ["1:10 x", "3:11 x"]
