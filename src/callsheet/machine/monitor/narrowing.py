"""Restricts what an agent may do, by the policy's rule for agents."""

from __future__ import annotations

from callsheet.machine.agents.allowance import Allowance
from callsheet.policy.builtins import fold
from callsheet.policy.model import AgentRule


def narrowed(allowed: Allowance, rule: AgentRule) -> Allowance:
    """The intersection of both: the tools in both, and the lower limits on turns and calls."""
    given = {fold(name) for name in rule.tools}
    return allowed._replace(
        tools=tuple(name for name in allowed.tools if fold(name) in given),
        turns=min(allowed.turns, rule.max_turns),
        calls=rule.max_calls if allowed.calls is None else min(allowed.calls, rule.max_calls),
        arguments=rule.arguments,
    )
