"""Where the value of an argument that identifies a thing comes from: the tools that tell it.

Pure. In: the declarations of the tools. Out: for an argument, which tools are called to find its value, and
where in their result it stands, as far as their schemas say so. The review names it where a plan has a
phrase in place of an id, and in the program of a small model it is looked up there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import nsmallest
from keyword import iskeyword
from typing import Any, NamedTuple

from callsheet import lazy
from callsheet.authoring.compiler.goal_parts import words_of
from callsheet.authoring.likely_effects import likely_effect
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import required_of, table
from callsheet.views.stubs import function_name

_ID = lazy.pattern(r"(?:^|_)id_?$|[a-z]Id$")
_NUMBER = lazy.pattern(r"(?:^|_)(?:sku|uuid)$|_no$")
"""Arguments that take what identifies a thing beside its id."""
_FIRST = lazy.pattern(r"\{\W{0,3}(\w+)\W")
"""The first field of what a description shows."""
_SHOWN = lazy.pattern(r"\{([\w, ]+)\}")
"""The fields that a description shows in braces."""
_RESULT = lazy.pattern(
    r"(?:\b(?:returns?|gives?)\b(?P<said>[^.{}\[]{0,30})|:\s*)(?P<opening>\[\s*)?\{(?P<names>[^{}]+)\}",
    re.IGNORECASE,
)
"""What a description shows of a result, of one record or of each in a list: behind a verb or a colon."""
_NAMES = lazy.pattern(r"\s*[\"']?[A-Za-z_]\w*[\"']?\s*(?:,\s*[\"']?[A-Za-z_]\w*[\"']?\s*)+")
_IN_RECORD = lazy.pattern(r"""(?: as "|\[")([^"]+)"\]?""")
_MOST = 2


class AddressKind(NamedTuple):
    """A kind of address: its noun, as fields and arguments are called, and what each address of it has."""

    noun: str
    about: str
    has: re.Pattern[str]


_MAIL = AddressKind("email", "an e-mail address", re.compile("@"))
_KINDS = (
    (re.compile(r"(?:^|_)e?_?mail(?:_?address)?$", re.IGNORECASE), _MAIL),
    (
        re.compile(r"(?:^|_)(?:tele)?phone(?:_?number)?$|(?:^|_)mobile$", re.IGNORECASE),
        AddressKind("phone", "a phone number", re.compile(r"\d")),
    ),
)
_IBAN = AddressKind("iban", "an IBAN", re.compile(r"[A-Z]{2}\d\d"))
_IS_IBAN = lazy.pattern(r"\bIBAN\b", re.IGNORECASE)
_IS_MAIL = lazy.pattern(r"\A(?:the )?e-?mail address(?:es)?\b(?!.*\bnames?\b)", re.IGNORECASE)
"""A description that begins with what the argument takes."""
_RECEIVES = frozenset(("to", "cc", "bcc", "recipient", "recipients"))


def address_kind(spec: ToolSpec, argument: str) -> AddressKind | None:
    """What kind of address an argument takes, by its name; `to` of a tool that mails takes that of a mail.

    An IBAN and the address of a mail are also what the argument's description calls so.

    >>> spec = ToolSpec("SEND_EMAIL", "send_email", "Send a mail.", {"properties": {"to": {}, "body": {}}})
    >>> address_kind(spec, "to").noun, address_kind(spec, "body")
    ('email', None)
    """
    if argument.casefold() in _RECEIVES and {"mail", "email"} & set(spec.name.lower().split("_")):
        return _MAIL
    about = table(table(spec.parameters.get("properties")).get(argument)).get("description")
    if _IS_IBAN.search(f"{argument.replace('_', ' ')} {about}"):
        return _IBAN
    if isinstance(about, str) and _IS_MAIL.search(about):
        return _MAIL
    return next((kind for name, kind in _KINDS if name.search(argument)), None)


class Origin(NamedTuple):
    """A tool that tells a value, and where in its result the value stands, empty if it does not say.

    `is_guess` says that nothing declares the place: the result may as well be the value itself, as it is if
    `is_value` says so.
    """

    tool: str
    place: str = ""
    takes_nothing: bool = False
    is_guess: bool = False
    is_value: bool = False

    @property
    def field(self) -> str:
        """The field of the result that has the value; empty if it is not known, and of a list."""
        shown = _IN_RECORD.fullmatch(self.place)
        return shown[1] if shown is not None else ""

    def __str__(self) -> str:
        called = f"await {self.tool}({'' if self.takes_nothing else '...'})"
        if self.place.startswith("["):
            of_each = self.place.removeprefix("[0]")
            return f"({called}){of_each}" if of_each == self.place else f"[x{of_each} for x in {called}]"
        return f"{called}{self.place}"


_BEHIND = lazy.pattern(r"_(?:by|for|from|in|of|on|to|with)_.*")
"""What stands in the name of a tool behind the things that it finds."""


class Finder(NamedTuple):
    """How one thing is found by its name: the tool, its argument for the name, and the field of the id.

    The field is empty where the result is the address itself.
    Where the tool lists things, `key` is the field of each that has its name; the argument is then empty if
    the tool takes none for it.
    """

    tool: str
    argument: str
    field: str
    key: str = ""


_NAMING = ("name", "full_name", "title", "subject", "label")
"""The fields by which people name things, the usual first."""


class Origins:
    """The tools that tell the ids which other tools take.

    >>> from callsheet.ir import Effect
    >>> pets = {"type": "array", "items": {"properties": {"id": {}, "name": {}}}}
    >>> feed = ToolSpec("FEED", "feed", "", {"properties": {"pet_id": {}}})
    >>> origins = Origins([feed, ToolSpec("FIND_PET", "find_pet", "", effect=Effect.READ, result=pets)])
    >>> [str(one) for one in origins.of(feed, "pet_id")]
    ['[x["id"] for x in await find_pet()]']
    """

    def __init__(self, tools: Collection[ToolSpec]) -> None:
        self._keys = _keys(tools)
        self._arguments = {spec.name: spec.parameter_names for spec in tools}
        self._words = {spec.name: set(words_of(spec.name.lower())) for spec in tools}
        self._reading = [spec for spec in tools if spec.effect.only_reads]
        self._fields = {field for spec in self._reading for field in _fields(spec)}
        self._texts = {
            function_name(spec.name): name
            for spec in self._reading
            if (name := _only_text(spec)) and (name in _NAMING or not self.identifies(name))
        }
        self._listing = {function_name(spec.name): spec for spec in self._reading}
        self._takers: dict[str, list[set[str]]] = {}
        for spec in tools:
            for name in spec.parameter_names:
                self._takers.setdefault(name, []).append(self._words[spec.name])
        self._tellers: dict[str, _Tellers] = {}

    def identifies(self, argument: str) -> bool:
        """Whether an argument says which thing is meant.

        These are arguments called `id`, `..._id`, `sku` or `..._no`, and those that tools take under the
        name of a field by which another one begins what it tells of a thing.
        """
        return _names_id(argument) or argument in self._keys

    def by_text(self) -> Iterable[tuple[str, str]]:
        """The tools that read and need one text that is no id, each with its argument."""
        return self._texts.items()

    def takes_id(self, called: ToolSpec, argument: str) -> bool:
        """Whether an argument takes an id or an address by its name, and no record by its schema."""
        type_ = _type_of(called, argument)
        is_named = _names_id(argument) or address_kind(called, argument) is not None
        return is_named and type_ in (None, "string", "integer", "number")

    def takes_addresses(self, called: ToolSpec, argument: str) -> bool:
        """Whether an argument takes a list of addresses, each of which is found as one alone."""
        return address_kind(called, argument) is not None and _type_of(called, argument) == "array"

    def takers_of(self, argument: str, tool: str) -> list[str]:
        """The tools that take the id of what a tool finds, if an argument takes that of another thing.

        The things are those that the names of arguments and tools say: no `job_id` is the id of an invoice
        that `list_invoices` found, where `pay_invoice` takes an `invoice_id`. What `list_job_invoices` and
        `list_invoices_of_job` find are invoices.
        """
        words, noun = self._words.get(tool, set[str]()), set(words_of(_ID.sub("", argument)))
        if not noun or noun & words or _ID.search(argument) is None:
            return []
        found = set(words_of(_BEHIND.sub("", tool.lower()))[-1:])
        return [
            function_name(name)
            for name, arguments in self._arguments.items()
            if any(_ID.search(one) and set(words_of(_ID.sub("", one))) & found for one in arguments)
        ]

    def told_otherwise(self, called: ToolSpec, argument: str, tool: str) -> bool:
        """Whether other tools have a field of the name of this id, and a tool gives a text that has none.

        A tool that is named after ids (`list_task_ids`) may well give them, and gives no address.
        """
        spec = next((one for one in self._reading if one.name == tool), None)
        if spec is not None and address_kind(called, argument) is not None:
            return spec.result.get("type") == "string" and bool({"id", "ids"} & _found_by(tool))
        is_id = self.takes_id(called, argument) and address_kind(called, argument) is None
        if spec is None or not is_id or _ID.fullmatch(argument) is not None:
            return False
        return _gives_other_text(spec) and argument in self._fields

    def of(self, called: ToolSpec, argument: str) -> list[Origin]:
        """The tools that read and do not take this argument themselves, nearest by the words of their names.

        Their words are compared with those of the argument and of the tools that take it.

        Of equal ones those that take something come first: they find a thing by what is known of it.
        One whose declared result has no field that may be the argument is none of them. An address is told by
        those whose declared result or description names its kind.
        """
        kind = address_kind(called, argument)
        if argument not in self._tellers:
            self._tellers[argument] = self._telling(argument)
        noun, shared, tellers = self._tellers[argument]
        if kind is _IBAN:  # that of the user has a tool of its own, those of others are in records
            return [origin for _, is_named, origin in tellers if is_named][:_MOST]
        if kind is not None:
            return list(self._addresses(kind.noun))[:_MOST]
        wanted = noun | shared | set(words_of(called.name.lower()))
        found: list[tuple[int, bool, Origin]] = []
        for words, is_named, origin in tellers:
            near = 4 * len(words & noun) + 2 * len(words & wanted) or int(is_named)
            if near:
                found.append((-near, origin.takes_nothing, origin))
        return [origin for _, _, origin in nsmallest(_MOST, found)]

    def by_name(self, called: ToolSpec, argument: str) -> Finder | None:
        """The only tool that finds one thing for this argument by its name, alone or in a list.

        None if there are several, if the place in the result is not known, and if only the fields of results
        say that the argument identifies: a city may be that of a trip, and is none. For a lookup by an
        address none is found that is itself a result: it is rather the wrong lookup.
        """
        kind = address_kind(called, argument)
        is_sought = self.takes_id(called, argument) or self.takes_addresses(called, argument)
        told = self.of(called, argument) if is_sought else []
        is_told = is_sought and kind not in (None, _IBAN) and not called.effect.only_reads
        every = [*self._addresses(kind.noun)] if kind is not None and is_told else told
        found = [
            Finder(origin.tool, name, origin.field)
            for origin in every
            if (origin.field or (origin.is_value and is_told))
            and (name := self._texts.get(origin.tool)) is not None
        ]
        noun = set(words_of(_ID.sub("", argument)))
        own = [one for one in told if not noun or noun & set(words_of(one.tool))]
        found = found or [one for origin in own if (one := self._in_list(origin)) is not None]
        return found[0] if len(found) == 1 else None

    def _in_list(self, origin: Origin) -> Finder | None:
        """How a thing is found among those that a tool lists without being told which; None if it is not."""
        spec, place = self._listing[origin.tool], _IN_RECORD.fullmatch(origin.place.removeprefix("[0]"))
        fields, taken = _fields(spec), table(spec.parameters.get("properties"))
        key = next((name for name in _NAMING if name in fields), None)
        if key is None or place is None or not origin.place.startswith("[0]"):
            return None
        argument = key if _takes_text(table(taken.get(key))) else ""
        return (
            Finder(origin.tool, argument, place[1], key)
            if {*required_of(spec.parameters)} <= {argument}
            else None
        )

    def _addresses(self, noun: str) -> Iterator[Origin]:
        for spec in self._reading:
            place = None if noun in spec.parameter_names else _place(spec, noun)
            is_said = noun in {*re.findall(r"\w+", spec.description.casefold()), *_found_by(spec.name)}
            if place is not None and place.text is not None and (place.is_named or is_said):
                is_text = spec.result.get("type") == "string"
                text = place.text or ("" if is_text else f' as "{noun}"')
                is_value = is_text and noun in _found_by(spec.name)
                yield Origin(
                    function_name(spec.name), text, not spec.parameter_names, not place.text, is_value
                )

    def _telling(self, argument: str) -> _Tellers:
        """What is the same for every tool that takes an argument."""
        takers = self._takers.get(argument, [])
        times = Counter(word for words in takers for word in words)
        tellers: list[tuple[set[str], bool, Origin]] = []
        for spec in self._reading:
            if argument in self._fields and _gives_other_text(spec):
                continue
            taken = {one.removesuffix("s") for one in spec.parameter_names}
            place = None if argument.removesuffix("s") in taken else _place(spec, argument)
            if place is not None and place.text is not None:
                origin = Origin(function_name(spec.name), place.text, not spec.parameter_names)
                tellers.append((self._words[spec.name], place.is_named, origin))
        shared = {word for word in times if 2 * times[word] >= len(takers)}
        return _Tellers(set(words_of(_ID.sub("", argument))), shared, tellers)


class _Tellers(NamedTuple):
    """The words of an argument, those that tools share which take it, and the tools that may tell it.

    Of each tool there are the words of its name, whether its result names the argument, and the origin.
    """

    noun: set[str]
    shared: set[str]
    tools: list[tuple[set[str], bool, Origin]]


class _Place(NamedTuple):
    """Where a result has an id: empty if it does not say what it has, None if it has none.

    `is_named` says that the field has the name of the argument, or of what it identifies.
    """

    text: str | None
    is_named: bool = False


def _place(spec: ToolSpec, argument: str) -> _Place:
    """Where the result of a tool has the id that an argument takes.

    >>> spec = ToolSpec("T", "t", "", result={"properties": {"size": {}, "id": {}}})
    >>> _place(spec, "file_id").text, _place(ToolSpec("T", "t", ""), "id").text, _place(spec, "sku").text
    ('["id"]', '', None)
    >>> _place(ToolSpec("T", "t", "Gives {id, owner}."), "owner_id")
    _Place(text=' as "owner"', is_named=True)
    """
    result = spec.result
    inner, fields = _item(result), list(_fields(spec))
    is_declared = bool(fields)
    shown = _SHOWN.search(spec.description)
    if not fields and shown is not None:
        fields = re.findall(r"\w+", shown[1])
    if not fields:
        return _Place(None if _is_scalar(inner or result) else "")
    ids = [name for name in fields if _ID.match(name)]
    other = _ID.sub("", argument) if ids else argument  # what a record refers to has its own id beside it
    named = [name for name in fields if name in (argument, other)]
    own = named or [name for name in ids if _ID.search(argument)]
    if not own:
        return _Place(None)
    place = f'{"[0]" if inner else ""}["{own[0]}"]' if is_declared else f' as "{own[0]}"'
    return _Place(place, bool(named))


def described_result(spec: ToolSpec) -> Mapping[str, Any]:
    """What the description of a tool shows of its result, as a schema; empty if it shows nothing, or several.

    >>> described_result(ToolSpec("T", "t", "Find a reader. Returns {card, name}."))["properties"]
    {'card': {}, 'name': {}}
    >>> said = ("Returns [{id, name}].", "Set it to one of {on, off}.", "Mode: {on, off}", "Gives {1, 2}.")
    >>> [described_result(ToolSpec("SET_MODE", "t", one)).get("type") for one in said]
    ['array', None, None, None]
    """
    shown = [*_RESULT.finditer(spec.description)]
    if len(shown) != 1 or spec.description.count("{") != 1 or not _NAMES.fullmatch(shown[0]["names"]):
        return {}
    names = re.findall(r"\w+", shown[0]["names"])
    is_said = shown[0]["said"] is not None or likely_effect(spec.name, spec.effect).only_reads
    if not is_said or any(map(iskeyword, names)):
        return {}
    record = {"type": "object", "properties": {name: dict[str, object]() for name in names}}
    return {"type": "array", "items": record} if shown[0]["opening"] else record


def _fields(spec: ToolSpec) -> Mapping[str, Any]:
    """The declared fields of a result, or of its items."""
    return table((_item(spec.result) or _resolved(spec.result, spec.result)).get("properties"))


def _item(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is declared of the items of a result, if it is a list."""
    return _resolved(result.get("items") if result.get("type") == "array" else None, result)


def _gives_other_text(spec: ToolSpec) -> bool:
    """Whether a result is declared as a text or as texts, of a tool that is not named after ids."""
    is_text = "string" in (spec.result.get("type"), table(spec.result.get("items")).get("type"))
    return is_text and not {"ID", "IDS"} & set(spec.name.split("_"))


def _found_by(tool: str) -> set[str]:
    """The words of a tool's name before what it finds things by."""
    return set(_BEHIND.sub("", tool.lower()).split("_"))


def _type_of(called: ToolSpec, argument: str) -> object:
    return table(table(called.parameters.get("properties")).get(argument)).get("type")


def _names_id(argument: str) -> bool:
    return _ID.search(argument) is not None or _NUMBER.search(argument) is not None


def _only_text(spec: ToolSpec) -> str:
    """The argument of a tool that needs one text and nothing else; empty if it takes something else."""
    match [*required_of(spec.parameters)]:
        case [name]:
            schema = table(table(spec.parameters.get("properties")).get(name))
            return name if schema.get("type", "string") == "string" and "enum" not in schema else ""
        case _:
            return ""


def _takes_text(schema: Mapping[str, Any]) -> bool:
    """Whether a text is among what a schema says that an argument takes."""
    every: list[object] = [schema, *schema.get("anyOf", ())]
    return any(table(one).get("type") == "string" for one in every)


def _is_scalar(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("integer", "number", "boolean", "null")


def _resolved(schema: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the definition that it refers to."""
    given = table(schema)
    reference = given.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return given
    target: object = root
    for part in reference[2:].split("/"):
        target = table(target).get(part)
    return table(target)


def _keys(tools: Collection[ToolSpec]) -> set[str]:
    """The fields by which tools that read begin what they tell of a thing, and that other tools take."""
    first = {name for spec in tools if spec.effect.only_reads for name in _first_field(spec)}
    taken = Counter(name for spec in tools for name in spec.parameter_names)
    return {name for name in first if taken[name] > 1}


def _first_field(spec: ToolSpec) -> Iterator[str]:
    result = spec.result
    fields = _resolved(result.get("items") or result, result).get("properties")
    shown = _FIRST.search(spec.description)
    if fields and len(fields) > 2:
        yield next(iter(fields))
    elif shown is not None:
        yield shown[1]
