"""Finds how the arguments of recorded calls follow from the data before them, as Python expressions.

In: the values of an argument, one for each round of a loop, and the sources at hand. Out: an expression that
gives all of them, or None. An expression is taken only if it holds in every round, and a place in a list only
if a loop takes all of its items: to choose one is a decision, which nothing here knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from callsheet.ir import JSON

_DEEPEST = 6
_SHORTEST = 4
"""The characters that a text has at least to be found inside another one, or to be found without its name."""
_LEAST_SUM = 10
_SMALLEST = 100
"""From this number on two equal numbers are the same one, even if they are called otherwise."""
_MOST_LINES = 500
_FIRST_MARK, _MOST_MARKS = 0xE000, 6_000
_MARK = re.compile("([\ue000-\uf8ff])")
"""Characters for private use, which stand for data in a template."""
_PREFIX = re.compile(r"[^\w\s]\S*[ \t]+")
"""How the lines of a listing begin that has a kind before each name, as `[FILE] a.txt`."""
_TRANSFORMS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("{}.strip()", str.strip),
    ("{}.lower()", str.lower),
    ("{}.upper()", str.upper),
    ('{}.split("/")[-1]', lambda text: text.split("/")[-1]),
    ('{}.split("@")[0]', lambda text: text.split("@")[0]),
)


class Source(NamedTuple):
    """Data that an expression may use: its code, its value in each round, and the list that a loop goes over.

    `rank` says how near it is: of several explanations the nearest counts. `is_sure` is whether the user has
    asked for it, so that an equal value is no coincidence, however short it is.
    """

    code: str
    values: tuple[JSON, ...]
    rank: int
    listing: str = ""
    is_sure: bool = False


class Explained(NamedTuple):
    """An expression, and the sources that it uses."""

    code: str
    used: tuple[Source, ...]


class _Leaf(NamedTuple):
    code: str
    key: str
    values: tuple[JSON, ...]
    source: Source


def _says_nothing(words: str) -> bool:
    return re.search(r"\w", words) is None


def explain(
    name: str,
    values: Sequence[JSON],
    sources: Sequence[Source],
    is_expected: Callable[[str], bool] = _says_nothing,
) -> Explained | None:
    """The expression for an argument of this name; None if there is none, or if it may be a coincidence.

    `is_expected` tells whether the words around the data in a single text need no further explanation.

    >>> mail = Source("mail", ({"from": "ann@corp.example", "number": 7},), 1)
    >>> explain("to", ["ann@corp.example"], [mail]).code, explain("text", ["From ann@corp.example."], [mail])
    ('mail["from"]', None)
    >>> explain("number", [7], [mail]).code, explain("limit", [7], [mail])
    ('mail["number"]', None)
    """
    leaves = [leaf for source in sources for leaf in _leaves(source)]
    wanted = tuple(values)
    found = [
        leaf for leaf in leaves if _same(leaf.values, wanted) and _is_distinct(name, leaf, wanted, leaves)
    ]
    if found:
        best = min(found, key=lambda leaf: (leaf.key != name, leaf.source.rank, len(leaf.code)))
        return Explained(best.code, (best.source,))
    if all(isinstance(value, str) for value in wanted):
        texts = cast("tuple[str, ...]", wanted)
        return (
            _transformed(texts, leaves)
            or _joined(texts, leaves)
            or _composed(texts, leaves, is_expected)
            or _written_sum(texts, leaves)
        )
    if all(isinstance(value, list) and len(value) > 1 for value in wanted):
        return _column(cast("tuple[list[JSON], ...]", wanted), leaves)
    return _summed(wanted, leaves)


def tables_in(code: str, value: JSON) -> Iterator[tuple[str, list[JSON]]]:
    """The lists of several objects in a value, or of one, with their code."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from tables_in(f"{code}[{json.dumps(key, ensure_ascii=False)}]", item)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield code, value


