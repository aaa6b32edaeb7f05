"""Doubts about the values of calls: what nobody stated, and what is no id, address or date.

Pure. In: a plan with blocks, and everything the model was told. Out: warnings. What is looked at are parts
with a digit or an `@`, which are the same in every language, ids, and single words of which nobody spoke.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from callsheet import lazy
from callsheet.authoring.compiler.origins import Origin, Origins, address_kind
from callsheet.authoring.compiler.quantities import DATE, NUMBER, is_date, is_of
from callsheet.authoring.compiler.sources import constants, id_source, ids, source_of, sources
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import CallKind, Literal
from callsheet.ir.expression import Display, Expression, Mapping, Text, Variable
from callsheet.ir.tree import Act, Tree, acts
from callsheet.ports.models.prompts import one_line
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import required_of
from callsheet.views.stubs import function_name

PART = lazy.pattern(r"[^\s,;()\[\]{}<>\"']+")
IS_ID = lazy.pattern(r"[A-Za-z]{1,5}[-_#]\d+", re.ASCII)
"""A word that is rather an id than a name."""
_DIGITS = lazy.pattern(r"\d{1,9}", re.ASCII)
_QUOTED = lazy.pattern(r'"([^"\n{}]+)"')
_WORD = lazy.pattern(r"[^\W\d]+(?:-[^\W\d]+)*")
"""A text of one word, perhaps with underscores or hyphens."""
_SMALL = 13
"""Whole numbers up to a dozen count things, choose and switch; goals say them in words."""


def unstated(
    tree: Tree, told: Iterable[str], tools: Collection[ToolSpec] = (), example: str = ""
) -> Iterator[Diagnostic]:
    """CMP010 for each literal value of a call that stands neither in what was `told` nor in what tools say.

    So is each id that is a phrase, a word that is spelled otherwise than it was told, one that a lookup
    filters by though neither its tool nor the goal says it, a text of several things that were told, and one
    that stands in quotes in the prompt's own `example` alone, which small models repeat. What identifies a
    thing is said by `Origins`. A variable that is set once is its value. So is a name that was not told, for
    an argument of a lookup that is called so or one that lookups and changes share, a URL, a date in words,
    and a found value for the id of another thing: another lookup's text, or an id that other tools take.

    >>> from callsheet.frontends.python import read_python
    >>> from callsheet.ir import Effect
    >>> plan = read_python('async def main(): await pay(to="DE89-37", amount=250)').plan
    >>> [one.message for one in unstated(plan.tree, ["Pay 250 to DE89 37"])]
    []
    >>> [one.message for one in unstated(plan.tree, ["Pay the rent to DE89 37"])]
    ['amount=250: nothing that the model was told has 250']
    >>> schema = {"properties": {"pet_id": {}}}
    >>> tools = [ToolSpec("FEED", "feed", "", schema), ToolSpec("FIND_PET", "f", "", effect=Effect.READ)]
    >>> plan = read_python('async def main(): await feed(pet_id="Old Rex")').plan
    >>> [f"{one.message}; {one.help}" for one in unstated(plan.tree, ["Feed Old Rex"], tools)]
    ["pet_id='Old Rex' is not an id; find it: await find_pet()"]
    """
    for one in doubtful(tree, told, tools, example):
        yield Diagnostic("CMP010", Severity.WARNING, one.message, one.act.span, one.help, step=one.act.id)


class Doubtful(NamedTuple):
    """A value of a call that nobody stated; `argument` is empty for one that is given by place.

    `origins` are the tools that tell such a value, if it identifies a thing.
    """

    act: Act
    argument: str
    message: str
    help: str
    origins: tuple[Origin, ...] = ()
    spellings: tuple[str, str] | None = None
    """The word, and how the goal spells it."""
    phrase: str = ""
    """The text that stands where an id or an address belongs, and `named` how the goal spells it."""
    named: str = ""
    made_up: str = ""
    """A name that nobody said."""


def doubtful(
    tree: Tree, told: Iterable[str], tools: Collection[ToolSpec] = (), example: str = ""
) -> Iterator[Doubtful]:
    """The values that `unstated` warns of."""
    own = " ".join(told)
    declared = {spec.name: (spec, _said_by(spec)) for spec in tools}
    texts = " ".join((own, *(said for _, said in declared.values())))
    borrowed = {text for text in _QUOTED.findall(example) if text.casefold() not in texts.casefold()}
    taken = [
        {n for s in tools if s.effect.only_reads is reads for n in s.parameter_names}
        for reads in (True, False)
    ]
    numbers = frozenset(float(one) for n in (_DIGITS, NUMBER) for one in n.findall(own))
    known = _Known(own, texts, plain(texts), Origins(tools), taken[0] & taken[1], tuple(tools), numbers)
    set_once, known_sources = constants(tree), sources(tree)
    known_ids = ids(tree, known_sources)
    is_by_id = any(
        known.origins.takes_id(declared[act.tool][0], name)
        for act in acts(tree)
        for name, _ in act.named
        if act.tool in declared
    )
    for act in acts(tree):
        spec, said = declared.get(act.tool, (None, ""))
        for name, given in _given(act, spec, known.origins):
            value = set_once.get(given.name, given) if isinstance(given, Variable) else given
            text = value.value if isinstance(value, Literal) and isinstance(value.value, str) else None
            if act.kind is not CallKind.TOOL:
                continue
            found = () if spec is None else known.origins_of(spec, name)
            if text in borrowed:
                message = f"{name}={text!r} is of the example, and not of the goal"
                yield Doubtful(act, name, message, "use what the goal says", found, made_up=text or "")
                continue
            unknown = [*_unknown(act, name, value, spec, known)]
            yield from unknown
            if spec is None:
                continue
            number = value.value if isinstance(value, Literal) else None
            if _is_no_thing(number, known.numbers) and known.origins.takes_id(spec, name):
                message = f"{name}={number} is not an id that was told"
                yield Doubtful(act, name, message, f"find it: {_finders(found)}", found)
            if is_by_id and text is not None and known.is_no_name(spec, name, text):
                message = f"{name}={text!r} is rather an id than a {name}"
                yield Doubtful(act, name, message, "give it to the argument that takes an id")
            source = source_of(given, known_sources)
            if source is not None and known.origins.told_otherwise(spec, name, source):
                message = f"{name} is given what {function_name(source)} finds, which is another thing"
                yield Doubtful(act, name, message, f"find it: {_finders(found)}", found)
            named = known_ids.get(given.name) if isinstance(given, Variable) else None
            record = named or id_source(given, known_sources)
            takers = () if record is None else known.origins.takers_of(name, record)
            if record is not None and takers:
                message = f"{name} is given the id of what {function_name(record)} finds"
                yield Doubtful(act, name, message, f"that is taken by {' or '.join(takers[:2])}")
            if not unknown and text is not None:
                yield from _of_another_kind(act, name, text, spec, said, known)


def _given(act: Act, spec: ToolSpec | None, origins: Origins) -> Iterator[tuple[str, Expression]]:
    """What a call is given, with the names of its arguments; of a list of addresses each."""
    yield from (("", value) for value in act.positional)
    for name, value in act.named:
        if isinstance(value, Display) and spec is not None and origins.takes_addresses(spec, name):
            yield from ((name, each) for each in value.items)
        else:
            yield name, value


@dataclass(frozen=True, slots=True)
class _Known:
    """What was told, alone and with what tools say, and what the tools say of where values come from."""

    own: str
    texts: str
    letters: str
    origins: Origins
    shared: set[str]
    """The arguments that a tool takes which reads and one which does not: they say which thing is meant."""
    tools: tuple[ToolSpec, ...]
    numbers: frozenset[float]
    """The numbers that were told."""

    def origins_of(self, spec: ToolSpec, argument: str) -> tuple[Origin, ...]:
        """The tools that tell the id or address that an argument takes."""
        is_sought = self.origins.identifies(argument) or address_kind(spec, argument) is not None
        return tuple(self.origins.of(spec, argument)) if is_sought else ()

    def is_no_name(self, spec: ToolSpec, argument: str, text: str) -> bool:
        """Whether a lookup gets an id of the goal for an argument that says no id."""
        is_id = IS_ID.fullmatch(text) is not None and _stands(text, self.own)
        takes = self.origins.identifies(argument) or self.origins.takes_id(spec, argument)
        return is_id and not takes and spec.effect.only_reads and plain(text) in plain(self.own)


def _finders(found: Iterable[Origin], about: str = "") -> str:
    """How a value is found: by the tools that tell it, or else out of a text."""
    taken = f'; or take it out of a text: await llm_extract("{about}", text)' if about else ""
    return " or ".join(map(str, found)) or f"call a tool that finds it{taken}"


def _unknown(
    act: Act, name: str, value: Expression, spec: ToolSpec | None, known: _Known
) -> Iterator[Doubtful]:
    """What nobody said of the parts of a value that cannot be guessed, and of names."""
    is_name = _TAKES_NAMES.search(name) is not None and spec is not None and spec.effect.only_reads
    for part in _texts(value) if is_name or name in known.shared else ():
        if _NAME.fullmatch(part) and plain(part) not in known.letters:
            first = _finders(known.origins.of(spec, name) if spec is not None else ())
            message = f"{name}={one_line(part)[:60]!r}: nothing that the model was told has that name"
            yield Doubtful(act, name, message, f"find it: {first}", made_up=part)
    numbers = known.numbers
    for part in _parts(value):
        if plain(part) and plain(part) not in known.letters and not is_of(part, numbers):
            shown = one_line(part)[:60]
            where = f"{name}={shown}" if name else f"{act.tool.lower()}({shown})"
            message = f"{where}: nothing that the model was told has {shown}"
            found = () if spec is None else known.origins_of(spec, name)
            may_lack = spec is not None and not found and name not in required_of(spec.parameters)
            is_date = DATE.match(part) is not None
            how = (
                "leave it out, it need not be given"
                if may_lack and not is_date
                else _looked_up(part, known.tools)
            )
            yield Doubtful(act, name, message, f"check it, or say it in the goal; {how}", found)


def _of_another_kind(
    act: Act, name: str, text: str, spec: ToolSpec, said: str, known: _Known
) -> Iterator[Doubtful]:
    """A text that is no id, address or date, though one is taken, several things, or spelled otherwise."""
    own, origins, found = known.own, known.origins, known.origins_of(spec, name)
    kind, is_id = address_kind(spec, name), origins.identifies(name)
    wanted = about = ""
    if kind is not None and text and not kind.has.search(text):
        wanted = about = kind.about
    elif (
        is_id
        and (origins.takes_id(spec, name) or (_as_told(text, own) is None and not _each_begins(text, own)))
        and (not _stands(text, known.texts) or (found and _is_name(text, spec, name, origins, own)))
    ):
        wanted = "an id"
    if wanted:
        message = f"{name}={one_line(text)[:60]!r} is not {wanted}"
        named = _as_told(text, own) or ""
        yield Doubtful(act, name, message, f"find it: {_finders(found, about)}", found, None, text, named)
    elif _is_several(text, own):
        message = f"{name}={one_line(text)[:60]!r} is several things in one text"
        yield Doubtful(act, name, message, "make a call for each, in a loop over a list of them")
    elif _IS_DATE.search(name) and not any(map(str.isdigit, text)) and not _begins_a_word(text, own):
        message = f"{name}={one_line(text)[:60]!r} is not a date that was told"
        yield Doubtful(act, name, message, _looked_up("", known.tools))
    elif _WORD.fullmatch(text) and not _begins_a_word(text, f"{own} {said}"):
        yield from _spelled_otherwise(act, name, text, own, is_filter=spec.effect.only_reads)


_NAME = lazy.pattern(r"[^\W\d][^\s\d,:]*(?: [^\s\d,:]+){0,3}(?<![.!?])")
"""A text that may be a name: no sentence, nothing with digits, which are looked at for themselves."""
_TAKES_NAMES = lazy.pattern(r"(?:^|[a-z]|_)[Nn]ames?$")


def _texts(value: Expression) -> Iterator[str]:
    """A literal text, or those in a list."""
    for one in value.items if isinstance(value, Display) else (value,):
        if isinstance(one, Literal) and isinstance(one.value, str):
            yield one.value


def _looked_up(part: str, tools: Iterable[ToolSpec]) -> str:
    """How what nobody stated is found out; for a date, how today's is."""
    if part and not DATE.match(part):
        return "what is not known has to be looked up by a tool"
    telling = (one.name for one in tools if _TODAY.search(one.name) and not required_of(one.parameters))
    tool = next(telling, None)
    return f"that of today is {'str(today())' if tool is None else f'await {function_name(tool)}()'}"


