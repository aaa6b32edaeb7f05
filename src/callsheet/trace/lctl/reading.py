"""Reads a document from a text: `read` reports all errors of its structure, `parse` raises them.

In: the tree of a text. Out: a document whose kind and typed fields are determined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from callsheet.diagnostics import Source
from callsheet.diagnostics.wrong_type import wanted, wrong
from callsheet.frontends.tree import Mapping as MappingNode
from callsheet.frontends.tree import Mapping as Object
from callsheet.frontends.tree import Node, Scalar, Sequence, kind_of, plain
from callsheet.ir.gc_pause import gc_paused
from callsheet.trace.lctl.findings import Finding, LctlError, Notes, Path, placed
from callsheet.trace.lctl.model import (
    VERSION,
    Ack,
    Analysis,
    Chain,
    DebugDocument,
    Document,
    Entry,
    Extra,
    Fact,
    Handoff,
    Lists,
    Raw,
    shown_id,
)
from callsheet.trace.lctl.yaml_text import Read, Refused, decoded, read_tree

_MOST_DIGITS = 20
"""A number that is longer is not shown."""


class Fields:
    """A mapping, and the keys of it that have not been read yet."""

    def __init__(self, node: Object, path: Path, notes: Notes) -> None:
        self._nodes: dict[str, Node] = {entry.key: entry.value for entry in node.entries}
        self._rest: dict[str, Any] = {}
        self.path = path
        self.notes = notes

    def has(self, key: str) -> bool:
        """Whether the mapping has this key and it has not been read yet."""
        return key in self._nodes

    def node(self, key: str) -> Node | None:
        """The value of a key, which is marked as read."""
        return self._nodes.pop(key, None)

    def peek(self, key: str) -> Node | None:
        """The value of a key, which is not marked as read."""
        return self._nodes.get(key)

    def keep(self, key: str, node: Node) -> None:
        """Keep an invalid value in `rest`."""
        self._rest[key] = plain(node)

    def wrong(self, key: str, node: Node, wanted: str, rule: str = "S07") -> None:
        """Report an invalid value, and keep it."""
        self.notes.add(rule, f"{key} has to be {wanted}, but is {_value_kind(node, wanted)}", *self.path, key)
        self.keep(key, node)

    def text(self, key: str, *, blank_is: str | None = None) -> str | None:
        """A string; `blank_is` is the rule that a blank one breaks."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.wrong(key, node, "a text")
            return None
        if blank_is is not None and not node.value.strip():
            self.notes.add(blank_is, None, *self.path, key)
        return node.value

    def needed_text(self, key: str, rule: str) -> str | None:
        """A string; `rule` is the rule that a missing or blank one breaks."""
        if not self.has(key):
            self.notes.add(rule, None, *self.path)
        return self.text(key, blank_is=rule)

    def flag(self, key: str) -> bool:
        """A boolean; false if it is missing."""
        node = self.node(key)
        if node is None:
            return False
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self.wrong(key, node, "true or false")
        return False

    def step(self, key: str, rule: str) -> int | None:
        """A whole number from 1 on; `rule` is the rule that anything else breaks."""
        node = self.node(key)
        if node is None:
            return None
        if isinstance(node, Scalar) and type(node.value) is int and node.value >= 1:
            return node.value
        self.wrong(key, node, "a whole number from 1", rule)
        return None

    def confidence(self, key: str) -> float | None:
        """A number from 0 to 1."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Scalar) or type(node.value) not in (int, float):
            self.wrong(key, node, "a number", "V01")
            return None
        value: Any = node.value
        if not 0 <= value <= 1:
            shown = repr(value) if len(repr(value)) < _MOST_DIGITS else "a very large number"
            self.notes.add("V02", f"{key} is {shown}, not between 0.0 and 1.0", *self.path, key)
            self.keep(key, node)
            return None
        return value

    def duration(self, key: str) -> float | None:
        """A duration in milliseconds."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Scalar) or type(node.value) not in (int, float):
            self.wrong(key, node, "a number")
            return None
        value: Any = node.value
        if not 0 <= value < float("inf"):
            self.notes.add("T13", None, *self.path, key)
            self.keep(key, node)
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings; None if there is none."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Sequence) or not all(
            isinstance(item, Scalar) and isinstance(item.value, str) for item in node.items
        ):
            self.wrong(key, node, "a list of strings")
            return None
        return tuple(str(item.value) for item in node.items if isinstance(item, Scalar))

    def inner(self, key: str) -> Fields | None:
        """The fields of a mapping inside this one."""
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, Object):
            self.wrong(key, node, "a mapping")
            return None
        return Fields(node, (*self.path, key), self.notes)

    def aliased(self, key: str, short: str) -> str | None:
        """A string with either of two keys; different values for both are an error."""
        has_both = self.has(key) and self.has(short)
        long_value, short_value = self.text(key), self.text(short)
        if has_both and long_value is not None and short_value is not None:
            if long_value == short_value:
                self.notes.add("S10", f"{key} and {short} are both there, and equal", *self.path, short)
            else:
                self.notes.add(
                    "S09", f"{key} is {long_value[:40]!r}, {short} is {short_value[:40]!r}", *self.path, short
                )
                self._rest[short] = short_value
        return long_value if long_value is not None else short_value

    def rest(self) -> Extra:
        """The unknown keys, which are reported, and the invalid values."""
        for key, node in self._nodes.items():
            self.notes.add("S06", f"the key {key[:40]!r} is unknown; it is kept", *self.path, key)
            self._rest[key] = plain(node)
        return frozen(self._rest)


