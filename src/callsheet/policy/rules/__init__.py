"""The rules of a policy, one module each; a rule checks one call and records its objections.

A rule is prepared once per tool and policy, and is skipped for tools that it does not concern.
"""

from callsheet.policy.rules import (
    addresses,
    agent,
    answers,
    approval,
    attachments,
    control,
    executable,
    files,
    flow,
    forbidden,
    images,
    inward,
    messages,
    names,
    opened_files,
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
    opened_files.prepare,
    messages.prepare,
    images.prepare,
    attachments.prepare,
    control.prepare,
    approval.prepare,
    addresses.prepare,
    inward.prepare,
    paths.prepare,
    executable.prepare,
    files.prepare,
    forbidden.prepare,
    retry.prepare,
    storing.prepare,
    answers.prepare,
    agent.prepare,
    replan.prepare,
    predicates.prepare,
)
"""All rules, in the order in which their objections are reported."""

__all__ = ["RULES", "Check", "Notes", "OfLabels", "OfTexts", "Prepare", "Setting", "Verdicts"]
