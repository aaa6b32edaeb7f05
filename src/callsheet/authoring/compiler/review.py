"""Looks over the plan in a model's answer: names, lost results, values nobody stated.

Pure. In: a plan with blocks, and everything the model was told. Out: warnings. What is looked at are parts
with a digit or an `@`, which are the same in every language, ids, and single words of which nobody spoke.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from callsheet import lazy
from callsheet.authoring.compiler.origins import Origin, Origins, address_kind
from callsheet.authoring.compiler.quantities import DATE, NUMBER, is_date, is_of
from callsheet.authoring.compiler.sources import id_source, source_of, sources
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import (
    SAYING,
    And,
    CallKind,
    Compare,
    Condition,
    DictExpr,
    Ending,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Plan,
    Ref,
    Respond,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import names_in
from callsheet.ir.expression import Display, Expression, Mapping, Text, Variable
from callsheet.ir.tree import (
    Act,
    Foreach,
    Let,
    Tree,
    acts,
    all_statements,
    variables_set,
)
from callsheet.ports.models.prompts import one_line
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import required_of
from callsheet.views.stubs import function_name

PART = lazy.pattern(r"[^\s,;()\[\]{}<>\"']+")
_DIGITS = lazy.pattern(r"\d{1,9}", re.ASCII)
_QUOTED = lazy.pattern(r'"([^"\n{}]+)"')
_WORD = lazy.pattern(r"[^\W\d]+(?:-[^\W\d]+)*")
"""A text of one word, perhaps with underscores or hyphens."""
_SMALL = 10
"""Whole numbers below it count things, choose and switch; goals say them in words."""


def unstated(
    tree: Tree, told: Iterable[str], tools: Collection[ToolSpec] = (), example: str = ""
) -> Iterator[Diagnostic]:
    """CMP010 for each literal value of a call that stands neither in what was `told` nor in what tools say.

    So is each id that is a phrase, a word that is spelled otherwise than it was told, one that a lookup
    filters by though neither its tool nor the goal says it, a text of several things that were told, and one
    that stands in quotes in the prompt's own `example` alone, which small models repeat. What identifies a
    thing is said by `Origins`. A variable that is set once is its value. So is a name that was not told, for
    an argument of a lookup that is called so or one that lookups and changes share, a URL, a date in words.

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
    shared, numbers = (
        taken[0] & taken[1],
        frozenset(float(one) for n in (_DIGITS, NUMBER) for one in n.findall(own)),
    )
    known = _Known(own, texts, plain(texts), Origins(tools), shared, tuple(tools), numbers)
    set_once, known_sources = _set_once(tree), sources(tree)
    for act in acts(tree):
        spec, said = declared.get(act.tool, (None, ""))
        for name, given in (*(("", value) for value in act.positional), *act.named):
            value = set_once.get(given.name, given) if isinstance(given, Variable) else given
            text = value.value if isinstance(value, Literal) and isinstance(value.value, str) else None
            if act.kind is not CallKind.TOOL:
                continue
            found = () if spec is None else known.origins_of(spec, name)
            if text in borrowed:
                message = f"{name}={text!r} is of the example, and not of the goal"
                yield Doubtful(act, name, message, "use what the goal says", found)
                continue
            unknown = [*_unknown(act, name, value, spec, known)]
            yield from unknown
            if spec is None:
                continue
            number = value.value if isinstance(value, Literal) else None
            if _is_no_thing(number, known.numbers) and known.origins.takes_id(spec, name):
                message = f"{name}={number} is not an id that was told"
                yield Doubtful(act, name, message, f"find it: {_finders(found)}", found)
            source = source_of(given, known_sources)
            if source is not None and known.origins.told_otherwise(spec, name, source):
                message = f"{name} is given what {function_name(source)} finds, which is another thing"
                yield Doubtful(act, name, message, f"find it: {_finders(found)}", found)
            record = id_source(given, known_sources)
            takers = () if record is None else known.origins.takers_of(name, record)
            if record is not None and takers:
                message = f"{name} is given the id of what {function_name(record)} finds"
                yield Doubtful(act, name, message, f"that is taken by {' or '.join(takers[:2])}")
            if not unknown and text is not None:
                yield from _of_another_kind(act, name, text, spec, said, known)


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
            yield Doubtful(act, name, message, f"find it: {first}")
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
        and (origins.takes_id(spec, name) or _as_told(text, own) is None)
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


