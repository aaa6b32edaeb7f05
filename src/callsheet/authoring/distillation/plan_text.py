"""Writes recorded calls as a Python plan: loops for what repeats, expressions for what was copied, and inputs
for the rest.

In: the calls that led to the end, in order, and the words of the user. Out: the text of the plan, and the
inputs with which it makes the recorded calls again.
"""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from callsheet.authoring.distillation.choices import (
    Part,
    condition_in,
    counts,
    part_named,
    says_the_same,
    unquoted,
)
from callsheet.authoring.distillation.explanations import (
    Explained,
    Source,
    explain,
    lists_in,
    tables_in,
    without_tables,
)
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in
from callsheet.ir import JSON

_MOST_IN_ROUND = 4
"""The most calls of one round of a loop."""
_SENTENCE = 3
"""From more words on, what the user has said is a text of theirs."""
_NEAR = 0
_LOOP = 10
_BEFORE = 20
_GIVEN = 10_000
"""The ranks of sources: in the same round, of a loop's list, of earlier calls (the latest first), inputs."""


class DistilledPlan(NamedTuple):
    """A plan, the inputs of the recorded run, and why each of them is an input.

    `readings` are the places of the plan that rest on how the user's words were read.
    """

    text: str
    inputs: dict[str, JSON]
    reasons: dict[str, str]
    readings: tuple[str, ...] = ()


class _Segment(NamedTuple):
    """Rounds of calls, as many as `rounds` has; each has the same tools and arguments."""

    rounds: tuple[tuple[RecordedCall, ...], ...]


@dataclass
class _Known:
    """A variable of the plan: the result of a call, or the results of all rounds of a loop."""

    name: str
    values: tuple[JSON, ...]
    is_list: bool
    asked: frozenset[str] = frozenset()
    """The texts in the arguments of the call."""
    nouns: frozenset[str] = frozenset()
    """The words for what the tool lists."""


