"""Turns the tree of a text into a document: determines its kind and reads its typed fields.

In: the root mapping of a text. Out: the document, with findings on its structure; None if it is no LCTL
document. Relations between fields are checked by the rules.
"""

from __future__ import annotations

from callsheet.frontends.tree import Mapping, Scalar, Sequence, plain
from callsheet.trace.lctl.fields import Fields, frozen
from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.ids import shown_id
from callsheet.trace.lctl.model import (
    VERSION,
    Ack,
    Analysis,
    Chain,
    DebugDocument,
    Document,
    Entry,
    Fact,
    Handoff,
    Lists,
    Raw,
)

_OF_A_DOCUMENT = ("chain", "trace", "facts", "handoff", "instruction", "analysis")
"""Keys that identify a document without a version."""
_PURPOSES = ("observability", "debugging")


def document_of(root: Mapping, notes: Notes) -> Document | None:
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
    return isinstance(chain, Mapping) and chain.get("status") is not None


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
        if isinstance(item, Mapping):
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
    if not isinstance(node, Mapping):
        outer.wrong("facts", node, "a mapping from ids to facts")
        return {}
    facts: dict[str, Fact] = {}
    for entry in node.entries:
        path = ("facts", entry.key)
        if isinstance(entry.value, Mapping):
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
