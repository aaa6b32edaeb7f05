"""Sealed values are recovered with the key, and reveal nothing without it."""

from __future__ import annotations

import json
from base64 import b32encode, b64encode
from binascii import hexlify
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.sealing.credentials import Shapes
from callsheet.sealing.keys import KeyRing, NotOpened, SealKey, read_key
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, mask_value
from callsheet.sealing.sealer import Path, Sealer, WrongKey, opened, rebound, shown, without_boxes

KEY = SealKey(bytes(range(32)))
RING = KeyRing.of([KEY])
SECRET = 'hunter2/wert+"ü'
FINDER = Finder(Known.of([SECRET], "declared"), Shapes())

texts = st.text(max_size=30) | st.sampled_from([SECRET, f"a {SECRET} b{SECRET}", "password=abcdef12", "x"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
paths = st.sampled_from([{}, {("value",): "label"}, {("value",): "label", ("more",): "label"}])


def encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


def seal(body: dict[str, Any], secret: dict[Path, str] | None = None, kind: str = "ok") -> dict[str, Any]:
    sealer = Sealer(lambda: RING, FINDER, lambda: frozenset({"name"}))
    sealed = sealer.sealed(kind, body, encoded(body), secret)
    return body if sealed is None else json.loads(encoded(sealed))


@given(values, values, paths, st.sampled_from(["ok", "snapshot"]))
def test_sealed_values_round_trip(value: Any, more: Any, secret: Any, kind: str) -> None:
    body = {"value": value, "more": more, "state": {"slots": [value]}}
    sealed = seal(body, secret, kind)
    if "sealed" in sealed:
        sealed = opened(sealed, RING, "")
    assert json.dumps(sealed) == json.dumps(body)


@given(values, paths)
def test_no_form_of_known_secret_is_written(value: Any, secret: Any) -> None:
    body = {"value": [value, SECRET, {"url": f"https://x/?t={quote(SECRET)}"}], "more": value}
    written = encoded(seal(body, secret)).decode("utf-8", "surrogatepass")
    forms = (SECRET, quote(SECRET), quote(SECRET, safe=""), json.dumps(SECRET)[1:-1], SECRET.encode().hex())
    assert not any(form in written for form in forms)


@pytest.mark.parametrize(
    "written",
    [
        "pa%2Fss!%3Cw%C3%BC%26d%22%3E'7", "pa%2fss%21%3cw%c3%bc%26d%22%3e%277", "pa/ss!%3Cw%C3%BC&d%22%3E'7",
        r"pa\/ss!<w\u00fc&d\">'7", r"pa/ss!\u003cwü\u0026d\"\u003e'7", r"pa/ss!<w\u00FC&d\">'7",
        r"pa/ss!\u003cw\u00fc\u0026d\"\u003e\u00277", r"pa/ss!<wü&d\\\">'7", r"pa/ss!<w\\u00fc&d\\\">'7",
        "pa/ss!&lt;wü&amp;d&quot;&gt;&#x27;7", "pa/ss!&lt;wü&amp;d&#34;&gt;&#39;7",
        'pa/ss!&lt;wü&amp;d"&gt;\'7', r"""pa/ss!<w\xc3\xbc&d">\'7""",
    ],
)  # fmt: skip
def test_secret_is_found_in_encodings_of_other_programs(written: str) -> None:
    known = Known.of(["pa/ss!<wü&d\">'7"], "declared")
    assert known.may_be_in(encoded({"value": f"a {written} b"}))
    assert (2, 2 + len(written), "declared") in set(known.found_in(f"a {written} b"))


@pytest.mark.parametrize(
    "values", [[f"{n:04}{'ab/c' * 11}" for n in range(3_000)], ["x/" * 20_000 + "<é>" * 20_000]]
)
def test_many_or_very_long_secrets_are_found(values: list[str]) -> None:
    known = Known.of(values, "declared")
    assert known.may_be_in(encoded({"value": f"a {values[-1]} b"}))
    assert not known.may_be_in(encoded({"value": "a b"}))


def test_run_summary_is_sealed_whole_if_part_is_sealed() -> None:
    """A value that is secret by its label has no recognizable form in the state."""
    body: dict[str, Any] = {"state": {"slots": ["nobody knows me"]}, "asked": [], "seq": 3}
    sealer = Sealer(lambda: RING, Finder(), has_sealed=True)
    sealed = sealer.sealed("snapshot", body, encoded(body))
    assert sealed is not None
    assert b"nobody knows me" not in encoded(sealed)
    assert opened(json.loads(encoded(sealed)), RING, "") == body
    assert sealer.sealed("ok", body, encoded(body)) is None


@given(st.binary(max_size=8), st.binary(max_size=8))
def test_secret_within_base64_is_found_at_any_offset(before: bytes, after: bytes) -> None:
    secret = "correct-horse-battery-staple"
    text = b64encode(before + secret.encode() + after).decode()
    found = Finder(Known.of([secret], "declared")).spans(text)
    assert found
    assert len(secret) <= found[0].end - found[0].start


LONG = "correct-horse/battery+staple?of 2024"


def in_lines(text: str, width: int, end: str) -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


@pytest.mark.parametrize(("width", "end"), [(76, "\n"), (64, "\r\n"), (60, "\n  "), (76, "\\n")])
@given(before=st.binary(max_size=120), after=st.binary(min_size=60, max_size=90))
def test_secret_within_encoded_lines_is_found_at_any_break(
    width: int, end: str, before: bytes, after: bytes
) -> None:
    known = Known.of([LONG], "declared")
    for encode in (b64encode, b32encode, hexlify):
        text = f"It is: {in_lines(encode(before + LONG.encode() + after).decode(), width, end)}"
        assert known.may_be_in(encoded({"value": text}))
        spans = Finder(known).spans(text)
        assert len(spans) == 1
        assert text[: spans[0].start] + text[spans[0].end :] != text
        assert not known.may_be_in(encoded({"value": text[: spans[0].start] + "…" + text[spans[0].end :]}))


@pytest.mark.parametrize(
    "text",
    [
        quote(quote(LONG, safe=""), safe=""), "correct-horse%252fbattery%252bstaple%253fof%25202024",
        b64encode(b'{"auth":"' + b64encode(LONG.encode()) + b'"}').decode(),
        b64encode(quote(LONG).encode()).decode(),
        b64encode(b64encode(b"joe:" + LONG.encode())).decode(),
        b64encode(LONG.encode().hex().encode()).decode(),
        b64encode(LONG.encode()).hex(), quote(b64encode(b"~" + LONG.encode()).decode(), safe=""),
        LONG.encode().hex(" "), LONG.encode().hex(":").upper(), b32encode(b"abc" + LONG.encode()).decode(),
    ],
)  # fmt: skip
def test_twice_encoded_secret_is_found(text: str) -> None:
    known = Known.of([LONG], "declared")
    assert known.may_be_in(encoded({"value": f"it is {text}."}))
    (span,) = Finder(known).spans(f"it is {text}.")
    assert span.end - span.start > len(LONG)


def test_wrapped_text_without_secret_is_unchanged() -> None:
    text = in_lines(b64encode(bytes(range(256)) * 2).decode(), 76, "\n")
    assert seal({"value": text}) == {"value": text}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("use ghp_" + "a1" * 18 + " now", "ghp_" + "a1" * 18),
        ("key AKIAIOSFODNN7EXAMPLE.", "AKIAIOSFODNN7EXAMPLE"),
        ('{"aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}', "wJalrXUtnFEMI/K7MDENG"),
        ("AIza" + "B" * 35, "AIza" + "B" * 35),
        ("xoxb-123456789012-abcdefGHIJKL", "xoxb-123456789012-abcdefGHIJKL"),
        ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
        ("sk-proj-" + "a" * 40, "sk-proj-" + "a" * 40),
        ("sk-ant-api03-" + "a" * 40, "sk-ant-api03-" + "a" * 40),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3In0.c2lnbmF0dXJl", "eyJzdWIiOiIxMjM0NTY3In0"),
        ("-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----\nrest", "MIIabc"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc cut off", "MIIabc cut off"),
        ("postgres://joe:tr0ub4dor@db.example/x", "tr0ub4dor"),
        ("DB_PASSWORD=tr0ub4dor&x=1", "tr0ub4dor"),
        ("authorization: Bearer abcdefghijklmnopqrstuv", "abcdefghijklmnopqrstuv"),
    ],
)
def test_well_known_credentials_are_found_by_pattern(text: str, secret: str) -> None:
    for value in (text, {"log": text}, json.dumps({"log": text})):
        body = {"value": value}
        written = encoded(seal(body)).decode()
        assert secret not in written, written
        assert secret not in json.dumps(mask_value(value, FINDER))


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog.",
        "https://example.org/a_long_path_of_words/and/more?page=2&token_type=x",
        "def an_identifier_that_is_quite_long(value): return value",
        "user@example.org wrote to https://example.org",
        "The password is wrong.",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_ordinary_texts_are_unchanged(text: str) -> None:
    assert seal({"value": text}) == {"value": text}


def test_text_under_secret_name_is_secret() -> None:
    sealed = seal({"value": {"user": "ada", "password": "tr0ub4dor", "token": "abc12345", "tokens": 7}})
    assert sealed["value"]["user"] == "ada"
    assert sealed["value"]["password"].startswith("[sealed k:")
    assert sealed["value"]["token"].startswith("[sealed k:")
    assert sealed["value"]["tokens"] == 7


def test_value_found_secret_by_name_is_sealed_later() -> None:
    sealer = Sealer(lambda: KeyRing.of([KEY]), Finder(shapes=Shapes()))
    for body in ({"value": {"password": "horse.4711", "token": "identifier"}}, {"value": "x horse.4711"}):
        sealed = sealer.sealed("ok", body, encoded(body))
        assert sealed is not None
        assert "horse" not in encoded(sealed).decode()
    assert sealer.sealed("ok", {"value": "an identifier"}, encoded({"value": "an identifier"})) is None


def test_equal_secrets_have_equal_digests() -> None:
    sealed = seal({"value": [SECRET, f"x {SECRET}", "password=other123"]})
    first, second, third = ("k:" + text.split("k:")[1][:12] for text in sealed["value"])
    assert first == second != third
    with_another_key = Sealer(lambda: KeyRing.of([SealKey(bytes(32))]), FINDER)
    again = with_another_key.sealed("ok", {"value": [SECRET]}, encoded({"value": [SECRET]}))
    assert again is not None
    assert first not in encoded(again).decode()


def test_value_sealed_by_label_shows_only_names_from_plan() -> None:
    value = {"name": "Ada", "s3cr3t-key": 1, "n": {"name": [True, 4.5]}}
    sealed = seal({"value": value}, {("value",): "label"})
    assert "Ada" not in encoded(sealed).decode()
    assert "s3cr3t-key" not in encoded(sealed).decode()
    assert set(sealed["value"]) == {"name"}
    assert opened(sealed, RING, "")["value"] == value


def test_secret_key_in_object_seals_object() -> None:
    sealed = seal({"value": {"by": {SECRET: 1, "b": 2}}})
    assert SECRET not in encoded(sealed).decode()
    assert opened(sealed, RING, "")["value"] == {"by": {SECRET: 1, "b": 2}}


def test_tool_output_is_never_read_as_envelope() -> None:
    box = seal({"value": SECRET})["sealed"]
    body = {"value": {"sealed": box, "$sealed": box, "text": "[sealed k:000000000000, text, 4 characters]"}}
    assert seal(body) == body


def test_other_key_opens_nothing_and_error_names_key_used() -> None:
    sealed = seal({"value": SECRET})
    with pytest.raises(WrongKey) as wrong:
        opened(json.loads(json.dumps(sealed)), KeyRing.of([SealKey(bytes(32))]), "")
    assert wrong.value.name == KEY.name
    sealed["sealed"]["boxes"][0][-1] = b64encode(b"something else entirely").decode()
    with pytest.raises(NotOpened):
        opened(sealed, RING, "")


def test_old_key_opens_beside_new_one() -> None:
    both = KeyRing.of([SealKey(bytes(32)), KEY])
    assert opened(seal({"value": SECRET}), both, "")["value"] == SECRET


def test_key_is_read_in_both_encodings() -> None:
    secret = bytes(range(32))
    assert read_key(secret.hex()).name == read_key(b64encode(secret).decode()).name == KEY.name
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        read_key("abc")


def test_edited_input_has_new_value() -> None:
    sealed = seal({"inputs": {"a": SECRET, "b": SECRET}})
    sealed["inputs"]["a"] = "new"
    assert opened(without_boxes(sealed, ["a"]), RING, "")["inputs"] == {"a": "new", "b": SECRET}


def test_displayed_events_have_no_envelopes() -> None:
    sealed = seal({"value": SECRET})
    told = shown(sealed)
    assert told is not None
    assert told["sealed"]["secrets"] == [
        {"digest": KEY.digest(SECRET.encode()), "kind": "text", "size": len(SECRET), "why": "declared"}
    ]


def test_ordinary_event_is_not_searched_in_depth() -> None:
    shapes = Shapes()
    assert not shapes.may_be_in(b'{"value":"The quick brown fox jumps over the lazy dog"}')
    assert "_any" not in vars(shapes), "no pattern was made ready"


def test_credential_patterns_are_compiled_once() -> None:
    first, second = Shapes(), Shapes({"ours": "OURS-[0-9]+"})
    for shapes in (first, second):
        assert shapes.may_be_in(b'{"value":"ghp_0123456789abcdefghijklmnopqrstuv"}')
        assert not shapes.may_be_in(b'{"value":"The quick brown fox jumps over the lazy dog"}')
    assert vars(first)["_any"] is vars(second)["_any"]
    assert second.may_be_in(b'{"value":"OURS-1"}')
    assert not first.may_be_in(b'{"value":"OURS-1"}')


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "api_key",
        "apikey",
        "access-key",
        "private_key",
        "secret_key",
        "auth_token",
        "token",
        "credential",
        "credentials",
        "authorization",
        "cookie",
        "Set-Cookie",
    ],
)
def test_fast_check_misses_no_secret_name(name: str) -> None:
    finder = Finder(shapes=Shapes())
    assert finder.whole(name, "abcdef") is not None
    assert finder.may_find(json.dumps({name: "abcdef"}).encode())


