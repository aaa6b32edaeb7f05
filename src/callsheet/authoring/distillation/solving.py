"""Expressions that give the values of arguments in all recorded runs at once.

In: what is known at a place, and the wanted value in every example. Out: terms that give it in all of them,
the likeliest first. Nothing is taken that fails in one example; which of several is meant, its caller says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain, permutations, product
from math import inf
from typing import Any, cast

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.calculations import calculated, in_cents, with_differences
from callsheet.authoring.distillation.leaves import Source, is_number, leaves_of, number_of
from callsheet.authoring.distillation.picking import loops, picks
from callsheet.authoring.distillation.rules import common_start, rows_of, rules_for, said_in
from callsheet.authoring.distillation.scopes import (
    Looped,
    Scope,
    Term,
    are_same,
    best,
    figures,
    quoted,
    rivals_of,
)
from callsheet.authoring.distillation.texts import DAY, LONE, composed, parts, replaced
from callsheet.ir import JSON

_MOST, _SHORTEST, _CLEAR = 8, 4, 1.4
_SMALL = 10
"""Numbers below it are the least or the greatest of much by chance."""
_SEPARATORS = ("\n", ", ", "; ", " | ", ",", " ")
_CALCULATIONS: tuple[tuple[str, Callable[[float, float], float]], ...] = (
    ("{} + {}", lambda a, b: a + b),
    ("{} - {}", lambda a, b: a - b),
    ("{} * {}", lambda a, b: a * b),
    ("{} / {}", lambda a, b: a / b),
    ("{} * {} / 100", lambda a, b: a * b / 100),
    ("{} * (100 - {}) / 100", lambda a, b: a * (100 - b) / 100),
    ("{} * (100 + {}) / 100", lambda a, b: a * (100 + b) / 100),
    ("{} * (1 - {} / 100)", lambda a, b: a * (1 - b / 100)),
    ("{} * (1 + {} / 100)", lambda a, b: a * (1 + b / 100)),
)
_OF_THREE: tuple[tuple[str, Callable[[float, float, float], float]], ...] = (
    ("{} * {} - {}", lambda a, b, c: a * b - c),
    ("{} * {} + {}", lambda a, b, c: a * b + c),
    ("({} - {}) * {}", lambda a, b, c: (a - b) * c),
    ("({} + {}) * {}", lambda a, b, c: (a + b) * c),
    ("{} * {} * {}", lambda a, b, c: a * b * c),
    ("{} - {} - {}", lambda a, b, c: a - b - c),
    ("{} + {} + {}", lambda a, b, c: a + b + c),
    ("{} - {} + {}", lambda a, b, c: a - b + c),
)
_FACTORS = (100, 1_000, 60)
"""How many of a unit are one of another."""
_AFTER = 0.05
_FEW_DIGITS, _LEAST_DIGITS, _MANY_DIGITS, _MOST_OF_THREE = 4, 5, 8, 12


def solve(scope: Scope, name: str, goal: Sequence[JSON]) -> list[Term]:
    """The terms that give the values of an argument in all examples, the likeliest first."""
    found: list[Term] = []
    for term in (*scope.plain, *scope.made):
        if are_same(term.values, goal):
            named = 0.2 if re.search(rf"{name}\W*$", term.code) else 0
            found.append(term._replace(cost=term.cost - named))
    first = goal[0]
    is_same = all(are_same((one,), (first,)) for one in goal)
    if is_same and (first is None or isinstance(first, bool) or first in ([], {}, "")):
        return [Term(repr(first), tuple(goal), 0.5), *found]
    if all(isinstance(value, dict) and value.keys() == cast("Any", first).keys() for value in goal):
        found += _built(scope, cast("Sequence[dict[str, JSON]]", goal))
    elif all(isinstance(value, list) for value in goal):
        found += _lists(scope, name, cast("Sequence[list[JSON]]", goal))
    else:
        if (
            is_same
            and not (isinstance(first, str) and (LONE.search(first) or DAY.search(first)))
            and (scope.may_stay(str(first)) or (scope.is_look and guards.is_paging(name, first)))
            and not _has_name(first, scope)
            and not (found and (_is_data(first) or _is_looked_up(found, scope, first)))
        ):
            found.append(Term(quoted(first), tuple(goal), _cost_of_constant(scope, first)))
        if scope.may_pick and not scope.is_row and not any(term.cost < _CLEAR for term in found):
            found += _picked(scope, goal)
        if all(map(is_number, goal)) and not guards.is_name(name):
            found += _numbers(scope, cast("Sequence[float]", goal))
        elif all(isinstance(value, str) for value in goal) and not any(term.cost < _CLEAR for term in found):
            found += _texts(scope, name, cast("Sequence[str]", goal))
    if not found and scope.is_round and len({*map(str, goal)}) == 2:
        found += _either(scope, goal)
    if is_number(first) and str(first) not in scope.request and _follows(scope, found):
        found = [one for one in found if one.code != repr(first)]
    if guards.is_name(name) and isinstance(first, int):  # an identifier is that of something
        found = [one for one in found if one.code != repr(first)] or found
    found = _as_said(scope, found)
    found.sort(key=lambda term: term.cost)
    once: dict[str, Term] = {}
    for term in found:  # in the order of the likeliest of each
        once.setdefault(term.code, term)
    return [*once.values()][:_MOST]


def _as_said(scope: Scope, found: Sequence[Term]) -> list[Term]:
    """The terms, likelier as they compare as the words say; but a field of an item that is so chosen is no
    likelier than what the user has said itself.
    """
    least = min((one.cost for one in found if not one.picked and _follows(scope, [one])), default=-inf)
    costs = [one.cost - scope.met_by(one.code, one.code if one.picked else "") for one in found]
    return [
        one._replace(cost=max(cost, least + _AFTER) if one.picked and one.cost > least else cost)
        for one, cost in zip(found, costs, strict=True)
    ]


def _follows(scope: Scope, found: Sequence[Term]) -> bool:
    """Whether a number follows from a word of the user, so that it is no constant."""
    given = [one.code for one in scope.sources if one.is_given]
    calculated = [one.code for one in found if " for " not in one.code]  # how many there are may be chance
    return any(re.search(rf"\b{name}\b", code) for code in calculated for name in given)


def _either(scope: Scope, goal: Sequence[JSON]) -> Iterator[Term]:
    """One of two values, by a test of the item that the user names.

    A value that they do not name is a word that comes twice at least.
    """
    texts = [*map(str, goal)]
    values = dict(zip(texts, goal, strict=True))
    for word in values:
        is_said = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", scope.request.lower()) is not None
        if not is_said and (texts.count(word) == 1 or not re.fullmatch(r"[a-z][a-z_-]+", word)):
            return
    items = (one for one in scope.sources if not one.is_given and isinstance(one.values[0], dict))
    for source, (one, other) in product(items, (values, [*values][::-1])):
        wanted = [text == one for text in texts]
        at_hand = scope.at_hand([1] * scope.size, source.code)
        rules = rules_for(rows_of(source.values), wanted, at_hand, scope.words, only_said=True)
        codes = [re.sub(r"\beach\b", source.code, rule.code) for rule in rules]
        if codes:
            whole = f"({quoted(values[one])} if {codes[0]} else {quoted(values[other])})"
            yield Term(whole, (*goal,), 1.5, tuple(f"({codes[0]}) == ({code})" for code in codes[1:]))
            return


def _has_name(value: JSON, scope: Scope) -> bool:
    """Whether a text has a name in it that a tool has answered, so that another time it is another."""
    if not isinstance(value, str):
        return False
    if " " in value and any(one in text for one in re.findall(r"[a-z]+_\w+", value) for text in scope.seen):
        return True
    words = re.findall(r"[^\W\d_]*[A-Z]\w*[a-z]\w*", value)
    return any(word in scope.seen and word.lower() not in scope.words for word in words)


def _is_data(value: JSON) -> bool:
    """Whether a text is an address or an identifier, which is taken from a result that has it."""
    return isinstance(value, str) and re.search(r"@\w|\w\d|\d\w", value) is not None


def _is_looked_up(found: Sequence[Term], scope: Scope, value: JSON) -> bool:
    """Whether a text is a field of what was looked up by itself, and says in no state in which that is."""
    if not isinstance(value, str) or said_in(value, scope.words):
        return False
    fields = [re.fullmatch(r"(\w+)(?:\[\"[^\"]+\"\])*\[\"([^\"]+)\"\]", term.code) for term in found]
    return any(
        one is not None and one[1] in scope.records and not guards.is_state(one[2], value) for one in fields
    )


def _cost_of_constant(scope: Scope, value: JSON) -> float:
    if isinstance(value, str):
        return 1.7 if said_in(value, scope.words) else 1.5 if not re.search(r"\d", value) else 2.5
    return 1.6 if isinstance(value, int) and abs(value) < 100 else 2.5


def _built(scope: Scope, goal: Sequence[dict[str, JSON]]) -> Iterator[Term]:
    members = {key: best(solve(scope, key, [one[key] for one in goal])) for key in goal[0]}
    found = {key: one for key, one in members.items() if one is not None}
    if len(found) == len(members):
        code = ", ".join(f"{quoted(key)}: {one.code}" for key, one in found.items())
        conditions = tuple(chain.from_iterable(one.conditions for one in found.values()))
        yield Term(f"{{{code}}}", tuple(goal), 1.5, conditions)


def _lists(scope: Scope, name: str, goal: Sequence[list[JSON]]) -> Iterator[Term]:
    several = frozenset(word for word in scope.words if word.endswith("s"))
    are_several = False
    for looped, code, cost, conditions in _columns(scope, name, goal):
        is_several = " if " in looped.code and said_in(
            looped.code.partition(" if ")[0].rpartition(" in ")[2], several
        )
        whole = looped.code if code == "row" else f"[{code} for row in {looped.code}]"
        are_several |= is_several
        yield Term(whole, tuple(goal), cost - 1.0 * is_several, conditions)
    if len({*map(len, goal)}) == 1 and not are_several:  # one, where words say several, is chance
        members = [
            best(solve(scope, name.rstrip("s"), [one[n] for one in goal])) for n in range(len(goal[0]))
        ]
        known = [one for one in members if one is not None]
        if known and len(known) == len(members):
            conditions = tuple(chain.from_iterable(one.conditions for one in known))
            cost = 0.4 + sum(one.cost for one in known) + 0.5 * (len(known) > 1)
            yield Term(f"[{', '.join(one.code for one in known)}]", tuple(goal), cost, conditions)


def _columns(
    scope: Scope, name: str, goal: Sequence[list[JSON]]
) -> Iterator[tuple[Looped, str, float, tuple[str, ...]]]:
    """Lists that are made of each item of another."""
    groups: list[list[dict[str, JSON]]] = [
        [value if isinstance(value, dict) else {name: value} for value in one] for one in goal
    ]
    for looped in loops(scope, groups)[:3]:
        inner = scope.repeated(
            [*map(len, looped.items)], [Source("row", (*chain.from_iterable(looped.items),))]
        )
        inner.is_row = True
        flat = [*chain.from_iterable(goal)]
        terms = [one for one in solve(inner, name, flat) if not one.picked]
        if not terms or not re.search(r"\brow\b", terms[0].code):
            continue
        one, conditions = terms[0], [*looped.conditions, *([f"len({looped.code}) > 0"] if all(goal) else [])]
        conditions += [f"all({each} for row in {looped.code})" for each in one.conditions]
        conditions += unlike_before(scope, looped.code, [*chain.from_iterable(looped.items)], looped.code)
        whole = looped.code if one.code == "row" else f"[{one.code} for row in {looped.code}]"
        conditions += [f"{whole} == [{other.code} for row in {looped.code}]" for other in rivals_of(terms)]
        yield looped, one.code, looped.cost + one.cost * 0.5, (*conditions,)


def unlike_before(scope: Scope, code: str, items: Sequence[JSON], asked: str) -> list[str]:
    """The conditions that a part of a list is in the states in which it was, in fields that `asked` does not
    have; if all are meant, that what words of the user name is empty again.
    """
    fields = re.findall(r"\[\"(\w+)\"\]", asked)
    empty = guards.all_empty(code, items)
    alike = (
        [one for one in empty if said_in(one.partition(" for each")[0].removeprefix("all(not "), scope.words)]
        if scope.means_all
        else [*guards.alike(code, [*items]), *empty]
    )
    return [
        one
        for one in alike
        if not any(f'each["{field}"]' in one.partition(" for each")[0] for field in fields)
    ]


def _numbers(scope: Scope, goal: Sequence[float]) -> Iterator[Term]:
    if scope.readings is not None and not any(goal):
        return  # what there is nothing of shows nothing
    is_small = all(abs(value) < _SMALL for value in goal)
    lists = [*scope.lists, *scope.likely] if not scope.is_row else []
    fitting = [one for one in figures(scope, lists) if are_same(one.values, goal)]
    if not fitting and scope.readings is not None and lists and _tells(goal, _LEAST_DIGITS):
        fitting = [one for one in figures(scope, scope.every_list) if are_same(one.values, goal)]
    if scope.readings is not None:
        fitting = [_not_only_of_part(scope, one) for one in fitting]
    yield from (one for one in fitting if not (is_small and one.code.startswith(("min(", "max("))))
    if scope.readings is not None:
        leaves = [*chain.from_iterable(map(leaves_of, scope.sources))]
        found = calculated((*goal,), leaves, scope.readings.figures)
        if found is not None:
            yield Term(found.code, (*goal,), 1.5, found.conditions)
        else:
            yield from _converted((one for one in scope.plain if all(map(is_number, one.values))), goal)
        return
    if is_small:
        return
    yield from _days_between(scope, goal)
    known = [term for term in scope.plain if all(map(is_number, term.values)) and not term.conditions]
    known += [
        term._replace(code=f"int({term.code})", values=tuple(map(int, cast("Any", term.values))))
        for term in scope.plain
        if all(isinstance(v, str) and re.fullmatch(r"\d{1,8}", v) for v in term.values)
        and not term.conditions
    ]
    known = known[:30]
    of_two = [*_converted(known, goal), *_calculations(permutations(known, 2), goal)]
    differing = (
        with_differences(known, lambda one, two, code, gone: Term(code, gone, one.cost + two.cost))
        if not of_two
        else ()
    )
    either = [pair for one, two in differing for pair in ((one, two), (two, one))]
    for term in of_two or [*_calculations(either, goal)] or _of_three(known, goal, scope.words):
        code, asks = (term.code, ()) if of_two else in_cents(term.code, goal)
        yield term._replace(code=code, conditions=(*term.conditions, *asks))


def _not_only_of_part(scope: Scope, total: Term) -> Term:
    """The sum of a part of a list, which has to be that of all if it was in the only run."""
    whole = re.sub(r"\[each for each in ([^\[\]]+(?:\[[^\]]+\])*) if .*?\](?=\]\))", r"\1", total.code)
    others = figures(scope, scope.every_list) if whole != total.code and "sum(" in whole else ()
    if any(one.code == whole and are_same(one.values, total.values) for one in others):
        return total._replace(conditions=(*total.conditions, f"{total.code} == {whole}"))
    return total


def _tells(goal: Sequence[float], least: int) -> bool:
    """Whether numbers have so many digits altogether, which no chance gives."""
    return sum(len(re.sub(r"\D|0+\Z", "", one)) for one in {*map(str, goal)}) >= least


def _converted(known: Iterable[Term], goal: Sequence[float]) -> Iterator[Term]:
    """Numbers in another unit."""
    for term in known if _tells(goal, _LEAST_DIGITS) else ():
        numbers = cast("Sequence[float]", term.values)
        for factor in _FACTORS:
            for sign, made in (("/", [n / factor for n in numbers]), ("*", [n * factor for n in numbers])):
                if are_same(made, goal):
                    yield term._replace(
                        code=f"{term.code} {sign} {factor}", values=(*goal,), cost=term.cost + 0.5
                    )


def _of_three(known: Sequence[Term], goal: Sequence[float], words: frozenset[str]) -> Iterator[Term]:
    """What is calculated of three numbers, of which one may be a word: twice as many."""
    if not _tells(goal, _MANY_DIGITS):
        return
    twice = [Term("2", (2,) * len(goal), 0.8)] if words & {"twice", "double"} else []
    for some in permutations([*twice, *known[:_MOST_OF_THREE]], 3):
        a, b, c = (cast("Sequence[float]", one.values) for one in some)
        for form, function in _OF_THREE:
            if function(a[0], b[0], c[0]) == goal[0]:
                values = [function(*each) for each in zip(a, b, c, strict=True)]
                if are_same(values, goal):
                    code = form.format(*(one.code for one in some))
                    yield Term(code, (*goal,), sum(one.cost for one in some))


def _days_between(scope: Scope, goal: Sequence[float]) -> Iterator[Term]:
    """How many days lie between two days."""
    if not _tells(goal, _FEW_DIGITS) or not all(isinstance(one, int) for one in goal):
        return
    days = [
        one for one in scope.plain if all(isinstance(value, str) and DAY.match(value) for value in one.values)
    ]
    for one, two in permutations(days[:_MOST_OF_THREE], 2):
        pairs = cast("Iterable[tuple[str, str]]", zip(one.values, two.values, strict=True))
        try:
            values = [(date.fromisoformat(a[:10]) - date.fromisoformat(b[:10])).days for a, b in pairs]
        except ValueError:
            continue
        if are_same(values, goal):
            code = f"(date.fromisoformat({one.code}[:10]) - date.fromisoformat({two.code}[:10])).days"
            yield Term(code, (*goal,), one.cost + two.cost, (*one.conditions, *two.conditions))


def _calculations(pairs: Iterable[tuple[Term, Term]], goal: Sequence[float]) -> Iterator[Term]:
    """What is calculated of two numbers."""
    for one, two in pairs:
        a, b = cast("Sequence[float]", one.values), cast("Sequence[float]", two.values)
        for form, function in _CALCULATIONS:
            try:
                values = [function(x, y) for x, y in zip(a, b, strict=True)]
            except ZeroDivisionError:
                continue
            code = form.format(one.code, two.code)
            if are_same(values, goal):
                yield Term(code, tuple(goal), one.cost + two.cost)
            elif any(isinstance(value, float) for value in values) and are_same(
                [round(v, 2) for v in values], goal
            ):
                yield Term(f"round({code}, 2)", tuple(goal), one.cost + two.cost)


def _picked(scope: Scope, goal: Sequence[JSON]) -> Iterator[Term]:
    """Fields of an item of a list that something tells from the others."""
    for term in scope.lists:
        tables = cast("tuple[list[JSON], ...]", term.values)
        if not all(tables) or max(map(len, tables)) < 2:
            continue
        for code, items, cost, conditions in picks(scope, term, goal):
            for leaf in leaves_of(Source(code, items)):
                if are_same(leaf.values, goal):
                    yield Term(
                        leaf.code, leaf.values, cost, (*conditions, *leaf.conditions), picked=((code, items),)
                    )
            rows = [item for item in items if isinstance(item, list)]
            for number in range(min(map(len, rows))) if len(rows) == len(items) else ():
                if are_same([row[number] for row in rows], goal):
                    cell = f"{code}[{number}]"
                    yield Term(cell, tuple(goal), cost, conditions, picked=((code, items),))


def _texts(scope: Scope, name: str, goal: Sequence[str]) -> Iterator[Term]:
    """Texts that are made of others, with words around them that are the same in all examples."""
    pool: dict[tuple[str, ...], list[Term]] = {}

    def add(term: Term) -> None:
        forms: list[tuple[str, tuple[str, ...]]] = []
        if all(isinstance(value, str) for value in term.values):
            forms.append((term.code, cast("tuple[str, ...]", term.values)))
        elif all(map(is_number, term.values)) and not _is_chance(scope, term, goal):
            forms.append((f"str({term.code})", tuple(map(str, term.values))))
            if all(isinstance(value, int) and 0 <= value < 24 for value in term.values):
                hours = cast("tuple[int, ...]", term.values)
                forms.append((f"format({term.code}, '02')", tuple(f"{value:02}" for value in hours)))
                forms.append((f"format({term.code} + 1, '02')", tuple(f"{value + 1:02}" for value in hours)))
            if any(isinstance(value, int) and abs(value) >= 1_000 for value in term.values):
                forms.append((f"format({term.code}, ',')", tuple(f"{v:,}" for v in cast("Any", term.values))))
            if any(isinstance(value, float) for value in term.values):
                forms.append(
                    (f"format({term.code}, '.2f')", tuple(f"{cast('float', v):.2f}" for v in term.values))
                )
        for code, values in forms:
            if all(value and value in whole for value, whole in zip(values, goal, strict=True)):
                pool.setdefault(values, []).append(term._replace(code=code, values=values))

    for term in parts(scope, goal):
        add(term)
    for term, looped in _joins(scope, name, goal) if not scope.is_row else ():
        add(term)
        scope.derived.setdefault(looped.code, looped)  # what one argument shows, another may count
        for figure in figures(scope, [Term(looped.code, cast("Any", looped.items), 1.0)]):
            add(figure)
    for term in _numbers_in(scope, goal, pool):
        add(term)
    for terms in pool.values():
        terms.sort(key=lambda term: term.cost)
    texts = [one for one in scope.plain if all(isinstance(v, str) for v in one.values)]
    for term in texts if len(goal[0]) > 2 * _SHORTEST else ():
        yield from replaced(term, [one for one in texts if one.is_given], goal)
    yield from pool.get(tuple(goal), [])
    if (
        len({*goal}) == 1
        and scope.readings is None
        and not re.search(r"\d", goal[0])
        and not any(t.is_given for ts in pool.values() for t in ts)
    ):
        return
    whole_text = composed(goal, pool, scope)
    if whole_text is not None:
        yield whole_text


def _is_chance(scope: Scope, term: Term, goal: Sequence[str]) -> bool:
    """Whether one run alone has a small number in a text and in a look that was given nothing."""
    found = re.match(r"(\w+)\[.*\"(\w+)\"\]\Z", term.code)
    if scope.readings is None or found is None or scope.readings.asked.get(found[1]) != frozenset():
        return False
    words = scope.words | {*re.findall(r"[a-z]+", goal[0].lower())}
    return not said_in(found[2], words) and all(abs(cast("float", one)) < _SMALL for one in term.values)


def _numbers_in(
    scope: Scope, goal: Sequence[str], pool: Mapping[tuple[str, ...], Sequence[Term]]
) -> Iterator[Term]:
    """The numbers in texts that are calculated."""
    numbers = [
        [one[0] for one in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)", text)] for text in goal
    ]
    if len({*map(len, numbers)}) > 1:
        return
    for column in zip(*numbers, strict=True):
        if column in pool or (len({*column}) == 1 and scope.readings is None):
            continue
        decimal = all(re.fullmatch(r"\d+\.\d\d", one) for one in column)
        read = [one for one in map(number_of, column) if one is not None]
        if len(read) < len(column):
            continue
        values = [float(one) for one in read] if any("." in each for each in column) else read
        for term in _numbers(scope, values):
            exact = term.code.removeprefix("round(").removesuffix(", 2)")
            if decimal and scope.readings is not None:  # as people write sums, until another run shows it
                yield term._replace(code=f"format({exact}, '.2f')", values=column)
                continue
            codes = [f"format({term.code}, '.2f')"] if decimal else []
            is_of_cents = bool(codes) and term.code.endswith(" / 100")
            is_plain = all(str(value) == one for value, one in zip(term.values, column, strict=True))
            if is_plain and not is_of_cents:
                codes.append(f"str({term.code})")
                if all(isinstance(value, float) and round(value, 2) == value for value in term.values):
                    codes.append(f"str(round({term.code}, 2))")
            if codes:  # which differ where a number ends with a zero, or has more places
                others = (f"{codes[0]} == {other}" for other in codes[1:])
                yield term._replace(code=codes[0], values=column, conditions=(*term.conditions, *others))


def _joins(scope: Scope, name: str, goal: Sequence[str]) -> Iterator[tuple[Term, Looped]]:
    """Pieces of a text for each item of a list, with something between them."""
    is_one = scope.readings is not None and len({*goal}) == 1
    label = re.match(r"[^:\n]*(?:: |:?\n)", goal[0]) if is_one else None
    start = re.sub(r"\w*\Z", "", common_start([*goal])) if len({*goal}) > 1 else label[0] if label else ""
    for between in _SEPARATORS:
        last = start.rpartition(between)[0] + between if between in start else ""
        for begin in dict.fromkeys((start, re.sub(r"\S*\Z", "", start), last, "")):
            pieces = [one.removeprefix(begin).split(between) for one in goal]
            if max(map(len, pieces)) < 2:
                continue
            for end in (0, 1, 2):
                rows = [one[: len(one) - end] for one in pieces]
                if (
                    not any(len(one) > 1 for one in rows)
                    or not all(rows)
                    or len({x for one in rows for x in one}) < 2
                ):
                    continue
                for looped, code, cost, conditions in _columns(scope, name, cast("Any", rows)):
                    joined = tuple(between.join(one) for one in rows)
                    inner = looped.code if code == "row" else f"{code} for row in {looped.code}"
                    yield Term(f"{quoted(between)}.join({inner})", joined, cost - 0.5, conditions), looped
