"""Texts that are made of others in all examples, with the same words between their parts.

In: the wanted texts, and what is known. Out: what they may be made of (values and their forms, fields of
picked items, other days), and the expression that puts it together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from itertools import chain, permutations
from typing import Any, cast

from callsheet.authoring.distillation.leaves import Source, leaves_of
from callsheet.authoring.distillation.picking import picks
from callsheet.authoring.distillation.rules import common_start
from callsheet.authoring.distillation.scopes import Scope, Term, are_same, best, figures, quoted
from callsheet.ir import JSON

_MOST_DAYS, _LEAST = 400, 3
LONE = re.compile(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w:-]|\.\d)")
"""A number by itself, which another time is another."""
DAY, _TIME = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")
_READ = "date.fromisoformat({0}[:10])"


def _spoken(form: str, text: str, *, is_first: bool) -> str:
    """A day as people write it, perhaps with its number first; "" of what is none."""
    try:
        day = date.fromisoformat(text[:10]) if DAY.match(text) else None
    except ValueError:
        return ""
    return "" if day is None else f"{day.day if is_first else ''}{day.strftime(form)}"


_FORMS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("{}.lower()", str.lower),
    ("{}.upper()", str.upper),
    ("{}.title()", str.title),
    ("{}.strip()", str.strip),
    ('{}.lower().replace(" ", "-")', lambda one: one.lower().replace(" ", "-")),
    ('{}.lower().replace(" ", "_")', lambda one: one.lower().replace(" ", "_")),
    ('{}.lower().replace(" ", ".")', lambda one: one.lower().replace(" ", ".")),
    ('{}.split("/")[-1]', lambda one: one.split("/")[-1]),
    ('{}.rsplit("/", 1)[0]', lambda one: one.rsplit("/", 1)[0]),
    ('{}.rsplit(".", 1)[0]', lambda one: one.rsplit(".", 1)[0]),
    ('{}.split("@")[0]', lambda one: one.split("@")[0]),
    ('{}.split("@")[-1]', lambda one: one.split("@")[-1]),
    ("{}.split()[0]", lambda one: one.split()[0]),
    ("{}.split()[-1]", lambda one: one.split()[-1]),
    ('{}.split(" ", 1)[1]', lambda one: one.split(" ", 1)[1]),
    ('{}.split(": ", 1)[1]', lambda one: one.split(": ", 1)[1]),
    ("{}[:10]", lambda one: one[:10] if DAY.match(one) else ""),
    ("{}[:7]", lambda one: one[:7] if DAY.match(one) else ""),
    ("{}[10:]", lambda one: one[10:] if _TIME.match(one) else ""),
    ("{}[11:]", lambda one: one[11:] if _TIME.match(one) else ""),
    ("{}[11:16]", lambda one: one[11:16] if _TIME.match(one) else ""),
    ('re.search("\\\\d{{4}}-\\\\d\\\\d", {}).group(0)', lambda one: re.findall(r"\d{4}-\d\d", one)[0]),
    ('{}.replace(" ", "")', lambda one: one.replace(" ", "")),
    ('{}.replace("-", "")', lambda one: one.replace("-", "")),
    *(
        (
            f'{"str(" + _READ + ".day) + " if is_first else ""}{_READ}.strftime("{form}")',
            partial(_spoken, form, is_first=is_first),
        )
        for form, is_first in (
            (" %B %Y", True),
            (" %B", True),
            (" %b %Y", True),
            ("%d.%m.%Y", False),
            ("%d/%m/%Y", False),
            ("%m/%d/%Y", False),
            ("%B %Y", False),
            ("%A", False),
        )
    ),
)
"""What is made of a text."""
_MOMENT, _FIGURE = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d"), re.compile(r"\b(?:len|sum|min|max)\(")
_MOST_WORDS = 400
_REST = re.compile(r"[.,]\d")
_SECONDS = re.compile(r"^:00(?!\d)")
_LABELS = (r"(\S*\w\S*\s*\S?\s*|\W\s*)$", r"\S+\s+\S+\s*$")
_SHAPES = (
    (re.compile(r"\d+"), r"(\d+)"),
    (re.compile(r"\d[\d.,]*\d"), r"(\d[\d.,]*\d)"),
    (re.compile(r"[A-Z]+-\d+"), r"([A-Z]+-\d+)"),
    (re.compile(r"\d{4}-\d\d-\d\d"), r"(\d{4}-\d\d-\d\d)"),
    (re.compile(r"\w+"), r"(\w+)"),
    (re.compile(r".*"), r"(\S*\w)"),
)


def parts(scope: Scope, goal: Sequence[str]) -> Iterator[Term]:
    """What texts may be made of: values, parts of them, figures, other days, and fields of picked items."""
    terms = [*scope.plain, *scope.made]
    yield from terms
    texts = [one for one in terms if all(isinstance(v, str) and v for v in one.values)]
    for term in texts:
        yield from _forms(term, goal)
    yield from figures(scope, [*scope.lists, *scope.likely]) if not scope.is_row else ()
    yield from _times(terms, goal, is_one=scope.readings is not None)
    for term in scope.lists if not scope.is_row else ():
        tables = cast("tuple[list[JSON], ...]", term.values)
        yield from _common_fields(term)
        if all(tables) and max(map(len, tables)) > 1:
            for code, items, cost, conditions in [*picks(scope, term, goal)][:4]:
                for leaf in leaves_of(Source(code, items)):
                    one = Term(
                        leaf.code, leaf.values, cost, (*conditions, *leaf.conditions), picked=((code, items),)
                    )
                    yield one
                    if all(isinstance(v, str) and v for v in one.values):
                        yield from _forms(one, goal)


def _common_fields(term: Term) -> Iterator[Term]:
    """The texts that a field has in all items of a list alike, as a unit."""
    tables = [[row for row in cast("list[JSON]", one) if isinstance(row, dict)] for one in term.values]
    for name in tables[0][0] if all(tables) else ():
        columns = [[row.get(name) for row in rows] for rows in tables]
        if all(isinstance(one[0], str) and one.count(one[0]) == len(one) > 1 for one in columns):
            at = json.dumps(name, ensure_ascii=False)
            is_one = f"len({{one[{at}] for one in {term.code}}}) == 1"
            values = tuple(one[0] for one in columns)
            yield Term(f"{term.code}[0][{at}]", values, term.cost + 0.6, (*term.conditions, is_one))


def _forms(term: Term, goal: Sequence[str]) -> Iterator[Term]:
    values = cast("tuple[str, ...]", term.values)
    seen = {values}
    for form, function in _FORMS:
        try:
            made = tuple(map(function, values))
        except IndexError:
            continue
        if made not in seen and all(made):
            seen.add(made)
            yield term._replace(code=form.format(term.code), values=made, cost=term.cost + 0.5)
    start = common_start([*values])
    if len(start) > 1 and len({*values}) > 1:
        start = start if not start[-1].isalnum() else re.sub(r"\w+$", "", start)
        if start:
            yield term._replace(
                code=f"{term.code}.removeprefix({quoted(start)})",
                values=tuple(v.removeprefix(start) for v in values),
                cost=term.cost + 0.6 + 0.1 * len(start.split()),  # a sentence is not stripped, but a mark is
                conditions=(*term.conditions, f"{term.code}.startswith({quoted(start)})"),
            )
    for code, found, condition in _labelled(term.code, values, goal) if not term.is_given else ():
        conditions = (*term.conditions, condition)
        yield term._replace(code=code, values=found, cost=term.cost + 0.9, conditions=conditions)


def _labelled(
    code: str, texts: Sequence[str], goal: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Words of texts that are in the wanted ones, by what stands before them, and that it is at one place."""
    seen: set[tuple[str, ...]] = set()
    words = [*re.finditer(r"[^\s,;:()\[\]#\"']*\w", texts[0])]
    for place in words if 1 < len(words) <= _MOST_WORDS else ():
        if not re.search(rf"(?<!\w){re.escape(place[0])}(?!\w)", goal[0]):
            continue
        shape = next(to for form, to in _SHAPES if form.fullmatch(place[0]))
        before = texts[0][: place.start()].rpartition("\n")[2]
        for form in _LABELS:
            label = re.search(form, before)
            if label is None or not label[0].strip():
                continue
            pattern = re.escape(label[0]).replace("\\ ", " ").replace('\\"', '"') + shape
            every = [re.findall(pattern, each) for each in texts]
            found = tuple(each[0] if len(each) == 1 else "" for each in every)
            if (
                all(one and one in whole for one, whole in zip(found, goal, strict=True))
                and found not in seen
            ):
                seen.add(found)
                of_it = f"{json.dumps(pattern, ensure_ascii=False)}, {code})"
                yield f"re.search({of_it}.group(1)", found, f"len(re.findall({of_it}) == 1"