def sealed_for(run_id: str, body: dict[str, Any]) -> dict[str, Any]:
    sealer = Sealer(lambda: RING, FINDER, run_id=run_id)
    return json.loads(encoded(sealer.sealed("ok", body, encoded(body))))


@pytest.mark.parametrize("claimed", ["r1", "r2", "", None, 7])
def test_sealed_value_is_opened_only_for_its_run(claimed: Any) -> None:
    sealed = sealed_for("r1", {"value": [f"with {SECRET}", {"n": 1}]})
    assert opened(json.loads(json.dumps(sealed)), RING, "r1") == {"value": [f"with {SECRET}", {"n": 1}]}
    forged = {**sealed, "sealed": {**sealed["sealed"], "run": claimed}}
    if claimed is None:
        del forged["sealed"]["run"]
    for use in (
        lambda: opened(json.loads(json.dumps(forged)), RING, "r2"),
        lambda: rebound(forged, RING, "r2", "r3"),
    ):
        with pytest.raises(NotOpened):
            use()


def test_sealed_value_copied_by_fork_is_opened_only_for_fork() -> None:
    body = {"value": [f"with {SECRET}", {"n": 1}]}
    copied = rebound(sealed_for("r1", body), RING, "r1", "r2")
    assert encoded(copied) != encoded(sealed_for("r1", body))
    with pytest.raises(NotOpened, match="another run, 'r2'"):
        opened(json.loads(json.dumps(copied)), RING, "r1")
    assert opened(copied, RING, "r2") == body


def test_value_of_older_journal_is_unbound_until_copied() -> None:
    sealed = seal({"value": SECRET})
    assert "run" not in sealed["sealed"]
    assert opened(json.loads(json.dumps(sealed)), RING, "r1")["value"] == SECRET
    copied = rebound(sealed, RING, "r1", "r2")
    with pytest.raises(NotOpened):
        opened(json.loads(json.dumps(copied)), RING, "r1")
    assert opened(copied, RING, "r2")["value"] == SECRET
