"""FORBIDDEN: no argument matches a pattern that the policy forbids, such as keys and tokens."""

from __future__ import annotations

import unicodedata

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.patterns import Patterns, patterns_of
from callsheet.policy.rules.base import BETWEEN, Notes, OfTexts, Setting, all_text


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfTexts | None:
    """FORBIDDEN for each pattern that matches an argument, with unknown holes taken as empty."""
    if not setting.policy.forbidden:
        return None
    patterns = patterns_of(setting.policy.forbidden)

    def check(call: CallView, notes: Notes) -> None:
        arguments = call.arguments
        if not arguments:
            return
        matching = _found(patterns, all_text(arguments))
        if not matching:
            return
        for pattern in dict.fromkeys(matching):
            guilty = next((a.name for a in arguments if pattern in _found(patterns, all_text((a,)))), None)
            notes.object(
                Rule.FORBIDDEN,
                f"an argument of @{tool} matches {pattern}, which the policy forbids",
                guilty,
                help="use a tool that has the secret itself, and keep it out of the plan",
            )

    def clears(text: str) -> bool:
        if text.isascii() and not patterns.are_anchored:
            return not patterns.any_in(text)
        return not _found(patterns, text)

    return OfTexts(check, clears)


def _found(patterns: Patterns, text: str) -> list[str]:
    """The patterns that match one of the joined texts, as written or normalised."""
    matching: list[str] = []
    for form in (text,) if text.isascii() else (text, _plain(text)):
        matching += patterns.found_in(form)
        if patterns.are_anchored and BETWEEN in form:  # anchors apply to each text
            for one in form.split(BETWEEN):
                matching += patterns.found_in(one)
    return matching


def _plain(text: str) -> str:
    """The text in NFKC form, without invisible characters."""
    folded = unicodedata.normalize("NFKC", text)
    unseen = {ord(c): None for c in set(folded) if unicodedata.category(c) == "Cf"}
    return folded.translate(unseen) if unseen else folded
