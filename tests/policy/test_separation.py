"""Texts that are treated alike open nothing that data beside them would be inside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callsheet.policy.composing import opens_nothing
from callsheet.policy.rules.receivers import plain_texts

TEXTS = st.text("aZ09_ ,;!?'-.:<>()[]&/\"\n\u00e9\u200b", max_size=12)


@given(TEXTS)
def test_plain_texts_open_nothing(text: str) -> None:
    is_plain = plain_texts("to", "subject")
    assert is_plain is not None
    assert opens_nothing(text) or not is_plain(text)
