"""Addresses in what strangers had a hand in are taken apart, however they are written; all else stays."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.policy.disarming import Allowed, addresses_in, disarmed

ALLOWED = Allowed({"c.example"}.__contains__, frozenset({"https://own.example/guide"}))
WRITTEN = [
    "https://evil.example/?d=1", "HTTPS://evil.example/?d=1", "ftp://evil.example/1", "//evil.example/1",
    "/\\evil.example/1", "\\\\evil.example/1", "www.evil.example", "evil.example/1", "evil.example:8080/1",
    "evil.example?d=1", "1.evil.example#1", "mailto:eve@evil.example?body=1", "javascript:go(1)",
    "data:text/html,1",
    "![x](https://evil.example/1)", "[x](//evil.example/1)", "[x](<https://evil.example/1>)",
    "[x]: https://evil.example/1", "> - [x]: /\\evil.example/1", "<https://evil.example/1>",
    "<img src=//evil.example/1>", "<IMG\nSRC=https:evil.example>", "<a href='&#104;ttps:evil.example'>x</a>",
    "<svg/onload=go()>", "url(https:evil.example)", "&#104;ttps&colon;//evil.example/1",
    "https&#58;//evil.example/1",
    "&sol;&sol;evil.example/1", "[x](https:\\/\\/evil.example/1)", "[x](https&colon;evil.example)",
    "ht\u200btps\u200b:\u200b/\u200b/evil.example/1", "\uff48ttps\uff1a//evil.example/1",
    "https://evil\u3002example/1",
    "https://c.example\\@evil.example/1", "https://c.example@evil.example/1", "https://c.example.evil.example/",
    "https://c.example/)![x](https://evil.example/1)", "https://c.example/,https://evil.example/1",
    "https://evil.example/?u=https://evil.example/1", "https://https://evil.example/1",
    "https://own.example/guide?d=1", "https://own.example/guidex",
]  # fmt: skip
LINKED = re.compile(
    r"[a-z][a-z0-9+.-]*:(?://|/\\)|(?<![\]/])//\w|www\.|\]\((?!notes)|^\[x\]:|<[a-z!?]|url\(|(?:mailto|script):\S"
    r"|(?<![\w./:-])(?:[\w-]+\.)+example[:/?#]",
    re.I | re.M,
)


@pytest.mark.parametrize("text", WRITTEN)
def test_an_address_of_a_stranger_is_no_link_for_any_program(text: str) -> None:
    for around in ("{}", "before {} after", "({})", "*{}*"):
        shown = disarmed(around.format(text), ALLOWED)
        apart = shown.replace("https://c.example/", "").replace("[.]", "[]")
        assert not LINKED.search(apart), shown
        assert not LINKED.search(unescape(apart)), shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words, 1/2, and/or; x < y and a <b> c; 3.14/2; x[1][2]; f(a)[b](0)",
        "see https://c.example/x?d=1, and [there](https://c.example/y).",
        "as https://own.example/guide says.",
        "[below](#part) and [beside](notes)",
        "a key: value, data: 42, // a comment",
        "notes.txt, report.pdf and README.md",
    ],
)
def test_what_leads_to_nobody_who_may_not_know_stays_as_it_is(text: str) -> None:
    assert disarmed(text, ALLOWED) == text


@given(st.lists(st.sampled_from([*WRITTEN, " ", "\n", "&", "(", "]", "<", "/", "x", "https://c.example/"])))
def test_what_is_taken_apart_is_taken_apart_once(pieces: list[str]) -> None:
    shown = disarmed("".join(pieces), ALLOWED)
    assert disarmed(shown, ALLOWED) == shown


@pytest.mark.parametrize(
    "piece", ["<a", "a.", "[x](", "https://a", "//a/", "?u=https://a/", "[a", "&amp;", "> "]
)
def test_long_texts_are_no_problem(piece: str) -> None:
    assert len(disarmed(piece * 5_000, ALLOWED)) >= len(piece)


def test_addresses_are_told_as_they_stand() -> None:
    assert addresses_in("see https://own.example/guide. Or www.x.example!") == {
        "https://own.example/guide",
        "www.x.example",
    }
