"""Any HTML page becomes readable Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import seconds

from callsheet.ports.builtin.html import looks_like_html, to_markdown

PIECES = [
    "<",
    ">",
    "<!--",
    "-->",
    "<p>",
    "</p>",
    "<a href='",
    "<![CDATA[",
    "<?",
    "&",
    '"',
    "<script>",
    "</",
    "x ",
    "\n",
]


def test_headings_lists_tables_and_code_are_kept():
    page = (
        "<h1>T</h1><ul><li>a</li><li>b</li></ul><table><tr><th>k</th></tr><tr><td>v</td></tr></table>"
        "<pre>x\n  y</pre><p>1 &lt; 2 &amp; <code>z</code></p>"
    )
    expected = "# T\n\n- a\n- b\n\n| k |\n| --- |\n| v |\n\n```\nx\n  y\n```\n\n1 < 2 & `z`"
    assert to_markdown(page) == expected


def test_invisible_content_is_dropped():
    page = (
        "<head><style>p{}</style></head><nav>menu</nav><div role='navigation'>more menu</div>"
        "<p hidden>no</p><p aria-hidden='true'>no</p><SCRIPT>if (a<b) '</p>'</SCRIPT ><p>a < b<!-- no --></p>"
        "<form><input value='no'><button>no</button></form><noscript>no</noscript><footer>no</footer>"
    )
    assert to_markdown(page) == "a < b"


def test_main_content_is_extracted_if_marked():
    page = f"<body><div>around</div><main>{'content ' * 40}</main></body>"
    assert "around" not in to_markdown(page)
    assert "around" in to_markdown("<body><div>around</div><main>little</main></body>")


def test_missing_heading_is_taken_from_title():
    assert to_markdown("<title>Name</title><p>text</p>") == "# Name\n\ntext"
    assert to_markdown("<title>Name</title><h1>Name</h1>") == "# Name"


def test_links_are_absolute_and_have_no_script():
    page = "<a href='b?c#d'>in</a> <a href='JavaScript:x()'>bad</a> <img src='/i.png' alt='pic'>"
    expected = "[in](https://h.test/a/b?c#d) bad ![pic](https://h.test/i.png)"
    assert to_markdown(page, "https://h.test/a/") == expected


def test_very_large_page_becomes_plain_text():
    text = to_markdown("<p>one &amp; two</p>" * 60_000)
    assert text.startswith("one & two")
    assert "<p>" not in text


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join))
def test_any_text_is_accepted_as_page(text):
    """to_markdown returns text for every text, and nothing of a script."""
    assert isinstance(to_markdown(text, "https://h.test/"), str)
    looks_like_html(text)
    assert "hidden_call" not in to_markdown(f"<script>hidden_call()</script>{text}")


@pytest.mark.parametrize("piece", [*PIECES, '<a "', "<div>", "</script>", "<a x=", " "])
def test_conversion_time_is_proportional(piece):
    """A hundred kilobytes of anything take seconds at most; quadratic time would take minutes."""
    assert seconds(lambda: to_markdown(piece * (100_000 // len(piece)))) < 10
