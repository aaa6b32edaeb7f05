"""Parses YAML text to a tree with spans: only the part of YAML that corresponds to JSON.

In: a text and a report. Out: the tree, or `Unreadable` after the reason was reported. PyYAML's C
parser gives events, which are interpreted here. Anchors, aliases, tags and merge keys are refused, so that
the tree is never larger than its text. Words that YAML parsers interpret differently are reported.
"""

from __future__ import annotations

import re
from typing import Any

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.frontends.dag.json_tree import (
    MAX_DEPTH,
    MAX_DIGITS,
    Report,
    Unreadable,
    note_repeated,
)
from callsheet.frontends.tree import (
    Node,
    Part,
    Scalar,
    YamlWalk,
    place_near,
    span_of,
)
from callsheet.ir import expr as ir_types

_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip


_DOUBTFUL_WORDS = frozenset({"yes", "no", "on", "off"})


_INTEGER = lazy.pattern(r"-?(?:0|[1-9][0-9]*)")


_FLOAT = lazy.pattern(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


_PADDED = lazy.pattern(r"0[0-9]+")
"""Digits that are an identifier rather than a number: `007`, a postcode, the mode of a file."""


_DOUBTFUL_NUMBER = lazy.pattern(
    r"[+-]?(?:0[0-9_]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*|\.inf|\.nan"
    r"|(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)",
    re.IGNORECASE,
)


def read_yaml(text: str, report: Report) -> Node:
    """The tree of a YAML text. Raises `Unreadable` if it cannot be read to its end."""
    import yaml  # noqa: PLC0415 - loaded for YAML plans only

    try:
        return _YamlReader(text, report).root()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = len(text) if mark is None else min(mark.index, len(text))
        if "nesting depth" in str(error.problem):
            raise _too_deep(report, at) from None
        message = " ".join(str(error.problem or error.context or "this is not YAML").split())
        braces = text[at - 1 : at + 1] == "${" or text[at : at + 1] == "{"
        help_ = 'inside { } and [ ], a text with ${…} needs quotes: "${name}"' if braces else None
        raise report.error("DAG005", f"this is not YAML: {message}", place_near(text, at), help_) from None
    except yaml.YAMLError as error:
        raise report.error("DAG005", f"this is not YAML: {str(error).splitlines()[0]}", Span(0, 1)) from None
    except UnicodeEncodeError as error:
        span = Span(error.start, error.end)
        raise report.error("DAG005", "this is not YAML: half of a surrogate pair", span) from None


def _too_deep(report: Report, at: int) -> Unreadable:
    """The error for lists and mappings that are nested too deep, found here or by PyYAML."""
    message = f"lists and mappings are nested more than {MAX_DEPTH} deep"
    return report.error(
        "DAG003", message, Span(at, at + 1), "compute deep data in a step and pass it as a variable"
    )


class _YamlReader(YamlWalk):
    """Builds the tree of a plan from the permitted part of YAML."""

    def __init__(self, text: str, report: Report) -> None:
        super().__init__(text)
        self._text = text
        self._report = report

    def root(self) -> Node:
        """The tree; raises `Unreadable` for a text without a document, and as `whole` does."""
        root = self.whole()
        if root is None:
            raise self._report.error(
                "DAG005", "this text is empty", Span(0, 0), "a plan is a mapping with steps"
            )
        return root

    def opened(self, event: Any, depth: int) -> None:
        """Refuses anchors, tags and excessive nesting."""
        self._refuse_marks(event)
        if depth >= MAX_DEPTH:
            raise self._too_deep(event)

    def alias(self, event: Any, depth: int) -> Part:
        """Refuses aliases, which would let a short text become a large tree."""
        raise self._refuse(event, "aliases (*name)", "write the value out")

    def second_document(self, event: Any) -> None:
        """Refuses a second document: a file is one plan."""
        raise self._refuse(event, "a second document", "a file contains one plan")

    def repeated(self, key: str, first: Span, again: Span) -> None:
        """Reports a duplicate key as an error; the tree has the first value."""
        note_repeated(self._report, self._text, key, first, again)

    def key(self, node: Node) -> tuple[str, Span]:
        """The string of a key; another scalar is reported as an error, a list or mapping ends the parsing."""
        if isinstance(node, Scalar) and isinstance(node.value, str):
            if node.value == "<<" and self._text[node.span.start] == "<":
                raise self._report.error(
                    "DAG007", "plans have no merge keys (<<)", node.span, "write the fields out"
                )
            return node.value, node.span
        if isinstance(node, Scalar):
            written = self._text[node.span.start : node.span.end]
            self._report.error(
                "DAG011", f"the name {written[:40]} is not a text", node.span, f'write "{written[:40]}"'
            )
            return written, node.span
        raise self._report.error("DAG011", "a name must be a string", node.span)

    # ------------------------------------------------------------ scalars

    def scalar(self, event: Any, is_key: bool) -> Scalar:
        """The value of a scalar, with JSON's words and numbers."""
        self._refuse_marks(event)
        span = span_of(event)
        value: str = event.value
        return Scalar(self._plain(value, span, is_key) if event.implicit[0] else value, span)

    def _plain(self, text: str, span: Span, is_key: bool) -> ir_types.Scalar:
        """The value of a plain scalar: JSON's words and numbers, else a string."""
        if text in _WORDS:
            return _WORDS[text]
        if text.lower() in _DOUBTFUL_WORDS and not is_key:
            message = f"{text} is a string here, but true or false for other YAML parsers"
            self._report.warning(
                "DAG008", message, span, f'write "{text}" for the text, true or false for a truth value'
            )
            return text
        if _FLOAT.fullmatch(text):
            return self._number(text, span)
        if _PADDED.fullmatch(text):
            message = f"{text[:40]} is a string here, but a number for other YAML parsers"
            if not is_key:
                self._report.warning("DAG008", message, span, f'write "{text[:40]}" for the text')
            return text
        if _DOUBTFUL_NUMBER.fullmatch(text):
            help_ = f"write a number as JSON does (12, -0.5, 1e6), or {text!r} in quotes for a text"
            self._report.error("DAG008", f"{text[:40]} is read differently by YAML parsers", span, help_)
        return text

    def _number(self, text: str, span: Span) -> ir_types.Scalar:
        if _INTEGER.fullmatch(text):
            if len(text) <= MAX_DIGITS:
                return int(text)
        else:
            value = float(text)
            if value - value == 0.0:
                return value
        self._report.error(
            "DAG004", "this number is too large", span, "put it in quotes to keep it as a text"
        )
        return None

    # ------------------------------------------------------------ refusals

    def _refuse_marks(self, event: Any) -> None:
        if event.anchor is not None:
            raise self._refuse(
                event, f"anchors (&{event.anchor[:40]})", "write each value out where it is used"
            )
        if event.tag is not None:
            raise self._refuse(event, f"tags ({event.tag[:40]})", "remove it: texts are put in quotes")

    def _refuse(self, event: Any, what: str, help_: str) -> Unreadable:
        start, end = span_of(event)
        span = Span(start, max(start + 1, end))
        return self._report.error("DAG007", f"plans have no {what}", span, help_)

    def _too_deep(self, event: Any) -> Unreadable:
        return _too_deep(self._report, span_of(event).start)