_TODAY = lazy.pattern(r"(?:^|_)(?:NOW|TODAY|CURRENT_(?:DAY|DATE|TIME|DATETIME))(?:_|$)")
"""The names of tools that tell today's date."""
_IS_DATE = lazy.pattern(r"(?:^|_)date$|[a-z]Date$")
"""The names of arguments that take a date."""


def _is_no_thing(value: object, numbers: Collection[float]) -> bool:
    """Whether a value in the place of an id is a small number that was not told."""
    return type(value) is int and value < _SMALL and value not in numbers


def _is_several(text: str, told: str) -> bool:
    """Whether a text has, between commas, things that were told, though not in these words together."""
    parts = [part.strip() for part in text.split(",")]
    told = told.casefold()
    return (
        len(parts) > 1
        and text.casefold() not in told
        and all(one and one.casefold() in told for one in parts)
    )


def _is_name(text: str, spec: ToolSpec, argument: str, origins: Origins, told: str) -> bool:
    """Whether a word that was told names a thing and is not its id: `rex`, and Rex for a `pet_id`."""
    if not text.isalpha() or re.search(rf"\bids?\b\W{{0,3}}{re.escape(text)}\b", told, re.IGNORECASE):
        return False
    return text.islower() or (origins.takes_id(spec, argument) and not text.isupper())