@dataclass
class _Writer:
    said: str
    inputs: dict[str, JSON] = field(default_factory=dict[str, JSON])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    known: list[_Known] = field(default_factory=list[_Known])
    names: set[str] = field(default_factory=set[str])
    lines: list[str] = field(default_factory=list[str])
    vocabulary: frozenset[str] = frozenset()
    """The words of the tools and their arguments."""
    request: str = ""
    """What the user has said, without what that quotes."""
    given: frozenset[str] = frozenset()
    """The texts in the arguments of all calls."""
    parts: dict[str, dict[str, tuple[Part, ...]]] = field(
        default_factory=dict[str, dict[str, tuple[Part, ...]]]
    )
    """By the name of a result, the parts of its lists that the user's words may mean; none if unclear."""
    words_kept: list[str] = field(default_factory=list[str])
    """The words around data that were taken for the user's."""
    items: int = 0
    """How many items of loops were thought of; those that are used get a name."""

    # ------------------------------------------------------------ names

    def new_name(self, wanted: str) -> str:
        """A name that is free in the plan."""
        base = re.sub(r"\W", "_", wanted).strip("_").lower() or "value"
        if base[0].isdigit() or keyword.iskeyword(base) or hasattr(builtins, base):
            base = f"the_{base}"
        name, number = base, 2
        while name in self.names:
            name, number = f"{base}_{number}", number + 1
        self.names.add(name)
        return name

    def input_for(self, argument: str, value: JSON, why: str) -> str:
        """The input for a value: one that has it already, or a new one named after the argument."""
        for name, known in self.inputs.items():
            if known == value and type(known) is type(value) and self.reasons[name] == why:
                return name
        name = self.new_name(argument)
        self.inputs[name] = value
        self.reasons[name] = why
        return name

    def forget_all_but(self, used: set[str]) -> None:
        """Forget the inputs that nothing uses: a part of a list was thought of, and did not fit."""
        for name in [name for name in self.inputs if name not in used]:
            del self.inputs[name], self.reasons[name]

    def ask_whether(self, condition: str) -> None:
        """Make an input of what a model decided: that the user's condition held in the recorded run."""
        name = self.input_for("condition_holds", True, f"the user said “{condition}”, and a model decided")
        self.lines += [f"    if not {name}:", "        return None"]

    # ------------------------------------------------------------ calls

    def write(self, segment: _Segment) -> None:
        if len(segment.rounds) == 1 and any(map(self.is_for_each, segment.rounds[0])):
            self.write_loop(segment.rounds)
            return
        if len(segment.rounds) == 1:
            for call in segment.rounds[0]:
                written = [f"{name}={self.argument(name, value)}" for name, value in call.args.items()]
                result = self.new_name(_noun(call.tool))
                self.lines.append(f"    {result} = await {call.tool.lower()}({', '.join(written)})")
                asked = frozenset(texts_in(call.args))
                self.known.append(_Known(result, (call.result,), False, asked, _nouns(call)))
            return
        self.write_loop(segment.rounds)

    def is_for_each(self, call: RecordedCall) -> bool:
        """Whether a single call was made for the one item that the user's words select from a list.

        The argument has to be the item's field of that name: else it may be made from all of them.
        """
        chosen = [source for source in self.listed(1) if source.is_sure]
        return bool(chosen) and any(
            not self.has_said(value)
            and explain(name, [value], self.outer(1), self.is_expected) is None
            and (found := explain(name, [value], chosen)) is not None
            and found.code.endswith(f'["{name}"]')
            for name, value in call.args.items()
        )

    def is_expected(self, words: str) -> bool:
        """Whether words that stand around data are the user's, or nothing by themselves."""
        is_said = says_the_same(words, self.said, self.vocabulary)
        if is_said and re.search(r"\w", words):
            self.words_kept.append(words.strip())
        return is_said

    def argument(self, name: str, value: JSON) -> str:
        """The code for an argument of a single call."""
        if isinstance(value, bool) or value is None:
            return repr(value)
        if self.has_said(value):
            return self.input_for(name, value, "the user said it")
        sources = [*self.outer(1), *self.words_in(name, value)]
        found = explain(name, [value], sources, self.is_expected)
        if found is not None:
            return found.code
        if isinstance(value, dict | list) and self.is_partly_known(value):
            return self.built(name, value)
        return self.input_for(name, value, "nothing before it explains it")

    def words_in(self, name: str, value: JSON) -> list[Source]:
        """The words of a text that the user has said exactly so, as inputs: another time they may differ."""
        if not isinstance(value, str):
            return []
        found: list[Source] = []
        words = [*re.finditer(r"\w+", value)]
        place = 0
        while place < len(words):
            start, size = words[place].start(), 1
            while place + size < len(words) and self.has_said(value[start : words[place + size].end()]):
                size += 1
            text = value[start : words[place + size - 1].end()]
            if size > _SENTENCE or (self.has_said(text) and self.is_of_this_time(text)):
                found.append(Source(self.said_input(name if size > 1 else text, text), (text,), _GIVEN))
            place += size
        return found

    def is_of_this_time(self, text: str) -> bool:
        """Whether a text has a word besides those of the tools and those that say nothing."""
        words = re.findall(r"[^\W\d]\w{3,}", text)
        return any(not says_the_same(word, "", self.vocabulary) for word in words)

    def is_partly_known(self, value: JSON) -> bool:
        """Whether something in an object or a list was said or is explained."""
        if isinstance(value, dict):
            return any(
                self.has_said(item)
                or explain(key, [item], self.outer(1)) is not None
                or self.is_partly_known(item)
                for key, item in value.items()
            )
        return isinstance(value, list) and any(map(self.is_partly_known, value))

    def built(self, name: str, value: JSON) -> str:
        """The code of an object or a list, whose members are arguments of their own."""
        if isinstance(value, dict):
            members = (
                f"{json.dumps(key, ensure_ascii=False)}: {self.argument(key, item)}"
                for key, item in value.items()
            )
            return f"{{{', '.join(members)}}}"
        if isinstance(value, list):
            return f"[{', '.join(self.argument(name, item) for item in value)}]"
        return self.argument(name, value)

    def write_loop(self, rounds: tuple[tuple[RecordedCall, ...], ...]) -> None:
        count = len(rounds)
        listed = self.listed(count)
        header: dict[str, tuple[str, str]] = {}
        body: list[str] = []
        within: list[Source] = []
        results: list[tuple[str, str, tuple[JSON, ...]]] = []
        for position, call in enumerate(rounds[0]):
            calls = [round_[position] for round_ in rounds]
            sources = [*within, *listed, *self.outer(count)]
            written: list[str] = []
            for name in call.args:
                values = [one.args[name] for one in calls]
                found = None if self.is_plain(values) else explain(name, values, sources)
                if found is None:
                    found = self.unexplained(name, values)
                for used in found.used:
                    if used.listing:
                        header.setdefault(used.code, (used.listing, ""))
                written.append(f"{name}={found.code}")
            result = self.new_name(_noun(call.tool))
            written = [self.with_names(text, header) for text in written]
            body.append(f"        {result} = await {call.tool.lower()}({', '.join(written)})")
            values = tuple(one.result for one in calls)
            within.append(Source(result, values, _NEAR))
            results.append((result, self.new_name(f"{result}s"), values))
        if not header:  # the same calls each time: their number was decided by nobody we know
            times = self.input_for("times", count, "how often the calls were made")
            header["_round"] = f"range({times})", "_round"
        self.lines += [f"    {every} = []" for _, every, _ in results]
        names = ", ".join(name for _, name in header.values())
        lists = ", ".join(listing for listing, _ in header.values())
        self.lines.append(f"    for {names} in {lists if len(header) == 1 else f'zip({lists})'}:")
        self.lines += body
        self.lines += [f"        {every}.append({result})" for result, every, _ in results]
        self.known += [_Known(every, values, is_list=True) for _, every, values in results]

    def with_names(self, code: str, header: dict[str, tuple[str, str]]) -> str:
        """Code with the names of the items that it uses."""
        for mark, (listing, known) in header.items():
            if mark in code:
                word = "line" if listing.startswith("[") else re.findall(r"[A-Za-z]\w*", listing)[-1]
                name = known or self.new_name(_singular(word))
                header[mark] = listing, name
                code = code.replace(mark, name)
        return code

    def is_plain(self, values: Sequence[JSON]) -> bool:
        """Whether a value is the same in each round and no data: a flag, or what the user said."""
        return all(value == values[0] for value in values) and (
            isinstance(values[0], bool) or values[0] is None or self.has_said(values[0])
        )

    def unexplained(self, name: str, values: Sequence[JSON]) -> Explained:
        """A flag as it is, the same value in each round as an input, different ones as a list of inputs."""
        first = values[0]
        if all(value == first for value in values):
            return Explained(self.argument(name, first), ())
        listing = self.input_for(f"{name}s", [*values], "a model chose them")
        item = self.item_of(listing, tuple(values), _LOOP)
        return Explained(item.code, (item,))

    # ------------------------------------------------------------ sources

    def outer(self, count: int) -> list[Source]:
        """The results before and the inputs so far, which are the same in each of `count` rounds."""
        chosen: list[Source] = []
        results: list[Source] = []
        for age, one in enumerate(reversed(self.known)):
            if one.is_list:
                results.append(Source(one.name, ([*one.values],) * count, _BEFORE + age))
                continue
            value = one.values[0]
            if self.parts_of(one):
                value = without_tables(value)
            for part in chain.from_iterable(self.parts_of(one).values()):
                code, items = part.picked or part.code, [*part.items]
                whole = items[0] if part.picked else items
                chosen.append(Source(code, (whole,) * count, _BEFORE + age))
            results.append(Source(one.name, (value,) * count, _BEFORE + age))
        given = (Source(name, (value,) * count, _GIVEN) for name, value in self.inputs.items())
        return [*chosen, *self.numbers(count), *results, *given]

    def numbers(self, count: int) -> list[Source]:
        """How many items a list has, if the user has asked for that and there is only one list."""
        if not counts(self.said):
            return []
        lists: list[tuple[str, int]] = []
        for one in self.known:
            if one.is_list:
                continue
            parts = self.parts_of(one)
            for code, items in tables_in(one.name, one.values[0]):
                meant = parts.get(code)
                if meant is None:
                    lists.append((code, len(items)))
                else:
                    lists += [(part.code, len(part.items)) for part in meant if not part.picked]
        if len(lists) != 1:
            return []
        code, number = lists[0]
        return [Source(f"len({code})", (number,) * count, _BEFORE, is_sure=True)]

    def parts_of(self, one: _Known) -> dict[str, tuple[Part, ...]]:
        """The parts of its lists that the user's words name, by the code of the list, the likeliest first.

        A text that the calls were made with may be a condition besides, or not: the record tells.
        """
        found = self.parts.get(one.name)
        if found is None:
            found = self.parts[one.name] = {}
            for code, items in tables_in(one.name, one.values[0]):
                read = [
                    part_named(self.request, code, items, asked, self.said_input, one.nouns)
                    for asked in (one.asked, one.asked | self.given)
                ]
                if read[0] is not None:
                    known = (part for part in read if isinstance(part, Part))
                    found[code] = tuple({part.code + part.picked: part for part in known}.values())
        return found

    def said_input(self, name: str, value: JSON) -> str:
        """The input for a value that the user has said of items."""
        return self.input_for(name, value, "the user said it")

    def listed(self, count: int) -> list[Source]:
        """The lists with as many items as there are rounds, those that the user's words name first."""
        chosen: list[Source] = []
        found: list[Source] = []
        for age, one in enumerate(reversed(self.known)):
            rank = _LOOP if one.is_list else _BEFORE + age
            if one.is_list:
                if len(one.values) == count:
                    found.append(self.item_of(one.name, one.values, rank))
                continue
            parts = self.parts_of(one)
            for part in chain.from_iterable(parts.values()):
                if not part.picked and len(part.items) == count:
                    item = self.item_of(part.code, part.items, _LOOP)
                    chosen.append(item._replace(is_sure=True))
            for code, items in lists_in(one.name, one.values[0], count):
                if code not in parts:
                    found.append(self.item_of(code, tuple(items), rank))
        return [*chosen, *found]

    def item_of(self, listing: str, values: tuple[JSON, ...], rank: int) -> Source:
        self.items += 1
        return Source(f"\1{self.items}\1", values, rank, listing)

    def has_said(self, value: JSON) -> bool:
        if value is None or isinstance(value, dict | list | bool):
            return False
        text = str(value)
        return bool(text.strip()) and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.said) is not None


