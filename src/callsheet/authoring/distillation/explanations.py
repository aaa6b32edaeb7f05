"""Finds how the arguments of recorded calls follow from the data before them, as Python expressions.

In: the values of an argument, one for each round of a loop, and the sources at hand. Out: an expression that
gives all of them, or None. An expression is taken only if it holds in every round, and a place in a list only
if a loop takes all of its items: to choose one is a decision, which nothing here knows. Where several
expressions gave the one recorded value, the conditions of the result say that they have to agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import cast

from callsheet.authoring.distillation.calculations import (
    asked_leaves,
    calculated,
    numbers_in,
    summed,
    written_sum,
)
from callsheet.authoring.distillation.figures import is_number
from callsheet.authoring.distillation.leaves import (
    MOST_LINES,
    Explained,
    Leaf,
    Source,
    columns_of,
    is_filled,
    labelled_in,
    leaves_of,
)
from callsheet.ir import JSON

_SHORTEST = 4
"""The characters that a text has at least to be found inside another one, or to be found without its name."""
_SMALLEST = 100
"""From this number on two equal numbers are the same one, even if they are called otherwise."""
_MOST_RIVALS = 3
_CODE = re.compile(r"[A-Z][A-Z0-9]+")
"""A short text that is no word, as of a currency or a country."""
_FIRST_MARK, _MOST_MARKS = 0xE000, 6_000
_MARK = re.compile("([\ue000-\uf8ff])")
"""Characters for private use, which stand for data in a template."""
_SECONDS = re.compile("([\ue000-\uf8ff])(?::00)?(?::00(?:\\.0+)?)?(?:Z|[+]00:00)?(?![\\w:])")
"""What stands after data if that is a day or a time, and says nothing more."""
_SEPARATORS = ("\n", ", ", "; ", ",", " ")
_TRANSFORMS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("{}.strip()", str.strip),
    ("{}.lower()", str.lower),
    ("{}.upper()", str.upper),
    ("{}.title()", str.title),
)
_PIECES: tuple[tuple[str, re.Pattern[str], Callable[[str], str]], ...] = (
    ('{}.split("/")[-1]', re.compile(r"[^\n]*/[^\n/]+"), lambda text: text.split("/")[-1]),
    ('{}.rsplit("/", 1)[0]', re.compile(r"[^\n]+/[^\n/]+"), lambda text: text.rsplit("/", 1)[0]),
    ('{}.rsplit(".", 1)[0]', re.compile(r"[^\n]+\.\w{1,5}"), lambda text: text.rsplit(".", 1)[0]),
    ('{}.split("@")[0]', re.compile(r"\S+@\S+"), lambda text: text.split("@")[0]),
    ('{}.split("@")[-1]', re.compile(r"\S+@\S+"), lambda text: text.split("@")[-1]),
    ("{}.split()[0]", re.compile(r"\w+ \w+(?: \w+)?"), lambda text: text.split()[0]),
    ("{}.split()[-1]", re.compile(r"\w+ \w+(?: \w+)?"), lambda text: text.split()[-1]),
    ("{}[:10]", re.compile(r"\d{4}-\d\d-\d\d[T ].*"), lambda text: text[:10]),
    ("{}[11:]", re.compile(r"\d{4}-\d\d-\d\d[T ].*"), lambda text: text[11:]),
    ("{}[11:16]", re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:.*"), lambda text: text[11:16]),
)
"""Parts of texts: those of paths, addresses, names and times."""


def _says_nothing(words: str) -> bool:
    return re.search(r"\w", words) is None


def explain(
    name: str,
    values: Sequence[JSON],
    sources: Sequence[Source],
    is_expected: Callable[[str], bool] = _says_nothing,
    asked: frozenset[str] = frozenset(),
) -> Explained | None:
    """The expression for an argument of this name; None if there is none, or if it may be a coincidence.

    `is_expected` tells whether the words around the data in a single text need no further explanation, and
    `asked` which figures about lists the user wants.

    >>> mail = Source("mail", ({"from": "ann@corp.example", "number": 7},), 1)
    >>> explain("to", ["ann@corp.example"], [mail]).code, explain("text", ["From ann@corp.example."], [mail])
    ('mail["from"]', None)
    >>> explain("number", [7], [mail]).code, explain("limit", [7], [mail])
    ('mail["number"]', None)
    """
    leaves = [leaf for source in sources for leaf in leaves_of(source)]
    wanted = tuple(values)
    leaves += [more for leaf in leaves for more in labelled_in(leaf, str(wanted[0]).lower())]
    found = [
        leaf for leaf in leaves if _same(leaf.values, wanted) and _is_distinct(name, leaf, wanted, leaves)
    ]
    if found:
        best = min(found, key=lambda leaf: (leaf.key != name, leaf.source.rank, len(leaf.code)))
        conditions = (*best.conditions, *_agreeing(best, found))
        return Explained(best.code, (best.source,), conditions, is_only=best.is_only)
    figures = [*asked_leaves(leaves, asked)]
    counted = [leaf for leaf in figures if _same(leaf.values, wanted)]
    if counted:
        best = counted[0]
        return Explained(best.code, (best.source,), (*best.conditions, *_agreeing(best, counted)))
    if all(isinstance(value, str) for value in wanted):
        texts = cast("tuple[str, ...]", wanted)
        return (
            _transformed(texts, leaves)
            or _joined(texts, leaves, asked)
            or _composed(texts, [*leaves, *figures, *_more_texts(texts, leaves, asked)], is_expected)
            or written_sum(texts, leaves)
            or _edited(texts, leaves, is_expected)
        )
    if all(isinstance(value, list) and value for value in wanted):
        return _column(cast("tuple[list[JSON], ...]", wanted), leaves, is_expected, asked)
    return summed(wanted, leaves) or calculated(wanted, leaves, asked)


def _agreeing(best: Leaf, found: Sequence[Leaf]) -> tuple[str, ...]:
    """The conditions that others which had the one recorded value still have the same one.

    What differs by round is no coincidence, and an answer repeats what it was asked for.
    """
    first = next(iter(best.values))
    if any(value != first for value in best.values):
        return ()
    conditions: dict[str, None] = {}
    for leaf in found:
        is_echo = (best.source.is_given and str(first) in leaf.source.asked) or (
            leaf.source.is_given and str(first) in best.source.asked
        )
        if leaf.code == best.code or is_echo:
            continue
        listings = best.source.listing, leaf.source.listing
        if not any(listings):
            alike = type(first) is type(next(iter(leaf.values)))
            conditions[
                f"{best.code} == {leaf.code}" if alike else f"str({best.code}) == str({leaf.code})"
            ] = None
        elif all(listings) and len({*listings}) > 1 and best.source.values == leaf.source.values:
            conditions[f"{listings[0]} == {listings[1]}"] = None
    return (*conditions,)[:_MOST_RIVALS]


def _same(left: tuple[JSON, ...], right: tuple[JSON, ...]) -> bool:
    """Whether two rounds of values are the same; True is not 1."""
    return left == right and all(type(a) is type(b) for a, b in zip(left, right, strict=True))


def _is_distinct(name: str, leaf: Leaf, values: tuple[JSON, ...], leaves: Sequence[Leaf]) -> bool:
    """Whether equal values are no coincidence: they have the same name, differ by round, or are long.

    A text of three letters is long enough if nothing else has it.
    """
    if leaf.is_sure or leaf.key == name or len({json.dumps(value, sort_keys=True) for value in values}) > 1:
        return True
    value = values[0]
    if isinstance(value, str):
        is_alone = len(value) == _SHORTEST - 1 and sum(each.values == leaf.values for each in leaves) == 1
        return len(value) >= _SHORTEST or (is_alone and value.isalpha())
    if isinstance(value, bool) or value is None:
        return False
    return abs(value) >= _SMALLEST if isinstance(value, int | float) else bool(value)


def _transformed(texts: tuple[str, ...], leaves: Sequence[Leaf]) -> Explained | None:
    for leaf in leaves:
        given = leaf.values
        if all(map(is_number, given)):
            is_distinct = leaf.is_sure or len(set(texts)) > 1 or len(texts[0]) >= _SHORTEST
            if tuple(map(str, given)) == texts and is_distinct:
                return Explained(f"str({leaf.code})", (leaf.source,), leaf.conditions)
            continue
        if not all(isinstance(value, str) for value in given) or min(map(len, texts)) < _SHORTEST:
            continue
        for code, transform in _TRANSFORMS:
            if tuple(transform(cast("str", value)) for value in given) == texts:
                return Explained(code.format(leaf.code), (leaf.source,), leaf.conditions)
    return None


def _in_order(
    leaves: Sequence[Leaf], asked: frozenset[str], *, of_one: bool = False
) -> Iterator[tuple[Leaf, str, tuple[list[JSON], ...], tuple[str, ...]]]:
    """The columns as they are, and sorted; which of them is meant where they are alike, the words tell."""
    for leaf, code, columns in columns_of(leaves, of_one=of_one):
        filled = is_filled(leaf.code)
        alike = (f"{code} == sorted({code})",) if "sorted" in asked else ()
        yield leaf, code, columns, (filled, *alike)
        if all(isinstance(value, str) for column in columns for value in column) or all(
            is_number(value) for column in columns for value in column
        ):
            in_order = tuple(sorted(cast("list[str]", column)) for column in columns)
            if in_order != columns:
                yield leaf, f"sorted({code})", cast("tuple[list[JSON], ...]", in_order), (filled,)


def _column(
    lists: tuple[list[JSON], ...],
    leaves: Sequence[Leaf],
    is_expected: Callable[[str], bool],
    asked: frozenset[str],
) -> Explained | None:
    """A list that has one field of each object of a list, or the plain values of one, or is made of each."""
    for leaf, code, columns, conditions in _in_order(leaves, asked, of_one=True):
        if columns == lists:
            return Explained(code, (leaf.source,), conditions)
    for leaf in leaves if len(lists) == 1 else ():
        rows, made = leaf.values[0], lists[0]
        if (
            not isinstance(rows, list)
            or len(rows) != len(made)
            or len(made) < (1 if leaf.source.is_chosen else 2)
        ):
            continue
        found = _member(made, [Source("row", tuple(rows), 0)], is_expected)
        if found is not None and re.search(r"\brow\b", found.code):
            code = f"[{found.code} for row in {leaf.code}]"
            return Explained(code, (leaf.source,), (is_filled(leaf.code), *_in_all(leaf.code, found)))
    return None


def _in_all(listing: str, found: Explained) -> tuple[str, ...]:
    """The conditions of what was found for each `row` of a list, asked of all of them."""
    return tuple(f"all({condition} for row in {listing})" for condition in found.conditions)


def _member(
    made: Sequence[JSON], sources: Sequence[Source], is_expected: Callable[[str], bool]
) -> Explained | None:
    """The item of a list that is made of each item of another: a text, a number, or an object of them."""
    first = made[0]
    if not isinstance(first, dict):
        return explain("", made, sources, is_expected)
    tables = [one for one in made if isinstance(one, dict) and one.keys() == first.keys()]
    if len(tables) < len(made):
        return None
    members = {key: explain(key, [one[key] for one in tables], sources, is_expected) for key in first}
    found = {key: one for key, one in members.items() if one is not None}
    if len(found) < len(members):
        return None
    code = ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {one.code}" for key, one in found.items())
    return Explained(f"{{{code}}}", (), tuple(c for one in found.values() for c in one.conditions))


def _joined(texts: tuple[str, ...], leaves: Sequence[Leaf], asked: frozenset[str]) -> Explained | None:
    """A text that is a list of texts, with something between them."""
    for leaf, code, columns, conditions in _in_order(leaves, asked):
        if all(isinstance(value, str) for column in columns for value in column):
            for between in _SEPARATORS:
                if tuple(between.join(cast("list[str]", column)) for column in columns) == texts:
                    joined = f"{json.dumps(between)}.join({code})"
                    return Explained(joined, (leaf.source,), conditions)
    return None


def _more_texts(texts: tuple[str, ...], leaves: Sequence[Leaf], asked: frozenset[str]) -> Iterator[Leaf]:
    """Parts of texts, numbers as people write them, and lists that a text has a piece for each item of."""
    for leaf in leaves:
        if all(isinstance(value, str) for value in leaf.values):
            given = cast("tuple[str, ...]", leaf.values)
            for code, form, piece in _PIECES:
                if all(form.fullmatch(value) for value in given):
                    yield leaf._replace(code=code.format(leaf.code), values=tuple(map(piece, given)))
        elif all(isinstance(value, float) for value in leaf.values):
            values = tuple(f"{value:.2f}" for value in cast("tuple[float, ...]", leaf.values))
            yield leaf._replace(code=f"format({leaf.code}, '.2f')", values=values)
        elif len(texts) == 1 and isinstance(leaf.values[0], list):
            yield from _rows_in(texts[0], leaf, leaf.values[0])
    if len(texts) == 1:
        yield from numbers_in(texts[0], leaves, asked)


def _rows_in(text: str, leaf: Leaf, rows: list[JSON]) -> Iterator[Leaf]:
    """A list of which each item has a piece of the text, all made alike."""
    if not 1 < len(rows) <= MOST_LINES:
        return
    columns = [*_text_columns(leaf.code, rows)]
    for between in _SEPARATORS:
        for code, column in columns:
            if (joined := between.join(column)) in text:
                whole = f"{json.dumps(between)}.join({code})"
                yield Leaf(whole, "", (joined,), leaf.source, True, (is_filled(leaf.code),))
        pieces = text.split(between)
        for start in range(len(pieces) - len(rows) + 1):
            window = pieces[start : start + len(rows)]
            if len({*window}) == 1 or window == [""] * len(window):
                continue
            found = explain("", window, [Source("row", tuple(rows), 0)])
            if found is None:
                continue
            inner = leaf.code if found.code == "row" else f"{found.code} for row in {leaf.code}"
            code = f"{json.dumps(between)}.join({inner})"
            conditions = (is_filled(leaf.code), *_in_all(leaf.code, found))
            yield Leaf(code, "", (between.join(window),), leaf.source, True, conditions)
            return


def _text_columns(code: str, rows: list[JSON]) -> Iterator[tuple[str, list[str]]]:
    """The fields of texts that all objects of a list have."""
    tables = [row for row in rows if isinstance(row, dict)]
    for name in tables[0] if len(tables) == len(rows) and rows else ():
        values = [row.get(name) for row in tables]
        if all(isinstance(value, str) for value in values):
            field = json.dumps(name, ensure_ascii=False)
            yield f"row[{field}] for row in {code}", cast("list[str]", values)


def _written(value: JSON) -> JSON:
    """A number as an f-string writes it; anything else as it is."""
    return str(value) if is_number(value) else value


def _composed(
    texts: tuple[str, ...], leaves: Sequence[Leaf], is_expected: Callable[[str], bool]
) -> Explained | None:
    """A text with data in it. The text around the data must be the same in several rounds, or be expected.

    Short data, and numbers, count only if they differ by round.
    """
    written = [leaf._replace(values=tuple(map(_written, leaf.values))) for leaf in leaves]
    as_given = dict(zip(map(id, written), leaves, strict=True))
    known = [
        leaf
        for leaf in written
        if all(isinstance(v, str) and v and v in text for v, text in zip(leaf.values, texts, strict=True))
        and (
            leaf.is_sure
            or leaf.source.is_chosen
            or len(set(leaf.values)) > 1
            or min(len(cast("str", v)) for v in leaf.values) >= _SHORTEST
            or (leaf.source.is_given and all(_CODE.fullmatch(cast("str", v)) for v in leaf.values))
        )
    ]
    known.sort(
        key=lambda leaf: (
            -min(len(cast("str", v)) for v in leaf.values),
            not leaf.source.is_given,
            leaf.source.rank,
            len(leaf.code),
        )
    )
    if any(_MARK.search(text) for text in texts):
        return None
    rounds = [*texts]
    used: dict[int, Leaf] = {}
    for number, leaf in enumerate(known[:_MOST_MARKS]):
        mark = chr(_FIRST_MARK + number)
        patterns = [_place_of(cast("str", value)) for value in leaf.values]
        cut = [pattern.sub(mark, text) for pattern, text in zip(patterns, rounds, strict=True)]
        counts = {text.count(mark) for text in cut}
        if counts == {0} or len(counts) > 1:
            continue
        rounds = cut
        used[number] = leaf
    if not used or len({*rounds}) > 1:
        return None
    template = rounds[0]
    around = _MARK.sub(" ", _SECONDS.sub(r"\1", template))
    if (len(texts) == 1 and not is_expected(around)) or (len(texts) > 1 and re.search(r"\d", around)):
        return None
    if len(texts) == 1 and "@" in template and not re.search(r"\s", template):
        return None  # an address that only looks as if it were put together
    conditions: dict[str, None] = {}
    for leaf in used.values():
        same = [as_given[id(each)] for each in known if each.values == leaf.values]
        conditions |= dict.fromkeys((*leaf.conditions, *_agreeing(as_given[id(leaf)], same)))
    named = {number: leaf.code for number, leaf in used.items()}
    sources = tuple(leaf.source for leaf in used.values())
    return Explained(_text_code(template, named, leaves), sources, tuple(conditions))


def _place_of(value: str) -> re.Pattern[str]:
    """Where a value stands in a text: a number or a short text only as a word of its own."""
    is_short = len(value) < _SHORTEST or re.fullmatch(r"\d+(?:\.\d+)?", value)
    return re.compile(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)" if is_short else re.escape(value))


def _text_code(template: str, named: dict[int, str], leaves: Sequence[Leaf]) -> str:
    """The code of a text with data at its marks: an f-string, or a sum where one cannot have the data."""
    parts = [part for part in _MARK.split(template) if part]
    codes = [named[ord(part) - _FIRST_MARK] if _MARK.match(part) else "" for part in parts]
    numbers = {leaf.code for leaf in leaves if not isinstance(leaf.values[0], str)}
    quotes_clash = any("\\" in code or "'" in code or 'f"' in code for code in codes)
    if len(parts) == 1 and codes[0]:
        return f"str({codes[0]})" if codes[0] in numbers else codes[0]
    if quotes_clash:
        return " + ".join(
            (f"str({code})" if code in numbers else code) if code else json.dumps(part, ensure_ascii=False)
            for part, code in zip(parts, codes, strict=True)
        )
    pieces = [
        f"{{{code}}}" if code else part.replace("{", "{{").replace("}", "}}")
        for part, code in zip(parts, codes, strict=True)
    ]
    quoted = json.dumps("".join("\0" if code else piece for piece, code in zip(pieces, codes, strict=True)))
    for piece, code in zip(pieces, codes, strict=True):
        if code:
            quoted = quoted.replace("\\u0000", piece.replace('"', "'"), 1)
    return f"f{quoted}"


def _edited(
    texts: tuple[str, ...], leaves: Sequence[Leaf], is_expected: Callable[[str], bool]
) -> Explained | None:
    """A text that is an earlier one with another line in one place."""
    after = texts[0].split("\n")
    said = [leaf for leaf in leaves if leaf.source.is_given]
    for leaf in leaves if len(texts) == 1 else ():
        replaced = _replaced(texts[0], leaf, said)
        if replaced is not None:
            return replaced
        before = str(leaf.values[0]).split("\n") if len(after) > 2 else []
        if len(before) != len(after):
            continue
        places = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        if len(places) != 1:
            continue
        old, new = before[places[0]], after[places[0]]
        start = len(re.match(r"\W*(?:\w+\W+)*", _common(old, new))[0])  # type: ignore[index]
        given = (str(each.values[0]) for each in said)
        if not start or any(text in old[start:] for text in given):  # or is it replaced in other lines, too?
            continue
        found = explain("", [new[start:]], [each.source for each in leaves], is_expected)
        if found is None:
            continue
        line, kept = json.dumps(old, ensure_ascii=False), json.dumps(old[:start], ensure_ascii=False)
        code = f"{leaf.code}.replace({line}, {kept} + {found.code})"
        is_there = f"{leaf.code}.count({line}) == 1"
        return Explained(code, (leaf.source, *found.used), (is_there, *found.conditions))
    return None


def _replaced(text: str, leaf: Leaf, said: Sequence[Leaf]) -> Explained | None:
    """A text that is an earlier one with something that the user has said in place of something else."""
    before = next(iter(leaf.values))
    if not isinstance(before, str) or before == text:
        return None
    given = [(each, value) for each in said if isinstance(value := each.values[0], str)]
    stood = [(each, value) for each, value in given if value in before]
    for (old, out), (new, back) in product(stood, given):
        if old is not new and before.replace(out, back) == text:
            code = f"{leaf.code}.replace({old.code}, {new.code})"
            is_there = f"{leaf.code}.count({old.code}) > 0"
            return Explained(code, (leaf.source, old.source, new.source), (is_there,))
    return None


def _common(left: str, right: str) -> str:
    """The beginning that two texts have in common."""
    size = next(
        (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    return left[:size]