def frozen(data: Mapping[str, Any]) -> Extra:
    """A read-only copy of the mapping."""
    return MappingProxyType(dict(data))


def _value_kind(node: Node, wanted: str) -> str:
    """What a value is: a number itself where numbers are wanted, else the kind."""
    if not isinstance(node, Scalar):
        return kind_of(node)
    if node.value is None:
        return "empty"
    is_number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
    shown = repr(node.value) if is_number and "number" in wanted else ""
    return shown if 0 < len(shown) < _MOST_DIGITS else kind_of(node)


_OF_A_DOCUMENT = ("chain", "trace", "facts", "handoff", "instruction", "analysis")
"""Keys that identify a document without a version."""
_PURPOSES = ("observability", "debugging")


def document_of(root: MappingNode, notes: Notes) -> Document | None:
    """The document of a mapping; None if it is neither a document nor an ack (P09)."""
    fields = Fields(root, (), notes)
    if fields.has("lctl_ack") and not fields.has("lctl"):
        return _ack(fields)
    if not fields.has("lctl") and not any(fields.has(key) for key in _OF_A_DOCUMENT):
        notes.add("P09")
        return None
    return _body(fields)


def _body(fields: Fields) -> Handoff | DebugDocument:
    version = _version(fields)
    purpose = fields.text("purpose")
    if purpose is not None and purpose not in _PURPOSES:
        fields.notes.add("S05", f"the purpose {purpose[:40]!r} is unknown", "purpose")
    is_debug = purpose == "debugging" or _has_status(fields)
    has_chain = fields.has("chain")
    chain = _chain(fields, is_debug=is_debug)
    if not has_chain:
        fields.notes.add("C01")
    trace, facts = _trace(fields), _facts(fields)
    lists, analysis = _lists(fields), _analysis(fields)
    instruction = fields.text("instruction") if is_debug else fields.needed_text("instruction", "S08")
    kind = DebugDocument if is_debug else Handoff
    return kind(
        chain or Chain(), frozen(facts), trace, lists, instruction, purpose, analysis, version, fields.rest()
    )


def _has_status(fields: Fields) -> bool:
    chain = fields.peek("chain")
    return isinstance(chain, MappingNode) and chain.get("status") is not None


def _version(fields: Fields) -> str | None:
    node = fields.node("lctl")
    if node is None:
        fields.notes.add("S01")
        return None
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        message = repr(value) if isinstance(value, float) else f"{value}.0"
        fields.notes.add("S03", f"the version is the number {message}, not the text", "lctl")
        fields.keep("lctl", node)
    elif isinstance(value, str):
        message = value
    else:
        fields.wrong("lctl", node, f'the text "{VERSION}"')
        return None
    if message.partition(".")[0] != "3":
        fields.notes.add("S02", f"version {message[:20]} is not supported", "lctl")
    elif message != VERSION:
        fields.notes.add("S04", f"version {message[:20]} is unknown; it is read as {VERSION}", "lctl")
    return message