def replaced(term: Term, given: Sequence[Term], goal: Sequence[str]) -> Iterator[Term]:
    """A text with something that the user has said in place of something else."""
    before = cast("tuple[str, ...]", term.values)
    if term.is_given or any(
        one == two or abs(len(one) - len(two)) > 400 for one, two in zip(before, goal, strict=True)
    ):
        return
    for old, new in permutations(given, 2):
        pairs = zip(before, cast("Any", old.values), cast("Any", new.values), goal, strict=True)
        if all(a in text and text.replace(a, b) == wanted for text, a, b, wanted in pairs):
            is_there = f"{term.code}.count({old.code}) > 0"
            yield Term(
                f"{term.code}.replace({old.code}, {new.code})", tuple(goal), 1.2, (*term.conditions, is_there)
            )


def _times(terms: Sequence[Term], goal: Sequence[str], *, is_one: bool) -> Iterator[Term]:
    """Days and times that are as far from others as a number says, or always are, if not in `is_one` run."""
    found = [_TIME.search(one) or DAY.search(one) for one in goal]
    if not all(found):
        return
    wanted = [cast("Any", one)[0] for one in found]
    numbers = [
        term
        for term in terms
        if all(isinstance(v, int) and not isinstance(v, bool) and v for v in term.values)
    ]
    is_time = all(len(one) > 10 for one in wanted)
    for term in terms:
        if not all(isinstance(v, str) and DAY.match(v) and (len(v) >= 16) >= is_time for v in term.values):
            continue
        far = {
            _between(cast("str", v), one, is_time=is_time) for v, one in zip(term.values, wanted, strict=True)
        }
        is_known = (
            any(
                are_same([abs(n) for n in far] * len(wanted) if len(far) == 1 else [], one.values)
                for one in numbers
            )
            if len(far) == 1
            else True
        )
        constant = (
            [] if is_known or is_one else [Term(str(abs(n)), (abs(n),) * len(wanted), 1.0) for n in far if n]
        )
        for number in (*numbers, *constant):
            units = (("days", 86400), ("weeks", 7 * 86400))
            units = (("minutes", 60), ("hours", 3600), *units) if is_time else units
            for unit, seconds in units:
                for sign in (1, -1):
                    try:
                        made = [
                            _shifted(cast("str", v), sign * cast("int", n) * seconds, is_time=is_time)
                            for v, n in zip(term.values, number.values, strict=True)
                        ]
                    except (ValueError, OverflowError):
                        continue
                    if all(a.startswith(b) for a, b in zip(made, wanted, strict=True)):
                        kind, piece = ("datetime", "") if is_time else ("date", "[:10]")
                        mark = "+" if sign > 0 else "-"
                        after = f"{mark} timedelta({unit}={number.code})).isoformat()"
                        code = f"({kind}.fromisoformat({term.code}{piece}) {after}"
                        code += f"[:{len(wanted[0])}]" if is_time else ""
                        yield Term(
                            code,
                            tuple(wanted),
                            term.cost + number.cost,
                            (*term.conditions, *number.conditions),
                            picked=(*term.picked, *number.picked),
                        )


