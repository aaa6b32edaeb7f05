"""An example of the body of each request that has one, for the OpenAPI document and the page `/docs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAN = '# ltp: 2\nINPUT $n: int\nLET $product = 6 * $n\nS1: @RESPOND ("6 times ${n} is ${product}")\n'
_TEXT = {"plan": _PLAN}
_PLACE = {"plan": _PLAN, "at": _PLAN.index("@RESPOND") + 1}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "/v1/parse": _TEXT,
    "/v1/validate": _TEXT,
    "/v1/visualize": {**_TEXT, "format": "mermaid"},
    "/v1/format": {**_TEXT, "to": "dag"},
    "/v1/compile": {"goal": "Multiply 6 by the number n, and answer with the product"},
    "/v1/editor/marks": _TEXT,
    "/v1/editor/completion": _PLACE,
    "/v1/editor/hover": _PLACE,
    "/v1/editor/name": {**_TEXT, "at": _PLAN.index("$n") + 1},
    "/v1/editor/rename": {**_TEXT, "at": _PLAN.index("$n") + 1, "name": "factor"},
    "/v1/verify": {**_TEXT, "policy": "workspace"},
    "/v1/explain-policy": {**_TEXT, "policy": "workspace"},
    "/v1/dry-run": {**_TEXT, "inputs": {"n": 7}},
    "/v1/plans/{plan_id}": {**_TEXT, "goal": "Multiply by six", "replace": True},
    "/v1/runs": {**_TEXT, "run_id": "first", "inputs": {"n": 7}, "tags": {"team": "sums"}},
    "/v1/runs/{run_id}/resume": {"limits": {"max_calls": 100}},
    "/v1/runs/{run_id}/rerun": {"step": "S1", "run_id": "second"},
    "/v1/runs/{run_id}/fork": {"at": 1, "variables": {"n": 8}, "run_id": "third"},
    "/v1/tools/{tool}/call": {"arguments": {"expression": "6 * 7"}},
    "/v1/runs/{run_id}/undo": {"effects": False},
    "/v1/runs/{run_id}/cancel": {"reason": "the order was withdrawn"},
    "/v1/runs/{run_id}/decide": {"decision": "retry", "calls": ["S1.1"]},
    "/v1/runs/{run_id}/approve": {"key": "S1.1", "answer": "blue", "note": "as Ada wished"},
    "/v1/bulk": {"action": "cancel", "where": {"tag": "team=sums", "status": "waiting"}},
    "/v1/session": {"secret": "Fk9UbPrW"},
}
"""By the path of the endpoint, which has one method with a body."""
