"""Writes the plan that makes the calls of recorded runs of one job, one or several, from all of them at once.

In: the calls of each run, and the words of its user. Out: a plan whose loops, tests and arguments fit all
runs; where readings are about as likely as each other, it stops if they differ. Or what is not explained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, product
from typing import cast

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.inputs import SAID
from callsheet.authoring.distillation.leaves import Source
from callsheet.authoring.distillation.pages import Pages
from callsheet.authoring.distillation.patterns import Found, Node, Round
from callsheet.authoring.distillation.picking import loops
from callsheet.authoring.distillation.plan_text import (
    CHOSEN,
    JOINED,
    LOOKED,
    STOP,
    WrittenCall,
    call_code,
    noun_of,
    renamed,
    singular,
)
from callsheet.authoring.distillation.readings import joined, looked_up, nouns_of
from callsheet.authoring.distillation.recorded_calls import RecordedCall
from callsheet.authoring.distillation.rounds import (
    args_of,
    by_run,
    follows,
    is_of,
    others_of,
    without_echo,
)
from callsheet.authoring.distillation.rules import in_all, rows_of, rules_for, said_in
from callsheet.authoring.distillation.scopes import Looped, Scope, Term, agreeing, best, rivals_of
from callsheet.authoring.distillation.solving import solve, unlike_before
from callsheet.authoring.distillation.stops import Missed, Stops, plain
from callsheet.ir import JSON
from callsheet.views.python_types import is_name

_ONCE = re.compile(r"\[\*dict\.fromkeys\(.* for each in (.*)\)\]")
_MOST_LISTS, _MOST_TESTS, _FEW = 4, 3, 4


Open = tuple[JSON, tuple[str, ...]]
"""The recorded value of a place, and the readings that are about as likely as each other."""
_State = tuple[
    int,
    dict[str, tuple[RecordedCall, ...]],
    set[str],
    dict[str, Open],
    dict[str, int],
    dict[str, JSON],
    dict[str, str],
    dict[tuple[str, str], tuple[list[JSON], ...]],
]
_INPUT = "an input"
_UNEXPLAINED, _CHOSEN = "nothing before it explains it", "a model chose them"


@dataclass(kw_only=True)
class PlanWriter(Stops):
    """What is written so far of a plan."""

    reads: frozenset[str]
    means_all: bool
    calls: list[WrittenCall] = field(default_factory=list[WrittenCall])
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """The readings that were chosen, by place."""
    open: dict[str, tuple[JSON, tuple[str, ...]]] = field(
        default_factory=dict[str, "tuple[JSON, tuple[str, ...]]"]
    )
    """The recorded value, and the readings that are about as likely as each other, by place."""
    picks: Set[str] = frozenset()
    """The results from whose lists the latest call has an item."""
    places: dict[str, int] = field(default_factory=dict[str, int])
    parted: dict[tuple[str, str], tuple[list[JSON], ...]] = field(
        default_factory=dict[tuple[str, str], "tuple[list[JSON], ...]"]
    )
    """By the tool of a loop and the list of which it takes a part: the items of that."""

    def decided(self, place: str, value: JSON, codes: Sequence[str]) -> tuple[int, bool]:
        """The number of the reading at the next place of this kind, and whether it was chosen."""
        self.places[place] = self.places.get(place, 0) + 1
        place = f"{place}#{self.places[place]}"
        if (chosen := self.choices.get(place)) in codes:
            return codes.index(cast("str", chosen)), True
        if len(codes) > 1:
            self.open[place] = value, (*codes,)
        return 0, False

    def write(self, nodes: Sequence[Node], found: Sequence[Sequence[Found]], scope: Scope) -> list[str]:
        """The lines of all nodes; `found` has what each run did at each node. Raises Missed."""
        lines: list[str] = []
        done = 0
        for number, node in enumerate(nodes):
            each = [one[number] for one in found]
            if number < done:
                continue
            if self.open_condition and node.head[0][0] not in self.reads:
                lines += self.write_condition(scope)
            if node.is_paged:
                lines += self.write_pages(cast("Sequence[Pages]", each), scope)
            elif node.is_loop:
                lines += self.write_loop(node, cast("Sequence[list[Round]]", each), scope)
            else:
                last = number + 1
                while last < len(nodes) and not (nodes[last].is_loop or nodes[last].head[0][0] in self.reads):
                    last += 1
                some = [cast("list[RecordedCall]", one[number:last]) for one in found]
                before = self.picks if number and nodes[number - 1] == node else frozenset[str]()
                more, count = self.write_single(nodes[number:last], some, scope)
                if before & self.picks:  # a loop whose list nothing explains
                    raise Missed(node.head[0][0], "a list")
                lines, done = lines + more, number + count
        return lines

    def write_single(
        self, nodes: Sequence[Node], found: Sequence[Sequence[RecordedCall]], scope: Scope
    ) -> tuple[list[str], int]:
        """The lines of a call that each run made once, and how many of the calls they have.

        If the words name several, it is one for all selected items, with the calls after it that are, too.
        """
        calls = [one[0] for one in found]
        tool = calls[0].tool
        several = frozenset(word for word in scope.words if word.endswith("s") or scope.means_all)
        may_be_more = bool(several) and tool not in self.reads
        options = loops(scope, [[args_of([call])] for call in calls]) if may_be_more else []
        listing = options[0].code.partition(" if ")[0].rpartition(" in ")[2] if options else ""
        if " if " in (options[0].code if options else "") and said_in(f"{noun_of(tool)} {listing}", several):
            least = 2 if said_in(noun_of(tool), several) else 3
            each = [
                all(
                    is_of(one[number], items, least, is_named=scope.readings is not None)
                    or follows(one[number], one[:number])
                    for one, items in zip(found, options[0].items, strict=True)
                )
                for number in range(len(nodes))
            ]
            count = [*each, False].index(False)
            state = self.state()
            for size in range(count, 0, -1):
                node = Node(tuple(chain.from_iterable(one.head for one in nodes[:size])), (), is_loop=True)
                try:
                    return self.write_loop(node, [[Round((*one[:size],), ())] for one in found], scope), size
                except Missed:
                    self.restore(state)
                    state = self.state()
        return self.write_call(calls, scope, "    ")[0], 1

    def write_call(self, calls: Sequence[RecordedCall], scope: Scope, indent: str) -> tuple[list[str], str]:
        """The lines of a call with its values in all examples, and the name of its result."""
        tool, written = calls[0].tool, dict[str, str]()
        if not is_name(tool.lower()):
            raise Missed(f"the call of {tool}, whose name Python cannot write,")
        lines: list[str] = []
        scope.made, scope.derived, scope.is_look = [], {}, tool in self.reads
        self.picks = frozenset()
        goals = {name: [call.args[name] for call in calls] for name in calls[0].args}
        names: dict[str, str] = {}
        found = {name: solve(scope, name, goal) for name, goal in goals.items()}
        if scope.derived:  # a part of a list that one argument shows may be what another counts
            scope.forget()
            found = {name: solve(scope, name, goal) for name, goal in goals.items()}
        for name, goal in goals.items():
            options = found[name] if scope.made == [] else solve(scope, name, goal)
            one, more = self.argument(scope, tool, name, goal, options)
            known = {source.code for source in scope.sources}
            for code, items in one.picked:
                self.picks |= known & {*re.findall(r"\w+", code)}
                if code not in names and not re.fullmatch(r"\w+(\[[^\]]*\])*", code):
                    names[code] = self.inputs.new_name(singular(code.replace("max(", "").replace("min(", "")))
                    lines.append(f"{indent}{names[code]} = {code}")
                    scope.know(Source(names[code], items))
                lines.append(self.marked(names.get(code, code), code, items, indent))
            written[name] = renamed(one.code, names)
            lines += self.stops(more, indent)
            scope.made.append(Term(written[name], tuple(goal), 2.0))
        lines, written = self.with_names(scope, written, lines, indent)
        scope.made, scope.derived = [], {}
        result = self.inputs.new_name(noun_of(tool))
        self.calls.append(WrittenCall(tool, written))
        lines.append(f"{indent}{result} = {call_code(tool, written)}")
        values = tuple(call.result for call in calls)
        self.nouns[result] = nouns_of(calls[0])
        scope.know(Source(result, without_echo(values, calls)), is_receipt=tool not in self.reads)
        if tool in self.reads and not scope.is_round:
            scope.records.add(result)
        if tool in self.reads:
            whole = in_all(guards.is_whole(result, call.args, call.result) for call in calls)
            lines += self.stops(whole, indent)
            lines += self.stops(
                [*guards.not_longer(result, [(one.args, one.result) for one in calls])], indent
            )
            self.looks[result] = (*calls,)
            if scope.readings is not None:
                scope.readings.know(result, calls)
            lines.append(f"{LOOKED}{indent}{result}")
        return lines, result

    def with_names(
        self, scope: Scope, written: dict[str, str], lines: list[str], indent: str
    ) -> tuple[list[str], dict[str, str]]:
        """The lines before a call and its arguments, with names for the parts of lists that are used."""
        for code, looped in scope.derived.items():
            is_used = any(code in plain(one) for one in (*written.values(), *lines))
            if is_used and not re.fullmatch(r"\w+", code):
                short = self.inputs.new_name(f"{singular(code)}s")
                written = {name: renamed(one, {code: short}) for name, one in written.items()}
                lines = [f"{indent}{short} = {code}", *(renamed(line, {code: short}) for line in lines)]
                scope.know(Source(short, cast("tuple[JSON, ...]", looped.items)))
                self.nouns[short] = self.nouns_in(looped.code)
                every = [*chain.from_iterable(looped.items)]
                lines.insert(1, self.marked("each", short, every, indent, [*map(len, looped.items)]))
        return lines, written

    def marked(
        self, code: str, whole: str, items: Sequence[JSON], indent: str, counts: Sequence[int] = ()
    ) -> str:
        """The line that marks where items were chosen, with the code of what they were chosen of."""
        line = f"{CHOSEN}{indent}{CHOSEN}{code}{CHOSEN}{whole}"
        self.chosen[line], self.counts[line] = (*items,), (*(counts or [1] * len(items)),)
        return line

    def argument(
        self, scope: Scope, tool: str, name: str, goal: Sequence[JSON], options: Sequence[Term]
    ) -> tuple[Term, Sequence[str]]:
        """What gives an argument: a reading or an input; and its conditions. Raises Missed."""
        if not options:
            return self.asked(scope, tool, name, goal)
        likely = [options[0], *rivals_of(options)]
        field = re.search(r'\["(\w+)"\]$', options[0].code)
        if field is not None and tool in self.reads and guards.is_more(field[1]):
            raise Missed(tool, name)  # the next page, of how many
        codes = [each.code for each in likely]
        if scope.readings is not None and not scope.only_said and (len(likely) > 1 or likely[0].picked):
            codes.append(_INPUT)  # nothing but the words and the answer decides
        number, is_chosen = self.decided(f"{tool}.{name}", goal[0], codes)
        if number == len(likely):
            return Term(self.inputs.input_for(name, goal[0], _UNEXPLAINED), (*goal,), 0), ()
        one = likely[number]
        return one, [*one.conditions, *(agreeing(options) if not is_chosen else ())]

    def asked(self, scope: Scope, tool: str, name: str, goal: Sequence[JSON]) -> tuple[Term, Sequence[str]]:
        """What nothing explains as an input, or the part of it that nothing explains. Raises Missed."""
        first = goal[0]
        if not self.may_ask or any(value != first for value in goal):
            raise Missed(tool, name)
        members = [*first.items()] if isinstance(first, dict) else []
        members += [(name, item) for item in first] if isinstance(first, list) else []
        found = [best(solve(scope, key, [item] * len(goal))) for key, item in members]
        if not any(found):
            return Term(self.inputs.input_for(name, first, _UNEXPLAINED), (*goal,), 0), ()
        every = [
            (one, one.conditions) if one is not None else self.asked(scope, tool, key, [item] * len(goal))
            for one, (key, item) in zip(found, members, strict=True)
        ]
        codes = [one.code for one, _ in every]
        if isinstance(first, dict):
            codes = [f"{json.dumps(key)}: {code}" for key, code in zip(first, codes, strict=True)]
        whole = f"{{{', '.join(codes)}}}" if isinstance(first, dict) else f"[{', '.join(codes)}]"
        return Term(whole, (*goal,), 0), [*chain.from_iterable(conditions for _, conditions in every)]

    def write_pages(self, pages: Sequence[Pages], scope: Scope) -> list[str]:
        """The lines that ask for a listing page by page."""
        lines, answer = self.write_call([one.calls[0] for one in pages], scope, "    ")
        one, paging, written = pages[0], pages[0].paging, self.calls[-1].arguments
        ends = re.compile(rf"    assert .*\b{answer}\b")  # that there is no more, as in a single page
        lines = [line for line in lines if not (line.startswith(LOOKED) or ends.match(line))]
        every = self.inputs.new_name(f"all_{answer}")
        number = self.inputs.new_name(paging.argument)
        lines.append(f"    {every} = [*{paging.listing_code(answer)}]")
        may_lack = any(each.may_lack for each in pages)
        following, step = paging.cursor_code(answer), list[str]()
        if paging.step == "pages":
            lines.append(f"    {number} = {written.get(paging.argument, paging.first)}")
            following, step = number, [f"        {number} += 1"]
        elif paging.step == "items":
            following = f"len({every})"
        again = call_code(one.calls[0].tool, {**written, paging.argument: following})
        lines += [
            f"    while {paging.more_code(answer, every, number, may_lack=may_lack)}:",
            *step,
            f"        {answer} = {again}",
            f"        {every} += {paging.listing_code(answer)}",
        ]
        del scope.sources[0]
        scope.know(Source(every, tuple([*each.items] for each in pages)))
        self.nouns[every] = self.nouns[answer]
        self.listed[every] = tuple([*each.items] for each in pages)
        lines.append(f"{LOOKED}    {every}")
        if scope.readings is not None:
            scope.readings.know(every, one.calls)
        return lines

    # ------------------------------------------------------------ loops

    def write_loop(self, node: Node, found: Sequence[list[Round]], scope: Scope) -> list[str]:
        """The lines of a loop: over the first of the likely lists with which its calls are explained."""
        groups = [[args_of(one.head) for one in rounds] for rounds in found]
        is_read = scope.is_look = all(shape[0] in self.reads for shape in node.head)
        options = loops(scope, groups, may_end=is_read and not node.tail)
        codes = [*dict.fromkeys(one.code for one in options)]
        if codes:
            number, is_chosen = self.decided("loop", None, [codes[0], *others_of(options[0], options)])
            if is_chosen:
                codes = [[codes[0], *others_of(options[0], options)][number]]
                options = [one for one in options if one.code == codes[0]]
        missed: Missed | None = None
        for code in codes[:_MOST_LISTS]:
            one = next(each for each in options if each.code == code)
            state = self.state()
            try:
                part = self.part_of(node, one, scope)
                lines = self.write_rounds(node, found, scope, one, options)
                self.parted |= {part: one.items} if part else {}
                self.picks = (
                    {*self.looks, *self.listed} & {*re.findall(r"\w+", one.code)} if part else self.picks
                )
                return lines
            except Missed as error:
                missed = missed or error
                self.restore(state)
        if len({*map(len, found)}) == 1 and len(found[0]) <= _FEW and not node.tail:
            state = self.state()
            scope.may_pick = False  # one by one, from a list that has more, is chance
            try:
                return self.write_out(node, found, scope)
            except Missed as error:
                missed = missed or error
                self.restore(state)
            finally:
                scope.may_pick = True
        if not self.may_ask or not groups[0]:
            raise missed or Missed(node.head[0][0], "a list")
        one = self.asked_list(groups[0])
        return self.write_rounds(node, found, scope, one, [one])

    def write_out(self, node: Node, found: Sequence[list[Round]], scope: Scope) -> list[str]:
        """The lines of rounds without a loop."""
        asks, self.may_ask = self.may_ask, False
        lines: list[str] = []
        picks = [frozenset[str]()] * len(node.head)
        try:
            for number, place in product(range(len(found[0])), range(len(node.head))):
                lines += self.write_call([each[number].head[place] for each in found], scope, "    ")[0]
                if picks[place] & self.picks:  # a loop whose list nothing explains
                    raise Missed(node.head[place][0], "a list")
                picks[place] |= self.picks
            return lines
        finally:
            self.may_ask = asks

    def asked_list(self, rounds: Sequence[dict[str, JSON]]) -> Looped:
        """An input for what a model chose: the arguments that differ by round."""
        names = [name for name in rounds[0] if any(one[name] != rounds[0][name] for one in rounds)]
        short = {name: name.partition(".")[2] for name in names or [*rounds[0]]}
        items: list[JSON] = (
            [one[name] for one in rounds for name in short]
            if len(short) == 1
            else [{short[name]: one[name] for name in short} for one in rounds]
        )
        name = self.inputs.input_for(f"{next(iter(short.values()))}s", items, _CHOSEN)
        return Looped(name, (items,), 1.0)

    def state(self) -> _State:
        """What is undone if a list does not fit."""
        return (
            len(self.calls),
            {**self.looks},
            {*self.inputs.names},
            {**self.open},
            {**self.places},
            {**self.inputs.values},
            {**self.inputs.reasons},
            {**self.parted},
        )

    def restore(self, state: _State) -> None:
        """Undo what was written since."""
        del self.calls[state[0] :]
        _, self.looks, names, self.open, self.places, values, reasons, self.parted = state
        said = {name for name, reason in self.inputs.reasons.items() if reason == SAID}
        self.inputs.names = names | said
        self.inputs.values = values | {name: self.inputs.values[name] for name in said}
        self.inputs.reasons = reasons | dict.fromkeys(said, SAID)

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
            else self.inputs.new_name(f"{singular(looped.code)}s")
        )
        lines = self.stops([*scope.conditions_in(looped.code), *looped.conditions], "    ")
        lines += [f"    {chosen} = {looped.code}"] if chosen != looped.code else []
        lines += self.stops([f"{chosen} == {other}" for other in others_of(looped, options)], "    ")
        name = self.inputs.new_name(singular(chosen))
        inner = scope.repeated(counts, [Source(name, items)])
        inner.gone_through = looped.code if max(counts, default=0) < 2 else ""
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
        if (once := _ONCE.match(looped.code)) and any(
            f" in {once[1]} if " in line for line in [*body, *tail]
        ):
            raise Missed(node.head[0][0], "a list")  # of the items themselves, each in its place
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
        lines += self.unlike_items(chosen, name, looped, body + tail)
        if looped.is_prefix:
            return lines + self.write_search(node, found, scope, (name, chosen, looped), body, names)
        every = ""
        for result, place in zip(names, range(len(node.head)), strict=True):
            every = self.inputs.new_name(f"{result}s")
            body.append(f"        {every}.append({result})")
            lists[every] = tuple([one.head[place].result for one in rounds_of] for rounds_of in found)
            if scope.readings is not None and result in self.looks:
                scope.readings.know(every, self.looks[result])
        lines += [f"    {one} = []" for one in lists]
        self.nouns |= dict.fromkeys((chosen, name), self.nouns_in(looped.code))
        is_read = all(shape[0] in self.reads for shape in (*node.head, *node.tail))
        mark = self.marked(name, looped.code, items, " " * 8, counts) if not is_read else ""
        lines += [f"    for {name} in {chosen}:", *([mark] if mark else ()), *body, *tail]
        for one, each in lists.items():
            scope.know(Source(one, cast("tuple[JSON, ...]", each)))
        if names and not node.tail and names[-1] in self.looks:
            lines += self.know_joined(chosen, looped, found, every, scope)
        if chosen != looped.code:
            scope.know(Source(chosen, cast("tuple[JSON, ...]", looped.items)))
        return lines

    def part_of(self, node: Node, looped: Looped, scope: Scope) -> tuple[str, str] | None:
        """What a loop does with a part of which list, if it changes something.

        Raises Missed if another loop did the same with another part, and the list has both in this order:
        they may be one loop.
        """
        of = re.match(r"\[each for each in (.+?) if ", looped.code)
        tool = node.head[0][0]
        if of is None or tool in self.reads:
            return None
        tables = next((one.values for one in scope.every_list if one.code == of[1]), None)
        before = self.parted.get((tool, of[1]))
        if before is not None and (
            tables is None
            or all(
                [one for one in cast("list[JSON]", table) if one in [*first, *then]] == [*first, *then]
                for table, first, then in zip(tables, before, looped.items, strict=True)
            )
        ):
            raise Missed(tool, "the order of two loops over one list")
        return tool, of[1]

    def know_joined(
        self, listing: str, looked: Looped, found: Sequence[list[Round]], every: str, scope: Scope
    ) -> list[str]:
        """The line that joins items with what was looked up for them; of one run, if words choose by both."""
        rounds = [*chain.from_iterable(found)]
        noun = noun_of(rounds[0].head[-1].tool) if rounds else ""
        if scope.readings is None:
            each = [
                looked_up(listing, items, noun, every, [one.head[-1] for one in of_run])
                for items, of_run in zip(looked.items, found, strict=True)
            ]
            known = [one for one in each if one is not None]
            if not rounds or len(known) < len(each):
                return []
            short = self.inputs.new_name("joined")
            scope.joins |= {short}
            scope.know(Source(short, tuple(rows for _, rows in known)))
            self.nouns[short] = self.nouns_in(listing)
            return [f"{JOINED}    {short} = {known[0][0]}"]
        made = joined(listing, looked.items[0], every, [one.head for one in rounds])
        if made is None:
            return []
        code, rows = made
        short = self.inputs.new_name("joined")
        scope.readings.know(short, [one.head[-1] for one in rounds])
        if not scope.readings.parts(short, [rows]):
            return []
        scope.know(Source(short, (rows,)))
        return [f"{JOINED}    {short} = {code}"]

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
        lines = [f"    for {name} in {chosen}:", *(line for line in body if not line.startswith(LOOKED))]
        lines += self.stops(conditions, " " * 8)
        lines += [f"        if {test}:", "            break", "    else:"]
        lines.append(f'        assert False, "nothing fits, and {STOP}"')
        for place, result in enumerate(names):
            scope.know(Source(result, tuple(each[-1].head[place].result for each in found)))
        scope.know(Source(name, tuple(each[-1] for each in looped.items)))
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
        rows, at_hand = rows_of(every), scope.at_hand([1] * len(rounds))
        found = rules_for(rows, wanted, at_hand, scope.words, only_said=scope.readings is not None)
        if not found:  # "the others" are those that are not as the words say
            others = rules_for(rows, [not one for one in wanted], at_hand, scope.words, only_said=True)
            found = [one._replace(code=f"not ({one.code})") for one in others]
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
            lists[taken] = by_run(items, times, counts)
            inner, indent = scope.repeated(times, []), " " * 12
        else:
            test, end, indent = "", [], " " * 12
            options = loops(scope, [[args_of(tail) for tail in one.tails] for one in rounds])
            if not options:
                raise Missed(node.tail[0][0], "a list")
            one = options[0]
            listing = self.inputs.new_name(f"{singular(one.code)}s")
            lines = [f"        {listing} = {one.code}"]
            lines += self.stops(
                [f"{listing} == {other.code}" for other in options[1:3] if other.cost < one.cost + 0.6],
                " " * 8,
            )
            part = self.inputs.new_name(singular(listing))
            lines.append(f"        for {part} in {listing}:")
            inner = scope.repeated(times, [Source(part, tuple(chain.from_iterable(one.items)))])
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