def _between(text: str, other: str, *, is_time: bool) -> int:
    """The days or minutes between two days or times."""
    try:
        if is_time:
            return int(
                (datetime.fromisoformat(other[:19]) - datetime.fromisoformat(text[:19])).total_seconds() // 60
            )
        return (date.fromisoformat(other[:10]) - date.fromisoformat(text[:10])).days
    except (ValueError, TypeError):
        return 0


def _shifted(text: str, seconds: int, *, is_time: bool) -> str:
    if abs(seconds) > _MOST_DAYS * 86400:
        raise OverflowError
    if is_time:
        return (datetime.fromisoformat(text[:19]) + timedelta(seconds=seconds)).isoformat()
    return (date.fromisoformat(text[:10]) + timedelta(seconds=seconds)).isoformat()


def composed(goal: Sequence[str], pool: dict[tuple[str, ...], list[Term]], scope: Scope) -> Term | None:
    """The text as parts with the same words between them."""
    classes = sorted(pool.items(), key=lambda one: (-len(one[0][0]), one[1][0].cost))
    usable = [
        (values, terms)
        for values, terms in classes
        if len({*values}) > 1
        or terms[0].is_given
        or (len(values[0]) >= _LEAST if len(goal) == 1 else _may_be_part(values[0], terms[0].code))
        or values[0].isdigit()
    ]
    failed: set[tuple[int, ...]] = set()
    size = len(goal)

    def at(
        places: tuple[int, ...], found: list[tuple[str, Term | None]]
    ) -> list[tuple[str, Term | None]] | None:
        if all(p == len(one) for p, one in zip(places, goal, strict=True)):
            return found
        if places in failed:
            return None
        before = goal[0][places[0] - 1] if places[0] else ""
        for values, terms in usable:
            if not all(one.startswith(v, p) for v, p, one in zip(values, places, goal, strict=True)):
                continue
            after = [one[p + len(v) : p + len(v) + 1] for v, p, one in zip(values, places, goal, strict=True)]
            if _is_one_word(before, values[0]) or all(
                _is_one_word(v[-1], x) for v, x in zip(values, after, strict=True)
            ):
                continue
            ends = (one[p + len(v) :] for v, p, one in zip(values, places, goal, strict=True))
            if all(v[-1].isdigit() and _REST.match(end) for v, end in zip(values, ends, strict=True)):
                continue  # a number is one value, with its decimal places
            whole = at(
                tuple(p + len(v) for v, p in zip(values, places, strict=True)), [*found, ("", _agreed(terms))]
            )
            if whole is not None:
                return whole
        chars = {one[p : p + 1] for p, one in zip(places, goal, strict=True)}
        if len(chars) == 1 and "" not in chars:
            char = chars.pop()
            more = (
                [*found[:-1], (found[-1][0] + char, None)]
                if found and found[-1][1] is None
                else [*found, (char, None)]
            )
            whole = at(tuple(p + 1 for p in places), more)
            if whole is not None:
                return whole
        failed.add(places)
        return None

    if max(map(len, goal)) > 700:
        return None
    pieces = at((0,) * size, [])
    if pieces is None or not any(term for _, term in pieces):
        return None
    terms = [term for _, term in pieces if term is not None]
    words = "".join(text for text, _ in pieces)
    if (
        len(pieces) == 1
        or _has_part_of_day(pieces, goal[0])
        or any(
            LONE.search(text)
            or _is_data(text, scope.seen)
            or _is_rest_of_name(text, scope.seen)
            or not (
                (len({*goal}) > 1 and not re.search(r"\d", text)) or scope.may_stay(_SECONDS.sub("", text))
            )
            for text, term in pieces
            if term is None
        )
    ):
        return None
    code = _fstring(pieces)
    conditions = tuple(chain.from_iterable(term.conditions for term in terms))
    if all(term.is_given for term in terms):
        return Term(code, tuple(goal), 0.9, conditions, is_given=True)
    cost = 0.4 + 0.5 * sum(term.cost for term in terms) + (1.0 if re.search(r"\d", words) else 0)
    picked = tuple(chain.from_iterable(term.picked for term in terms))
    return Term(code, tuple(goal), cost, conditions, picked=picked)


