"""Parses the text of an LCTL block to a tree with spans: YAML 1.2's core schema, within limits.

In: a text or its bytes. Out: the tree, or `Refused` with the rule that the text breaks. `no`, `on` and
`2026-02-03` are strings, `9e-1` is a number, `<<` is an ordinary key; keys are strings as they are
written. Each use of an alias is a separate value and counts towards the limits.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.tree import Mapping, Node, Scalar
from callsheet.frontends.yaml_events import Part, YamlWalk, place_near, span_of
from callsheet.ir import types as ir_types
from callsheet.trace.lctl.fences import CutOff, NoBlock, block_of
from callsheet.trace.lctl.ids import shown_name

MOST_BYTES = 8 * 1024 * 1024
MOST_DEPTH = 64
MOST_NODES = 200_000
_MOST_DIGITS = 600
"""The most digits of a number; more, in any base, are beyond what every interpreter prints."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_CORE = "tag:yaml.org,2002:"
_SURROGATES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")


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

    root: Mapping
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
    if not isinstance(root, Mapping):
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
    from callsheet.frontends.dag.json_tree import read_json  # noqa: PLC0415 - rarely needed
    from callsheet.frontends.dag.report import Report, Unreadable  # noqa: PLC0415 - as above

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
    if text in _WORDS:
        return _WORDS[text]
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
