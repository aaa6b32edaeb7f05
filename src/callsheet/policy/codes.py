"""The diagnostic code of each rule."""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.policy.calls import Rule

CODES: Mapping[Rule, str] = {
    Rule.UNKNOWN_TOOL: "POL101",
    Rule.DENIED_TOOL: "POL102",
    Rule.FLOW: "POL103",
    Rule.CONTROL: "POL104",
    Rule.ADDRESS: "POL105",
    Rule.PATH: "POL106",
    Rule.EXECUTABLE: "POL107",
    Rule.CONSEQUENTIAL: "POL108",
    Rule.FORBIDDEN: "POL109",
    Rule.RETRY: "POL110",
    Rule.AGENT: "POL111",
    Rule.REPLAN: "POL112",
    Rule.ANSWER: "POL113",
    Rule.IMPLICIT: "POL114",
    Rule.LIMIT: "POL115",
    Rule.STRUCTURE: "POL116",
    Rule.PREDICATE: "POL117",
}
"""Maps rules to codes."""
