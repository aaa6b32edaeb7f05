"""No argument holds what a policy forbids: keys, tokens, whatever its patterns say."""

from __future__ import annotations

import unicodedata

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.patterns import Patterns
from callsheet.policy.rules.base import Check, Notes, Setting, texts

_BETWEEN = "\n\x00\n"


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """FORBIDDEN for each pattern that stands in an argument, also by way of holes that may be empty."""
    if not setting.policy.forbidden:
        return None
    patterns = Patterns(setting.policy.forbidden)

    def check(call: CallView, notes: Notes) -> None:
        arguments = call.arguments
        if not arguments:
            return
        text = _BETWEEN.join([text for argument in arguments for text in texts(argument)])
        found = patterns.found_in(text)
        if not text.isascii():
            found += patterns.found_in(_plain(text))
        for pattern in dict.fromkeys(found):
            guilty = next((a.name for a in arguments if any(map(patterns.found_in, texts(a)))), None)
            notes.object(
                Rule.FORBIDDEN,
                f"an argument of @{tool} matches {pattern}, which the policy forbids",
                guilty,
                "hand secrets over by a tool that has them, not in a plan",
            )

    return check


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text)
    return "".join(c for c in folded if unicodedata.category(c) != "Cf")