def distilled(calls: Sequence[RecordedCall], said: str, title: str) -> DistilledPlan:
    """The plan of these calls; there is at least one."""
    names = {call.tool.lower() for call in calls} | {"main", "row", "each", "one"}
    words = (re.split(r"\W|_", text.lower()) for call in calls for text in (call.tool, *call.args))
    given = frozenset(chain.from_iterable(texts_in(call.args) for call in calls))
    writer = _Writer(said, names=names, vocabulary=frozenset(chain.from_iterable(words)), given=given)
    writer.request = unquoted(said)
    condition = condition_in(said)
    if condition:
        writer.ask_whether(condition)
    for segment in _segments(calls):
        writer.write(segment)
    answer = writer.known[-1].name
    lines = _without_idle_lists(writer.lines, answer)
    writer.forget_all_but(_names_in(lines))
    given = ", ".join(f"{name}: {_type_of(value)}" for name, value in writer.inputs.items())
    why = "".join(f"    {name}: {reason}\n" for name, reason in writer.reasons.items())
    about = f'    """{title}\n\n{why}    """\n' if why else f'    """{title}"""\n'
    text = f"async def main({given}):\n{about}" + "\n".join([*lines, f"    return {answer}", ""])
    return DistilledPlan(text, writer.inputs, writer.reasons, (*_readings(writer, lines),))


