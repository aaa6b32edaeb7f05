"""The verbs of Micro-CLI: the call of each, and the names of its arguments.

In: a verb and the values after it. Out: the arguments of the call, or why they do not fit. The table is
used in both directions: `spell` returns only what `bind` converts back to the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias, cast

from callsheet.diagnostics import Span
from callsheet.ir import Call, ListExpr, Literal, Ref, Value

Named: TypeAlias = "tuple[tuple[str, Value], ...]"
Arguments: TypeAlias = "tuple[tuple[Value, ...], Named]"


class Misfit(Exception):
    """The values do not fit the verb; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One row of the table.

    The values after a verb are first its `inputs` (their least number; more only with `many`),
    which are positional, then `names` in their order, of which the last `optional` may be
    missing. `fixed` are arguments that the verb implies. `usage` is for messages.
    """

    tool: str
    usage: str
    names: tuple[str, ...] = ()
    inputs: int = 0
    many: bool = False
    optional: int = 0
    fixed: tuple[tuple[str, str], ...] = ()
    shape: Callable[[list[Value], Verb], Arguments] | None = None
    """Assigns the values to arguments if positions are not sufficient for that."""


def bind(verb: Verb, values: Sequence[Value], named: Named = ()) -> Arguments:
    """The arguments of the call for a verb with these values. Raises Misfit.

    >>> bind(VERBS["search"], [Literal("tea")])
    ((), (('query', Literal(value='tea')),))
    """
    given = [name for name, _ in named]
    if verb.shape is not None and not given:
        positional, bound = verb.shape(list(values), verb)
    else:
        positional, bound = _by_position(list(values), verb, given)
    taken = {name for name, _ in bound}
    fixed = tuple((n, Literal(v)) for n, v in verb.fixed if n not in taken and n not in given)
    return positional, (*bound, *named, *fixed)


def _by_position(values: list[Value], verb: Verb, given: Sequence[str] = ()) -> Arguments:
    names = [name for name in verb.names if name not in given]
    may_be_missing = verb.names[len(verb.names) - verb.optional :]
    least = verb.inputs + sum(name not in may_be_missing for name in names)
    if len(values) < least:
        raise _too_few(len(values), least)
    most = verb.inputs + len(names)
    if len(values) > most and not verb.many:
        raise Misfit(f"{_counted(len(values))}, but at most {most} {'is' if most == 1 else 'are'} allowed")
    inputs = max(verb.inputs, len(values) - len(names)) if verb.many else verb.inputs
    return tuple(values[:inputs]), tuple(zip(names, values[inputs:], strict=False))


def _too_few(count: int, least: int) -> Misfit:
    return Misfit(f"{_counted(count)}, but at least {least} {'is' if least == 1 else 'are'} needed")


def _counted(count: int) -> str:
    return f"{count or 'no'} argument{'' if count == 1 else 's'}"


# ---------------------------------------------------------------- verbs of a shape of their own


def _categories(values: list[Value], verb: Verb) -> Arguments:
    """Categories after the inputs: one string with commas, one list, or two or more strings."""
    words = _trailing_words(values[verb.inputs :])
    if len(words) > 1 and "," not in str(words[-1].value):
        first, last = words[0].span, words[-1].span
        span = Span(first.start, last.end) if first and last else None
        return tuple(values[: -len(words)]), ((verb.names[0], ListExpr(tuple(words), span)),)
    positional, named = _by_position(values, verb)
    return positional, tuple((name, _listed(value)) for name, value in named)


def _trailing_words(values: Sequence[Value]) -> list[Literal]:
    """The longest sequence of strings at the end of the values."""
    words = list(takewhile(lambda v: isinstance(v, Literal) and isinstance(v.value, str), reversed(values)))
    return cast("list[Literal]", words[::-1])


def _listed(value: Value) -> Value:
    """A string with commas as a list of strings; other values unchanged."""
    if not isinstance(value, Literal) or not isinstance(value.value, str):
        return value
    parts = (part.strip() for part in value.value.split(","))
    return ListExpr(tuple(Literal(part, value.span) for part in parts if part), value.span)


def _packages(values: list[Value], verb: Verb) -> Arguments:
    if len(values) < 2:
        raise _too_few(len(values), 2)
    language, *packages = values
    only = packages[0]
    if len(packages) == 1 and isinstance(only, ListExpr | Ref):
        return (), (("language", language), ("packages", only))
    first, last = only.span, packages[-1].span
    span = Span(first.start, last.end) if first and last else None
    return (), (("language", language), ("packages", ListExpr(tuple(packages), span)))


def _summary(values: list[Value], verb: Verb) -> Arguments:
    if not values:
        raise _too_few(0, 1)
    if len(values) == 1 or isinstance(values[-1], Ref):
        return tuple(values), ()
    return tuple(values[:-1]), (("format", values[-1]),)


def _text(values: list[Value], verb: Verb) -> Arguments:
    if len(values) == 1:
        return (), (("format", values[0]),)
    return _by_position(values, verb)


def _agent(values: list[Value], verb: Verb) -> Arguments:
    second = values[1] if len(values) == 2 else None
    if isinstance(second, Literal) and isinstance(second.value, int):
        return (), (("goal", values[0]), ("max_turns", second))
    return _by_position(values, verb)


def _sole(tool: str, verb: str, name: str, shown: str) -> Verb:
    return Verb(tool, f'{verb} "{shown}"', (name,))


VERBS: dict[str, Verb] = {
    "search": _sole("WEB_SEARCH", "search", "query", "what to look for"),
    "fetch": _sole("FETCH_PAGE", "fetch", "url", "https://…"),
    "exec": Verb("EXEC_CODE", 'exec "code"', ("code",), fixed=(("language", "python"),)),
    "shell": Verb("EXEC_CODE", 'shell "code"', ("code",), fixed=(("language", "shell"),)),
    "read": _sole("READ_FILE", "read", "path", "path"),
    "write": Verb("WRITE_FILE", 'write "path" content', ("path", "content")),
    "edit": Verb("EDIT_FILE", 'edit "path" "old" "new"', ("path", "old", "new")),
    "find": _sole("SEARCH_FILES", "find", "pattern", "pattern"),
    "memory": _sole("QUERY_MEMORY", "memory", "query", "query"),
    "store": Verb("STORE_FACT", 'store "fact" [0.8]', ("content", "importance"), optional=1),
    "set": Verb("SET_WM", 'set "key" value', ("key", "value")),
    "get": _sole("GET_WM", "get", "key", "key"),
    "install": Verb("INSTALL_PKG", "install python name …", ("language", "packages"), shape=_packages),
    "host": _sole("HOST_EXEC", "host", "command", "command"),
    "hostread": _sole("HOST_FILE_READ", "hostread", "path", "path"),
    "hostlist": _sole("HOST_FILE_LIST", "hostlist", "path", "path"),
    "extract": Verb("LLM_EXTRACT", 'extract $x "target"', ("target",), 1, many=True),
    "classify": Verb("LLM_CLASSIFY", 'classify $x "a,b"', ("categories",), 1, many=True, shape=_categories),
    "summarize": Verb("LLM_SUMMARIZE", 'summarize $x ["format"]', ("format",), 1, True, 1, shape=_summary),
    "analyze": Verb("LLM_ANALYZE", 'analyze $a $b "task"', ("task",), 1, many=True),
    "evaluate": Verb("LLM_EVALUATE", 'evaluate $x "condition"', ("condition",), 1, many=True),
    "generate": Verb("LLM_GENERATE", 'generate $x "format"', ("context", "format"), optional=1, shape=_text),
    "translate": Verb("LLM_TRANSLATE", 'translate $x "fr"', ("target_lang",), 1),
    "agent": Verb(
        "AGENT_SOLVE", 'agent "goal" [name] [turns]', ("goal", "agent", "max_turns"), optional=2, shape=_agent
    ),
    "critique": Verb("AGENT_CRITIQUE", 'critique $x "criteria"', ("criteria",), 1, many=True),
    "consensus": Verb("CONSENSUS", 'consensus $a $b "topic"', ("topic",), 2, many=True),
    "self_refine": Verb("SELF_REFINE", 'self_refine $x "goal" [rounds]', ("goal", "rounds"), 1, optional=1),
    "select": Verb("SELECT", 'select $x "query"', ("query",), 1),
    "calc": Verb("CALC", 'calc "$a * 1.2"', inputs=1),
    "format": Verb("FORMAT", 'format "text with $a"', inputs=1),
}
"""The verbs. Any other name with an underscore is the tool of that name."""

WORD_PLACES = {"install", "agent"}
"""Verbs whose arguments are often bare words: names of packages and of agents."""

CONTROLS = ("respond", "terminate", "goto", "replan")
"""The verbs that end the plan, replace it or jump."""


# ---------------------------------------------------------------- from a call to a verb


def spell(call: Call) -> tuple[str, tuple[Value, ...], Named] | None:
    """A verb with values and named arguments that express a call; None if there is none."""
    for word, verb in VERBS.items():
        if verb.tool == call.tool:
            for values, named in _proposals(verb, call):
                try:
                    arguments = bind(verb, values, named)
                except Misfit:
                    continue
                if arguments == (call.positional, call.named):
                    return word, values, named
    return None


def _proposals(verb: Verb, call: Call) -> list[tuple[tuple[Value, ...], Named]]:
    fixed = {name: Literal(value) for name, value in verb.fixed}
    rest = tuple(pair for pair in call.named if fixed.get(pair[0]) != pair[1])
    taken = 0
    for (name, _), wanted in zip(rest, _first_names(verb, rest), strict=False):
        if name != wanted:
            break
        taken += 1
    values = [_joined(value) if name == "categories" else value for name, value in rest[:taken]]
    if verb.tool == "INSTALL_PKG" and taken == 2 and isinstance(values[1], ListExpr):
        spread = ((*values[:1], *values[1].items), rest[taken:])
        return [spread, (tuple(values), rest[taken:])]
    return [((*call.positional, *values), rest[taken:]), (call.positional, rest)]


def _first_names(verb: Verb, rest: Named) -> tuple[str, ...]:
    if verb.tool == "LLM_GENERATE" and rest and rest[0][0] == "format":
        return ("format",)
    names = tuple(name for name, _ in rest)
    return names if names == ("goal", "max_turns") and verb.tool == "AGENT_SOLVE" else verb.names


def _joined(value: Value) -> Value:
    """A list of strings as one string with commas, if that is read as the same list; else the value."""
    if isinstance(value, ListExpr):
        texts = [i.value for i in value.items if isinstance(i, Literal) and isinstance(i.value, str)]
        joined = Literal(",".join(texts))
        if len(texts) == len(value.items) and _listed(joined) == value:
            return joined
    return value
