"""Writes the plan that makes the calls of several recorded runs of one job, from all of them at once.

In: the calls of each run, and the words of its user. Out: a plan whose loops, tests and arguments fit all
runs; where readings are about as likely as each other, it stops if they differ. Or what is not explained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import cast

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.conditions import Condition, Result, condition_of
from callsheet.authoring.distillation.figures import is_number
from callsheet.authoring.distillation.inputs import Inputs
from callsheet.authoring.distillation.leaves import Source
from callsheet.authoring.distillation.pages import Pages
from callsheet.authoring.distillation.patterns import Found, Node, Round
from callsheet.authoring.distillation.picking import loops, related
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in
from callsheet.authoring.distillation.rules import in_all, rows_of, rules_for, said_in
from callsheet.authoring.distillation.scopes import Looped, Scope, Term, agreeing, rivals_of
from callsheet.authoring.distillation.solving import solve, unlike_before
from callsheet.authoring.distillation.sources import nouns_of
from callsheet.authoring.distillation.writer import STOP, WrittenCall
from callsheet.ir import JSON

_MOST_LISTS, _MOST_TESTS, _FEW = 4, 3, 4


class Missed(Exception):
    """What no term explains: the tool and the argument, or what else was not found."""


Open = tuple[JSON, tuple[str, ...]]
"""The recorded value of a place, and the readings that are about as likely as each other."""
_State = tuple[
    int,
    dict[str, tuple[RecordedCall, ...]],
    set[str],
    dict[str, Open],
    dict[str, int],
]


@dataclass
class JointWriter:
    """What is written so far of a plan of several runs."""

    inputs: Inputs
    reads: frozenset[str]
    means_all: bool
    calls: list[WrittenCall] = field(default_factory=list[WrittenCall])
    looks: dict[str, tuple[RecordedCall, ...]] = field(default_factory=dict[str, "tuple[RecordedCall, ...]"])
    changed: frozenset[str] = frozenset()
    """The texts in the arguments of calls that change something."""
    open_condition: str = ""
    """The word of the user's condition, as long as nothing is written for it."""
    requests: list[str] = field(default_factory=list[str])
    given: dict[str, list[JSON]] = field(default_factory=dict[str, "list[JSON]"])
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """The readings that were chosen, by place."""
    open: dict[str, tuple[JSON, tuple[str, ...]]] = field(
        default_factory=dict[str, "tuple[JSON, tuple[str, ...]]"]
    )
    """The recorded value, and the readings that are about as likely as each other, by place."""
    places: dict[str, int] = field(default_factory=dict[str, int])

    def decided(self, place: str, value: JSON, codes: Sequence[str]) -> tuple[int, bool]:
        """The number of the reading at the next place of this kind, and whether it was chosen."""
        self.places[place] = self.places.get(place, 0) + 1
        place = f"{place}#{self.places[place]}"
        if (chosen := self.choices.get(place)) in codes:
            return codes.index(cast("str", chosen)), True
        if len(codes) > 1:
            self.open[place] = value, (*codes,)
        return 0, False

    def stops(self, conditions: Sequence[str], indent: str) -> list[str]:
        """The lines that stop the plan where a condition does not hold."""
        return [
            f"{indent}assert {one}, {json.dumps(STOP + (': ' + _ticked(one) if len(one) < 160 else ''))}"
            for one in dict.fromkeys(conditions)
        ]

    def write(self, nodes: Sequence[Node], found: Sequence[Sequence[Found]], scope: Scope) -> list[str]:
        """The lines of all nodes; `found` has what each run did at each node. Raises Missed."""
        lines: list[str] = []
        for number, node in enumerate(nodes):
            each = [one[number] for one in found]
            if self.open_condition and node.head[0][0] not in self.reads:
                lines += self.write_condition(scope)
            if node.is_paged:
                lines += self.write_pages(cast("Sequence[Pages]", each), scope)
            elif node.is_loop:
                lines += self.write_loop(node, cast("Sequence[list[Round]]", each), scope)
            else:
                lines += self.write_single(node, cast("Sequence[RecordedCall]", each), scope)
        return lines

    def write_condition(self, scope: Scope) -> list[str]:
        """The lines of what the user has made all else depend on. Raises Missed."""
        known = [one for one in reversed(scope.sources) if one.code in self.looks]
        each: list[dict[str, Condition]] = []
        for run, request in enumerate(self.requests):
            results = [
                Result(one.code, one.values[run], nouns_of(call), frozenset(texts_in(call.args)))
                for one in known
                for call in [self.looks[one.code][run]]
            ]
            found = condition_of(request, self.open_condition, results, partial(self.named_in, run))
            each.append({one.code: one for one in found or ()})
        code, *others = [one for one in each[0] if all(one in found for found in each)] or [""]
        if not code:
            raise Missed("a condition", self.open_condition)
        self.open_condition = ""
        figures = [found[code] for found in each]
        if not others and figures[0].figure:
            scope.know(Source(figures[0].figure, tuple(one.value for one in figures), 0))
        return [
            *self.stops([f"({code}) == ({other})" for other in others], "    "),
            f"    if not ({code}):",
            "        return None",
        ]

    def named_in(self, run: int, name: str, value: JSON) -> str:
        """The input that has a value in a run."""
        return next(
            (
                one
                for one, values in self.given.items()
                if values[run] == value and type(values[run]) is type(value)
            ),
            name,
        )

    def write_single(self, node: Node, calls: Sequence[RecordedCall], scope: Scope) -> list[str]:
        """The lines of a call that each run made once: for all selected items, if the words name several."""
        if calls[0].tool not in self.reads:
            options = loops(scope, [[_args([call])] for call in calls])
            several = frozenset(word for word in scope.words if word.endswith("s"))
            nouns = (
                f"{_noun(calls[0].tool)} {options[0].code.partition(' if ')[0].rpartition(' in ')[2]}"
                if options
                else ""
            )
            least = 2 if said_in(_noun(calls[0].tool), several) else 3
            is_each = options and all(
                any(
                    related(value, part) >= least
                    for value in call.args.values()
                    for row in rows_of(items)
                    for part in row.values()
                )
                for call, items in zip(calls, options[0].items, strict=True)
            )
            if is_each and " if " in options[0].code and said_in(nouns, several):
                state = self.state()
                try:
                    return self.write_loop(node, [[Round((call,), ())] for call in calls], scope)
                except Missed:
                    self.restore(state)
        return self.write_call(calls, scope, "    ")[0]

    def write_call(self, calls: Sequence[RecordedCall], scope: Scope, indent: str) -> tuple[list[str], str]:
        """The lines of a call with its values in all examples, and the name of its result."""
        tool, written = calls[0].tool, dict[str, str]()
        lines: list[str] = []
        scope.made, scope.derived = [], {}
        goals = {name: [call.args[name] for call in calls] for name in calls[0].args}
        found = {name: solve(scope, name, goal) for name, goal in goals.items()}
        if scope.derived:  # a part of a list that one argument shows may be what another counts
            scope.forget()
            found = {name: solve(scope, name, goal) for name, goal in goals.items()}
        for name, goal in goals.items():
            options = found[name] if scope.made == [] else solve(scope, name, goal)
            if not options:
                raise Missed(tool, name)
            likely = [options[0], *rivals_of(options)]
            number, is_chosen = self.decided(f"{tool}.{name}", goal[0], [each.code for each in likely])
            one = likely[number]
            more = [*one.conditions, *(agreeing(options) if not is_chosen else ())]
            names: dict[str, str] = {}
            for code, items in one.picked:
                if code not in names and not re.fullmatch(r"\w+(\[[^\]]*\])*", code):
                    names[code] = self.inputs.new_name(
                        _singular(code.replace("max(", "").replace("min(", ""))
                    )
                    lines.append(f"{indent}{names[code]} = {code}")
                    scope.know(Source(names[code], items, 0))
            written[name] = _renamed(one.code, names)
            lines += self.stops(more, indent)
            scope.made.append(Term(written[name], tuple(goal), 2.0))
        for code, looped in scope.derived.items():
            is_used = any(code in _plain(one) for one in (*written.values(), *lines))
            if is_used and not re.fullmatch(r"\w+", code):
                short = self.inputs.new_name(f"{_singular(code)}s")
                written = {name: _renamed(one, {code: short}) for name, one in written.items()}
                lines = [f"{indent}{short} = {code}", *(_renamed(line, {code: short}) for line in lines)]
                scope.know(Source(short, cast("tuple[JSON, ...]", looped.items), 0))
        scope.made, scope.derived = [], {}
        result = self.inputs.new_name(_noun(tool))
        self.calls.append(WrittenCall(tool, written))
        given = ", ".join(f"{name}={code}" for name, code in written.items())
        lines.append(f"{indent}{result} = await {tool.lower()}({given})")
        values = tuple(call.result for call in calls)
        scope.know(Source(result, _without_echo(values, calls), 0), is_receipt=tool not in self.reads)
        if tool in self.reads:
            whole = in_all(guards.is_whole(result, call.args, call.result) for call in calls)
            lines += self.stops(whole, indent)
            self.looks[result] = (*calls,)
            lines.append(f"\3{indent}{result}")
        return lines, result

    def write_pages(self, pages: Sequence[Pages], scope: Scope) -> list[str]:
        """The lines that ask for a listing page by page."""
        if len({one[1:] for one in pages}) > 1:
            raise Missed("pages")
        lines, answer = self.write_call([one.calls[0] for one in pages], scope, "    ")
        one, written = pages[0], self.calls[-1].arguments
        lines = [line for line in lines if not line.startswith(("\3", "    assert not "))]
        every = self.inputs.new_name(f"all_{answer}")
        more, following, listing = (
            re.sub(r"\bit\b", answer, code) for code in (one.more, one.next_page, one.listing)
        )
        lines.append(f"    {every} = [*{listing}]")
        step: list[str] = []
        if not following:
            following = self.inputs.new_name(one.argument)
            lines.append(f"    {following} = {written[one.argument]}")
            step = [f"        {following} += 1"]
        given = ", ".join(f"{name}={code}" for name, code in {**written, one.argument: following}.items())
        lines += [
            f"    while {more}:",
            *step,
            f"        {answer} = await {one.calls[0].tool.lower()}({given})",
        ]
        lines.append(f"        {every} += {listing}")
        del scope.sources[0]
        scope.know(Source(every, tuple([*each.items] for each in pages), 0))
        return lines

    # ------------------------------------------------------------ loops

    def write_loop(self, node: Node, found: Sequence[list[Round]], scope: Scope) -> list[str]:
        """The lines of a loop: over the first of the likely lists with which its calls are explained."""
        groups = [[_args(one.head) for one in rounds] for rounds in found]
        is_read = all(shape[0] in self.reads for shape in node.head)
        options = loops(scope, groups, may_end=is_read and not node.tail)
        codes = [*dict.fromkeys(one.code for one in options)]
        if codes:
            number, is_chosen = self.decided("loop", None, [codes[0], *_others(options[0], options)])
            if is_chosen:
                codes = [[codes[0], *_others(options[0], options)][number]]
                options = [one for one in options if one.code == codes[0]]
        missed: Missed | None = None
        for code in codes[:_MOST_LISTS]:
            one = next(each for each in options if each.code == code)
            state = self.state()
            try:
                return self.write_rounds(node, found, scope, one, options)
            except Missed as error:
                missed = missed or error
                self.restore(state)
        if len({*map(len, found)}) == 1 and len(found[0]) <= _FEW and not node.tail:
            lines: list[str] = []
            for number in range(len(found[0])):
                for place in range(len(node.head)):
                    lines += self.write_call([rounds[number].head[place] for rounds in found], scope, "    ")[
                        0
                    ]
            return lines
        raise missed or Missed(node.head[0][0], "a list")

    def state(self) -> _State:
        """What is undone if a list does not fit."""
        return len(self.calls), {**self.looks}, {*self.inputs.names}, {**self.open}, {**self.places}

    def restore(self, state: _State) -> None:
        """Undo what was written since."""
        del self.calls[state[0] :]
        _, self.looks, self.inputs.names, self.open, self.places = state

    def write_rounds(
        self,
        node: Node,
        found: Sequence[list[Round]],
        scope: Scope,
        looped: Looped,
        options: Sequence[Looped],
    ) -> list[str]:
        """The lines of a loop over a list."""
        items = tuple(chain.from_iterable(looped.items))
        rounds = [*chain.from_iterable(found)]
        counts = [*map(len, found)]
        chosen = (
            looped.code
            if re.fullmatch(r"\w+", looped.code)
            else self.inputs.new_name(f"{_singular(looped.code)}s")
        )
        lines = self.stops(scope.conditions_in(looped.code), "    ")
        lines += [f"    {chosen} = {looped.code}"] if chosen != looped.code else []
        lines += self.stops([f"{chosen} == {other}" for other in _others(looped, options)], "    ")
        name = self.inputs.new_name(_singular(chosen))
        inner = scope.repeated(counts, [Source(name, items, 0)])
        body: list[str] = []
        names: list[str] = []
        for place in range(len(node.head)):
            more, result = self.write_call([one.head[place] for one in rounds], inner, " " * 8)
            body += more
            names.append(result)
        tail: list[str] = []
        lists: dict[str, tuple[list[JSON], ...]] = {}
        test = ""
        if node.tail and not looped.is_prefix:
            tail, lists, test = self.write_tail(node, rounds, counts, inner, name, names, items)
        asked = looped.code + test
        for place, result in enumerate(names):
            values: list[JSON] = [one.head[place].result for one in rounds]
            states = guards.alike(result, values) if result in self.looks and not self.means_all else ()
            codes = (one.removeprefix("all(").removesuffix(f" for each in {result})") for one in states)
            met = re.findall(r"\w+\[\"\w+\"\]", test)
            alike = [one.replace("each[", f"{result}[") for one in codes]
            body += self.stops([one for one in alike if not any(code in one for code in met)], " " * 8)
        if not looped.is_prefix:
            lines += self.stops(unlike_before(scope, chosen, items, asked), "    ")
        lines += self.unlike_items(chosen, name, looped, found, body + tail)
        if looped.is_prefix:
            return lines + self.write_search(node, found, scope, (name, chosen, looped), body, names)
        for result, place in zip(names, range(len(node.head)), strict=True):
            every = self.inputs.new_name(f"{result}s")
            body.append(f"        {every}.append({result})")
            lists[every] = tuple([one.head[place].result for one in rounds_of] for rounds_of in found)
        lines += [f"    {one} = []" for one in lists]
        lines += [f"    for {name} in {chosen}:", *body, *tail]
        for one, each in lists.items():
            scope.know(Source(one, cast("tuple[JSON, ...]", each), 0))
        if chosen != looped.code:
            scope.know(Source(chosen, cast("tuple[JSON, ...]", looped.items), 0))
        return lines

    def unlike_items(
        self, chosen: str, name: str, looped: Looped, found: Sequence[list[Round]], body: Sequence[str]
    ) -> list[str]:
        """The stop where two items would lead to the same call, if they never did, and it names no item."""
        written = " ".join(line for line in body if "await" in line)
        fields = {*re.findall(rf"\b{name}((?:\[[^\]]+\])+)", written)}
        only = fields.pop() if len(fields) == 1 else ""
        if not only or guards.is_name(only) or not all(guards.are_apart(one, only) for one in looped.items):
            return []
        return self.stops([f"len({{each{only} for each in {chosen}}}) == len({chosen})"], "    ")

    def write_search(
        self,
        node: Node,
        found: Sequence[list[Round]],
        scope: Scope,
        over: tuple[str, str, Looped],
        body: list[str],
        names: list[str],
    ) -> list[str]:
        """The lines of a loop that ends with the first item that fits, and what is done with that."""
        name, chosen, looped = over
        rounds = [*chain.from_iterable(found)]
        last = [n == len(each) - 1 for each in found for n in range(len(each))]
        if not all(found) or all(last):
            raise Missed(node.head[0][0], "the end")
        test, conditions = self.test(
            rounds,
            last,
            scope.repeated([*map(len, found)], []),
            name,
            names,
            [*chain.from_iterable(looped.items)],
        )
        lines = [f"    for {name} in {chosen}:", *(line for line in body if not line.startswith("\3"))]
        lines += self.stops(conditions, " " * 8)
        lines += [f"        if {test}:", "            break", "    else:"]
        lines.append(f'        assert False, "nothing fits, and {STOP}"')
        for place, result in enumerate(names):
            scope.know(Source(result, tuple(each[-1].head[place].result for each in found), 0))
        scope.know(Source(name, tuple(each[-1] for each in looped.items), 0))
        return lines

    def test(
        self,
        rounds: Sequence[Round],
        wanted: Sequence[bool],
        scope: Scope,
        name: str,
        names: Sequence[str],
        items: Sequence[JSON],
    ) -> tuple[str, list[str]]:
        """What is asked of an item and its results, and that others ask the same."""
        every = [
            cast(
                "JSON",
                {name: item, **{each: call.result for each, call in zip(names, one.head, strict=True)}},
            )
            for item, one in zip(items, rounds, strict=True)
        ]
        found = rules_for(rows_of(every), wanted, scope.at_hand([1] * len(rounds)), scope.words)
        if not found:
            raise Missed(rounds[0].head[0].tool, "a test")
        codes = [
            re.sub(r'\beach\["(\w+)"\]', r"\1", one.code) for one in found if one.cost < found[0].cost + 0.6
        ]
        number, is_chosen = self.decided("test", None, codes[:_MOST_TESTS])
        others = codes[1:_MOST_TESTS] if not is_chosen else ()
        code = codes[number]
        return code, [*scope.conditions_in(code), *(f"bool({code}) == bool({other})" for other in others)]

    def write_tail(
        self,
        node: Node,
        rounds: Sequence[Round],
        counts: Sequence[int],
        scope: Scope,
        name: str,
        names: Sequence[str],
        items: Sequence[JSON],
    ) -> tuple[list[str], dict[str, tuple[list[JSON], ...]], str]:
        """The lines of what some rounds do, the lists of what they did it with, and the test."""
        times = [len(one.tails) for one in rounds]
        lists: dict[str, tuple[list[JSON], ...]] = {}
        results: list[list[JSON]] = []
        if {*times} <= {0, 1}:
            test, conditions = self.test(rounds, [bool(n) for n in times], scope, name, names, items)
            lines = [*self.stops(conditions, " " * 8), f"        if {test}:"]
            taken = self.inputs.new_name(f"taken_{name}s")
            end = [f"            {taken}.append({name})"]
            lists[taken] = _by_run(items, times, counts)
            inner, indent = scope.repeated(times, []), " " * 12
        else:
            test, end, indent = "", [], " " * 12
            options = loops(scope, [[_args(tail) for tail in one.tails] for one in rounds])
            if not options:
                raise Missed(node.tail[0][0], "a list")
            one = options[0]
            listing = self.inputs.new_name(f"{_singular(one.code)}s")
            lines = [f"        {listing} = {one.code}"]
            lines += self.stops(
                [f"{listing} == {other.code}" for other in options[1:3] if other.cost < one.cost + 0.6],
                " " * 8,
            )
            part = self.inputs.new_name(_singular(listing))
            lines.append(f"        for {part} in {listing}:")
            inner = scope.repeated(times, [Source(part, tuple(chain.from_iterable(one.items)), 0)])
        tails = [tail for one in rounds for tail in one.tails]
        for place in range(len(node.tail)):
            more, result = self.write_call([tail[place] for tail in tails], inner, indent)
            every = self.inputs.new_name(f"{result}s")
            lines += [*more, f"{indent}{every}.append({result})"]
            results = [[tail[place].result for tail in one.tails] for one in rounds]
            flat, at = list[list[JSON]](), 0
            for count in counts:
                flat.append([*chain.from_iterable(results[at : at + count])])
                at += count
            lists[every] = tuple(flat)
        return [*lines, *end], lists, test

    def guarded(self, lines: Sequence[str]) -> list[str]:
        """The lines, with stops where what was looked up is in a state in which it never was."""
        text = "\n".join(line for line in lines if not line.startswith("\3") and " assert " not in line)
        found: list[str] = []
        for line in lines:
            if not line.startswith("\3"):
                found.append(line)
                continue
            name, indent = line.strip("\3 "), line[1:].partition(line.strip("\3 "))[0]
            calls = self.looks[name]
            conditions = in_all(self.unlike(name, call, text) for call in calls)
            met = {*re.findall(rf"\b{name}((?:\[[^\]]+\])+)", text)}
            found += self.stops(
                [one for one in conditions if not any(f"{name}{field}" in one for field in met)], indent
            )
        return found

    def unlike(self, name: str, call: RecordedCall, text: str) -> Iterator[str]:
        """The conditions on a result; more of them if nothing else uses it, or it was changed."""
        value, asked = call.result, {*texts_in(call.args)}
        uses = re.findall(rf"(?<![\w\"]){name}\b(?!\s*=)(?!\))", text)
        if not self.changed:
            return
        yield from guards.same_state(name, value, flags_only=bool(uses) and not asked & self.changed)
        for one in guards.same_state(name, value):
            state = one.partition(' == "')[2].removesuffix('"')
            if state and any(re.search(rf"\b{state}\b", text) for text in self.changed):
                yield one  # what was written down says it
        if not uses:
            words = {*re.findall(r"\w+", text)}
            used = {one: given for one, given in self.inputs.values.items() if one in words}
            yield from guards.of_look(
                name, value, {one: given for one, given in used.items() if isinstance(given, str)}
            )
            yield from guards.same_words(name, value)
            yield from guards.same_order(
                name, value, {one: given for one, given in used.items() if is_number(given)}
            )


