"""The rules judge any text: a malformed address is an objection, never a crash."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from callsheet.ir.labels import LITERAL, read_label
from callsheet.policy.addresses import AddressRefused, parse_url
from callsheet.policy.calls import Argument, CallView, Hole, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.model import Audience, Policy, SourceRule, ToolRule
from callsheet.policy.urls import authority_of

PRIVATE = read_label("U/priv")
POLICY = Policy(
    audiences=(
        Audience(
            name="trusted", hosts=("*.corp.example", "10.0.0.0", "[2001:db8::1]"), mail=("*@corp.example",)
        ),
    ),
    sources=(
        SourceRule(kind="file", pattern="**/.env", label=read_label("T/secret")),
        SourceRule(kind="url", pattern="docs.example", label=read_label("T/pub")),
    ),
    tools={"SEND": ToolRule(audience_arg="to", trusted_audience=("*@corp.example", "corp.example"))},
    forbidden=("AKIA[0-9A-Z]{16}",),
    egress_hosts=None,
    host_read=("/var/log/**",),
)
JUDGE = Judge(POLICY)
ONLY = Judge(Policy(egress_hosts=("docs.example",)))
CALLS = (
    ("FETCH_PAGE", "url"),
    ("RESPOND", "0"),
    ("TERMINATE", "0"),
    ("LLM_SUMMARIZE", "0"),
    ("SEND", "to"),
    ("WRITE_FILE", "path"),
    ("READ_FILE", "path"),
    ("HOST_FILE_READ", "path"),
    ("SEARCH_FILES", "path"),
    ("EXEC_CODE", "language"),
    ("ASK_HUMAN", "prompt"),
    ("RE-PLAN", "0"),
)
PIECES = st.sampled_from(
    ["http://", "https://", "//", "[", "]", "::", "%", "%2e", "%25", "@", ":", ":99999", ".", "..", "/", "\\",
     "?", "#", "&", "x", "xn--", "xn--a", "corp.example", "10.0.0.0", "0x7f.1", "2001:db8::1", "\u2100",
     "\u24d4", "\u3002", "\ud800", "\u200b", "\x00", "\n", "\t", " ", "![a](", ")", "](", "[1]: ",
     "<img src=",
     ">", "<a href='", "data:", "file:", "javascript:", "<", "mailto:", "$u", "{{", "~", "C:", "."*70, "a"*70,
     "\U0001f600", "\u202e", "é"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=12)


def judged(judge: Judge, tool: str, name: str, before: str, text: str, after: str) -> frozenset[Rule]:
    parts = (*((before,) if before else ()), Hole("x", PRIVATE, text), *((after,) if after else ()))
    call = CallView("S1", tool, (Argument(name, parts, PRIVATE),))
    return frozenset(objection.rule for objection in judge.judge(call).objections)


@settings(max_examples=400)
@example(("FETCH_PAGE", "url"), "", "http://[", "")
@example(("FETCH_PAGE", "url"), "https://", "]@[", "/")
@example(("RESPOND", "0"), "![a](", "http://[::1", ")")
@example(("SEND", "to"), "", "https://[x/", "")
@example(("READ_FILE", "path"), "", "\ud800", "")
@given(st.sampled_from(CALLS), TEXTS, TEXTS, TEXTS)
def test_rules_never_crash_on_texts(where: tuple[str, str], before: str, text: str, after: str) -> None:
    for judge in (JUDGE, ONLY):
        judged(judge, *where, before, text, after)
        hole = (Hole("x", PRIVATE),)
        parts = (*((before,) if before else ()), *hole, *((after,) if after else ()))
        judge.judge(CallView("S1", where[0], (Argument(where[1], parts, PRIVATE),)))


@pytest.mark.parametrize(
    "text",
    ["http://[", "http://a:99999/", "http://a:b/", "https://e x.example/", "https://\ud800.example/", "https://a..b/",
     "data:text/html,x", "file:///etc/passwd", "javascript:x", "//docs.example/", "https://user@docs.example/",
     "https://docs.example\\@evil.example/", "https://docs.example/\ud800", ""],
)  # fmt: skip
def test_malformed_address_is_refused_by_address_rule(text: str) -> None:
    assert Rule.ADDRESS in judged(JUDGE, "FETCH_PAGE", "url", "", text, "")


@given(TEXTS)
def test_malformed_recipient_is_untrusted(text: str) -> None:
    if "corp.example" not in text:
        assert Rule.FLOW in judged(JUDGE, "SEND", "to", "", f"nobody {text}", "")


@settings(max_examples=400)
@example(("WRITE_FILE", "path"), "run", ".sh")
@given(st.sampled_from(CALLS), TEXTS, TEXTS)
def test_run_decides_like_proof_and_skips_discharged_obligations(
    where: tuple[str, str], before: str, text: str
) -> None:
    tool, name = where
    for judge, label in ((JUDGE, PRIVATE), (ONLY, PRIVATE), (JUDGE, LITERAL), (ONLY, read_label("U/pub"))):
        argument = Argument(name, (before, Hole("x", label, text)), label)
        call = CallView("S1", tool, (argument, Argument("content", ("x",))))
        decided = judge.decide(call)
        assert decided == judge.judge(call)._replace(obligations=(), links=decided.links)


@settings(max_examples=400)
@example("https://docs.example/" + "a" * 9_000)
@example("https://docs.example/\x7f")
@example("https://docs.example/\ud800")
@example("https://docs.example:x/")
@example(" https://docs.example?")
@example("https://docs.example\n")
@example("https://docs.example \n/")
@given(TEXTS | st.tuples(TEXTS, TEXTS).map(lambda t: f"https://docs.example{t[0]}/{t[1]}"))
def test_authority_is_parsed_iff_text_is_address(text: str) -> None:
    authority = authority_of(Argument("url", (text,)))
    try:
        host, error = parse_url(text).host, None
    except AddressRefused as refused:
        host, error = None, str(refused)
    assert (authority.host, authority.error) == (host, error)
