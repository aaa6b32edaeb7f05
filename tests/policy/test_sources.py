"""Restrictive rules hold for every spelling of a place; recipients are never confused."""

from __future__ import annotations

import pytest

from callsheet.ir.labels import TRUSTED, USER, Label, read_label
from callsheet.policy.audiences import Audiences
from callsheet.policy.model import Audience, Policy, SourceRule
from callsheet.policy.sources import Sources

FINANCE = Label(True, frozenset({USER, "finance"}))


@pytest.mark.parametrize("held", [FINANCE, read_label("U/secret")])
@pytest.mark.parametrize("path", ["hr/pay.md", "HR/Pay.md", "hr/old/pay.md", "hr/pay.md ", "hr%2Fpay.md"])
def test_restricting_rule_applies_in_any_case_and_below(held: Label, path: str) -> None:
    sources = Sources(Policy(sources=(SourceRule(kind="file", pattern="hr/**", label=held),)))
    assert held.flows_to(sources.file(path))


def test_permitting_rule_applies_exactly() -> None:
    public = read_label("T/pub")
    sources = Sources(Policy(sources=(SourceRule(kind="file", pattern="docs/**", label=public),)))
    assert sources.file("docs/a.md") == public
    assert not sources.file("DOCS/a.md").is_public


@pytest.mark.parametrize(
    "path", ["docs", "DOCS", "docs/*", "docs/**", "docs/s*", "docs/{a,s?cret}", "docs/{a,secret}", "do*"]
)
def test_folder_or_glob_read_as_a_whole_has_labels_of_its_files(path: str) -> None:
    secret, public = read_label("T/secret"), read_label("T/pub")
    rules = (
        SourceRule(kind="file", pattern="docs/secret/**", label=secret),
        SourceRule(kind="file", pattern="**", label=public),
    )
    sources = Sources(Policy(sources=rules))
    assert sources.file(path).is_public
    assert sources.whole(path).is_secret
    assert sources.whole("docs/open").is_public
    assert sources.whole("docs/*.md").is_public
    assert sources.whole("other").is_public


@pytest.mark.parametrize(
    ("mail", "is_trusted"),
    [
        ("ada@strasse.example", True),
        ("Ada@STRASSE.example", True),
        ("Ada <ada@strasse.example>", True),
        ("ada@stra\u00dfe.example", False),
        ("ada@\u017ftrasse.example", False),
        ("Ada <ada@stra\u00dfe.example>", False),
    ],
)
def test_address_with_confusable_letters_is_different(mail: str, is_trusted: bool) -> None:
    audiences = Audiences([Audience(name=TRUSTED, mail=("*@strasse.example",))])
    assert [bool(found) for _, found in audiences.of_recipients(mail, ())] == [is_trusted]
    assert [bool(found) for _, found in audiences.of_recipients(mail, ["*@strasse.example"])] == [is_trusted]