def _set_once(tree: Tree) -> dict[str, Literal]:
    """The constants: variables that are set once, to a literal, and are no argument or item elsewhere."""
    every = list(all_statements(tree))
    times = Counter(name for one in every for name in variables_set(one))
    times.update(one.name for plan in tree.plans for one in plan.inputs)
    times.update(one.var for one in every if isinstance(one, Foreach))
    lets = (one for one in every if isinstance(one, Let) and times[one.name] == 1)
    return {one.name: one.value for one in lets if isinstance(one.value, Literal)}


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


_CANONICAL = re.compile(r"v\d{1,3}")
_LONGEST = 24
_BY_TOOL = {
    "LLM_EXTRACT": "extract",
    "LLM_CLASSIFY": "kind",
    "LLM_SUMMARIZE": "summary",
    "LLM_TRANSLATE": "translation",
    "LLM_EVALUATE": "verdict",
    "LLM_ANALYZE": "analysis",
    "LLM_GENERATE": "text",
    "CALC": "number",
    "SELECT": "selection",
    "FORMAT": "text",
    "ASK_HUMAN": "answer",
}
READING = frozenset(["get", "read", "list", "fetch", "find", "search", "load", "show", "look", "query"])
"""The verbs at the beginning of tool names that look something up."""
_VERBS = READING | {"create", "make", "run"}

Rename = Callable[[str], str]


def with_telling_names(plan: Plan, taken: Collection[str] = ()) -> Plan:
    """The plan with descriptive names for its variables v1, v2, …; other variables stay.

    `taken` are names that already mean something, such as variables given to the run.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> text = 'S1: @READ_FILE (path="a") > $v1\\nS2: @RESPOND ("Here: $v1")'
    >>> print(format_plan(with_telling_names(parse(text).require())).splitlines()[2])
    S1: @READ_FILE (path="a") > $file
    """
    used = {*taken, *_mentioned(plan.steps)}
    names: dict[str, str] = {}
    for step in plan.steps:
        if step.output is None or not _is_canonical(step.output.var) or step.output.var in taken:
            continue
        if step.output.var not in names:
            names[step.output.var] = _free(_word_for(step), used)
            used.add(names[step.output.var])
    if not names:
        return plan
    return replace(
        plan, steps=tuple(renamed(step, lambda name: names.get(name, name)) for step in plan.steps)
    )


def _is_canonical(name: str) -> bool:
    return _CANONICAL.fullmatch(name) is not None


def _mentioned(steps: Iterable[Step]) -> Iterator[str]:
    """The names of all variables that steps set or read."""
    for step in steps:
        if step.output is not None:
            yield step.output.var
        if step.foreach is not None:
            yield step.foreach.var
        yield from _reads(step)


def _word_for(step: Step) -> str:
    """The name for a step's result: the tool's name without its verb."""
    if step.call is None:
        return "result"
    tool = step.call.tool
    if tool in _BY_TOOL:
        return _BY_TOOL[tool]
    words = [word for word in tool.rpartition("__")[2].lower().split("_") if word]
    if len(words) > 1 and words[0] in _VERBS:
        words = words[1:]
    word = "_".join(words)[:_LONGEST].strip("_")
    return word if re.match(r"[a-z_]", word) and not _is_canonical(word) else "result"


def _free(word: str, used: Collection[str]) -> str:
    name, number = word, 1
    while name in used:
        number += 1
        name = f"{word}_{number}"
    return name


