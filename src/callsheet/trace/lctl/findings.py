"""Findings about LCTL documents (rule, document, place, message), and the error that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.frontends.tree import Entry, Mapping, Node
from callsheet.frontends.tree import Sequence as Items
from callsheet.trace.lctl.rules.table import RULES, Level, Rule

Path: TypeAlias = tuple[str | int, ...]
"""The path to a part of a document: keys, and indexes in lists from 0."""

_SEVERITY = {Level.ERROR: Severity.ERROR, Level.WARN: Severity.WARNING, Level.INFO: Severity.HINT}


class Finding(NamedTuple):
    """A rule that a document breaks.

    `document` is its index in the check, from 0; `path` the part concerned; `span` its place in the
    text, if there is one; `fact` the id of the fact concerned.
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
        """Whether the document must not be received because of it."""
        return self.level is Level.ERROR

    @property
    def diagnostic(self) -> Diagnostic:
        """The finding as a diagnostic whose code is the rule's id."""
        rule = RULES[self.rule]
        return Diagnostic(rule.id, _SEVERITY[rule.level], self.message, self.span, rule.repair)


class LctlError(CallsheetError):
    """A document cannot be received; the codes of the diagnostics are the rules."""

    @classmethod
    def of(cls, findings: Iterable[Finding], source: Source | None = None) -> LctlError:
        """The error with these findings; their spans refer to `source`."""
        return cls([finding.diagnostic for finding in findings], source)


class Notes:
    """Collects the findings of one document."""

    def __init__(self, document: int = 0) -> None:
        self.document = document
        self.findings: list[Finding] = []

    def add(
        self,
        rule: str,
        message: str | None = None,
        *path: str | int,
        fact: str | None = None,
        span: Span | None = None,
    ) -> None:
        """Add a finding; its default message is the title of the rule."""
        self.findings.append(Finding(rule, self.document, message or RULES[rule].title, path, span, fact))


def placed(findings: Iterable[Finding], root: Node | None) -> tuple[Finding, ...]:
    """The findings with spans in the text of the tree."""
    if root is None:
        return tuple(findings)
    places = _Places(root)
    return tuple(f if f.span is not None else f._replace(span=places.of(f.path)) for f in findings)


class _Places:
    """The spans of the parts of a tree; each mapping is indexed once."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._entries: dict[int, dict[str, Entry]] = {}

    def of(self, path: Path) -> Span:
        """The span of a part, or of the nearest existing part that contains it."""
        node, place = self._root, _short(self._root.span)
        for part in path:
            span = self._inner(node, part)
            if span is None:
                return place
            node, place = span
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
    """The span of a scalar; for a list or mapping, that of its key."""
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
    """The findings by document, in each the errors first, then the warnings."""
    order = list(Level)
    return sorted(findings, key=lambda f: (f.document, order.index(f.level)))
