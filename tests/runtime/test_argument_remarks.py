"""What a person is told about the arguments of a call to approve, wherever it is approved."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from callsheet.apps.rendering.runs import question_lines
from callsheet.runtime.answers import PendingAsk, misleading_letters, origins

FORGED = "p\u0430ypal@x.org"
ASK = PendingAsk("r1", "S2.0.1", "S2", "approval", "d", 0.0, tool="MAIL", args={"to": "ada@x.org"})


def test_label_is_described_with_sources_and_meaning() -> None:
    ask = replace(ASK, labels={"to": {"label": "U/priv", "from": ["S1", "S3"]}, "body": {"label": "T/{ada}"}})

    assert list(origins(ask)) == [
        "to comes from S1, S3: untrusted, private (U/priv)",
        "body comes from outside of the plan: T/{ada}",
    ]


def test_confusable_letters_are_found_in_arguments_and_inputs() -> None:
    ask = replace(
        ASK, args={"to": [FORGED], "text": "\u043f\u0440\u0438\u0432\u0435\u0442"}, inputs=("plain", FORGED)
    )

    assert list(misleading_letters(ask)) == [
        r"to has letters that look like Latin ones: p\u0430ypal@x.org",
        r"(2) has letters that look like Latin ones: p\u0430ypal@x.org",
    ]


def test_remarks_escape_control_characters() -> None:
    ask = replace(ASK, args={"a\x1b[31m": FORGED}, labels={"b\x1b[31m": {"label": "U/pub"}})

    lines = list(question_lines(ask))
    assert any(line.startswith("  a has letters that look like Latin ones") for line in lines)
    assert "  b comes from outside of the plan: untrusted, public (U/pub)" in lines


SIGNS = st.text("a1\n\r\t\x08\x1b[2K\x9b\u202e\u200b\u2028", max_size=30)


@given(st.dictionaries(SIGNS, SIGNS | st.lists(SIGNS, max_size=2), max_size=2), st.lists(SIGNS, max_size=1))
def test_no_name_or_value_breaks_out_of_its_line(args: dict[str, object], inputs: list[str]) -> None:
    lines = list(question_lines(replace(ASK, args=args, inputs=tuple(inputs))))
    assert not any(sign in line for line in lines for sign in "\n\r\x08\x1b\x9b\u202e\u200b\u2028")