def renamed(step: Step, rename: Rename) -> Step:
    """A step with its variables renamed, except its own loop variable."""
    inner = rename if step.foreach is None else _but(step.foreach.var, rename)
    foreach = step.foreach
    return replace(
        step.with_values(lambda value: _value(value, inner)),
        foreach=None if foreach is None else replace(foreach, source=_value(foreach.source, rename)),
        condition=None if step.condition is None else _condition(step.condition, inner),
        output=None if step.output is None else replace(step.output, var=rename(step.output.var)),
    )


def _but(unchanged: str, rename: Rename) -> Rename:
    """The renaming inside a loop, which leaves the loop variable `unchanged`."""
    return lambda name: name if name == unchanged else rename(name)


def _value(value: Value, rename: Rename) -> Value:
    match value:
        case Literal():
            return value
        case Ref(name=name):
            return replace(value, name=rename(name))
        case Template(parts=parts):
            result = (
                replace(part, name=rename(part.name)) if isinstance(part, Ref) else part for part in parts
            )
            return replace(value, parts=tuple(result))
        case ListExpr(items=items):
            return replace(value, items=tuple([_value(item, rename) for item in items]))
        case DictExpr(items=pairs):
            return replace(value, items=tuple((key, _value(item, rename)) for key, item in pairs))


def _condition(condition: Condition, rename: Rename) -> Condition:
    match condition:
        case Compare(left=left, right=right):
            return replace(condition, left=_value(left, rename), right=_value(right, rename))
        case IsEmpty() | NotEmpty():
            return replace(condition, value=_value(condition.value, rename))
        case Not(condition=inner):
            return replace(condition, condition=_condition(inner, rename))
        case And() | Or():
            return replace(condition, conditions=tuple(_condition(c, rename) for c in condition.conditions))


def with_whole_answer(plan: Plan) -> Plan:
    """The plan with an answer at its end that includes the results which would otherwise be lost.

    A plan without an answer gets one with the result of its last call. A result is lost if no later step
    reads it: small models look up two things and answer with one. Only results of reading tools are added,
    and only those of unconditional steps.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> plan = parse('S1: @READ_FILE (path="a") > $a\\nS2: @READ_FILE (path="b") > $b').require()
    >>> print(format_plan(with_whole_answer(plan)).splitlines()[4])
    S3: @RESPOND ($a, $b)
    """
    return _with_lost(_with_answer(plan))


def _with_answer(plan: Plan) -> Plan:
    if any(step.course.ends in SAYING and step.condition is None for step in plan.steps):
        return plan
    outputs = [step.output.var for step in plan.steps if step.output is not None]
    ids = {step.id for step in plan.steps}
    number = next(n for n in range(len(ids) + 1, 2 * len(ids) + 3) if f"S{n}" not in ids)
    answer = Ref(outputs[-1]) if outputs else Literal("Done.")
    return replace(plan, steps=(*plan.steps, Step(f"S{number}", Respond((answer,)))))


def _with_lost(plan: Plan) -> Plan:
    last = plan.steps[-1]
    if last.course.ends is not Ending.ANSWER or last.condition is not None:
        return plan
    read = {name for step in plan.steps for name in _reads(step)}
    lost = [step.output.var for step in plan.steps if step.output is not None and _looks_up(step)]
    missing = [name for name in dict.fromkeys(lost) if name not in read]
    if not missing:
        return plan
    names = [step.output.var for step in plan.steps if step.output is not None]
    values = [*last.values(), *map(Ref, missing)]
    if all(isinstance(value, Ref) for value in values):  # in the order of the lookups
        values.sort(
            key=lambda value: (
                names.index(value.name) if isinstance(value, Ref) and value.name in names else -1
            )
        )
    return replace(plan, steps=(*plan.steps[:-1], replace(last, action=Respond(tuple(values)))))


def _looks_up(step: Step) -> bool:
    """Whether a step always runs and looks something up."""
    if step.call is None or step.condition is not None:
        return False
    words = step.call.tool.rpartition("__")[2].lower().split("_")
    return step.call.kind is not CallKind.TOOL or words[0] in READING


def _reads(step: Step) -> Iterator[str]:
    """The names of the variables that a step reads."""
    return (name for _, nodes in step.reads() for name in names_in(nodes))
