"""Findings about LCTL documents (rule, document, place, message), and the error that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.frontends.tree import Entry, Mapping, Node
from callsheet.frontends.tree import Sequence as Items
from callsheet.trace.lctl.rules.table import RULES, Level, Rule

Path: TypeAlias = tuple[str | int, ...]
"""The way to a part of a document: keys, and places in lists from 0."""

_SEVERITY = {Level.ERROR: Severity.ERROR, Level.WARN: Severity.WARNING, Level.INFO: Severity.HINT}


class Finding(NamedTuple):
    """Something that a rule says of a document.

    `document` is its place among those that were checked, from 0; `path` the part concerned; `span`
    its stretch of the text, where there is a text; `fact` the id of the fact concerned.
    """

    rule: str
    document: int
    message: str
    path: Path = ()
    span: Span | None = None
    fact: str | None = None

    @property
    def level(self) -> Level:
        """The level of its rule."""
        return RULES[self.rule].level

    @property
    def is_error(self) -> bool:
        """Whether the document is unfit to be received."""
        return self.level is Level.ERROR

    @property
    def diagnostic(self) -> Diagnostic:
        """The finding as commands print it; its code is the rule's id."""
        rule = RULES[self.rule]
        return Diagnostic(rule.id, _SEVERITY[rule.level], self.message, self.span, rule.repair)


class LctlError(CallsheetError):
    """A document that cannot be received: its diagnostics name the rules, with their places."""

    @classmethod
    def of(cls, findings: Iterable[Finding], source: Source | None = None) -> LctlError:
        """The error of these findings; `source` is the text that their spans point into."""
        return cls([finding.diagnostic for finding in findings], source)


class Notes:
    """Collects the findings of one document."""

    def __init__(self, document: int = 0) -> None:
        self.document = document
        self.found: list[Finding] = []

    def add(
        self,
        rule: str,
        message: str | None = None,
        *path: str | int,
        fact: str | None = None,
        span: Span | None = None,
    ) -> None:
        """Note what a rule says; without a message, in the words of the rule."""
        self.found.append(Finding(rule, self.document, message or RULES[rule].title, path, span, fact))


def placed(findings: Iterable[Finding], root: Node | None) -> tuple[Finding, ...]:
    """The findings with their spans in the text that the tree was read from."""
    if root is None:
        return tuple(findings)
    places = _Places(root)
    return tuple(f if f.span is not None else f._replace(span=places.of(f.path)) for f in findings)


class _Places:
    """The places of the parts of a tree; each mapping is gone through once."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._entries: dict[int, dict[str, Entry]] = {}

    def of(self, path: Path) -> Span:
        """The place of a part, or of the nearest part around it: a value, the key of a list or mapping."""
        node, place = self._root, _short(self._root.span)
        for part in path:
            found = self._inner(node, part)
            if found is None:
                return place
            node, place = found
        return place

    def _inner(self, node: Node, part: str | int) -> tuple[Node, Span] | None:
        if isinstance(node, Items) and isinstance(part, int) and 0 <= part < len(node.items):
            inner = node.items[part]
            return inner, _short(inner.span)
        if not isinstance(node, Mapping):
            return None
        entries = self._entries.get(id(node))
        if entries is None:
            entries = self._entries[id(node)] = {entry.key: entry for entry in node.entries}
        entry = entries.get(str(part))
        return None if entry is None else (entry.value, _place(entry))


def _place(entry: Entry) -> Span:
    """A scalar's own place; for lists and mappings, that of their key."""
    return entry.key_span if isinstance(entry.value, Mapping | Items) else entry.value.span


def _short(span: Span) -> Span:
    return Span(span.start, min(span.end, span.start + 1))


def rule_page(rule: Rule) -> str:
    """The page of a rule, as Markdown."""
    return (
        f"# {rule.id}: {rule.title}\n\n"
        f"A rule of LCTL v3 ({rule.origin}); level: {rule.level}.\n\n"
        f"## Repair\n\n{rule.repair[:1].upper()}{rule.repair[1:]}.\n"
    )


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """The findings by document, errors before warnings before what is only told."""
    order = list(Level)
    return sorted(findings, key=lambda f: (f.document, order.index(f.level)))
