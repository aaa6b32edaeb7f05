"""LCTL blocks as text: finds them, parses YAML 1.2's core schema within limits, and writes YAML.

What is written has the same meaning in YAML 1.1, YAML 1.2 and for this library.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.frontends.tree import Mapping as MappingNode
from callsheet.frontends.tree import Node, Part, Scalar, YamlWalk, place_near, span_of
from callsheet.ir import expr as ir_types
from callsheet.trace.lctl.model import shown_name

_FENCE = lazy.pattern(r"^( {0,3}|\t)(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_KEY = lazy.pattern(r"""^( *)["']?lctl(?:_ack)?["']?[ \t]*:""", re.MULTILINE)
_BEGINNING = lazy.pattern(r"^( *)(?![ \n#%]|---)", re.MULTILINE)
_KEY_AT_MARGIN = lazy.pattern(r"""^["']?lctl(?:_ack)?["']?[ \t]*:""", re.MULTILINE)
_KEY_IN_FLOW = lazy.pattern(r"""["']?\blctl(?:_ack)?["']?\s*:""")
_BEFORE_DOCUMENT = lazy.pattern(r"(?:\s|#[^\n]*|^%[^\n]*|---(?=\s))*+", re.MULTILINE)
"""The text allowed before a document: comments, directives, and the document marker."""
_MARK = "\ufeff"
_NOT_NEWLINE = lazy.pattern(r"[^\n]")


class CutOff(Exception):
    """The fence that should contain the block is not closed."""

    def __init__(self, span: Span) -> None:
        super().__init__("a code fence that is not closed")
        self.span = span


class NoBlock(Exception):
    """The text is an answer with code fences, none of which contains a block."""


class _Fence(NamedTuple):
    opened: Span
    content: Span
    is_closed: bool


def block_of(text: str) -> str:
    """The text up to the end of the block, with everything before it blank.

    Raises `CutOff` if no closed fence contains a block and the last one is not closed, `NoBlock` if all
    are closed and none contains one.

    >>> block_of("Here:\\n```yaml\\nlctl: x\\n```\\n").split("\\n")
    ['     ', '       ', 'lctl: x', '']
    """
    fences = list(_fences(text))
    if not fences or _is_bare(text, fences):
        return text
    for fence in fences:
        start, end = fence.content
        if text.startswith(_MARK, start):  # a byte order mark is no part of the block, but counts in offsets
            start += 1
        if fence.is_closed and _holds_block(text[start:end]):
            before = _blank(text[:start])
            if start > fence.content.start:
                before = f"{before[:-2]} \n"
            return before + text[start:end]
    last = fences[-1]
    if not last.is_closed:
        raise CutOff(last.opened)
    raise NoBlock


def _fences(text: str) -> Iterator[_Fence]:
    """The fences of a text; the closing one is of the same kind, not shorter and not indented deeper."""
    opener: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opener is None:
            if "`" not in match[3] or match[2][0] == "~":
                opener = match
        elif (
            match[2][0] == opener[2][0]
            and len(match[2]) >= len(opener[2])
            and len(match[1]) <= len(opener[1])
            and not match[3].strip()
        ):
            start = min(opener.end() + 1, match.start())
            yield _Fence(Span(*opener.span()), Span(start, match.start()), True)
            opener = None
    if opener is not None:
        yield _Fence(Span(*opener.span()), Span(min(opener.end() + 1, len(text)), len(text)), False)


def _is_bare(text: str, fences: list[_Fence]) -> bool:
    """Whether the whole text is a document: its key is outside of all fences, or it is JSON."""
    if text.lstrip().startswith("{"):
        return True
    inside = [(fence.opened.start, fence.content.end) for fence in fences]
    return any(
        not any(start <= match.start() < end for start, end in inside)
        for match in _KEY_AT_MARGIN.finditer(text)
    )


def _holds_block(content: str) -> bool:
    """Whether the text has one of the two keys at the top level."""
    before = _BEFORE_DOCUMENT.match(content)
    if content.startswith("{", 0 if before is None else before.end()):
        return _KEY_IN_FLOW.search(content) is not None
    begins = _BEGINNING.search(content)
    margin = "" if begins is None else begins[1]
    return any(match[1] == margin for match in _KEY.finditer(content))


def _blank(text: str) -> str:
    return _NOT_NEWLINE.sub(" ", text)


MOST_BYTES = 8 * 1024 * 1024
MOST_DEPTH = 64
MOST_NODES = 200_000
_MOST_DIGITS = 600
"""The most digits of a number; more, in any base, are beyond what every interpreter prints."""

_FORBIDDEN = lazy.pattern("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_READ_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = lazy.pattern(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = lazy.pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_CORE = "tag:yaml.org,2002:"
_SURROGATES = lazy.pattern(r"\\u[dD][89abAB][0-9a-fA-F]{2}")


class Refused(Exception):
    """The text cannot be read: the rule that it breaks, a message and the place."""

    def __init__(self, rule: str, message: str, span: Span) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.span = span


def decoded(data: str | bytes) -> str:
    """The text of a document, without a byte order mark; raises `Refused` (P07, P08)."""
    if isinstance(data, bytes):
        if len(data) > MOST_BYTES:
            raise _too_long(len(data))
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("P08", f"byte {error.start + 1} is not UTF-8", Span(0, 0)) from None
    else:
        text = data
        if len(text) > MOST_BYTES or len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise _too_long(len(text))
    return text.removeprefix("\ufeff")


def _too_long(size: int) -> Refused:
    return Refused("P07", f"{size:,} bytes, more than {MOST_BYTES:,}", Span(0, 0))


class Read(NamedTuple):
    """The root mapping of a text, and an error for each duplicate key in it; first values count."""

    root: MappingNode
    repeated: tuple[Refused, ...] = ()


def read_tree(text: str) -> Read:
    """The root mapping of a text, or of a code fence in an answer; raises `Refused`."""
    try:
        block = block_of(text)
    except CutOff as cut:
        raise Refused("P01", "a code fence is not closed: the answer was cut off", cut.span) from None
    except NoBlock:
        raise Refused("P09", "no code fence of this text contains lctl or lctl_ack", Span(0, 0)) from None
    forbidden = _FORBIDDEN.search(block)
    if forbidden is not None:
        code = ord(forbidden[0])
        message = (
            "half of a surrogate pair" if 0xD800 <= code <= 0xDFFF else f"the control character {code:#04x}"
        )
        raise Refused("P08", message, Span(*forbidden.span()))
    root, repeated = _parsed(block)
    if root is None:
        raise Refused("P02", "the block is empty", Span(0, 0))
    if not isinstance(root, MappingNode):
        raise Refused("P02", "the top level is not a mapping", Span(root.span.start, root.span.start + 1))
    return Read(root, repeated)


def _parsed(block: str) -> tuple[Node | None, tuple[Refused, ...]]:
    import yaml  # noqa: PLC0415 - loaded for parsing only

    reader = _Reader(block)
    try:
        return reader.whole(), tuple(reader.twice)
    except yaml.MarkedYAMLError as error:
        tree = _as_json(block)
        if tree is not None:
            return tree, ()
        mark = error.problem_mark or error.context_mark
        at = len(block) if mark is None else min(mark.index, len(block))
        message = " ".join(str(error.problem or error.context or "this is not YAML").split())
        if "nesting" in message or "too deep" in message:
            raise Refused("P07", f"nested deeper than {MOST_DEPTH}", place_near(block, at)) from None
        raise Refused("P01", f"this is not YAML: {message}", place_near(block, at)) from None
    except yaml.YAMLError as error:
        text = str(error).splitlines()[0] if str(error) else "it cannot be read"
        raise Refused("P01", f"this is not YAML: {text}", Span(0, 1)) from None


def _as_json(block: str) -> Node | None:
    """The tree of a text that is JSON with escaped surrogate pairs, which YAML does not have; else None."""
    if not block.lstrip().startswith("{") or _SURROGATES.search(block) is None:
        return None
    if sum(map(block.count, ",:[{")) > MOST_NODES:
        return None
    from callsheet.frontends.dag.json_tree import (  # noqa: PLC0415 - as above
        Report,
        Unreadable,
        read_json,
    )

    report = Report()
    try:
        tree = read_json(block, report)
    except Unreadable:
        return None
    return None if report.errors else tree


class _Reader(YamlWalk):
    """Builds a tree by the core schema; aliases are expanded within the limits."""

    def __init__(self, text: str) -> None:
        hidden = _placeholders(text)
        super().__init__(text.translate(hidden))
        self._back = {ord(mark): chr(code) for code, mark in hidden.items()}
        self._anchors: dict[str, Part | None] = {}
        self.twice: list[Refused] = []
        """The keys that stand twice."""

    def scalar(self, event: Any, is_key: bool) -> Scalar:
        """The value of a scalar; a key stays a string."""
        span = span_of(event)
        self._anchored(event, span)
        self._within(span)
        text: str = event.value.translate(self._back) if self._back else event.value
        tag: str | None = event.tag
        if tag is not None and tag != "!":
            return Scalar(_tagged(tag, text, span), span)
        plain = event.implicit[0] and not is_key and tag is None
        return Scalar(resolved(text) if plain else text, span)

    def key(self, node: Node) -> tuple[str, Span]:
        """The text of a key."""
        if isinstance(node, Scalar):
            text = node.value if isinstance(node.value, str) else self.text[node.span.start : node.span.end]
            return text, node.span
        raise Refused("P01", "a key must be a string", Span(node.span.start, node.span.start + 1))

    def opened(self, event: Any, depth: int) -> None:
        """Refuses excessive nesting, and tags of other schemas."""
        span = span_of(event)
        if depth >= MOST_DEPTH:
            raise _deep(span)
        kinds = ("!", f"{_CORE}seq", f"{_CORE}map")
        if event.tag is not None and event.tag not in kinds:
            raise _foreign(event.tag, span)
        self._anchored(event, span)
        self._within(span)

    def finished(self, anchor: str | None, part: Part) -> None:
        """Stores the part that an anchor names."""
        if anchor is not None:
            self._anchors[anchor] = part

    def alias(self, event: Any, depth: int) -> Part:
        """The part that the anchor names; refuses recursion, and trees beyond the limits."""
        span, name = span_of(event), event.anchor
        if name not in self._anchors:
            raise Refused("P01", f"nothing is named &{shown_name(name)}", span)
        part = self._anchors[name]
        if part is None:
            raise Refused("P06", f"*{shown_name(name)} is inside the value that it names", span)
        if depth + part.height > MOST_DEPTH:
            raise _deep(span)
        self._within(span, part.size)
        return part

    def repeated(self, key: str, first: Span, again: Span) -> None:
        """Records a duplicate key, one value of which would be lost."""
        self.twice.append(Refused("P03", f"the key {key[:40]!r} occurs twice in one mapping", again))

    def second_document(self, event: Any) -> None:
        """Refuses a second document."""
        raise Refused("P04", "a second document begins here", span_of(event))

    def _anchored(self, event: Any, span: Span) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _within(self, span: Span, more: int = 1) -> None:
        if self.size + more > MOST_NODES:
            raise Refused("P06", f"more than {MOST_NODES:,} nodes, aliases written out", span)


def _placeholders(text: str) -> dict[int, str]:
    """Replaces characters that end a line in YAML 1.1, as in PyYAML, but not in 1.2, by placeholders."""
    special = [char for char in "\x85\u2028\u2029" if char in text]
    free = (mark for code in range(0xE000, 0xF8FF) if (mark := chr(code)) not in text)
    return {ord(char): mark for char, mark in zip(special, free, strict=False)}


def _deep(span: Span) -> Refused:
    return Refused("P07", f"nested deeper than {MOST_DEPTH}", Span(span.start, span.start + 1))


def _foreign(tag: str, span: Span) -> Refused:
    shown = tag.replace(_CORE, "!!")[:40]
    return Refused("P05", f"the tag {shown} is not of the core schema", Span(span.start, span.start + 1))


def resolved(text: str) -> ir_types.Scalar:
    """The value of a plain scalar without a tag, by the core schema.

    >>> [resolved(word) for word in ("no", "9e-1", "0x1F", "2026-02-03", "Null", "1.")]
    ['no', 0.9, 31, '2026-02-03', None, 1.0]
    """
    if text in _READ_WORDS:
        return _READ_WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > _MOST_DIGITS:
            return float("-inf") if text.startswith("-") else float("inf")
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    return _NO_NUMBER.get(text, text)


def _tagged(tag: str, text: str, span: Span) -> ir_types.Scalar:
    """The value of a scalar with a tag; refuses tags of other schemas and values that do not fit."""
    wanted = {"str": str, "null": type(None), "bool": bool, "int": int, "float": float}.get(
        tag.removeprefix(_CORE)
    )
    if not tag.startswith(_CORE) or wanted is None:
        raise _foreign(tag, span)
    if wanted is str:
        return text
    value = resolved(text)
    if wanted is float and type(value) is int:
        return float(value) if len(text) < 300 else float("inf")
    if type(value) is not wanted:
        raise Refused("P05", f"{text[:40]!r} is not what its tag says", span)
    return value


_PLAIN = lazy.pattern(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./()-]+)*")
_QUOTED_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_UNSAFE = "\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff"
_ESCAPED = lazy.pattern(f"[{_UNSAFE}]")
_BLOCK = lazy.pattern(rf"[^\s\x00-\x1f{_UNSAFE}][^\x00-\x09\x0b-\x1f{_UNSAFE}]*")
_WIDE = 100
_MOST_ON_A_LINE = 6


def to_yaml(data: Mapping[str, Any]) -> str:
    r"""The text of a mapping; raises TypeError for a value that is not plain data.

    >>> print(to_yaml({"a": "no", "b": [1, 2.0], "c": {"d": "two\nlines"}}), end="")
    a: "no"
    b: [1, 2.0]
    c:
      d: |-
        two
        lines
    """
    return "".join(f"{line}\n" for line in _lines(data, 0))


def _lines(data: Mapping[str, Any], indent: int) -> Iterator[str]:
    for key, value in data.items():
        yield from _field(f"{' ' * indent}{_quoted(key)}:", value, indent)


def _field(head: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value and _is_block(value):
        yield f"{head} |" + ("" if value.endswith("\n") else "-")
        margin = " " * (indent + 2)
        yield from (margin + line if line else "" for line in value.removesuffix("\n").split("\n"))
        return
    on_a_line = not isinstance(value, dict | list) or not value
    if not on_a_line and _is_flat(value):
        on_a_line = len(head) + len(_flow(value)) < _WIDE
    if on_a_line:
        yield f"{head} {_flow(value)}"
    elif isinstance(value, dict):
        yield head
        yield from _lines(cast("dict[str, Any]", value), indent + 2)
    else:
        yield head
        for item in cast("list[Any]", value):
            yield from _item(item, indent + 2)


def _item(item: Any, indent: int) -> Iterator[str]:
    if isinstance(item, dict) and item:
        inner = list(_lines(cast("dict[str, Any]", item), indent + 2))
        yield f"{' ' * indent}- {inner[0][indent + 2 :]}"
        yield from inner[1:]
    else:
        yield f"{' ' * indent}- {_flow(item)}"


def _is_flat(value: Any) -> bool:
    """Whether a list or mapping can be written on one line: without nesting, blocks or many keys."""
    if isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).values())
        return len(inner) <= _MOST_ON_A_LINE and not any(map(_has_parts, inner))
    return not any(map(_has_parts, cast("list[Any]", value)))


def _has_parts(value: Any) -> bool:
    if isinstance(value, str):
        return "\n" in value and _is_block(value)
    return isinstance(value, dict | list) and bool(cast("list[Any]", value))


def _is_block(text: str) -> bool:
    """Whether a string can be written as a literal block."""
    is_even = not text.endswith(("\n\n", " ")) and " \n" not in text
    return is_even and _BLOCK.fullmatch(text) is not None


def _flow(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _quoted(value)
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return "{" + ", ".join(f"{_quoted(key)}: {_flow(inner)}" for key, inner in pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, cast("list[Any]", value))) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} is not plain data")


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return repr(value)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.casefold() not in _QUOTED_WORDS:
        return text
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
