"""LCTL blocks for tests as plain data: a hop, the next hop, two branches, a post-mortem, an ack."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from callsheet.trace.lctl.yaml_text import to_yaml

Block = dict[str, Any]

_FACTS: Mapping[str, Block] = {
    "F1": {"text": "Invoice 881 totals 120.50 EUR", "confidence": 0.96, "source": "reader", "step": 1},
    "F2": {"text": "The invoice is of 2026-02-03", "confidence": 0.95, "source": "reader", "step": 1},
    "F3": {"text": "Order 55 totals 120.50 EUR", "confidence": 0.96, "source": "checker", "step": 2},
}
_READ: Block = {
    "step": 1, "agent": "reader", "action": "Read it", "confidence": 0.97, "facts_added": ["F1", "F2"],
}  # fmt: skip
_COMPARED: Block = {
    "step": 2, "agent": "checker", "action": "Compared it", "confidence": 0.96, "facts_added": ["F3"],
}  # fmt: skip


def hop(number: int) -> Block:
    """The first or second document of a chain without faults."""
    chain = {"id": "inv-7", "step": number}
    ends = {1: ("reader", "checker"), 2: ("checker", "payer")}[number]
    return copy.deepcopy(
        {
            "lctl": "3.0",
            "purpose": "observability",
            "chain": chain | {"source": ends[0], "target": ends[1]},
            "trace": [_READ, _COMPARED][:number],
            "facts": {name: _FACTS[name] for name in ("F1", "F2", "F3")[: number + 1]},
            "handoff": {"critical_facts": ["F1", "F3"][:number], "context_facts": ["F2"]},
            "instruction": "Carry on.",
        }
    )


def minimal() -> Block:
    """A document of the minimal form."""
    return {
        "lctl": "3.0",
        "chain": {"id": "inv-7", "step": 2, "from": "reader", "to": "checker"},
        "facts": {"F1": {"text": "Invoice 881 totals 120.50 EUR", "confidence": 0.96}},
        "instruction": "Check the total",
    }


def branch(agent: str, fact: str) -> Block:
    """The document of one of the branches that `joined` joins: one new fact."""
    entries = [
        {"step": 1, "agent": "lead", "action": "Split the work", "confidence": 0.98},
        {
            "step": 2, "agent": agent, "parallel": True, "action": "Did a part", "confidence": 0.96,
            "facts_added": [fact],
        },
    ]  # fmt: skip
    return {
        "lctl": "3.0",
        "purpose": "observability",
        "chain": {"id": "inv-7", "step": 2, "source": agent, "target": "lead"},
        "trace": entries,
        "facts": {fact: {"text": f"{agent} works", "confidence": 0.96, "source": agent, "step": 2}},
        "handoff": {"critical_facts": [fact], "context_facts": []},
        "instruction": "Join the parts.",
    }


def joined() -> Block:
    """The join of the branches of web (F1) and api (F2)."""
    one, two = branch("web", "F1"), branch("api", "F2")
    return one | {
        "chain": {"id": "inv-7", "step": 3, "source": "lead", "target": "ops", "parallel_merge": True},
        "trace": [*one["trace"], two["trace"][1]],
        "facts": one["facts"] | two["facts"],
        "handoff": {"critical_facts": ["F1", "F2"], "context_facts": []},
    }


def failed() -> Block:
    """A post-mortem without faults."""
    entries = [
        {**_READ, "duration_ms": 120},
        {**_COMPARED, "duration_ms": 80},
        {
            "step": 3, "agent": "payer", "action": "Paid", "confidence": 0.0, "error": "refused",
            "facts_at_failure": ["F1", "F2", "F3"], "duration_ms": 5000,
        },
    ]  # fmt: skip
    return copy.deepcopy(
        {
            "lctl": "3.0",
            "purpose": "debugging",
            "chain": {"id": "inv-7", "status": "FAILED", "failed_at_step": 3},
            "trace": entries,
            "facts": dict(_FACTS),
            "analysis": {"root_cause": "checker took order 56", "confidence_in_analysis": 0.8},
        }
    )


def ack() -> Block:
    """The ack of the second hop."""
    inner = {
        "chain_id": "inv-7", "step": 2, "agent": "payer", "status": "received",
        "facts_loaded": ["F1", "F3"], "confidence_concerns": [],
    }  # fmt: skip
    return {"lctl_ack": inner}


def text(block: Block) -> str:
    """The block as YAML."""
    return to_yaml(block)


def changed(block: Block, path: str, value: Any) -> Block:
    """The block with another value at a path such as `trace.0.agent`; `...` removes the key."""
    made = copy.deepcopy(block)
    *way, last = path.split(".")
    inner: Any = made
    for part in way:
        inner = inner[int(part)] if isinstance(inner, list) else inner[part]
    key: Any = int(last) if isinstance(inner, list) else last
    if value is ...:
        del inner[key]
    else:
        inner[key] = value
    return made
