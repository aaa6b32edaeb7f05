"""The rules of a policy, one module each; a rule checks one call and records its objections.

A rule is prepared once per tool and policy, and is skipped for tools that it does not concern.
"""

from callsheet.policy.rules import (
    addresses,
    agent,
    answers,
    attachments,
    control,
    files,
    flow,
    names,
    opened_files,
    paths,
    predicates,
)
from callsheet.policy.rules.base import Check, Notes, OfLabels, OfTexts, Prepare, Setting, Verdicts

RULES: tuple[Prepare, ...] = (
    names.prepare,
    flow.prepare,
    opened_files.prepare,
    answers.prepare_messages,
    answers.prepare_images,
    attachments.prepare,
    control.prepare,
    control.prepare_approval,
    addresses.prepare,
    addresses.prepare_inward,
    paths.prepare,
    files.prepare_executable,
    files.prepare,
    names.prepare_forbidden,
    control.prepare_retry,
    files.prepare_storing,
    answers.prepare,
    agent.prepare,
    control.prepare_replan,
    predicates.prepare,
)
"""All rules, in the order in which their objections are reported."""

__all__ = ["RULES", "Check", "Notes", "OfLabels", "OfTexts", "Prepare", "Setting", "Verdicts"]
