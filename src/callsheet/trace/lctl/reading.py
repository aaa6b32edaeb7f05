"""Reads a document from a text: `read` reports all errors of its structure, `parse` raises them."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.diagnostics import Source
from callsheet.diagnostics.wrong_type import wanted, wrong
from callsheet.frontends.tree import Mapping
from callsheet.ir.gc_pause import gc_paused
from callsheet.trace.lctl.findings import Finding, LctlError, Notes, placed
from callsheet.trace.lctl.model import Document
from callsheet.trace.lctl.shape import document_of
from callsheet.trace.lctl.yaml_text import Read, Refused, decoded, read_tree


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a text: the document, or None if it is none, and findings on its structure."""

    source: Source
    document: Document | None
    findings: tuple[Finding, ...]
    root: Mapping | None = None
    """The tree of the text, for places."""


def read(text: str | bytes, name: str = "<lctl>") -> Reading:
    """Read a document from a text or its UTF-8 bytes; whatever is wrong with it is in the findings.

    Raises TypeError for what is neither text nor bytes.
    The text may be an answer of a model: then the first closed code fence with a block is read.
    `name` is the name of the text in diagnostics.

    >>> read("lctl: '3.0'\\nchain: {id: c, step: 1, from: a, to: b}\\ninstruction: go").document.chain.target
    'b'
    >>> [finding.rule for finding in read("a: [").findings]
    ['P01']
    """
    if not isinstance(text, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
        raise wrong("text", text, "a text or its bytes")
    notes = Notes()
    source = Source(wanted("name", name, str, "a text"), "")
    try:
        source = Source(name, decoded(text))
        root, repeated = _tree(source.text)
    except Refused as refused:
        notes.add(refused.rule, refused.message, span=refused.span)
        return Reading(source, None, tuple(notes.findings))
    for refused in repeated:
        notes.add(refused.rule, refused.message, span=refused.span)
    document = document_of(root, notes)
    if repeated:  # nobody may act on one of two values
        document = None
    return Reading(source, document, placed(notes.findings, root), root)


def _tree(text: str) -> Read:
    """The tree of a text; building a large one takes half the time without garbage collection."""
    with gc_paused(True):
        return read_tree(text)


def parse(text: str | bytes, name: str = "<lctl>") -> Document:
    """The document of a text; raises `LctlError` with all errors of its structure.

    Relations to other documents are checked by `check`.

    >>> document = parse("lctl_ack: {chain_id: c, step: 2, agent: b, status: received}")
    >>> document.agent
    'b'
    """
    reading = read(text, name)
    errors = [finding for finding in reading.findings if finding.is_error]
    if reading.document is None or errors:
        raise LctlError.of(errors, reading.source)
    return reading.document
