"""The grammar of Python programs over a catalogue: no call of a tool or argument that does not exist.

In: the tools, the arguments of the function. Out: a grammar. A tool can only be awaited, with its own
arguments by name, the required ones always, once and first. Assignments, conditions, loops, `try`,
nested values, f-strings and comprehensions are in it for every goal. Only pure functions that are named here
can be called without `await`. What it cannot say, such as which variables are set, the checks say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from json import dumps
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, cast

from callsheet.frontends.export.rules import (
    ANY_NUMBER,
    Grammar,
    Many,
    Node,
    Rule,
    Text,
    Use,
    chars,
    maybe,
    one_of,
    seq,
)
from callsheet.frontends.export.shapes import ToolShape

_DEPTH = 6
"""The most levels of indentation."""
_LONGEST_NAME = 40
_LONGEST_COMMENT = 120
_MOST_ITEMS = 60
"""The most items of a list or entries of a dict that is written out."""
_MOST_AT_ONCE = 12
"""The most calls that are written out side by side."""
_PURE = """
    len str int float bool sum min max sorted any all list dict set print tuple range enumerate zip
    map filter round abs reversed isinstance next divmod
    datetime timedelta date Counter defaultdict now note today"""
"""The functions that may be called without `await`."""
_METHODS = """
    append extend insert pop remove index count sort get items keys values update setdefault add
    lower upper title capitalize strip lstrip rstrip split rsplit splitlines join replace startswith
    endswith find format isdigit zfill removeprefix removesuffix partition rpartition group groups
    date isoformat strftime weekday total_seconds most_common union intersection difference copy
    dumps loads findall search match sub ceil floor sqrt prod pow today now
    fromisoformat strptime datetime timedelta"""
"""The methods of values, and the functions of modules."""
_OF_TEXTS = """
    lower upper title capitalize strip strftime isoformat get date replace split total_seconds
    values keys items count index"""
"""The methods of values in f-strings."""
_CONSTANTS = ("True", "False", "None")
_SPARE = ("result", "results", "item", "items")
"""The variables where there are no others."""
_OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "llm": ("prompt", "data"),
    "llm_extract": ("prompt", "data"),
}
"""The operations that a small model is told, with the arguments that are given by place."""
_IMPORTS = ("asyncio", "datetime", "json", "math", "re")
_FROM = (
    "from datetime import datetime, timedelta",
    "from datetime import datetime",
    "from collections import Counter",
)
_MOST_IMPORTS = 4
"""Small models go on importing; what a program lacks is imported for it."""
_OPERATORS = "==,!=,<=,>=,<,>,in,not in,is,is not,and,or,+,-,*,//,/,%,**,|,&"
_EXPR = Use("expr")
_PART_OF_RESULT = seq(Use("name"), Many(Use("after"), 0, 8))
_FIELD = re.compile(r"[A-Za-z_][\w .-]{0,60}", re.ASCII)
_PLAIN = re.compile(r"[^\W\d_][\w .:/+-]*", re.ASCII)
"""A text of an enumeration that is written as it is."""


def program_grammar(
    tools: Sequence[ToolShape],
    given: Sequence[str] = (),
    *,
    longest_text: int = 400,
    variables: Iterable[str] | None = None,
    fields: Iterable[str] | None = None,
    most_statements: tuple[int, int] = (20, 8),
    looked_up: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
    told: Mapping[tuple[str, str], Sequence[str | int]] = MappingProxyType({}),
) -> Grammar:
    """The grammar of the programs that call these tools.

    `given` are the arguments of the function; a text has at most `longest_text` characters between the
    values in it, since small models write on and on. With `variables` these are the only names: a model that
    wrote a text without quotes cannot do so again. With `fields` only these are read from values: where all
    tools declare their results, a model need not guess. `most_statements` are those of the function, and of a
    block in it. `looked_up` has arguments, each with its tool, that must be read from a variable, and the
    tools that find them, with the place in their result: the program begins with a call of one of the first.
    `told` has arguments, each with its tool, whose written values are only these: all others are read from
    results.

    llama.cpp follows every reading of a text at once and copies them for each character, so alternatives
    that begin alike cost a model minutes once they nest. Here they share their beginnings.

    >>> from callsheet.frontends.export import is_sentence
    >>> schema = {"properties": {"path": {}}, "required": ["path"]}
    >>> grammar = program_grammar([ToolShape("read", schema)])
    >>> good = 'async def main():\\n    x = await read(path="a")\\n    return x'
    >>> is_sentence(grammar, good), is_sentence(grammar, good.replace("read", "load"))
    (True, False)
    """
    rules: dict[str, Node] = {}
    _texts(rules, longest_text)
    if fields is not None:
        known = sorted({field for field in fields if _FIELD.fullmatch(field)})
        rules["field"] = _any_of([*filter(str.isidentifier, known)] or ["value"])
        rules["key"] = _any_of(known or ["value"])
    if variables is not None:
        names = (*variables, *given) or _SPARE
        rules["name"] = _any_of(dict.fromkeys((*names, *_CONSTANTS, *_IMPORTS)))
    _values(rules, is_closed=fields is not None)
    sought: Mapping[tuple[str, str], Mapping[str, str]] = looked_up or {}
    sets = {tuple(values): f"told-{number}" for number, values in enumerate(told.values())}
    rules |= {name: _told(values) for values, name in sets.items()}
    limited: dict[tuple[str, str], Node] = {key: Use(sets[tuple(values)]) for key, values in told.items()}
    limited |= dict.fromkeys(sought, _PART_OF_RESULT)
    _calls(rules, tools, limited)
    for level in range(_DEPTH, 0, -1):
        _statements(rules, level, most_statements[level > 1])
    imports = one_of((*(f"import {name}" for name in _IMPORTS), *_FROM))
    head = f"async def main({', '.join(given)}):"
    rules["program"] = seq(
        Many(seq(imports, "\n"), 0, _MOST_IMPORTS),
        Many(Text("\n"), 0, 2),
        head,
        _looked_up_first(tools, sought),
        Use("block-1"),
        maybe(Text("\n")),
    )
    return _used(rules, "program")


def _looked_up_first(tools: Sequence[ToolShape], sought: Mapping[tuple[str, str], Mapping[str, str]]) -> Node:
    """The statement that calls one of the tools which find what is sought first; nothing without one.

    Of a record its field is read at once, since a model passes on the whole record otherwise. The variable is
    named after what is found: a model that names it goes on with the first thing that the goal speaks of.
    """
    none: Mapping[str, str] = {}
    argument, finders = next(((name, found) for (_, name), found in sought.items() if found), ("", none))
    options: list[Node] = []
    for number, tool in enumerate(tools):
        place = finders.get(tool.name)
        if place is not None:
            call = seq(f"await {tool.name}(", Use(f"tool-{number}"))
            is_field = place.startswith('["') and argument.isidentifier() and not iskeyword(argument)
            noun = tool.name.partition("_")[2]
            found = noun if noun.isidentifier() and not iskeyword(noun) else "found"
            options.append(
                seq(f"{argument} = (", call, f"){place}") if is_field else seq(f"{found} = ", call)
            )
    return seq("\n    ", one_of(options)) if options else Text("")


def _used(rules: Mapping[str, Node], start: str) -> Grammar:
    return Grammar(start, {name: Rule(node) for name, node in rules.items()}, _TOKENS)


_TOKENS = frozenset(
    ("name", "field", "string", "single", "raw", "integer", "plain", "plain-single", "words", "key", "spec")
)


def _any_of(words: Iterable[str], after: str = "") -> Node:
    """One of these words, then `after`: a tree, in which words that begin alike share their beginning.

    >>> _any_of(("is", "in"), "(")
    Seq(parts=(Text(text='i'), Choice(options=(Text(text='s('), Text(text='n(')))))
    """
    return _begun({word + after: None for word in words})


def _begun(options: Mapping[str, Node | None]) -> Node:
    """One of these words, each followed by its node, if any, with shared beginnings."""
    groups: dict[str, dict[str, Node | None]] = {}
    ends: list[Node | str] = []
    for word, then in options.items():
        if word:
            groups.setdefault(word[0], {})[word] = then
        else:
            ends.append("" if then is None else then)
    for words in groups.values():
        if len(words) == 1:
            ((word, then),) = words.items()
            ends.append(seq(word) if then is None else seq(word, then))
            continue
        least, greatest = min(words), max(words)
        size = next((n for n, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b), len(least))
        ends.append(seq(least[:size], _begun({word[size:]: then for word, then in words.items()})))
    return one_of(ends)


def _listed(item: Node, most: int) -> Node:
    """Items with commas between, perhaps none."""
    return maybe(seq(item, Many(seq(", ", item), 0, most - 1)))


def _enclosed(opened: str, inside: Node, closed: str) -> Node:
    """What stands between brackets, perhaps on lines of its own with a comma at the end."""
    wrapped = seq(Use("wrap"), inside, maybe(","), Use("wrap"))
    return seq(opened, one_of((inside, wrapped)), closed)


def _then(item: Node, most: int) -> Node:
    """Further items, each after a comma and perhaps on a line of its own."""
    return Many(seq(",", one_of((" ", Use("wrap"))), item), 0, most)


def _name_but_await() -> Node:
    """A name other than `await`, which a model uses as if it were a variable (`not await is x`)."""
    word, keyword = chars("A-Za-z0-9_"), "await"
    rest: Node = Many(word, 1, _LONGEST_NAME)
    for n in range(len(keyword) - 1, 0, -1):
        before, after = chr(ord(keyword[n]) - 1), chr(ord(keyword[n]) + 1)
        other = chars("A-Z0-9_" + (f"a-{before}" if keyword[n] > "a" else "") + f"{after}-z")
        rest = maybe(one_of((seq(other, Many(word, 0, _LONGEST_NAME)), seq(keyword[n], rest))))
    return one_of((seq(chars("A-Zb-z_"), Many(word, 0, _LONGEST_NAME)), seq("a", rest)))


def _texts(rules: dict[str, Node], longest: int) -> None:
    """Names, numbers and texts."""
    word = chars("A-Za-z0-9_")
    rules["name"] = _name_but_await()
    rules["field"] = seq(chars("A-Za-z_"), Many(word, 0, _LONGEST_NAME))
    rules["integer"] = Many(chars("0-9"), 1, 20)
    rules["number"] = seq(Use("integer"), maybe(seq(".", Use("integer"))))
    escaped = seq("\\", chars("\\\"'ntr"))
    for name, quote in (("", '"'), ("-single", "'")):
        rules[f"char{name}"] = one_of((chars(f"{quote}\\\n", outside=True), escaped))
        rules[f"part{name}"] = one_of((chars(f"{quote}\\\n{{}}", outside=True), escaped))
        rules[f"plain{name}"] = Many(Use(f"part{name}"), 1, longest)
    rules["string"] = seq('"', Many(Use("char"), 0, longest), '"')
    rules["single"] = seq("'", Many(Use("char-single"), 0, longest), "'")
    rules["raw"] = seq(
        "r", one_of(tuple(seq(q, Many(chars(f"{q}\n", outside=True), 0, 120), q) for q in "\"'"))
    )
    rules["words"] = Many(chars("\n", outside=True), 1, _LONGEST_COMMENT)
    rules["wrap"] = seq("\n", Many(Text("    "), 1, _DEPTH + 2))
    rules["key"] = seq(chars("A-Za-z_"), Many(chars("A-Za-z0-9_ -"), 0, _LONGEST_NAME))
    rules["spec"] = seq(":", Many(chars(",.+0-9a-z%"), 1, 12))
    for name, quote in (("", "'"), ("-double", '"')):
        _holes(rules, name, quote)
    operators = seq(" ", chars("+*/-"), " ")
    term = one_of((Use("hole"), Use("number")))
    sum_ = seq(Use("hole"), Many(seq(operators, term), 0, 3))
    calculated = one_of((sum_, seq("(", sum_, ")", Many(seq(operators, term), 0, 3))))
    joined, joined_double = (
        seq(f"{q}, {q}.join(", Use(of), ")") for q, of in (("'", "made"), ('"', "made-double"))
    )
    rules["slot"] = seq(
        "{", one_of((seq(calculated, maybe(Use("else"))), joined, Use("chosen"))), maybe(Use("spec")), "}"
    )
    rules["slot-double"] = seq(
        "{",
        one_of((seq(Use("hole-double"), maybe(Use("else-double"))), joined_double, Use("chosen-double"))),
        maybe(Use("spec")),
        "}",
    )
    # a plain part is followed by a value, so that no text can be divided in two ways
    inside, inside_single = (
        seq(maybe(Use(plain)), Many(seq(Use(slot), maybe(Use(plain))), 0, ANY_NUMBER))
        for plain, slot in (("plain", "slot"), ("plain-single", "slot-double"))
    )
    rules["formatted"] = seq("f", one_of((seq('"', inside, '"'), seq("'", inside_single, "'"))))


def _holes(rules: dict[str, Node], name: str, quote: str) -> None:
    """What an f-string may contain, with keys in these quotes: a part of a variable, or what is made of one.

    `made` is what a function of many gets: a variable, or a comprehension over it.
    """
    number = seq(maybe("-"), Use("integer"))
    inside = one_of(
        (
            seq(quote, Use("key"), quote),
            seq(number, maybe(seq(":", maybe(number)))),
            seq(":", maybe(number)),
            Use("name"),
        )
    )
    given = one_of((seq(quote, Many(chars("A-Za-z0-9_ :%/.,+-"), 0, _LONGEST_NAME), quote), Use("integer")))
    method = seq(_any_of(_OF_TEXTS.split(), "("), _listed(given, 2), ")")
    part = one_of((seq(".", one_of((method, Use("field")))), seq("[", inside, "]")))
    place = Use(f"part-of-value{name}")
    rules[f"part-of-value{name}"] = seq(Use("name"), Many(part, 0, 6))
    compared = seq(
        _any_of(f" {one} " for one in ["==", "!=", "<=", ">=", "<", ">", "in", "not in", "is", "is not"]),
        one_of((place, Use("number"), seq(quote, Use("key"), quote))),
    )
    condition = seq(maybe("not "), place, maybe(compared))
    rules[f"each{name or '-single'}"] = seq(
        " for ", Use("targets"), " in ", place, maybe(seq(" if ", condition))
    )
    each = Use(f"each{name or '-single'}")
    item = one_of((Use("integer"), place, seq("str(", place, ")")))
    ordered = seq(_any_of(("sorted", "set"), "("), place, ")")
    rules[f"made{name}"] = one_of((seq(item, maybe(each)), seq("[", item, each, "]"), ordered))
    functions = _any_of(("len", "sum", "round", "int", "str", "sorted", "min", "max", "list"), "(")
    made = seq(functions, Use(f"made{name}"), maybe(seq(", ", Use("integer"))), ")")
    rules[f"hole{name}"] = one_of((place, made))
    text = seq(quote, Many(chars(f"{quote}\"'\\\n{{}}", outside=True), 0, _LONGEST_NAME), quote)
    rules[f"else{name}"] = seq(" if ", condition, " else ", one_of((Use(f"hole{name}"), Use("number"), text)))
    rules[f"chosen{name}"] = seq(text, Use(f"else{name}"))


def _values(rules: dict[str, Node], *, is_closed: bool) -> None:
    """Expressions; those in brackets name known fields if these are all that there are."""
    each = seq(" for ", Use("targets"), " in ", Use("operand"), maybe(seq(" if ", Use("condition"))))
    rules["each"] = each
    rules["targets"] = seq(Use("name"), Many(seq(", ", Use("name")), 0, 3))

    loops = Many(Use("each"), 1, 2)
    rules["list"] = _enclosed("[", maybe(seq(_EXPR, one_of((loops, _then(_EXPR, _MOST_ITEMS - 1))))), "]")
    rules["entry"] = seq(_EXPR, ": ", _EXPR)
    more_entries = one_of((Use("each"), _then(Use("entry"), _MOST_ITEMS - 1)))
    more_members = one_of((Use("each"), _then(_EXPR, _MOST_ITEMS - 1)))
    members = one_of((seq(": ", _EXPR, more_entries), more_members))
    rules["dict"] = _enclosed("{", maybe(seq(_EXPR, members)), "}")
    rules["argument-value"] = one_of((seq("lambda ", Use("name"), ": ", _EXPR), _EXPR))
    argument = one_of(
        (
            seq(_any_of(("key", "reverse", "default", "start", "days", "hours", "minutes"), "="),
                Use("argument-value")),
            seq(Use("argument-value"), Many(Use("each"), 0, 2)),
        )
    )  # fmt: skip
    rules["argument"] = argument
    rules["given"] = _listed(Use("argument"), 8)
    rules["pure"] = seq(_any_of(_PURE.split(), "("), Use("given"), ")")
    rules["method"] = seq(_any_of(_METHODS.split(), "("), Use("given"), ")")
    rules["place"] = Use("place-of-field") if is_closed else _EXPR
    rules["place-of-field"] = one_of(
        (
            *(seq(quote, Use("key"), quote) for quote in "\"'"),
            Use("formatted"),
            seq(maybe("-"), Use("integer")),
            seq(Use("name"), Many(Use("after"), 0, 8), maybe(seq(one_of((" + ", " - ")), Use("integer")))),
        )
    )
    rest = seq(":", maybe(Use("place")))
    rules["index"] = one_of((seq(Use("place"), maybe(rest)), rest))
    rules["after"] = one_of((seq(".", one_of((Use("method"), Use("field")))), seq("[", Use("index"), "]")))
    atom = one_of(
        (
            *map(
                Use,
                ("string", "single", "formatted", "raw", "number", "list", "dict", "pure", "await", "name"),
            ),
            seq("(", _EXPR, maybe(one_of((Use("each"), Many(seq(", ", _EXPR), 1, 8)))), ")"),
        )
    )
    rules["operand"] = seq(maybe(one_of(("not ", "-"))), atom, Many(Use("after"), 0, 8))
    rules["condition"] = seq(
        Use("operand"), Many(seq(_any_of(f" {one} " for one in _OPERATORS.split(",")), Use("operand")), 0, 12)
    )
    rules["expr"] = seq(Use("condition"), maybe(seq(" if ", Use("condition"), " else ", Use("condition"))))


def _calls(rules: dict[str, Node], tools: Sequence[ToolShape], known: Mapping[tuple[str, str], Node]) -> None:
    """Awaits: of tools, of operations, of several side by side."""
    calls: dict[str, Node | None] = {}
    for number, tool in enumerate(tools):
        given = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
        values: dict[str, Node] = {}
        for place, name in enumerate(filter(str.isidentifier, given)):
            node = known.get((tool.name, name)) or _value(given[name])
            values[name] = node if isinstance(node, Use) else Use(f"value-{number}-{place}")
            rules |= {} if isinstance(node, Use) else {f"value-{number}-{place}": node}
        rules[f"tool-{number}"] = _enclosed("", _arguments(tool, values), ")")
        calls[f"{tool.name}("] = Use(f"tool-{number}")
    for name, parameters in _OPERATIONS.items():
        first, *rest = parameters
        more = [maybe(seq(", ", maybe(f"{one}="), _EXPR)) for one in rest]
        calls.setdefault(f"{name}(", seq(maybe(f"{first}="), _EXPR, *more, ")"))
    rules["call"] = _begun(calls)
    several = one_of(
        (
            seq(
                "*",
                one_of((seq("[", Use("call"), Use("each"), "]"), seq("(", Use("call"), Use("each"), ")"))),
            ),
            seq(Use("call"), _then(Use("call"), _MOST_AT_ONCE - 1)),
        )
    )
    rules["gather"] = _enclosed("asyncio.gather(", several, ")")
    rules["await"] = seq("await ", one_of((Use("gather"), Use("call"))))


def _arguments(tool: ToolShape, values: Mapping[str, Node]) -> Node:
    """The arguments of a tool by name: the required ones always and first, the others behind them.

    Both are in any order, since models write them in that of the goal: once they are written in another order
    than the schema's, a filter that was passed over could not be given any more. Where there are too many
    orders, required ones are in that of the schema, and others may be repeated.
    """
    given = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
    required = set(cast("list[str]", tool.parameters.get("required") or []))
    first = {f"{name}=": node for name, node in values.items() if name in required}
    others = {f"{name}=": node for name, node in values.items() if name not in required}
    if len(values) < len(given):
        others["**"] = Use("dict")  # arguments whose names Python cannot write
    comma = seq(",", one_of((" ", Use("wrap"))))
    if len(others) <= _MOST_REORDERED:
        more = _some(others, comma)
    else:
        one = _begun(others)
        more = seq(one, Many(seq(comma, one), 0, len(others) - 1))
    if first:
        must = _all(first, comma)
        return seq(must, maybe(seq(comma, more))) if others else must
    return maybe(more) if others else Text("")


_MOST_REORDERED = 3
"""The most arguments that are in all orders."""


def _all(named: Mapping[str, Node], comma: Node) -> Node:
    """All of these, in any order."""
    options: dict[str, Node | None] = {}
    for name, node in [*named.items()][: len(named) if len(named) <= _MOST_REORDERED else 1]:
        rest = {other: each for other, each in named.items() if other != name}
        options[name] = seq(node, comma, _all(rest, comma)) if rest else node
    return _begun(options)


def _some(named: Mapping[str, Node], comma: Node) -> Node:
    """One or more of these, in any order."""
    options: dict[str, Node | None] = {}
    for name, node in named.items():
        rest = {other: each for other, each in named.items() if other != name}
        options[name] = seq(node, maybe(seq(comma, _some(rest, comma)))) if rest else node
    return _begun(options) if options else Text("")


def _told(known: Sequence[str | int]) -> Node:
    """One of the values that are known, or a part of a result."""
    texts = [
        text for one in known if isinstance(one, str) for text in (dumps(one, ensure_ascii=False), repr(one))
    ]
    numbers = [str(one) for one in known if isinstance(one, int)]
    found = seq("(", Use("await"), ")", Many(Use("after"), 1, 8))
    made = seq(Use("pure"), Many(Use("after"), 0, 8))
    written = [_any_of([*texts, *numbers])] if known else []
    return one_of((_PART_OF_RESULT, found, made, *written))


def _value(schema: object) -> Node:
    """The value of an argument: of an enumeration one of its texts, perhaps by a condition, or computed."""
    given: Mapping[str, Any] = cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
    values: Any = given.get("enum")
    listed = cast("list[Any]", values) if isinstance(values, list) else []
    if listed and all(isinstance(one, str) and _PLAIN.fullmatch(one) for one in listed):
        texts = [f"{quote}{text}{quote}" for quote in "\"'" for text in listed]
        one = one_of((_any_of(texts), _PART_OF_RESULT))
        return seq(one, maybe(seq(" if ", Use("condition"), " else ", one)))
    return _EXPR


def _statements(rules: dict[str, Node], level: int, most: int) -> None:
    """The block of one level, each of whose statements begins with a line break."""
    indent = seq("\n", maybe("\n"), "    " * level)
    part = one_of((seq(".", Use("field")), seq("[", _EXPR, "]")))
    assigned = seq(
        Many(seq(", ", Use("name")), 0, 5),
        one_of((" = ", _any_of((" += ", " -= ", " *= ", " /= ", " //= ")))),
        _EXPR,
        Many(seq(", ", _EXPR), 0, 5),
    )
    place = seq(Use("name"), Many(part, 0, 3), one_of((assigned, seq(".", Use("method")))))
    rules["simple"] = one_of((place, Use("await"), Use("pure"), seq("# ", Use("words"))))
    kinds = _any_of(("ToolError", "Exception", "(KeyError, ValueError)", "KeyError", "ValueError"))
    rules["except"] = seq("except ", kinds, maybe(seq(" as ", Use("name"))), ":")
    rules["final"] = one_of(
        (
            seq("return", maybe(seq(" ", _EXPR, Many(seq(", ", _EXPR), 0, 5)))),
            *("pass", "break", "continue"),
            seq("raise ", one_of(("ToolError(", "ValueError(")), maybe(_EXPR), ")"),
        )
    )
    options: list[Node] = [seq(Use("simple"), maybe(seq("  # ", Use("words"))))]
    if level < _DEPTH:
        inner = Use(f"block-{level + 1}")
        options += [
            seq(
                "if ", _EXPR, ":", inner,
                Many(seq(indent, "elif ", _EXPR, ":", inner), 0, ANY_NUMBER),
                maybe(seq(indent, "else:", inner)),
            ),
            seq("for ", Use("targets"), " in ", _EXPR, ":", inner),
            seq("while ", _EXPR, ":", inner),
            seq(
                "try:", inner,
                Many(seq(indent, Use("except"), inner), 1, 2),
            ),
        ]  # fmt: skip
    last = seq(indent, Use("final"))  # nothing can be done behind it
    rules[f"block-{level}"] = one_of((seq(Many(seq(indent, one_of(options)), 1, most), maybe(last)), last))
