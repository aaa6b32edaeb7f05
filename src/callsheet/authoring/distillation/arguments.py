"""Writes the arguments of calls: expressions for what was copied or computed, inputs for all others.

In: the values of an argument in all rounds, and what is known at this place. Out: its code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.explanations import explain
from callsheet.authoring.distillation.inputs import SAID, Inputs
from callsheet.authoring.distillation.leaves import Explained, Source
from callsheet.authoring.distillation.sources import LOOP, Sources
from callsheet.authoring.distillation.wording import asked_figures
from callsheet.ir import JSON


@dataclass
class Arguments:
    """What is known at a place of a plan, of which the arguments are made."""

    inputs: Inputs
    sources: Sources
    seen: frozenset[str] = frozenset()
    """The texts in the results of all calls of the run, also of those that the plan leaves out."""

    def value(
        self, name: str, values: Sequence[JSON], sources: Sequence[Source], *, is_read: bool
    ) -> Explained:
        """The code of an argument as the user's words and the data give it, or an input."""
        first = values[0]
        is_same = all(value == first and type(value) is type(first) for value in values)
        if is_same and (first is None or isinstance(first, bool)):
            return Explained(repr(first), ())
        if is_same and self.inputs.has_said(first):
            return Explained(self.inputs.said_input(name, first), ())
        known = [*sources, *self.inputs.words_in(name, values), *self.inputs.numbers_said(values)]
        found = explain(name, values, known, self.inputs.is_expected, asked_figures(self.inputs.request))
        keys = re.findall(r"\[[\"'](\w*[A-Z0-9]\w*)[\"']\]", found.code) if found is not None else []
        is_said = any(map(self.inputs.has_said, keys))  # another time it is another field
        if found is not None and not is_said and not self.is_rather_copied(found, values):
            return found
        is_own = isinstance(first, str) and bool(re.search(r"\w", first)) and self.inputs.is_expected(first)
        if is_same and (is_own or (is_read and guards.is_paging(name, first))):
            return Explained(json.dumps(first, ensure_ascii=False), ())
        if self.is_partly_known(name, values, known):
            return self.built(name, values, sources, is_read=is_read)
        if is_same:
            return Explained(self.inputs.input_for(name, first, "nothing before it explains it"), ())
        are_said = all(map(self.inputs.has_said, values))
        listing = self.inputs.input_for(f"{name}s", [*values], SAID if are_said else "a model chose them")
        item = self.sources.item_of(listing, tuple(values), LOOP)
        return Explained(item.code, (item,))

    def is_rather_copied(self, found: Explained, values: Sequence[JSON]) -> bool:
        """Whether values that the user's words would give are texts that tools have answered."""
        from_user = all(source.is_given for source in found.used)
        return from_user and all(isinstance(value, str) and value in self.seen for value in values)

    def is_partly_known(self, name: str, values: Sequence[JSON], sources: Sequence[Source]) -> bool:
        """Whether objects or lists are alike in all rounds, and something in them is known."""
        first = values[0]
        members: list[tuple[str, list[JSON]]] = []
        if isinstance(first, dict) and all(isinstance(v, dict) and v.keys() == first.keys() for v in values):
            members = [(key, [v[key] for v in values if isinstance(v, dict)]) for key in first]
        elif isinstance(first, list) and all(isinstance(v, list) and len(v) == len(first) for v in values):
            members = [(name, [v[n] for v in values if isinstance(v, list)]) for n in range(len(first))]
        return any(
            (
                all(one == each[0] for one in each)
                and (
                    self.inputs.has_said(each[0])
                    or (
                        isinstance(each[0], str)
                        and re.search(r"\w", each[0])
                        and self.inputs.is_expected(each[0])
                    )
                )
            )
            or explain(key, each, [*sources, *self.inputs.words_in(key, each)], self.inputs.is_expected)
            is not None
            or self.is_partly_known(key, each, sources)
            for key, each in members
        )

    def built(
        self, name: str, values: Sequence[JSON], sources: Sequence[Source], *, is_read: bool
    ) -> Explained:
        """The code of objects or lists, whose members are arguments of their own."""
        found: list[tuple[str, Explained]] = []
        tables = [value for value in values if isinstance(value, dict)]
        lists = [value for value in values if isinstance(value, list)]
        for key in tables[0] if tables else ():
            member = self.value(key, [one[key] for one in tables], sources, is_read=is_read)
            found.append((json.dumps(key, ensure_ascii=False) + ": ", member))
        for place in range(len(lists[0]) if lists else 0):
            member = self.value(name, [one[place] for one in lists], sources, is_read=is_read)
            found.append(("", member))
        code = ", ".join(before + one.code for before, one in found)
        used = tuple(chain.from_iterable(one.used for _, one in found))
        conditions = tuple(chain.from_iterable(one.conditions for _, one in found))
        return Explained(f"{{{code}}}" if tables else f"[{code}]", used, conditions)