def _begins_a_word(text: str, told: str) -> bool:
    """Whether a word was told, perhaps with another ending."""
    return re.search(rf"(?<!\w){re.escape(text[: max(3, len(text) - 3)])}", told, re.IGNORECASE) is not None


def _each_begins(text: str, told: str) -> bool:
    """Whether a text has words alone that were told, each perhaps with another ending: a net of nets."""
    words = text.split()
    return all(map(str.isalpha, words)) and all(_begins_a_word(one, told) for one in words)


def _said_by(spec: ToolSpec) -> str:
    return f"{spec.description} {json.dumps(spec.parameters, ensure_ascii=False, default=str)}"


def _spelled_otherwise(act: Act, name: str, text: str, told: str, *, is_filter: bool) -> Iterator[Doubtful]:
    """A word that neither the goal nor its tool has: said otherwise there, or what a lookup filters by.

    So is one of several words that are joined, such as `room_name`, wherever it stands.
    """
    shown = f"{name}={text!r}"
    as_told = _as_told(text, told)
    if as_told is not None:
        message = f"{shown}, but the goal says {as_told!r}"
        yield Doubtful(act, name, message, "write it as the goal does", spellings=(text, as_told))
    elif is_filter or "_" in text or text.count("-") > 1:
        help_ = "use what the goal says or a tool has found; leave it out if it may be left out"
        yield Doubtful(act, name, f"{shown}: the goal does not say that", help_)


