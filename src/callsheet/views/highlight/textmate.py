"""Exports the highlighting rules as a TextMate grammar, for editors and code hosts.

Out: JSON data, generated from the same table that `scan` uses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from callsheet.views.highlight.rules import ROOT, Region, Rule, Scope

SCOPE_NAME = "source.ltp"

NAMES: dict[Scope, str] = {
    Scope.COMMENT: "comment.line.number-sign.ltp",
    Scope.MARKER: "keyword.other.marker.ltp",
    Scope.LABEL: "entity.name.label.ltp",
    Scope.KEYWORD: "keyword.control.ltp",
    Scope.WORD: "keyword.operator.word.ltp",
    Scope.OPERATION: "support.function.operation.ltp",
    Scope.TOOL: "entity.name.function.tool.ltp",
    Scope.VARIABLE: "variable.other.ltp",
    Scope.PATH: "variable.other.property.ltp",
    Scope.CAST: "storage.type.cast.ltp",
    Scope.ARGUMENT: "variable.parameter.ltp",
    Scope.STRING: "string.quoted.ltp",
    Scope.ESCAPE: "constant.character.escape.ltp",
    Scope.NUMBER: "constant.numeric.ltp",
    Scope.CONSTANT: "constant.language.ltp",
    Scope.OPERATOR: "keyword.operator.ltp",
    Scope.BRACKET: "punctuation.ltp",
}
"""The TextMate name of each scope."""


def textmate_grammar() -> dict[str, Any]:
    """Returns the grammar.

    >>> textmate_grammar()["scopeName"]
    'source.ltp'
    """
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "LTP plan",
        "scopeName": SCOPE_NAME,
        "fileTypes": ["ltp"],
        "patterns": _patterns(ROOT),
    }


def _patterns(rules: Sequence[Rule | Region]) -> list[dict[str, Any]]:
    return [_region(rule) if isinstance(rule, Region) else _rule(rule) for rule in rules]


def _rule(rule: Rule) -> dict[str, Any]:
    if len(rule.scopes) == 1 and rule.scopes[0] is not None and not _has_groups(rule.pattern):
        return {"match": rule.pattern, "name": NAMES[rule.scopes[0]]}
    captures = {
        str(number): {"name": NAMES[scope]}
        for number, scope in enumerate(rule.scopes, 1)
        if scope is not None
    }
    return {"match": rule.pattern, "captures": captures}


def _region(region: Region) -> dict[str, Any]:
    region_rule: dict[str, Any] = {"begin": region.begin, "end": region.end}
    if region.scope is not None:
        region_rule["name"] = NAMES[region.scope]
    for key, scope in (("beginCaptures", region.begin_scope), ("endCaptures", region.end_scope)):
        if scope is not None and scope is not region.scope:
            region_rule[key] = {"0": {"name": NAMES[scope]}}
    if region.inside:
        region_rule["patterns"] = _patterns(region.inside)
    return region_rule


def _has_groups(pattern: str) -> bool:
    return re.compile(pattern).groups > 0