def _chain(outer: Fields, *, is_debug: bool) -> Chain | None:
    fields = outer.inner("chain")
    if fields is None:
        return None
    chain_id = fields.needed_text("id", "C02")
    if not is_debug and not fields.has("step"):
        fields.notes.add("C03", None, "chain")
    step = fields.step("step", "C04")
    ends: dict[str, str | None] = {}
    for name, short in (("source", "from"), ("target", "to")):
        is_there = fields.has(name) or fields.has(short)
        ends[name] = fields.aliased(name, short)
        value = ends[name]
        if not is_debug and (not is_there or (value is not None and not value.strip())):
            fields.notes.add("C05", f"{name} is missing", "chain")
    merge, status = fields.flag("parallel_merge"), fields.text("status")
    failed = fields.step("failed_at_step", "C04")
    return Chain(chain_id, step, ends["source"], ends["target"], merge, status, failed, fields.rest())


def _trace(outer: Fields) -> tuple[Entry, ...] | None:
    node = outer.node("trace")
    if node is None:
        return None
    if not isinstance(node, Sequence):
        outer.wrong("trace", node, "a list of entries")
        return None
    entries: list[Entry] = []
    for place, item in enumerate(node.items):
        if isinstance(item, MappingNode):
            entries.append(_entry(Fields(item, ("trace", place), outer.notes)))
        else:
            outer.notes.add("S07", "an entry of the trace has to be a mapping", "trace", place)
            entries.append(Entry(raw=Raw(plain(item))))
    return tuple(entries)


def _entry(fields: Fields) -> Entry:
    if not fields.has("step"):
        fields.notes.add("T01", "the entry has no step", *fields.path)
    step = fields.step("step", "T01")
    agent = fields.needed_text("agent", "T02")
    action = fields.needed_text("action", "T03")
    if not fields.has("confidence"):
        fields.notes.add("T04", None, *fields.path)
    return Entry(
        step,
        agent,
        action,
        fields.confidence("confidence"),
        fields.texts("facts_added") or (),
        fields.texts("facts_modified") or (),
        fields.flag("parallel"),
        fields.duration("duration_ms"),
        fields.text("error"),
        fields.texts("facts_at_failure"),
        fields.rest(),
    )


def _facts(outer: Fields) -> dict[str, Fact]:
    node = outer.node("facts")
    if node is None:
        return {}
    if not isinstance(node, MappingNode):
        outer.wrong("facts", node, "a mapping from ids to facts")
        return {}
    facts: dict[str, Fact] = {}
    for entry in node.entries:
        path = ("facts", entry.key)
        if isinstance(entry.value, MappingNode):
            facts[entry.key] = _fact(entry.key, Fields(entry.value, path, outer.notes))
        else:
            outer.notes.add(
                "S07", f"the fact {shown_id(entry.key)} has to be a mapping", *path, fact=entry.key
            )
            facts[entry.key] = Fact(entry.key, raw=Raw(plain(entry.value)))
    return facts


def _fact(fact_id: str, fields: Fields) -> Fact:
    text = fields.needed_text("text", "F01")
    if not fields.has("confidence"):
        fields.notes.add("F02", f"the fact {shown_id(fact_id)} has no confidence", *fields.path, fact=fact_id)
    return Fact(
        fact_id,
        text,
        fields.confidence("confidence"),
        fields.text("source"),
        fields.step("step", "C04"),
        fields.text("note"),
        fields.texts("derived_from") or (),
        fields.rest(),
    )


def _lists(outer: Fields) -> Lists | None:
    fields = outer.inner("handoff")
    if fields is None:
        return None
    return Lists(
        fields.texts("critical_facts") or (),
        fields.texts("context_facts") or (),
        fields.texts("warnings") or (),
        fields.rest(),
    )


def _analysis(outer: Fields) -> Analysis | None:
    fields = outer.inner("analysis")
    if fields is None:
        return None
    return Analysis(
        fields.text("root_cause"),
        fields.confidence("confidence_in_analysis"),
        fields.text("recommendation"),
        fields.rest(),
    )


def _ack(outer: Fields) -> Ack:
    fields = outer.inner("lctl_ack")
    if fields is None:
        return Ack(beside=outer.rest())
    for name in ("chain_id", "step", "agent", "status"):
        if not fields.has(name):
            fields.notes.add("A08", f"{name} is missing", "lctl_ack")
    return Ack(
        fields.text("chain_id", blank_is="A08"),
        fields.step("step", "C04"),
        fields.text("agent", blank_is="A08"),
        fields.text("status", blank_is="A08"),
        fields.texts("facts_loaded"),
        fields.texts("confidence_concerns"),
        fields.rest(),
        outer.rest(),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a text: the document, or None if it is none, and findings on its structure."""

    source: Source
    document: Document | None
    findings: tuple[Finding, ...]
    root: MappingNode | None = None
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