def _may_be_part(text: str, code: str) -> bool:
    """Whether a text that never differed may be a part: a field; words of prose are written."""
    return ("(" not in code or text != text.lower()) and (len(text) >= _LEAST or text.isalnum())


def _has_part_of_day(pieces: Sequence[tuple[str, Term | None]], text: str) -> bool:
    """Whether digits of a day are words between parts, or digits of a day or an hour how many there are of
    something. Another time they are others; the first day of a month is written so.
    """
    end = 0
    for words, term in pieces:
        start, end = end, end + len(words if term is None else str(term.values[0]))
        for one in _MOMENT.finditer(text) if term is None or _FIGURE.search(term.code) else ():
            within = text[max(start, one.start()) : min(end, one.end())]
            is_word = term is None and (":" in one[0] or within == "-01")
            if re.search(r"\d", within) and not is_word:
                return True
    return False


def _is_data(text: str, seen: frozenset[str]) -> bool:
    """Whether words between parts are, or have, a name that a tool has answered."""
    return any(
        word in seen for word in (*re.findall(r"[^\W\d_]*[A-Z]\w*", text), text.strip(" ,.;:")) if word
    )


def _is_rest_of_name(text: str, seen: frozenset[str]) -> bool:
    """Whether words begin or end within a name that a tool has answered."""
    found = re.match(r"_[a-z]\w*", text) or re.search(r"(?<![^\W_])[a-z]\w*_\Z", text)
    return found is not None and any(found[0] in one for one in seen)