def _as_told(text: str, told: str) -> str | None:
    """A text as it was told, where its letters are the same; None if it was not."""
    letters = r"[\s_-]*".join(map(re.escape, plain(text)))
    found = re.search(rf"(?<!\w){letters}(?!\w)", told, re.IGNORECASE) if letters else None
    return None if found is None else found[0]


def _stands(text: str, told: str) -> bool:
    """Whether a text may be an id: one with a digit, which is compared alone, or a whole word that was told.

    A date is none.

    >>> _stands("rent", "Pay the rent."), _stands("plan.txt", "Copy notes/plan.txt.")
    (True, False)
    """
    if any(c.isdigit() for c in text):
        return not is_date(text)
    whole = rf"(?<![\w/.@-]){re.escape(text)}(?![\w/@-])"
    return len(text.split()) == 1 and re.search(whole, told, re.IGNORECASE) is not None


def _parts(node: Expression) -> Iterator[str]:
    """The parts of literal values that cannot be guessed."""
    match node:
        case Literal(value=bool() | None):
            return
        case Literal(value=int() | float() as number):
            if abs(number) >= _SMALL or number != int(number):
                yield str(int(number) if number == int(number) else number)
        case Literal(value=str() as text):
            yield from _of_text(text)
        case Text(parts=parts):
            for part in parts:
                if isinstance(part, str):
                    yield from _of_text(part)
        case Display(items=items):
            for item in items:
                yield from _parts(item)
        case Mapping(items=pairs):
            for _, value in pairs:
                yield from _parts(value)
        case _:
            return


def _of_text(text: str) -> Iterator[str]:
    for match in PART.finditer(text):
        part = match[0].strip(".:!?")
        _, is_url, rest = part.partition("://")
        if is_url:
            yield rest.removeprefix("www.").rstrip("/")
        elif any(c.isdigit() or c == "@" for c in part) and not (part.isdigit() and int(part) < _SMALL):
            yield part


def plain(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return "".join(c for c in text.casefold() if c.isalnum())
