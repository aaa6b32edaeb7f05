"""What the words of the user name of the lists of a single run, which no other run decides.

In: the words, and lists as they were recorded. Out: the parts of each list that the words may mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from callsheet.authoring.distillation.choices import Part, part_named
from callsheet.authoring.distillation.inputs import Inputs
from callsheet.authoring.distillation.lists import all_lists
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in
from callsheet.authoring.distillation.wording import asked_figures
from callsheet.ir import JSON

_ASKED = (("len(", "count"), ("max(", "max"), ("min(", "min"), ("round(sum(", "mean"))
_PLACE = re.compile(r"\b(?:first|last)\b")


@dataclass
class Readings:
    """How the words of the user read the lists of a run; `arguments` are the texts in those of all calls."""

    inputs: Inputs
    arguments: frozenset[str]
    is_answered: bool = False
    """Whether somebody says which is meant of what the words do not name."""
    nouns: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By the name of a result, the words for what its call lists."""
    asked: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By the name of a result, the texts that its call was given."""
    known: dict[str, tuple[tuple[Part, ...], ...] | None] = field(
        default_factory=dict[str, tuple[tuple[Part, ...], ...] | None]
    )

    @cached_property
    def figures(self) -> frozenset[str]:
        """What the words want to be known of lists and done with numbers."""
        return asked_figures(self.inputs.request)

    def may_be(self, figure: str) -> bool:
        """Whether a figure of a list, as code, may be meant: one that is no sum is asked for."""
        is_total = figure.startswith("round(sum(") and " / len(" not in figure
        return is_total or all(word in self.figures for start, word in _ASKED if figure.startswith(start))

    def told(self, text: str) -> Iterator[str]:
        """What a plan has because of the words of the user: parts of lists, and words around data."""
        codes = {
            parts[0].picked or parts[0].code: None for each in self.known.values() for parts in each or ()
        }
        yield from (
            f"{code} is what the user's words select, and was so in the run" for code in codes if code in text
        )
        for words in dict.fromkeys(self.inputs.words_kept):
            quoted = json.dumps(words, ensure_ascii=False)
            if words.strip() and quoted[1:-1].strip() in text:
                yield f"the words {quoted} are taken for those of the user, and stay the same"

    def know(self, name: str, calls: Sequence[RecordedCall]) -> None:
        """Know whose result a name is."""
        self.nouns[name] = nouns_of(calls[0])
        self.asked[name] = frozenset(text for call in calls for text in texts_in(call.args))

    def parts(self, code: str, lists: Sequence[JSON]) -> Sequence[tuple[Part, ...]] | None:
        """The parts of a list that the words name, each as it is in all examples.

        None if the words ask nothing of it, nothing if what they ask is unclear. A text that the calls were
        made with may be a condition besides, or not: the record tells.
        """
        once = {id(one): one for one in lists}
        if len(once) < len(lists):  # the same list in each round of a loop
            found = self.parts(code, [*once.values()])
            place = {one: number for number, one in enumerate(once)}
            return found and [tuple(parts[place[id(one)]] for one in lists) for parts in found]
        key = json.dumps([code, [*lists]])
        if key not in self.known:
            self.known[key] = self._parts(code, lists)
        return self.known[key]

    def _parts(self, code: str, lists: Sequence[JSON]) -> tuple[tuple[Part, ...], ...] | None:
        name = re.match(r"\w*", code.lstrip("["))
        root = name[0] if name is not None else ""
        asked, nouns = self.asked.get(root, frozenset[str]()), self.nouns.get(root, frozenset[str]())
        times = (False, True) if _PLACE.search(self.inputs.request.lower()) else (False,)
        found: dict[str, tuple[Part, ...]] = {}
        is_asked = False
        for by_time in times:
            for given in (asked, asked | self.arguments):
                read = [
                    part_named(
                        self.inputs.request, code, one, given, self.inputs.said_input, nouns, by_time=by_time
                    )
                    for one in lists
                    if isinstance(one, list)
                ]
                if not by_time and given == asked:
                    is_asked = any(part is not None for part in read)
                parts = [part for part in read if isinstance(part, Part)]
                if len(parts) == len(lists) and len({one.code + one.picked for one in parts}) == 1:
                    found.setdefault(parts[0].code + parts[0].picked, (*parts,))
        return (*found.values(),) if is_asked else None


def nouns_of(call: RecordedCall) -> frozenset[str]:
    """The words for what a call lists: those of its tool after the verb, and the fields with lists."""
    words = call.tool.lower().rpartition("__")[2].split("_")[1:]
    for code, _ in all_lists("", call.result):
        words += re.findall(r"[a-z]+", code.lower())
    return frozenset(form for word in words for form in (word, word.rstrip("s")))


def looked_up(
    listing: str, items: Sequence[JSON], name: str, results: str, rounds: Sequence[RecordedCall]
) -> tuple[str, list[JSON]] | None:
    """The items of a list, each with what was looked up for it in a field: the code, and the rows."""
    if not all(isinstance(one, dict) and name not in one for one in items):
        return None
    rows: list[JSON] = [{**cast("Any", a), name: b.result} for a, b in zip(items, rounds, strict=True)]
    return f"[{{**a, {json.dumps(name)}: b}} for a, b in zip({listing}, {results})]", rows


def joined(
    listing: str, items: Sequence[JSON], results: str, rounds: Sequence[Sequence[RecordedCall]]
) -> tuple[str, list[JSON]] | None:
    """The items of a list joined with what was looked up for each: the code, and the rows.

    None if they are no objects, or differ in a field: which of the two is meant, nobody has said.
    """
    looked, args = [one[-1].result for one in rounds], [one[0].args for one in rounds]
    key = next((one for one in args[0] if [each[one] for each in args] == [*items]), "")
    if all(isinstance(one, dict) for one in items):
        item, rows = "**a", [*items]
    elif key:
        item, rows = f"{json.dumps(key)}: a", [{key: one} for one in items]
    else:
        return None
    found: list[JSON] = []
    for a, b in zip(rows, looked, strict=True):
        if not isinstance(a, dict) or not isinstance(b, dict):
            return None
        if any(a.get(name, value) != value for name, value in b.items()):
            return None
        found.append({**a, **b})
    return f"[{{{item}, **b}} for a, b in zip({listing}, {results})]", found
