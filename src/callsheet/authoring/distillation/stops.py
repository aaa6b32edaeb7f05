"""Where a distilled plan stops: what the runs do not show what to do with.

In: the results that were looked up, and the lines of the plan. Out: the conditions without which it stops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, product
from typing import Any, cast

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.choices import ORDERS, is_unclear
from callsheet.authoring.distillation.conditions import Condition, Result, condition_of
from callsheet.authoring.distillation.inputs import SAID, Inputs
from callsheet.authoring.distillation.item_tests import NOT, denied_bounds, words_in, words_of_field
from callsheet.authoring.distillation.leaves import Source, is_number
from callsheet.authoring.distillation.lists import tables_in
from callsheet.authoring.distillation.outliers import (
    ORDERED,
    Reference,
    days_in,
    outside,
    present,
    restricting,
    same_as,
)
from callsheet.authoring.distillation.plan_text import CHOSEN, JOINED, LOOKED, STOP
from callsheet.authoring.distillation.readings import nouns_of
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in
from callsheet.authoring.distillation.rules import in_all
from callsheet.authoring.distillation.scopes import Looped, Scope
from callsheet.authoring.distillation.wording import (
    NUMBER_WORDS,
    QUANTIFIERS,
    SMALL_WORDS,
    is_kin,
    restrictions,
    word_set,
)
from callsheet.ir import JSON

_OF_ITEMS = ("if", "unless", "when")
"""The words of conditions that each item may meet or not."""
_EACH = word_set("them they it their its")
_HOW_MANY = re.compile(r"\b(?:there|all|any|none|no|nothing|more|less|fewer|least|most|some|\d+)\b")
_OF_CODE = word_set("each one row item all any key min max for in if not")
"""The words that code has by itself."""


class Missed(Exception):
    """What no term explains: the tool and the argument, or what else was not found."""


@dataclass(kw_only=True)
class Stops:
    """The inputs, the calls by the names of the results that were looked up, and what is changed."""

    inputs: Inputs
    looks: dict[str, tuple[RecordedCall, ...]] = field(default_factory=dict[str, "tuple[RecordedCall, ...]"])
    nouns: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By the names of results, the words for what they list."""
    chosen: dict[str, tuple[JSON, ...]] = field(default_factory=dict[str, "tuple[JSON, ...]"])
    """The items that were picked or gone through, by their code."""
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    """How many of them each example has, by the same."""
    listed: dict[str, tuple[JSON, ...]] = field(default_factory=dict[str, "tuple[JSON, ...]"])
    """The items of listings of several pages, by their names."""
    changed: frozenset[str] = frozenset()
    """The texts in the arguments of calls that change something."""
    unguarded: dict[str, None] = field(default_factory=dict[str, None])
    """The words that may restrict what the plan uses, of which the fields of its items show nothing."""
    may_ask: bool = False
    """Whether what nothing explains is an input."""
    open_condition: str = ""
    """The word of the user's condition, as long as nothing is written for it."""
    requests: list[str] = field(default_factory=list[str])
    given: dict[str, list[JSON]] = field(default_factory=dict[str, "list[JSON]"])

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
            return self.ask_condition() if self.may_ask else []
        self.open_condition = ""
        figures = [found[code] for found in each]
        if not others and figures[0].figure:
            scope.know(Source(figures[0].figure, tuple(one.value for one in figures)))
        return [
            *self.stops([f"({code}) == ({other})" for other in others], "    "),
            f"    if not ({code}):",
            "        return None",
        ]

    def is_tested(self, lines: Sequence[str]) -> bool:
        """Whether the user's condition is about each of several things, and a plan tests them for that."""
        clause = re.search(rf"\b{self.open_condition}\b([^,;.]*)", self.inputs.request.lower())
        words = re.findall(r"\w+", clause[1]) if clause is not None else []
        if self.open_condition not in _OF_ITEMS or not _EACH & {*words} or _HOW_MANY.search(" ".join(words)):
            return False
        words = [word for word in words if word not in SMALL_WORDS | QUANTIFIERS]
        tests = " ".join(line.partition(" if ")[2] for line in lines if " assert " not in line)
        fields = chain.from_iterable(map(words_of_field, re.findall(r"\[[\"'](\w+)[\"']\]", tests)))
        return any(is_kin(word, field) for field in fields for word in words)

    def ask_condition(self) -> list[str]:
        """The lines that ask for what a model decided: that the user's condition held. Raises Missed."""
        if not self.may_ask:
            raise Missed("a condition", self.open_condition)
        why = f"the user said “{self.open_condition}”, and a model decided"
        name = self.inputs.input_for("condition_holds", True, why)
        self.open_condition = ""
        return [f"    if not {name}:", "        return None"]

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

    def stops(self, conditions: Sequence[str], indent: str) -> list[str]:
        """The lines that stop the plan where a condition does not hold."""
        return [
            f"{indent}assert {one}, {json.dumps(STOP + (': ' + _ticked(one) if len(one) < 160 else ''))}"
            for one in dict.fromkeys(conditions)
        ]

    def unlike_items(self, chosen: str, name: str, looped: Looped, body: Sequence[str]) -> list[str]:
        """The stop where two items would lead to the same call, if they never did, and it names no item."""
        written = " ".join(line for line in body if "await" in line)
        fields = {*re.findall(rf"\b{name}((?:\[[^\]]+\])+)", written)}
        only = fields.pop() if len(fields) == 1 else ""
        if self.means_each(looped.code):
            return []
        if not only or guards.is_name(only) or not all(guards.are_apart(one, only) for one in looped.items):
            return []
        return self.stops([f"len({{each{only} for each in {chosen}}}) == len({chosen})"], "    ")

    def nouns_in(self, code: str) -> frozenset[str]:
        """The words for what the lists in some code list."""
        return frozenset[str]().union(*(self.nouns.get(name, ()) for name in re.findall(r"\w+", code)))

    def unmet(self, code: str, text: str) -> list[str]:
        """The words that restrict what a list has, of which nothing is in the plan."""
        nouns = self.nouns_in(code)
        written = {word.lower() for word in re.findall(r"[^\W\d_]+", text)} - _OF_CODE
        data = self.words_of({*re.findall(r"\w+", text)})
        if denied_bounds(self.inputs.request) & data:
            data |= NOT  # the comparison is the reverse
        return [
            word
            for word in restrictions(self.inputs.request, nouns)
            if word not in ORDERS | ORDERED | data | nouns and not any(is_kin(word, one) for one in written)
        ]

    def words_of(self, names: Set[str]) -> set[str]:
        """The words in the values of some inputs."""
        values = (str(value).lower() for name, value in self.inputs.values.items() if name in names)
        return {word for value in values for word in re.findall(r"[\w'-]+", value)}

    def not_understood(self, unclear: Iterable[str], text: str) -> str:
        """A word that restricts a list, if nothing in a plan is as it says; "" if there is none."""
        used = [code for code in unclear if code in plain(text)]
        missing = [word for code in used for word in self.unmet(code, text)]
        vague = is_unclear(words_in(self.inputs.request)) if used else ()
        return next((word for word in (*missing, *vague)), "")

    def read_in(self, unclear: Iterable[str], text: str) -> Iterator[str]:
        """What a plan takes of lists because a rule with the user's words fits the run."""
        for line in self.chosen:
            whole = line.rpartition(CHOSEN)[2]
            if whole in plain(text) and any(re.search(rf"{re.escape(one)}(?!\w)", whole) for one in unclear):
                yield f"{whole} is what the user's words select, and was so in the run"

    def means_each(self, code: str) -> bool:
        """Whether the user asks for something of each item of a list, by the word for it."""
        each = re.findall(r"\b(?:each|every)((?: [\w'-]+){1,4})", self.inputs.request.lower())
        named = {word for words in each for word in words.split()}
        return any(word in named for word in self.nouns_in(code))

    def guarded(self, lines: Sequence[str]) -> list[str]:
        """The lines, with stops where what was looked up is in a state in which it never was."""
        lines = [*self.as_chosen(lines)]
        text = "\n".join(line for line in lines if not line.startswith(LOOKED) and " assert " not in line)
        joined = {line: line[1:].split()[0] for line in lines if line.startswith(JOINED)}
        idle = {line for line, name in joined.items() if len(re.findall(rf"\b{name}\b", text)) < 2}
        lines = [line.lstrip(JOINED) for line in lines if line not in idle]
        found: list[str] = []
        for line in lines:
            if not line.startswith(LOOKED):
                found += [line] if not _is_said_before(line, found) else []
                continue
            name = line[1:].strip()
            indent = line[1:].removesuffix(name)
            if name in self.listed:
                found += self.stops([*self.outliers(name, text, "\n".join(found), is_round=False)], indent)
                continue
            calls = self.looks[name]
            conditions = in_all(self.unlike(name, call, text) for call in calls)
            met = {*re.findall(rf"\b{name}((?:\[[^\]]+\])+)", plain(text))}
            conditions = [one for one in conditions if not any(f"{name}{field}" in one for field in met)]
            outliers = self.outliers(name, text, "\n".join(found), is_round=len(indent) > 4)
            idle = self.idle_items(name, text)
            more = self.stops([*conditions, *self.apart(name, text), *idle, *outliers], indent)
            found += [line for line in more if not _is_said_before(line, found)]
        return found

    def as_chosen(self, lines: Sequence[str]) -> Iterator[str]:
        """The lines, with stops where an item is not as the chosen ones, if words are not understood."""
        text = "\n".join(line for line in lines if " assert " not in line and not line.startswith(LOOKED))
        depths: dict[str, int] = {}
        for line in lines:
            if not line.startswith(CHOSEN):
                depth = len(line) - len(line.lstrip(" "))
                if depth:  # after a loop, the results in it are those of its last round
                    depths = {name: at for name, at in depths.items() if at <= depth}
                depths |= dict.fromkeys(re.findall(r"^ *(\w+) = await", line), depth)
                yield line
                continue
            known = depths.keys()
            indent, code, whole = line[1:].split(CHOSEN)
            if code == "each":
                asks = self.of_items(
                    code, whole, self.chosen[line], self.counts[line], text, self.looks.keys() & known
                )
                yield from self.stops([f"all({one} for each in {whole})" for one in asks], indent)
                continue
            if self.unmet(whole, text):
                asks = guards.same_item(code, self.chosen[line], self.inputs.request)
                yield from self.stops([self.as_said(one) for one in asks], indent)
            before = self.looks.keys() & known
            counts = self.counts[line]
            for name in sorted(one for one in before if not _is_used(one, text)):
                results = [call.result for call in self.looks[name]]
                if len(results) == len(counts):
                    same = same_as(code, self.chosen[line], name, results, counts)
                    yield from self.stops([*same], indent)
            yield from self.stops([*self.compared(code, self.chosen[line], text, before)], indent)
            if not self.is_guarded(whole):
                asks = self.of_items(code, whole, self.chosen[line], self.counts[line], text, before)
                yield from self.stops([*asks], indent)

    def is_guarded(self, code: str) -> bool:
        """Whether code is a list as it was looked up, all of whose items are tested when it is there."""
        root = re.match(r"(\w+)(\[\"[^\"]+\"\])*\Z", code)
        return root is not None and (root[1] in self.looks or root[1] in self.listed)

    def left_out(self, code: str, text: str) -> list[str]:
        """The words that may say which things of a list are meant, of which no test of the plan is."""
        nouns = self.nouns_in(code)
        lines = [self.tested(line) for line in plain(text).splitlines()]
        arguments = re.findall(r"(\w+)=", text)
        written = {word.lower() for line in (*lines, *arguments) for word in re.findall(r"[^\W\d_]+", line)}
        used, tested = {*re.findall(r"\w+", text)}, {*re.findall(r"\w+", "\n".join(lines))}
        varied = {name for name, values in self.given.items() if len({*map(str, values)}) > 1}
        if len(self.requests) == 1:  # nothing shows what varies: a text in lower case may say which are meant
            varied = {name for name, value in self.inputs.values.items() if str(value) != str(value).lower()}
            varied |= {
                name for name, value in self.inputs.values.items() if re.search(r"[^a-z ]", str(value))
            }
        data = self.words_of(used & (tested | varied))
        is_compared = any(re.search(r" [<>]=? ", line) for line in lines)
        known = ORDERS | data | nouns | (ORDERED if is_compared else frozenset[str]())
        # what others do with it, and "who had one", which is one of what was named, tells nothing
        said = re.sub(r"\b(?:that|which) (?=(?:the|my|our)\b)|\bha(?:d|s|ve) one\b", "", self.inputs.request)
        words = [one for one in (*restrictions(said, nouns), *restricting(said)) if one not in known]
        flags = (
            in_all(guards.same_state(name, call.result, flags_only=True) for call in calls)
            for name, calls in self.looks.items()
        )  # of which a stop says that they are as they were
        written |= {
            word for one in flags for at in one for word in re.findall(r"[a-z]+", at.partition("[")[2])
        }
        written -= _OF_CODE
        counts = {*map(int, re.findall(r"\[:(\d{1,2})\]", text))}
        written |= {word for number, word in enumerate(NUMBER_WORDS) if number in counts}
        return [one for one in dict.fromkeys(words) if not any(is_kin(one, other) for other in written)]

    def tested(self, line: str) -> str:
        """What a line may test: of a call that changes something, no text that it writes."""
        call = re.match(r" *(\w+) = await ", line)
        if call is None or call[1] in self.looks:
            return line
        return " ".join(
            (
                *re.findall(r" if ([^\]]*)", line),
                *re.findall(r"\[\"(\w+)\"\]", line),
                *re.findall(r"(?:==|!=|in) \"([^\"]*)\"", line),
                *re.findall(r" [<>]=? ", line),
            )
        )

    def outliers(self, name: str, text: str, above: str, *, is_round: bool) -> Iterator[str]:
        """The conditions on all items of the lists in a result, if the plan uses all of them."""
        results = [call.result for call in self.looks[name]] if name in self.looks else [*self.listed[name]]
        before = {*re.findall(r"^    (\w+) = await", above, re.MULTILINE)} & self.looks.keys()
        for code, _ in tables_in(name, results[0]) if not restricts(text) else ():
            tables = [dict(tables_in(name, one)).get(code, []) for one in results]
            if _is_used_whole(code, plain(text)):
                items = [item for table in tables for item in table]
                counts = [*map(len, tables)]
                for one in self.of_items("each", code, items, counts, text, before):
                    yield f"all({one} for each in {code})"
        if is_round and all(isinstance(one, dict) for one in results):
            yield from self.of_items(name, name, results, [1] * len(results), text, before)

    def of_items(
        self,
        code: str,
        whole: str,
        items: Sequence[JSON],
        counts: Sequence[int],
        text: str,
        before: Set[str],
    ) -> Iterator[str]:
        """The conditions that an item is not outside of what was recorded."""
        if restricting(self.inputs.request):
            yield from present(code, items, plain(text))
        if words := self.left_out(whole, text):
            looks = ((name, [call.result for call in self.looks[name]]) for name in sorted(before))
            known = [
                *(day for name, values in looks for day in days_in(name, values)),
                *(day for name, values in self.given.items() for day in days_in(name, values)),
            ]
            each = [
                Reference(
                    one.code, tuple(v for v, n in zip(one.values, counts, strict=True) for _ in range(n))
                )
                for one in known
                if len(one.values) == len(counts)
            ]
            found = outside(code, items, words, each, only_named=restricts(text))
            yield from found.conditions
            self.unguarded |= dict.fromkeys(found.unguarded)

    def as_said(self, condition: str) -> str:
        """A condition with the input in place of a text that the user has said."""
        at, equal, text = condition.partition(" == ")
        names = [
            name
            for name, value in self.inputs.values.items()
            if isinstance(value, str) and json.dumps(value) == text
        ]
        return f"{at}{equal}{names[0]}" if names else condition

    def compared(self, code: str, items: Sequence[JSON], text: str, before: Set[str]) -> Iterator[str]:
        """The conditions that numbers of an item compare as they did with those of looks without a use."""
        for name, calls in self.looks.items():
            results = [call.result for call in calls]
            if name not in before or _is_used(name, text) or len(results) != len(items):
                continue
            pairs = [
                (one, two)
                for one, two in zip(items, results, strict=True)
                if isinstance(one, dict) and isinstance(two, dict)
            ]
            for part, other in product(*pairs[0]) if len(pairs) == len(items) else ():
                values = [(one.get(part), two.get(other)) for one, two in pairs]
                if all(is_number(a) and is_number(b) for a, b in values):
                    signs = {cast("float", a) <= cast("float", b) for a, b in values}
                    if len(signs) == 1:
                        sign = "<=" if signs.pop() else ">"
                        yield f"{code}[{json.dumps(part)}] {sign} {name}[{json.dumps(other)}]"

    def apart(self, name: str, text: str) -> Iterator[str]:
        """The conditions that two looks have nothing in common, if they never had, and one has no use."""
        for other in self.looks:
            if other == name:
                return
            if (_is_used(name, text) != _is_used(other, text)) and self.changed:
                pairs = zip(self.looks[name], self.looks[other], strict=False)
                lists = [(one.result, two.result) for one, two in pairs]
                if all(_are_texts(one) and _are_texts(two) and not _common(one, two) for one, two in lists):
                    yield f"all(each not in {other} for each in {name})"
                for one, two, column in _apart([*lists]):
                    taken = f"[one{column} for one in {name}{one}]"
                    yield f"all(each{column} not in {taken} for each in {other}{two})"

    def idle_items(self, name: str, text: str) -> Iterator[str]:
        """The conditions that the items of a list are as they were, if nothing was done with any of them."""
        if not self.changed or _is_used(name, text) or {*self.inputs.reasons.values()} - {SAID}:
            return  # whoever gives an input says what is to be done with which
        calls = self.looks[name]
        for code, _ in tables_in(name, calls[0].result):
            rows = [
                (item, call) for call in calls for item in dict(tables_in(name, call.result)).get(code, [])
            ]
            items = [cast("dict[str, JSON]", item) for item, _ in rows]
            asked = [[*texts_in(call.args)] for _, call in rows]
            echo = [
                key
                for key in items[0]
                if all(one.get(key) in args for one, args in zip(items, asked, strict=True))
            ]
            for one in outside("each", items, self.left_out(code, text), []).conditions:
                if not any(f"each[{json.dumps(key, ensure_ascii=False)}]" in one for key in echo):
                    yield f"all({one} for each in {code})"

    def unlike(self, name: str, call: RecordedCall, text: str) -> Iterator[str]:
        """The conditions on a result; more of them if nothing else uses it, or it was changed."""
        value, asked = call.result, {*texts_in(call.args)}
        uses = _is_used(name, text)
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
            alike = guards.same_words(name, value)
            yield from (
                one for one in alike if not self.inputs.has_said(json.loads(one.rpartition(" == ")[2]))
            )
            yield from guards.same_order(
                name, value, {one: given for one, given in used.items() if is_number(given)}
            )


