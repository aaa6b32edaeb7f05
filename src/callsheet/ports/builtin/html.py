"""Converts HTML to Markdown: the readable content, without scripts, menus and forms."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from callsheet.machine import Fact

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_HTML_START = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--.{0,2000}?-->\s*)?"
    r"<(?:!doctype\s+html|html|head|body|div|p|h[1-6]|main|article|section|header|table|ul|ol|title|meta|script)\b",
    re.IGNORECASE | re.DOTALL,
)
_DROPPED = frozenset(
    {
        "title",
        "script",
        "style",
        "noscript",
        "template",
        "iframe",
        "object",
        "embed",
        "svg",
        "canvas",
        "audio",
        "video",
        "nav",
        "footer",
        "aside",
        "form",
        "button",
        "input",
        "select",
        "textarea",
        "dialog",
        "link",
        "meta",
    }
)
_DROPPED_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alert"}
)
_TAG = re.compile(
    r"""<(?:/?([a-zA-Z][^\s<>"'/]*+)(?:[^<>"']++|"[^"]{0,2000}+"|'[^']{0,2000}+')*+|[!?][^<>]{0,500}+)>"""
)
_RAW_TEXT = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}
_LEAST_CONTENT = 200
_MAX_DEPTH = 100
_MAX_CONVERTED = 1_000_000
_MAX_BLANKS = 80


def looks_like_html(text: str) -> bool:
    """Whether a text starts like an HTML page or fragment.

    >>> looks_like_html("<!DOCTYPE html><p>hi"), looks_like_html("a < b"), looks_like_html('{"a": "<p>"}')
    (True, False, False)
    """
    return _HTML_START.match(text) is not None


def to_markdown(html: str, base_url: str | None = None) -> str:
    """The content of a page as Markdown; links are made absolute if `base_url` is given.

    >>> to_markdown("<h1>Title</h1><script>x()</script><p>Text <b>bold</b></p>")
    '# Title\\n\\nText **bold**'
    """
    from bs4 import BeautifulSoup  # noqa: PLC0415 - a fifth of a second that most runs never need
    from markdownify import ATX, MarkdownConverter  # noqa: PLC0415

    html = _tame(html)
    if len(html) > _MAX_CONVERTED:
        return _tidy(unescape(_TAG.sub("\n", html)))
    soup = BeautifulSoup(html, "html.parser")
    title = _title(soup)
    _drop_clutter(soup)
    content = _main_part(soup)
    if _depth(content) > _MAX_DEPTH:
        text = content.get_text("\n", strip=True)
    else:
        _repair_links(content, base_url)
        converter = MarkdownConverter(heading_style=ATX, bullets="-", escape_misc=False)
        text = str(converter.convert_soup(content))
    text = _tidy(text)
    if title and title not in text[:500]:
        text = f"# {title}\n\n{text}"
    return text.strip()


def conversion(html: str, text: str) -> Fact:
    """A remark on a converted page: its length as HTML and as text."""
    return Fact("page", f"{len(text):,} characters of text from {len(html):,} of HTML")


def _tame(html: str) -> str:
    """The page without comments and the content of scripts and styles; a `<` outside a tag becomes `&lt;`.

    A linear pass, because the parsers that follow take quadratic time or worse on input like `<!--<!--<!--…`.
    An unclosed comment or script drops the rest of the page, as in browsers.
    """
    pieces: list[str] = []
    at = 0
    while (start := html.find("<", at)) != -1:
        pieces.append(html[at:start])
        if html.startswith("<!--", start):
            end = html.find("-->", start + 4)
            at = len(html) if end == -1 else end + 3
            continue
        tag = _TAG.match(html, start)
        if tag is None:
            pieces.append("&lt;")
            at = start + 1
            continue
        at = tag.end()
        closing = _RAW_TEXT.get((tag.group(1) or "").lower()) if html[start + 1] != "/" else None
        if closing is None:
            pieces.append(tag.group())
        else:
            end_tag = closing.search(html, at)
            at = end_tag.start() if end_tag else len(html)
    pieces.append(html[at:])
    return re.sub(r"\s+", lambda blanks: blanks.group()[:_MAX_BLANKS], "".join(pieces))


def _title(soup: BeautifulSoup) -> str:
    title = soup.find("title")
    return " ".join(title.get_text().split()) if title else ""


def _drop_clutter(soup: BeautifulSoup) -> None:
    from bs4 import Comment, Declaration, Doctype, ProcessingInstruction  # noqa: PLC0415

    for tag in soup.find_all(_is_clutter):
        tag.decompose()
    noise = (Comment, Declaration, Doctype, ProcessingInstruction)
    for text in soup.find_all(string=lambda piece: isinstance(piece, noise)):
        text.extract()


def _is_clutter(tag: Tag) -> bool:
    if tag.name in _DROPPED or tag.has_attr("hidden") or tag.get("aria-hidden") == "true":
        return True
    return str(tag.get("role", "")).lower() in _DROPPED_ROLES


def _main_part(soup: BeautifulSoup) -> Tag:
    for name in ("main", "article"):
        parts = soup.find_all(name)
        if len(parts) == 1 and len(parts[0].get_text(strip=True)) >= _LEAST_CONTENT:
            return parts[0]
    return soup.body or soup


def _depth(root: Tag) -> int:
    deepest, pending = 0, [(root, 0)]
    while pending and deepest <= _MAX_DEPTH:
        tag, depth = pending.pop()
        deepest = max(deepest, depth)
        pending.extend((child, depth + 1) for child in tag.find_all(True, recursive=False))
    return deepest


def _repair_links(root: Tag, base_url: str | None) -> None:
    for name, attribute in (("a", "href"), ("img", "src")):
        for tag in root.find_all(name):
            address = str(tag.get(attribute) or "").strip()
            if base_url is not None and address:
                try:
                    address = urljoin(base_url, address)
                except ValueError:
                    address = ""
            if re.match(r"(?i)(javascript|data|vbscript|blob):", address):
                address = ""
            if address:
                tag[attribute] = address
            elif name == "img":
                tag.decompose()
            else:
                del tag[attribute]


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.replace("\N{NO-BREAK SPACE}", " ").split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
