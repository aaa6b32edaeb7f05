"""Writes a document as plain data or as text.

Known fields are written in a fixed order, then unknown keys in their original order. The minimal form is
preserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.diagnostics.wrong_type import wrong
from callsheet.trace.lctl import model
from callsheet.trace.lctl.yaml_text import to_yaml


def write(document: model.Document) -> str:
    """The text of a document; reading it again gives an equal one.

    >>> from callsheet.trace.lctl.model import Chain, Fact, Handoff
    >>> facts = {"F1": Fact("F1", "SQL injection in a.py:45", 0.95)}
    >>> print(write(Handoff(Chain("auth-001", 2, "analyzer", "fixer"), facts, instruction="Fix it")), end="")
    lctl: "3.0"
    chain: {id: auth-001, step: 2, from: analyzer, to: fixer}
    facts:
      F1: {text: "SQL injection in a.py:45", confidence: 0.95}
    instruction: Fix it
    """
    return to_yaml(to_data(document))


def to_data(document: model.Document) -> dict[str, Any]:
    """A document as plain data, with its keys in the order of the text."""
    if not isinstance(document, model.Handoff | model.DebugDocument | model.Ack):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
        raise wrong("document", document, "a hand-off, a debug document or an ack")
    if isinstance(document, model.Ack):
        fields = {
            "chain_id": document.chain_id,
            "step": document.step,
            "agent": document.agent,
            "status": document.status,
            "facts_loaded": _listed(document.facts_loaded),
            "confidence_concerns": _listed(document.confidence_concerns),
        }
        if "lctl_ack" in document.beside:
            return dict(document.beside)
        return {"lctl_ack": _with(fields, document.extra)} | dict(document.beside)
    return _body(document)


def _body(document: model.Body) -> dict[str, Any]:
    chain = None if "chain" in document.extra else chain_data(document.chain, is_minimal=document.is_minimal)
    facts = {fact_id: _fact(fact) for fact_id, fact in document.facts.items()}
    fields = {
        "lctl": document.version,
        "purpose": document.purpose,
        "chain": chain or None,
        "trace": None if document.trace is None else [_entry(entry) for entry in document.trace],
        "facts": facts or None,
        "handoff": None if document.lists is None else _lists(document.lists),
        "instruction": document.instruction,
        "analysis": None if document.analysis is None else _analysis(document.analysis),
    }
    return _with(fields, document.extra)


def _with(fields: Mapping[str, Any], extra: model.Extra) -> dict[str, Any]:
    """The fields with a value, then those of `extra`; a kept value takes the place of its field."""
    data = {key: extra.get(key, value) for key, value in fields.items() if value is not None or key in extra}
    return data | {key: value for key, value in extra.items() if key not in fields}


def _listed(ids: tuple[str, ...] | None) -> list[str] | None:
    return None if ids is None else list(ids)


def chain_data(chain: model.Chain, *, is_minimal: bool = False) -> dict[str, Any]:
    """The section `chain` as plain data; in the minimal form with the short names."""
    short = is_minimal and not chain.extra.keys() & {"from", "to", "source", "target"}
    fields = {
        "id": chain.id,
        "step": chain.step,
        "from" if short else "source": chain.source,
        "to" if short else "target": chain.target,
        "parallel_merge": chain.parallel_merge or None,
        "status": chain.status,
        "failed_at_step": chain.failed_at_step,
    }
    return _with(fields, chain.extra)


def _entry(entry: model.Entry) -> Any:
    if entry.raw is not None:
        return entry.raw.value
    fields = {
        "step": entry.step,
        "agent": entry.agent,
        "parallel": entry.parallel or None,
        "action": entry.action,
        "confidence": entry.confidence,
        "facts_added": _listed(entry.facts_added) or None,
        "facts_modified": _listed(entry.facts_modified) or None,
        "error": entry.error,
        "facts_at_failure": _listed(entry.facts_at_failure),
        "duration_ms": entry.duration_ms,
    }
    return _with(fields, entry.extra)


def _fact(fact: model.Fact) -> Any:
    if fact.raw is not None:
        return fact.raw.value
    fields = {
        "text": fact.text,
        "confidence": fact.confidence,
        "source": fact.source,
        "step": fact.step,
        "note": fact.note,
        "derived_from": _listed(fact.derived_from) or None,
    }
    return _with(fields, fact.extra)


def _lists(lists: model.Lists) -> dict[str, Any]:
    fields = {
        "critical_facts": list(lists.critical),
        "context_facts": _listed(lists.context) or None,
        "warnings": list(lists.warnings) or None,
    }
    return _with(fields, lists.extra)


def _analysis(analysis: model.Analysis) -> dict[str, Any]:
    fields = {
        "root_cause": analysis.root_cause,
        "confidence_in_analysis": analysis.confidence,
        "recommendation": analysis.recommendation,
    }
    return _with(fields, analysis.extra)
