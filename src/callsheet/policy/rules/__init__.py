"""The rules, one a file: each looks at a call and notes what speaks against it.

A rule is prepared once for a tool under a policy, and says then whether there is anything to look at.
"""

from callsheet.policy.rules import (
    addresses,
    agent,
    answers,
    approval,
    attachments,
    control,
    executable,
    filing,
    flow,
    forbidden,
    images,
    messages,
    names,
    opening,
    paths,
    predicates,
    replan,
    retry,
    storing,
)
from callsheet.policy.rules.base import Check, Notes, OfLabels, OfTexts, Prepare, Setting, Verdicts

RULES: tuple[Prepare, ...] = (
    names.prepare,
    flow.prepare,
    opening.prepare,
    messages.prepare,
    images.prepare,
    attachments.prepare,
    control.prepare,
    approval.prepare,
    addresses.prepare,
    paths.prepare,
    executable.prepare,
    filing.prepare,
    forbidden.prepare,
    retry.prepare,
    storing.prepare,
    answers.prepare,
    agent.prepare,
    replan.prepare,
    predicates.prepare,
)
"""Every rule, in the order in which objections are told."""

__all__ = ["RULES", "Check", "Notes", "OfLabels", "OfTexts", "Prepare", "Setting", "Verdicts"]