def _names_in(lines: Sequence[str]) -> set[str]:
    """The names that are read in the body of a plan."""
    body = ast.parse("\n".join(["async def main():", *lines]))
    return {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}


def _readings(writer: _Writer, lines: Sequence[str]) -> Iterator[str]:
    """The parts of lists, and the words around data, that a plan has because of the user's words."""
    text = "\n".join(lines)
    for parts in writer.parts.values():
        for part in chain.from_iterable(parts.values()):
            if (code := part.picked or part.code) in text:
                yield f"{code} is what the user's words select, and was so in the run"
    for words in dict.fromkeys(writer.words_kept):
        quoted = json.dumps(words, ensure_ascii=False)
        if words.strip() and quoted[1:-1].strip() in text:
            yield f"the words {quoted} are taken for those of the user, and stay the same"


def _without_idle_lists(lines: Sequence[str], answer: str) -> list[str]:
    """The lines without the lists of results that nothing uses."""
    text = "\n".join(lines)
    idle: set[str] = set()
    for line in lines:
        name = line.strip().removesuffix(" = []")
        if line.endswith(" = []") and name != answer and len(re.findall(rf"\b{name}\b", text)) == 2:
            idle.add(name)
    return [
        line for line in lines if not any(re.match(rf"\s*{name}( = \[\]$|\.append\()", line) for name in idle)
    ]


