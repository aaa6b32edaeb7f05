"""No argument holds what a policy forbids: keys, tokens, whatever its patterns say."""

from __future__ import annotations

import unicodedata

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.patterns import patterns_of
from callsheet.policy.rules.base import Check, Notes, Setting, known, texts

_BETWEEN = "\n\x00\n"


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """FORBIDDEN for each pattern that stands in an argument, also by way of holes that may be empty."""
    if not setting.policy.forbidden:
        return None
    patterns = patterns_of(setting.policy.forbidden)

    def check(call: CallView, notes: Notes) -> None:
        arguments = call.arguments
        if not arguments:
            return
        text = _all_text(arguments)
        found = patterns.found_in(text)
        if not text.isascii():
            found += patterns.found_in(_plain(text))
        if not found:
            return
        for pattern in dict.fromkeys(found):
            guilty = next((a.name for a in arguments if any(map(patterns.found_in, texts(a)))), None)
            notes.object(
                Rule.FORBIDDEN,
                f"an argument of @{tool} matches {pattern}, which the policy forbids",
                guilty,
                help="hand secrets over by a tool that has them, not in a plan",
            )

    return check


def _all_text(arguments: tuple[Argument, ...]) -> str:
    """The texts of all arguments in one, so that one pass is enough."""
    found: list[str] = []
    for argument in arguments:
        parts = argument.parts
        if argument.items:
            found += texts(argument)
        elif len(parts) == 1 and isinstance(parts[0], str):
            found.append(parts[0])
        else:
            found.append("".join([known(part) for part in parts]))
    return found[0] if len(found) == 1 else _BETWEEN.join(found)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text)
    return "".join(c for c in folded if unicodedata.category(c) != "Cf")