def _without_echo(values: tuple[JSON, ...], calls: Sequence[RecordedCall]) -> tuple[JSON, ...]:
    """Results without the fields that only repeat what was asked."""
    tables = [value for value in values if isinstance(value, dict)]
    if len(tables) < len(values):
        return values
    pairs = [*zip(tables, calls, strict=True)]
    echo = {name for name in tables[0] if all(_repeats(name, one, call) for one, call in pairs)}
    return tuple({name: item for name, item in one.items() if name not in echo} for one in tables)


def _repeats(name: str, result: Mapping[str, JSON], call: RecordedCall) -> bool:
    value = result.get(name)
    return not isinstance(value, dict | list | bool | None) and value in call.args.values()


def _others(looped: Looped, options: Sequence[Looped]) -> list[str]:
    """The lists with the same items that are about as likely as one."""
    if looped.is_prefix:
        return []
    likely = [one for one in options if not one.is_prefix and one.cost < looped.cost + 0.6]
    return [
        *dict.fromkeys(one.code for one in likely if one.items == looped.items and one.code != looped.code)
    ][:2]


def _ticked(code: str) -> str:
    return code.replace('"', "'")


def _plain(code: str) -> str:
    return code.replace("'", '"')


def _renamed(code: str, names: Mapping[str, str]) -> str:
    """Code with names for some of its parts, also within f-strings, where quotes are others."""
    for part, name in names.items():
        for form in (part, part.replace('"', "'")):
            code = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", name, code)
    return code


def _args(calls: Sequence[RecordedCall]) -> dict[str, JSON]:
    return {f"{place}.{name}": value for place, call in enumerate(calls) for name, value in call.args.items()}


def _by_run(items: Sequence[JSON], times: Sequence[int], counts: Sequence[int]) -> tuple[list[JSON], ...]:
    found, at = list[list[JSON]](), 0
    for count in counts:
        found.append(
            [item for item, n in zip(items[at : at + count], times[at : at + count], strict=True) if n]
        )
        at += count
    return tuple(found)


def _noun(tool: str) -> str:
    words = tool.lower().rpartition("__")[2].split("_")
    return "_".join(words[1:]) if len(words) > 1 else f"{words[0]}_result"


def _singular(code: str) -> str:
    plain = re.sub(
        r"\b(?:for|in|if|each|one|item|sorted|key|lambda|and|not|dict|fromkeys)\b|\"[^\"]*\"(?!\])", " ", code
    )
    words = re.findall(r"[A-Za-z]\w*", plain) or ["item"]
    word = words[0]
    return word[:-1] if word.endswith("s") and len(word) > 2 else f"{word}_item"
