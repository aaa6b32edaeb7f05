"""The predicates in the rules of a policy, carried out by CEL (the extra `callsheet[cel]`).

In: rules such as `args.amount > 100.0`. Out: functions of a call's arguments. What cannot be decided (an
argument that is missing, another type) counts as true: a rule fails closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.policy.model import CallRule

Predicate: TypeAlias = "Callable[[Mapping[str, JSON]], bool]"
"""Says of the arguments of a call, by name, whether its rule holds."""


def compile_rules(rules: Iterable[CallRule]) -> dict[CallRule, Predicate]:
    """A predicate for each rule; empty without rules.

    Raises CallsheetError: POL009 where CEL is not installed, POL003 for a predicate that is none.
    """
    return {rule: _compiled(rule) for rule in rules}


def _compiled(rule: CallRule) -> Predicate:
    try:
        cel: Any = import_module("cel")
    except ImportError:
        raise CallsheetError.single(
            "POL009",
            f"the policy has a rule for {rule.tool} with a predicate, which takes CEL",
            help="pip install 'callsheet[cel]'",
        ) from None
    try:
        program = cel.compile(rule.when)
    except ValueError as error:
        said = str(error).partition("ERROR:")[2].strip().partition("\n")[0] or str(error)
        raise CallsheetError.single(
            "POL003", f"the rule for {rule.tool} has a predicate that is none: {rule.when!r}: {said}"
        ) from None

    def holds(args: Mapping[str, JSON]) -> bool:
        try:
            return program.execute({"args": dict(args)}) is not False
        except Exception:  # whatever keeps the rule from being decided, it holds
            return True

    return holds
