"""Links in texts with untrusted content are disarmed in any spelling; other text is unchanged."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given
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
    "https:///evil.example/1", "https:/evil.example/1", "https:\\/\\/evil.example/1", "/evil.example/1",
    "mailto:evil.example/1", "sms:evil.example/1", "see:evil.example/1", "https:\\/\\/1.evil.example",
    "evil.example./1", "ev\u034fil\u3164.ex\ufe0fample/1",
]  # fmt: skip
LINKED = re.compile(
    r"[a-z][a-z0-9+.-]*:(?://|/\\)|(?<![\]/])//\w|www\.|\]\((?!notes)|^\[x\]:|<[a-z!?]|url\(|(?:mailto|script):\S"
    r"|(?<![\w./-])(?:[\w-]+\.)+example\.?[:/?#]|//(?:[\w-]+\.)+example|https?:/",
    re.I | re.M,
)


@pytest.mark.parametrize("text", WRITTEN)
def test_untrusted_address_is_linked_by_no_program(text: str) -> None:
    for around in ("{}", "before {} after", "({})", "*{}*"):
        shown = disarmed(around.format(text), ALLOWED)
        apart = shown.replace("https://c.example/", "").replace("[.]", "[]")
        assert not LINKED.search(apart), shown
        assert not LINKED.search(unescape(apart)), shown


@pytest.mark.parametrize("name", ["a", "a\nb", "a\n> b", "a\\]b", "a\\\nb", "![a", "a\\\\"])
def test_link_definitions_are_disabled_for_any_name(name: str) -> None:
    assert f"[{name}]:" not in disarmed(f"![{name}]\n\n[{name}]: https:1", ALLOWED)
    assert "a\n\nb]:" in disarmed("[a\n\nb]: c", ALLOWED)


@pytest.mark.parametrize("between", [",", ")", "'", '"', "]", "*", "|", ";", "!" * 30 + ")"])
def test_text_following_plan_address_is_not_linked(between: str) -> None:
    told = f"https://own.example/guide{between}42"
    assert addresses_in(disarmed(f"see {told} there", ALLOWED)).isdisjoint(
        {told, "https://own.example/guide"}
    )
    closed = "([it](https://own.example/guide)), **https://own.example/guide**, <https://c.example/1>."
    assert "https://own.example/guide" in disarmed(closed, ALLOWED)


@pytest.mark.parametrize("between", [",", ")", "'", "*", ";", ",@", ")."])
def test_suffix_of_trusted_host_is_not_trusted(between: str) -> None:
    assert "https://c" not in disarmed(f"see https://c.example{between}42.evil.example", ALLOWED)
    assert "https://c.example" in disarmed(f"(see https://c.example), 42{between}", ALLOWED)


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
        "a/b.c/d, ./a.b/c, 10.0.0.0/8, C:/a/b.txt, 12:30, std::vec::Vec, key:value/other",
        "([it](https://own.example/guide)), **https://own.example/guide**, 'https://c.example', (https://c.example).",
    ],
)
def test_links_to_allowed_readers_are_unchanged(text: str) -> None:
    assert disarmed(text, ALLOWED) == text


@given(st.lists(st.sampled_from([*WRITTEN, " ", "\n", "&", "(", "]", "<", "/", "x", "https://c.example/"])))
@example(["]", "(", "![x](https://evil.example/1)"])
def test_sanitizing_is_idempotent(pieces: list[str]) -> None:
    shown = disarmed("".join(pieces), ALLOWED)
    assert disarmed(shown, ALLOWED) == shown


@pytest.mark.parametrize(
    "piece", ["<a", "a.", "[x](", "https://a", "//a/", "?u=https://a/", "[a", "&amp;", "> "]
)
def test_long_texts_take_bounded_time(piece: str) -> None:
    assert len(disarmed(piece * 5_000, ALLOWED)) >= len(piece)


def test_addresses_are_reported_verbatim() -> None:
    assert addresses_in("see https://own.example/guide. Or www.x.example!") == {
        "https://own.example/guide",
        "www.x.example",
    }