def without_tables(value: JSON) -> JSON:
    """A value without its lists of objects."""
    if isinstance(value, dict):
        kept = {key: without_tables(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item != []}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return []
    return value


def lists_in(code: str, value: JSON, length: int) -> Iterator[tuple[str, list[JSON]]]:
    """The lists of this length in a value, with their code; the lines of a text count as a list."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from lists_in(f"{code}[{json.dumps(key, ensure_ascii=False)}]", item, length)
    elif isinstance(value, list):
        if len(value) == length:
            yield code, value
    elif isinstance(value, str) and "\n" in value:
        lines = [line for line in value.splitlines() if line.strip()]
        if len(lines) > _MOST_LINES:
            return
        if len(lines) == length:
            yield f"[each for each in {code}.splitlines() if each.strip()]", cast("list[JSON]", lines)
        for prefix in dict.fromkeys(found[0] for line in lines if (found := _PREFIX.match(line))):
            rest = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
            if len(rest) == length:
                quoted = json.dumps(prefix, ensure_ascii=False)
                kept = f"for each in {code}.splitlines() if each.startswith({quoted})"
                yield f"[each.removeprefix({quoted}) {kept}]", cast("list[JSON]", rest)


def _leaves(source: Source) -> Iterator[_Leaf]:
    yield from _leaves_below(source.code, "", source.values, source, 0)


def _leaves_below(
    code: str, key: str, values: tuple[JSON, ...], source: Source, depth: int
) -> Iterator[_Leaf]:
    """What can be reached in the values of all rounds alike: whole values, and the fields of objects."""
    yield _Leaf(code, key, values, source)
    first = values[0]
    if depth < _DEEPEST and isinstance(first, dict):
        for name in first:
            if all(isinstance(value, dict) and name in value for value in values):
                below = tuple(cast("dict[str, JSON]", value)[name] for value in values)
                quoted = json.dumps(name, ensure_ascii=False)
                yield from _leaves_below(f"{code}[{quoted}]", name, below, source, depth + 1)


def _same(left: tuple[JSON, ...], right: tuple[JSON, ...]) -> bool:
    """Whether two rounds of values are the same; True is not 1."""
    return left == right and all(type(a) is type(b) for a, b in zip(left, right, strict=True))


def _is_distinct(name: str, leaf: _Leaf, values: tuple[JSON, ...], leaves: Sequence[_Leaf]) -> bool:
    """Whether equal values are no coincidence: they have the same name, differ by round, or are long.

    A text of three letters is long enough if nothing else has it.
    """
    if (
        leaf.source.is_sure
        or leaf.key == name
        or len({json.dumps(value, sort_keys=True) for value in values}) > 1
    ):
        return True
    value = values[0]
    if isinstance(value, str):
        is_alone = len(value) == _SHORTEST - 1 and sum(each.values == leaf.values for each in leaves) == 1
        return len(value) >= _SHORTEST or (is_alone and value.isalpha())
    if isinstance(value, bool) or value is None:
        return False
    return abs(value) >= _SMALLEST if isinstance(value, int | float) else bool(value)


def _transformed(texts: tuple[str, ...], leaves: Sequence[_Leaf]) -> Explained | None:
    for leaf in leaves:
        given = leaf.values
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
            is_distinct = leaf.source.is_sure or len(set(texts)) > 1 or len(texts[0]) >= _SHORTEST
            if tuple(map(str, given)) == texts and is_distinct:
                return Explained(f"str({leaf.code})", (leaf.source,))
            continue
        if not all(isinstance(value, str) for value in given) or min(map(len, texts)) < _SHORTEST:
            continue
        for code, transform in _TRANSFORMS:
            if tuple(transform(cast("str", value)) for value in given) == texts:
                return Explained(code.format(leaf.code), (leaf.source,))
    return None


def _columns(leaves: Sequence[_Leaf]) -> Iterator[tuple[_Leaf, str, tuple[list[JSON], ...]]]:
    """The columns of tables: for each list of several objects its fields, and lists of plain values."""
    for leaf in leaves:
        if not all(isinstance(value, list) and len(value) > 1 for value in leaf.values):
            continue
        tables = cast("tuple[list[JSON], ...]", leaf.values)
        yield leaf, leaf.code, tables
        first = tables[0][0]
        for name in first if isinstance(first, dict) else ():
            rows = [[row.get(name) if isinstance(row, dict) else None for row in table] for table in tables]
            code = f"[row[{json.dumps(name, ensure_ascii=False)}] for row in {leaf.code}]"
            if all(value is not None for row in rows for value in row):
                yield leaf, code, tuple(rows)


def _column(lists: tuple[list[JSON], ...], leaves: Sequence[_Leaf]) -> Explained | None:
    """A list that has one field of each object of a list, or the plain values of one."""
    for leaf, code, columns in _columns(leaves):
        if columns == lists:
            return Explained(code, (leaf.source,))
    return None


def _joined(texts: tuple[str, ...], leaves: Sequence[_Leaf]) -> Explained | None:
    """A text that is a list of texts, with something between them."""
    for leaf, code, columns in _columns(leaves):
        if all(isinstance(value, str) for column in columns for value in column):
            for between in (", ", "\n", ",", "; ", " "):
                if tuple(between.join(cast("list[str]", column)) for column in columns) == texts:
                    return Explained(f"{json.dumps(between)}.join({code})", (leaf.source,))
    return None


def column_sums(value: JSON) -> Iterator[float]:
    """The sums of the columns of numbers in a value, except small ones."""
    for _, _, columns in _columns([*_leaves(Source("", (value,), 0))]):
        if all(isinstance(each, int | float) and not isinstance(each, bool) for each in columns[0]):
            total = sum(cast("list[float]", columns[0]))
            if abs(total) >= _LEAST_SUM:
                yield total


def _written_sum(texts: tuple[str, ...], leaves: Sequence[_Leaf]) -> Explained | None:
    """A text that is nothing but the sum of a column."""
    if not all(re.fullmatch(r"-?\d{2,15}", text) for text in texts):
        return None
    found = _summed(tuple(map(int, texts)), leaves)
    return None if found is None else Explained(f"str({found.code})", found.used)


def _summed(values: tuple[JSON, ...], leaves: Sequence[_Leaf]) -> Explained | None:
    """A number that is the sum of a column, if it is no small one."""
    if not all(
        isinstance(v, int | float) and not isinstance(v, bool) and abs(v) >= _LEAST_SUM for v in values
    ):
        return None
    for leaf, code, columns in _columns(leaves):
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for c in columns for v in c)
        if numbers and tuple(sum(cast("list[float]", column)) for column in columns) == values:
            return Explained(f"sum({code})", (leaf.source,))
    return None


def _written(value: JSON) -> JSON:
    """A number as an f-string writes it; anything else as it is."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _composed(
    texts: tuple[str, ...], leaves: Sequence[_Leaf], is_expected: Callable[[str], bool]
) -> Explained | None:
    """A text with data in it. The text around the data must be the same in several rounds, or be expected.

    Short data, and numbers, count only if they differ by round.
    """
    written = [leaf._replace(values=tuple(map(_written, leaf.values))) for leaf in leaves]
    known = [
        leaf
        for leaf in written
        if all(isinstance(v, str) and v and v in text for v, text in zip(leaf.values, texts, strict=True))
        and (
            leaf.source.is_sure
            or len(set(leaf.values)) > 1
            or min(len(cast("str", v)) for v in leaf.values) >= _SHORTEST
        )
    ]
    known.sort(key=lambda leaf: (-min(len(cast("str", v)) for v in leaf.values), leaf.source.rank))
    if any(_MARK.search(text) for text in texts):
        return None
    rounds = [[text] for text in texts]  # at even places text, at odd places data that was found
    codes: list[tuple[int, str, Source]] = []
    for number, leaf in enumerate(known[:_MOST_MARKS]):
        mark = chr(_FIRST_MARK + number)
        cut = [
            [part.replace(cast("str", value), mark) for part in parts]
            for parts, value in zip(rounds, leaf.values, strict=True)
        ]
        counts = {"".join(parts).count(mark) for parts in cut}
        if counts == {0} or len(counts) > 1:
            continue
        rounds = cut
        codes.append((number, leaf.code, leaf.source))
    if not codes:
        return None
    templates = {"".join(parts) for parts in rounds}
    if len(templates) > 1:
        return None
    template = templates.pop()
    if len(texts) == 1 and not is_expected(_MARK.sub(" ", template)):
        return None
    named = {number: code for number, code, _ in codes}
    parts = _MARK.split(template)
    pieces = [
        f"{{{named[ord(part) - _FIRST_MARK]}}}" if place % 2 else part.replace("{", "{{").replace("}", "}}")
        for place, part in enumerate(parts)
    ]
    quoted = json.dumps("".join(piece if place % 2 == 0 else "\0" for place, piece in enumerate(pieces)))
    for place in range(1, len(pieces), 2):
        quoted = quoted.replace("\\u0000", pieces[place].replace('"', "'"), 1)
    return Explained(f"f{quoted}", tuple(source for _, _, source in codes))
