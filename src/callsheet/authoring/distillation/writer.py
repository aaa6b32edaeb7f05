"""Writes recorded calls as lines of a Python plan: loops for what repeats, expressions for what was copied,
inputs for what nothing explains, and conditions where the record leaves open what to do.

In: segments of recorded calls, in order, and the words of the user. Out: the lines, and the inputs with which
they make the recorded calls again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.arguments import Arguments
from callsheet.authoring.distillation.conditions import Result, condition_of
from callsheet.authoring.distillation.explanations import explain
from callsheet.authoring.distillation.figures import is_number
from callsheet.authoring.distillation.leaves import Explained, Source
from callsheet.authoring.distillation.pages import Pages
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in
from callsheet.authoring.distillation.rounds import Segment
from callsheet.authoring.distillation.searches import search_in
from callsheet.authoring.distillation.sources import BEFORE, NEAR, Known, nouns_of
from callsheet.ir import JSON

_EACH = frozenset(("each", "every"))
STOP = "the recorded run does not show what to do without this"
"""What a plan says where it stops, and the condition, if that is not long."""
_LONG = 60
_MESSAGE = f', "{STOP}'
_QUOTE, _TICK = '"', "'"


@dataclass
class _Loop:
    """The lines of a loop so far: its lists with the names of their items, and what it knows in a round."""

    header: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    before: list[str] = field(default_factory=list[str])
    body: list[str] = field(default_factory=list[str])
    within: list[Source] = field(default_factory=list[Source])
    names: list[str] = field(default_factory=list[str])
    results: list[Known] = field(default_factory=list[Known])
    written: str = ""
    """The arguments of the latest call."""
    looked: list[Source] = field(default_factory=list[Source])
    """The items of its lists."""


class WrittenCall(NamedTuple):
    """A call of the plan: its tool, and the code of its arguments."""

    tool: str
    arguments: Mapping[str, str]


class _Look(NamedTuple):
    """The results of a call in all rounds of a loop, and where its line stands."""

    values: tuple[JSON, ...]
    indent: str


@dataclass
class Writer(Arguments):
    """What is written so far, and what is known at this place of the plan."""

    lines: list[str] = field(default_factory=list[str])
    reads: frozenset[str] = frozenset()
    """The tools that change nothing."""
    changed: frozenset[str] = frozenset()
    """The texts in the arguments of calls that changed something."""
    open_condition: str = ""
    """The word of the user's condition, as long as nothing is written for it."""
    decided: str = ""
    """The code of the user's condition."""
    parts_used: list[str] = field(default_factory=list[str])
    """The code of the parts that the plan uses."""
    looks: dict[str, _Look] = field(default_factory=dict[str, _Look])
    """The results of calls in loops that only read."""
    calls: list[WrittenCall] = field(default_factory=list[WrittenCall])
    """The calls that are written."""

    # ------------------------------------------------------------ conditions

    def stop_unless(self, conditions: Sequence[str], indent: str = "    ") -> list[str]:
        """The lines that stop the plan where one of the conditions does not hold."""
        lines: list[str] = []
        for condition in dict.fromkeys(conditions):
            told = f": {condition.replace(_QUOTE, _TICK)}" if len(condition) < _LONG else ""
            lines.append(f"{indent}assert {condition}, {json.dumps(STOP + told)}")
        return lines

    def write_condition(self) -> None:
        """Write the user's condition, before something is changed; one that is not understood stays open."""
        results = [
            Result(one.name, one.values[0], one.nouns, one.asked)
            for one in self.sources.known
            if not one.is_list
        ]
        found = condition_of(self.inputs.request, self.open_condition, results, self.inputs.said_input)
        if found is None:
            self.close_condition()
            return
        code, *others = [each.code for each in found]
        self.lines += self.stop_unless([f"({code}) == ({other})" for other in others])
        self.lines += [f"    if not ({code}):", "        return None"]
        self.open_condition, self.decided = "", " ".join(each.code for each in found)
        if len(found) == 1 and found[0].figure:
            self.sources.figures.append(Source(found[0].figure, (found[0].value,), BEFORE, is_sure=True))

    def close_condition(self) -> None:
        """Make an input of what a model decided: that the user's condition held in the recorded run."""
        if not self.open_condition:
            return
        why = f"the user said “{self.open_condition}”, and a model decided"
        name = self.inputs.input_for("condition_holds", True, why)
        self.lines = [f"    if not {name}:", "        return None", *self.lines]
        self.open_condition = ""

    def guarded_lines(self) -> list[str]:
        """The lines, with those in the places of marks that stop the plan where its results are unlike."""
        kept = (line for line in self.lines if not line.startswith("\3") and STOP not in line)
        text = "\n".join(kept)
        joined = {line: line[1:].split()[0] for line in self.lines if line.startswith("\4")}
        used = {line for line, name in joined.items() if len(re.findall(rf"\b{name}\b", text)) > 1}
        self.lines = [line.lstrip("\4") for line in self.lines if line not in joined or line in used]
        found: list[str] = []
        by_name = {one.name: one for one in self.sources.known}
        for line in self.lines:
            name = line[1:]
            if line.startswith("\3") and name in self.looks:
                found += self.unlike_look(name, self.looks[name], text)
            elif line.startswith("\3"):
                found += self.stop_unless(self.unlike(by_name[name], text))
            else:
                found.append(line)
        asserted = [line for line in found if line.startswith("    assert ")]
        again = {line for line in asserted if asserted.count(line) > 1}
        for line in again:
            first = found.index(line) + 1
            found = [*found[:first], *(each for each in found[first:] if each != line)]
        return self.with_parts_named(found)

    def with_parts_named(self, lines: list[str]) -> list[str]:
        """The lines with a name for each part of a list that they use several times."""
        parts = [
            *chain.from_iterable(chain.from_iterable(each.values()) for each in self.sources.parts.values())
        ]
        codes = {part.picked: "picked" for part in parts if part.picked}
        codes |= {part.code: "chosen" for part in parts if part.code.startswith(("[each", "sorted("))}
        text = "\n".join(lines)
        self.parts_used = [code for code in {part.picked or part.code: 0 for part in parts} if code in text]
        for code, name in sorted(codes.items(), key=lambda one: -len(one[0])):
            uses = [place for place, line in enumerate(lines) if code in line.partition(_MESSAGE)[0]]
            if sum(lines[place].partition(_MESSAGE)[0].count(code) for place in uses) > 1:
                top = next(place for place in range(uses[0], -1, -1) if lines[place][4] != " ")
                short = self.inputs.new_name(name)
                ticked = code.replace(_QUOTE, _TICK)
                named = [line.replace(code, short).replace(ticked, short) for line in lines[top:]]
                lines = [*lines[:top], f"    {short} = {code}", *named]
        return lines

    def unlike_look(self, name: str, look: _Look, text: str) -> list[str]:
        """The lines that stop a round whose result is unlike all others, if nothing else uses it."""
        rest = re.sub(rf"\b{name} = await |\.append\({name}\)", "", text)
        if re.search(rf"(?<![\w\"]){name}\b", rest) or not self.changed:
            return []
        texts = {given: value for given, value in self.inputs.values.items() if isinstance(value, str)}
        each = [[*guards.of_look(name, value, texts)] for value in look.values]
        always = [one for one in each[0] if all(one in others for others in each)]
        return self.stop_unless(always, look.indent)

    def unlike(self, one: Known, text: str) -> list[str]:
        """The conditions on the result of a call; more of them if nothing else uses it, or it was changed."""
        value, words = one.values[0], {*re.findall(r"\w+", text)}
        uses = re.findall(rf"(?<![\w\"]){one.name}\b(?!\s*=)(\[\W(\w+)\W\])?", text)
        fields = (
            {key for key, item in value.items() if str(item) in one.asked} if isinstance(value, dict) else ()
        )
        is_used = any(
            not use[1] or use[1] not in fields for use in uses
        )  # what repeats the question tells nothing
        if not self.changed:
            return []
        is_changed = bool(one.asked & self.changed)
        conditions = [*guards.same_state(one.name, value, flags_only=is_used and not is_changed)]
        if not is_used:
            used = {name: given for name, given in self.inputs.values.items() if name in words}
            texts = {name: given for name, given in used.items() if isinstance(given, str)}
            conditions = [*guards.of_look(one.name, value, texts)]
            numbers = {name: given for name, given in used.items() if is_number(given)}
            conditions += guards.same_order(one.name, value, numbers)
        at = re.compile(rf"(?:not |len\()*({one.name}\[[^ )]+)")
        is_met = text + self.decided
        return [each for each in conditions if (code := at.match(each)) is None or code[1] not in is_met]

    # ------------------------------------------------------------ calls

    def write(self, segment: Segment) -> None:
        """Write the calls of a segment."""
        calls = [*chain.from_iterable(segment.rounds)]
        if self.open_condition and any(call.tool not in self.reads for call in calls):
            self.write_condition()
        if segment.pages is not None:
            self.write_pages(segment.pages)
            return
        if self.write_search(segment):
            return
        if self.is_written_out(segment):
            for call in calls:
                self.write_call(call)
            return
        self.write_loop(segment)

    def is_written_out(self, segment: Segment) -> bool:
        """Whether each call is written for itself, and no loop."""
        is_one = len(segment.rounds) == 1
        is_each = is_one and any(map(self.is_for_each, segment.rounds[0]))
        return is_one and not is_each

    def write_call(self, call: RecordedCall) -> None:
        """Write a call that is made once, and what a result unlike the recorded one leaves open."""
        result, _ = self.write_once(call)
        is_read = call.tool in self.reads
        asked = frozenset(texts_in(call.args))
        self.sources.known.append(Known(result, (call.result,), False, asked, nouns_of(call), is_read))
        if is_read:
            self.lines += self.stop_unless([*guards.is_whole(result, call.args, call.result)])
            self.lines.append(f"\3{result}")

    def write_once(self, call: RecordedCall) -> tuple[str, dict[str, str]]:
        """Write the line of a call; the name of its result, and the code of its arguments."""
        written: dict[str, str] = {}
        conditions: list[str] = []
        for name, value in call.args.items():
            found = self.value(name, [value], self.sources.outer(1), is_read=call.tool in self.reads)
            if call.tool not in self.reads and self.is_as_before(found.code, call, name):
                why = "it is what was there before"
                found = Explained(self.inputs.input_for(name, value, why), ())
            conditions += _conditions(found)
            written[name] = found.code
        result = self.inputs.new_name(_noun(call.tool))
        self.calls.append(WrittenCall(call.tool, written))
        self.lines += self.stop_unless(conditions)
        self.lines.append(f"    {result} = await {_written(call.tool, written)}")
        return result, written

    def write_pages(self, pages: Pages) -> None:
        """Write a listing that is asked for page by page, and know all its items."""
        first = pages.calls[0]
        answer, written = self.write_once(first)
        every = self.inputs.new_name(f"all_{_noun(first.tool)}")
        more, following, listing = (
            re.sub(r"\bit\b", answer, code) for code in (pages.more, pages.next_page, pages.listing)
        )
        self.lines.append(f"    {every} = [*{listing}]")
        step: list[str] = []
        if not following:
            following = self.inputs.new_name(pages.argument)
            self.lines.append(f"    {following} = {written[pages.argument]}")
            step = [f"        {following} += 1"]
        call = _written(first.tool, {**written, pages.argument: following})
        self.lines += [
            f"    while {more}:",
            *step,
            f"        {answer} = await {call}",
            f"        {every} += {listing}",
        ]
        asked = frozenset(texts_in(first.args))
        self.sources.known.append(Known(every, (*pages.items,), True, asked, nouns_of(first), is_read=True))

    def write_search(self, segment: Segment) -> bool:
        """Write calls that search a list for one that fits, and those for it; False if they are no search."""
        until_last = not any(segment.times()[:-1])
        looks = Segment(tuple(one[: segment.head] for one in segment.rounds), segment.head)
        is_read = all(call.tool in self.reads for call in chain.from_iterable(looks.rounds))
        search = search_in(looks, self.sources) if until_last and is_read else None
        if search is None:
            return False
        rounds, item = looks.rounds, search.item
        loop = _Loop(header={item.code: (item.listing, "")})
        self.with_names(item.code, loop.header)
        columns = [[one[position] for one in rounds] for position in range(segment.head)]
        sources = [item, *self.sources.outer(len(rounds))]
        self.write_round(loop, columns, sources, " " * 8, has_tail=True, collects=False)
        self.lines += self.stop_unless(loop.before)
        result = loop.names[-1]
        first, *others = (re.sub(r"\bit\b", result, test) for test in search.tests)
        agreed = self.stop_unless([f"({first}) == ({other})" for other in others], " " * 8)
        name = loop.header[item.code][1]
        self.lines += [f"    for {name} in {item.listing}:", *loop.body, *agreed]
        self.lines += [f"        if {first}:", "            break", "    else:"]
        self.lines.append(f'        assert False, "nothing fits, and {STOP}"')
        self.sources.known.append(Known(name, item.values[-1:], is_list=False))
        for each, column in zip(loop.names, columns, strict=True):
            asked = frozenset(texts_in(column[-1].args))
            self.sources.known.append(
                Known(each, (column[-1].result,), False, asked, nouns_of(column[-1]), True)
            )
        rest = segment.rounds[-1][segment.head :]
        if rest:
            self.write(Segment((rest,), len(rest)))
        return True

    def is_as_before(self, code: str, call: RecordedCall, name: str) -> bool:
        """Whether a call writes back what was read from the same place, which shows nothing."""
        others = {text for other, value in call.args.items() if other != name for text in texts_in(value)}
        return any(
            re.fullmatch(rf"{one.name}(\[[^\]]+\])*", code) and others and others <= one.asked
            for one in self.sources.known
            if one.is_read and not one.is_list
        )

    def is_for_each(self, call: RecordedCall) -> bool:
        """Whether a single call was made for the one item that the user's words select from a list.

        The argument has to be the item's field of that name: else it may be made from all of them.
        """
        chosen = [source for source in self.sources.listed(1) if source.is_sure]
        is_each = bool(_EACH & {*re.findall(r"\w+", self.inputs.request.lower())})
        return bool(chosen) and any(
            not self.inputs.has_said(value)
            and (
                (outer := explain(name, [value], self.sources.outer(1), self.inputs.is_expected)) is None
                or outer.is_only
            )
            and (found := explain(name, [value], chosen, self.inputs.is_expected)) is not None
            and (_is_named_after(name, found.code) or is_each)
            for name, value in call.args.items()
        )

    def write_loop(self, segment: Segment) -> None:
        """Write calls that are made in each round of a loop."""
        rounds, count = segment.rounds, len(segment.rounds)
        known = self.sources.tail_of(segment, ["it"] * segment.head) if segment.tail else None
        is_tested = (known is not None and not known[1]) or all(
            call.tool in self.reads for call in chain.from_iterable(rounds)
        )
        sources = [*self.sources.listed(count, is_tested=is_tested), *self.sources.outer(count)]
        loop = _Loop()
        columns = [[one[position] for one in rounds] for position in range(segment.head)]
        self.write_round(loop, columns, sources, " " * 8, has_tail=segment.tail > 0)
        tail = self.sources.tail_of(segment, loop.names) if segment.tail else None
        if tail is not None:
            code, items = tail
            times = segment.times()
            within = [_repeated(source, times) for source in (*loop.within, *sources)]
            columns = [
                [one[at] for one in rounds for at in range(segment.head + position, len(one), segment.tail)]
                for position in range(segment.tail)
            ]
            line = f"if {code}:"
            if items:
                name = self.inputs.new_name(
                    _singular(re.findall(r"[A-Za-z]\w*", code)[-1] if code[0] != "[" else "item")
                )
                within.insert(0, Source(name, tuple(items), NEAR))
                line = f"for {name} in {code}:"
            loop.body.append(" " * 8 + line)
            loop.within.clear()
            self.write_round(loop, columns, within, " " * 12, has_tail=False)
        header = loop.header
        if not header:  # the same calls each time: their number was decided by nobody we know
            times_input = self.inputs.input_for("times", count, "how often the calls were made")
            header["_round"] = f"range({times_input})", "_round"
        first, *others = (listing for listing, _ in header.values())
        self.lines += self.stop_unless([*loop.before, *(f"len({first}) == len({other})" for other in others)])
        self.lines += [f"    {each.name} = []" for each in loop.results]
        names = ", ".join(name for _, name in header.values())
        lists = f"zip({', '.join((first, *others))})" if others else first
        self.lines.append(f"    for {names} in {lists}:")
        self.lines += loop.body
        self.sources.known += loop.results
        if not segment.tail:
            self.know_joined(loop, columns)

    def know_joined(self, loop: _Loop, columns: Sequence[Sequence[RecordedCall]]) -> None:
        """Know the items of a list together with what was looked up for them, if the words choose by that."""
        mark = next(iter(loop.header))
        listing, last = loop.header[mark][0], loop.results[-1]
        items = next((source.values for source in loop.looked if source.code == mark), ())
        looked = [one for one in last.values if isinstance(one, dict)]
        if len(loop.header) > 1 or not last.is_read or not len(items) == len(looked) == len(last.values):
            return
        tables = [item for item in items if isinstance(item, dict)]
        item = "**a"
        if len(tables) < len(items):
            args = columns[0][0].args
            key = next((key for key in args if tuple(call.args[key] for call in columns[0]) == items), None)
            if key is None:
                return
            item, tables = f"{json.dumps(key)}: a", [{key: one} for one in items]
        if any(
            a.get(name, value) != value
            for a, b in zip(tables, looked, strict=True)
            for name, value in b.items()
        ):
            return  # which of the two the words mean, nobody has said
        rows: list[JSON] = [{**a, **b} for a, b in zip(tables, looked, strict=True)]
        code = f"[{{{item}, **b}} for a, b in zip({listing}, {last.name})]"
        name = self.inputs.new_name("joined")
        base = next((one for one in self.sources.known if one.name == listing.partition("[")[0]), last)
        joined = Known(name, tuple(rows), True, nouns=last.nouns | base.nouns, is_read=True)
        if any(self.sources.parts_of(joined).values()):
            self.lines.append(f"\4    {name} = {code}")
            self.sources.known.append(joined)

    def write_round(
        self,
        loop: _Loop,
        columns: Sequence[Sequence[RecordedCall]],
        sources: Sequence[Source],
        indent: str,
        *,
        has_tail: bool,
        collects: bool = True,
    ) -> None:
        """Write the calls of a round, each given as it was made in all rounds; `collects` their results."""
        for position, calls in enumerate(columns):
            call, is_read = calls[0], calls[0].tool in self.reads
            written: dict[str, str] = {}
            conditions: list[str] = []
            for name in call.args:
                known = [*loop.within, *sources]
                found = self.value(name, [one.args[name] for one in calls], known, is_read=is_read)
                for used in found.used:
                    if used.listing:
                        loop.header.setdefault(used.code, (used.listing, ""))
                        loop.looked.append(used)
                        loop.before += used.conditions
                    else:
                        conditions += used.conditions
                conditions += found.conditions
                written[name] = found.code
            result = self.inputs.new_name(_noun(call.tool))
            written = {name: self.with_names(code, loop.header) for name, code in written.items()}
            for condition in conditions:
                code = self.with_names(condition, loop.header)
                if code != condition or any(re.search(rf"\b{name}\b", code) for name in loop.names):
                    loop.body += self.stop_unless([code], indent)
                else:
                    loop.before.append(code)
            self.calls.append(WrittenCall(call.tool, written))
            loop.written = " ".join(written.values())
            loop.names.append(result)
            loop.body.append(f"{indent}{result} = await {_written(call.tool, written)}")
            values = tuple(one.result for one in calls)
            if is_read:
                is_tested = has_tail and position == len(columns) - 1
                unlike = self.unlike_rounds(result, values, call, is_tested=is_tested)
                loop.body += self.stop_unless(unlike, indent)
                loop.body.append(f"\3{result}")
                self.looks[result] = _Look(values, indent)
                loop.within += self.sources.of_rounds(result, values, calls)
            else:
                loop.before += self.unlike_items(loop, calls, columns)
                loop.within.append(Source(result, values, NEAR))
            if collects:
                every = self.inputs.new_name(f"{result}s")
                loop.body.append(f"{indent}{every}.append({result})")
                loop.results.append(Known(every, values, is_list=True, nouns=nouns_of(call), is_read=is_read))

    def unlike_items(
        self, loop: _Loop, calls: Sequence[RecordedCall], columns: Sequence[Sequence[RecordedCall]]
    ) -> list[str]:
        """The conditions that no call is made twice, if it never was, and nothing in it tells items apart."""
        args = [json.dumps(call.args, sort_keys=True) for call in calls]
        if len({*args}) < len(args) or len(calls) < len(columns[0]):
            return []
        found: list[str] = []
        for mark, (listing, item) in loop.header.items():
            fields = {*re.findall(rf"\b{item}((?:\[[^\]]+\])+)", loop.written)} if item else set[str]()
            field = fields.pop() if len(fields) == 1 else ""
            is_name = guards.is_name(field) or field.strip('[]"') in listing
            items = next((source.values for source in loop.looked if source.code == mark), ())
            if field and not is_name and guards.are_apart(items, field):
                found.append(f"len({{each{field} for each in {listing}}}) == len({listing})")
        return found if len(found) == len(loop.header) == 1 else []

    def unlike_rounds(
        self, result: str, values: tuple[JSON, ...], call: RecordedCall, *, is_tested: bool
    ) -> list[str]:
        """The conditions on the result of a call in a loop."""
        conditions = [*guards.is_whole(result, call.args, values[0])]
        if not is_tested and not self.inputs.means_all():
            conditions += (
                code.removeprefix("all(")
                .removesuffix(f" for each in {result})")
                .replace("each[", f"{result}[")
                for code in guards.alike(result, [*values])
            )
        return conditions

    def with_names(self, code: str, header: dict[str, tuple[str, str]]) -> str:
        """Code with the names of the items that it uses."""
        for mark, (listing, known) in header.items():
            if mark in code:
                plain = re.sub(r"\[[^\]]*:[^\]]*\]$", "", listing)
                word = "line" if plain[0] == "[" or "(" in plain else re.findall(r"[A-Za-z]\w*", plain)[-1]
                name = known or self.inputs.new_name(_singular(word))
                header[mark] = listing, name
                code = code.replace(mark, name)
        return code


def _is_named_after(argument: str, code: str) -> bool:
    """Whether an argument has the name of the field that its code ends with, or that after a word."""
    field = re.search(r'\["(\w+)"\]$', code)
    return field is not None and (argument == field[1] or argument.endswith(f"_{field[1]}"))


def _repeated(source: Source, times: Sequence[int]) -> Source:
    """A source in the rounds of inner loops."""
    values = zip(source.values, times, strict=True)
    return source._replace(values=tuple(chain.from_iterable((value,) * count for value, count in values)))


def _conditions(found: Explained) -> list[str]:
    return [*chain.from_iterable(source.conditions for source in found.used), *found.conditions]


def _written(tool: str, arguments: Mapping[str, str]) -> str:
    """A call as it is written, with the code of its arguments."""
    return f"{tool.lower()}({', '.join(f'{name}={code}' for name, code in arguments.items())})"


def _noun(tool: str) -> str:
    """A name for the result of a tool: what stands after its verb."""
    words = tool.lower().rpartition("__")[2].split("_")
    return "_".join(words[1:]) if len(words) > 1 else f"{words[0]}_result"


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 2 else f"{word}_item" if word != "line" else word