def _is_used(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w\"]){name}\b(?!\s*=)(?!\))", text) is not None


def _is_said_before(line: str, lines: Sequence[str]) -> bool:
    """Whether a line is one of the stops just before."""
    for one in reversed(lines) if " assert " in line else ():
        if " assert " not in one:
            return False
        if one == line:
            return True
    return False


def restricts(text: str) -> bool:
    """Whether a plan has a test of items, besides those that look something up."""
    filters = re.finditer(r" for \w+ in [^\[\]]+(?:\[[^\]]*\])* if (?:[^\[\]]|\[[^\]]*\])*\](?!\[0\])", text)
    return (
        next(filters, None) is not None
        or re.search(r"^ *if |\b(?:min|max)\(", text, re.MULTILINE) is not None
    )


def _is_used_whole(code: str, text: str) -> bool:
    """Whether a list is used otherwise than to choose some of its items."""
    uses = re.finditer(rf"(?<![\w\"\]]){re.escape(code)}(?![\w\[])(?! if )(?! =)", text)
    return any(not re.search(r"(?:\b(?:min|max)|\.append)\($", text[: one.start()]) for one in uses)


def _are_texts(value: JSON) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _apart(pairs: Sequence[tuple[JSON, JSON]]) -> Iterator[tuple[str, str, str]]:
    """The lists of two results, and the field of texts in both, that never have anything in common."""
    found: list[set[tuple[str, str, str]]] = []
    for left, right in pairs:
        found.append(set())
        for (one, rows), (two, others) in product(tables_in("", left), tables_in("", right)):
            for name in cast("dict[str, JSON]", rows[0]):
                first, second = (
                    [value for row in each if isinstance(value := cast("Any", row).get(name), str)]
                    for each in (rows, others)
                )
                is_whole = len(first) == len(rows) and len(second) == len(others)
                if is_whole and not guards.is_state(name, first[0]) and not {*first} & {*second}:
                    found[-1].add((one, two, f"[{json.dumps(name, ensure_ascii=False)}]"))
    yield from sorted(one for one in (found[0] if found else ()) if all(one in each for each in found))


def _common(one: JSON, two: JSON) -> bool:
    return any(item in cast("list[JSON]", two) for item in cast("list[JSON]", one))


def _ticked(code: str) -> str:
    return code.replace('"', "'")


def plain(code: str) -> str:
    """Code with one kind of quotes, as it is within f-strings and outside."""
    return code.replace("'", '"')