def _is_one_word(left: str, right: str) -> bool:
    """Whether a text is cut within a word or a number."""
    a, b = left[-1:], right[:1]
    return (a.isalpha() and b.isalpha()) or (a.isdigit() and b.isdigit())


def _agreed(terms: Sequence[Term]) -> Term:
    """The likeliest of terms with the same values, which have to agree; what never differed must not now."""
    one = cast("Term", best(terms))
    if (
        len({*map(str, one.values)}) == 1
        and not one.is_given
        and len(one.values) > 1
        and not str(one.values[0]).isdigit()
    ):
        return one._replace(conditions=(*one.conditions, f"{one.code} == {quoted(one.values[0])}"))
    return one


def _fstring(pieces: Sequence[tuple[str, Term | None]]) -> str:
    """The code of a text: an f-string, or a sum where quotes do not allow one."""
    codes = [term.code if term is not None else quoted(text) for text, term in pieces]
    if any(
        "'" in code or "\\" in code or "{" in code
        for (_, term), code in zip(pieces, codes, strict=True)
        if term is not None
    ):
        return " + ".join(codes)
    text = "".join(
        "\0" if term is not None else piece.replace("{", "{{").replace("}", "}}") for piece, term in pieces
    )
    line = json.dumps(text, ensure_ascii=False)
    for (_, term), code in zip(pieces, codes, strict=True):
        if term is not None:
            inner = (
                code.removeprefix("str(").removesuffix(")")
                if code.startswith("str(") and code.count("(") == 1
                else code
            )
            line = line.replace("\\u0000", "{" + inner.replace('"', "'") + "}", 1)
    return f"f{line}"
