"""What the user of a session is known to have said, and the values that its client may use unharmed by what
it has read.

Nobody knows what a client's model did with what it read, so an argument of its calls has the label of all of
that. It does not if the user has said it, word for word, or the policy lists it as harmless: then no reading
was needed to choose it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.monitor.reads import DEEPEST, MOST_MEMBERS
from callsheet.machine.values import to_json_text, to_text
from callsheet.policy.calls import Argument, Hole

_MOST_SAID = 200_000
"""The most characters of a user's words that are kept; the oldest are forgotten."""
_BEFORE = r"(?<![\w@/+%.:&=?#~-])"
_AFTER = r"(?![\w@/+%&=?#~-]|[.:](?=\w))"
"""What may not stand around a value: parts of a longer word, address or path."""


class ClientWords:
    """The words of one session's user, and the policy's harmless values.

    >>> words = ClientWords(["yes"], LITERAL)
    >>> words.hear(["Send the report to bob@out.example, please."])
    >>> [words.cover(text) for text in ("bob@out.example", "ob@out.example", "bob@out", "yes", "no")]
    [True, False, False, True, False]
    """

    __slots__ = ("_asked", "_label", "_listed", "_said")

    def __init__(self, harmless: Iterable[str], label: Label) -> None:
        self._listed = frozenset(harmless)
        self._label = label
        self._said = ""
        self._asked: set[str] = set()

    def hear(self, texts: Iterable[str]) -> None:
        """The user has said this too."""
        for text in texts:
            self._said = f"{self._said}\n{text}"[-_MOST_SAID:]
            self._asked.clear()  # said again, it may be done again

    def label_of(self, value: JSON, seen: Label) -> Label:
        """The label of a plain value that a client chose after it has seen data of the label `seen`."""
        text = to_text(value)
        if text in self._listed:
            return LITERAL
        return self._label if self._has_said(text) else seen

    def cover(self, value: JSON) -> bool:
        """Whether a value, with all its members and keys, was said or is harmless."""
        if isinstance(value, dict):
            members = cast("dict[str, JSON]", value)
            return all(self.cover(key) and self.cover(item) for key, item in members.items())
        if isinstance(value, list):
            return all(map(self.cover, cast("list[JSON]", value)))
        text = to_text(value)
        return text in self._listed or self._has_said(text)

    def ask_for(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether the user has asked for exactly this call: all of it was said, and it was not made since."""
        if not self._said or not all(map(self.cover, args.values())):
            return False
        call = f"{tool} {to_json_text(dict(args))}"
        is_first = call not in self._asked
        self._asked.add(call)
        return is_first

    def argument(self, name: str, value: JSON, seen: Label, depth: int = 0) -> Argument:
        """An argument of a call, by members if these are few; each has its own label."""
        if not isinstance(value, list | dict) or not 0 < len(value) <= MOST_MEMBERS or depth >= DEEPEST:
            plain = isinstance(value, list | dict) and bool(value)
            label = seen if plain else self.label_of(value, seen)
            return Argument(name, (Hole("", label, to_text(value)),), label)
        items: list[Argument] = []
        if isinstance(value, dict):
            for key, item in cast("dict[str, JSON]", value).items():
                of_key = self.label_of(key, seen)
                items.append(Argument(name, (Hole("", of_key, key),), of_key))
                items.append(self.argument(key, item, seen, depth + 1))
        else:
            items += [self.argument(name, item, seen, depth + 1) for item in value]
        return Argument(name, (), join(each.label for each in items), tuple(items))

    def _has_said(self, text: str) -> bool:
        if not text.strip() or text not in self._said:
            return False
        return re.search(_BEFORE + re.escape(text) + _AFTER, self._said) is not None
