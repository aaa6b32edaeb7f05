"""What a text would load or send when rendered, found in time linear in the text."""

from __future__ import annotations

import pytest
from tests.growth import takes_linear_time

from callsheet.policy.links import is_active


@pytest.mark.parametrize(
    "text",
    ["<p onclick = x>", "<a\nclass='b' onfocus=x>", "<SCRIPT>", "[x](javascript:go)", '<i/onload="x">'],
)
def test_script_form_or_handler_is_active(text: str) -> None:
    assert is_active(text)


@pytest.mark.parametrize(
    "text", ["a < b on = c", "<b>on = 1</b>", "javascript: a language", "<p class='on'>"]
)
def test_other_texts_are_inactive(text: str) -> None:
    assert not is_active(text)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<a ",
            "<a onx ",
            "<a '",
            "/onx",
            "javascript",
            "<a x='",
            "'<a \"",
            "<style>",
            "<meta http-equiv= ",
        ),
        *("`<a>`", "`<", "&#115;", "java\tscript:", "<link =", "= "),
    ],
)
def test_long_text_takes_linear_time(piece: str) -> None:
    assert takes_linear_time(is_active, "<a {}", piece)