def _segments(calls: Sequence[RecordedCall]) -> Iterator[_Segment]:
    """The calls in rounds: the longest repetition at each place."""
    place = 0
    while place < len(calls):
        best, size = 1, 1
        for length in range(1, _MOST_IN_ROUND + 1):
            count = _repeats(calls, place, length)
            if count > 1 and count * length > best * size and not _is_chain(calls, place, length, count):
                best, size = count, length
        yield _Segment(
            tuple(tuple(calls[start : start + size]) for start in range(place, place + best * size, size))
        )
        place += best * size


def _repeats(calls: Sequence[RecordedCall], place: int, length: int) -> int:
    """How often the next `length` calls follow each other."""
    shape = _shape(calls[place : place + length])
    count = 1
    while _shape(calls[place + count * length : place + (count + 1) * length]) == shape:
        count += 1
    return count


def _is_chain(calls: Sequence[RecordedCall], place: int, length: int, count: int) -> bool:
    """Whether each of such rounds takes a text from the result of the one before: they are no loop."""
    rounds = [calls[start : start + length] for start in range(place, place + length * count, length)]
    return all(
        {text for call in after for text in texts_in(call.args)}
        & {text for call in before for text in texts_in(call.result)}
        - {text for call in before for text in texts_in(call.args)}
        for before, after in pairwise(rounds)
    )


def _shape(calls: Sequence[RecordedCall]) -> list[tuple[str, tuple[str, ...]]]:
    return [(call.tool, tuple(sorted(call.args))) for call in calls]


def _noun(tool: str) -> str:
    """A name for the result of a tool: what stands after its verb."""
    words = tool.lower().rpartition("__")[2].split("_")
    return "_".join(words[1:]) if len(words) > 1 else f"{words[0]}_result"


def _nouns(call: RecordedCall) -> frozenset[str]:
    """The words for what a call lists: those of its tool after the verb, and the fields with lists."""
    words = call.tool.lower().rpartition("__")[2].split("_")[1:]
    for code, _ in tables_in("", call.result):
        words += re.findall(r"[a-z]+", code.lower())
    return frozenset(form for word in words for form in (word, word.rstrip("s")))


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 2 else f"{word}_item" if word != "line" else word


def _type_of(value: JSON) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "str"
        case list():
            kinds = {_type_of(item) for item in value}
            return f"list[{kinds.pop()}]" if len(kinds) == 1 else "list"
        case _:
            return "dict"
