"""The grammar of Python programs over a catalogue: no call of a tool or argument that does not exist.

In: the tools, the arguments of the function. Out: a grammar. A tool can only be awaited, with its own
arguments by name, each once, the required ones always and first. Assignments, conditions, loops, `try`,
nested values, f-strings and comprehensions are in it for every goal. Only pure functions that are named here
can be called without `await`. What it cannot say, such as which variables are set, the checks say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
    choice,
    optional,
    seq,
)
from callsheet.frontends.export.shapes import ToolShape

_DEPTH = 6
"""The most levels of indentation."""
_LONGEST_NAME = 40
_PURE = (
    *(
        "len",
        "str",
        "int",
        "float",
        "bool",
        "sum",
        "min",
        "max",
        "sorted",
        "any",
        "all",
        "list",
        "dict",
        "set",
    ),
    *(
        "print",
        "tuple",
        "range",
        "enumerate",
        "zip",
        "round",
        "abs",
        "reversed",
        "isinstance",
        "next",
        "divmod",
    ),
    *("json.dumps", "json.loads", "re.findall", "re.search", "re.match", "re.sub", "re.split", "math.ceil"),
    *("math.floor", "math.sqrt", "math.prod", "math.pow", "datetime.now", "datetime.fromisoformat"),
    *(
        "datetime.strptime",
        "datetime.date",
        "datetime.datetime",
        "datetime.timedelta",
        "datetime",
        "timedelta",
    ),
    *("date", "date.today", "date.fromisoformat", "Counter", "defaultdict", "now"),
)
"""The functions that may be called without `await`."""
_METHODS = (
    *(
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "index",
        "count",
        "sort",
        "get",
        "items",
        "keys",
        "values",
    ),
    *(
        "update",
        "setdefault",
        "add",
        "lower",
        "upper",
        "title",
        "capitalize",
        "strip",
        "lstrip",
        "rstrip",
        "split",
    ),
    *(
        "rsplit",
        "splitlines",
        "join",
        "replace",
        "startswith",
        "endswith",
        "find",
        "format",
        "isdigit",
        "zfill",
    ),
    *("removeprefix", "removesuffix", "partition", "rpartition", "group", "groups", "date", "isoformat"),
    *("strftime", "weekday", "total_seconds", "most_common", "union", "intersection", "difference", "copy"),
)
_OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "llm": ("prompt", "data"),
    "llm_extract": ("prompt", "data"),
    "llm_classify": ("text", "categories"),
    "llm_summarize": ("text", "format"),
    "ask_human": ("prompt",),
}
"""The operations of callsheet with the arguments that are given by place."""
_IMPORTS = ("asyncio", "datetime", "json", "math", "re")
_FROM = (
    "from datetime import datetime, timedelta",
    "from datetime import datetime",
    "from collections import Counter",
)
_OPERATORS = (
    *(" == ", " != ", " <= ", " >= ", " < ", " > ", " not in ", " in ", " is not ", " is ", " and ", " or "),
    *(" + ", " - ", " * ", " // ", " / ", " % ", " ** "),
)
_EXPR = Use("expr")
_PLAIN = re.compile(r"[^\W\d_][\w .:/+-]*", re.ASCII)
"""A text of an enumeration that is written as it is."""


def program_grammar(tools: Sequence[ToolShape], given: Sequence[str] = ()) -> Grammar:
    """The grammar of the programs that call these tools; `given` are the arguments of the function.

    >>> from callsheet.frontends.export import is_sentence
    >>> schema = {"properties": {"path": {}}, "required": ["path"]}
    >>> grammar = program_grammar([ToolShape("read", schema)])
    >>> good = 'async def main():\\n    x = await read(path="a")\\n    return x'
    >>> is_sentence(grammar, good), is_sentence(grammar, good.replace("read", "load"))
    (True, False)
    """
    rules: dict[str, Node] = {}
    _values(rules)
    _calls(rules, tools)
    for level in range(_DEPTH, 0, -1):
        _statements(rules, level)
    imports = _one_of((*(f"import {name}" for name in _IMPORTS), *_FROM))
    head = f"async def main({', '.join(given)}):"
    rules["program"] = seq(
        Many(seq(imports, "\n"), 0, ANY_NUMBER),
        Many(Text("\n"), 0, 2),
        head,
        Use("block-1"),
        _maybe(Text("\n")),
    )
    return _used(rules, "program")


def _used(rules: Mapping[str, Node], start: str) -> Grammar:
    return Grammar(start, {name: Rule(node) for name, node in rules.items()}, _TOKENS)


_TOKENS = frozenset(
    {"name", "field", "string", "single", "integer", "plain", "plain-single", "words", "key", "spec"}
)


def _one_of(options: Iterable[Node | str]) -> Node:
    made = choice(*options)
    assert made is not None
    return made


def _maybe(node: Node | str) -> Node:
    return optional(Text(node) if isinstance(node, str) else node)


def _hole(quote: str) -> Node:
    """What an f-string may contain: a variable or a part of it, its length, its sum; keys in these quotes."""
    part = _one_of(
        (
            Use("field"),
            seq(f"[{quote}", Use("key"), f"{quote}]"),
            seq("[", _maybe("-"), Use("integer"), "]"),
            seq("[", Use("name"), "]"),
        )
    )
    place = seq(Use("name"), Many(part, 0, ANY_NUMBER))
    functions = _one_of(("len(", "sum(", "round(", "int(", "str("))
    return _one_of((place, seq(functions, place, _maybe(seq(", ", Use("integer"))), ")")))


def _listed(item: Node, most: int = ANY_NUMBER) -> Node:
    """Items with commas between; perhaps none."""
    return _maybe(seq(item, Many(seq(", ", item), 0, most)))


def _values(rules: dict[str, Node]) -> None:
    """Expressions without calls of tools."""
    word = chars("A-Za-z0-9_")
    rules["name"] = seq(chars("a-z_"), Many(word, 0, _LONGEST_NAME))
    rules["field"] = seq(".", chars("A-Za-z_"), Many(word, 0, _LONGEST_NAME))
    rules["integer"] = Many(chars("0-9"), 1, ANY_NUMBER)
    escaped = seq("\\", chars("\\\"'ntr"))
    rules["string"] = seq('"', Many(_one_of((chars('"\\\n', outside=True), escaped)), 0, ANY_NUMBER), '"')
    rules["single"] = seq("'", Many(_one_of((chars("'\\\n", outside=True), escaped)), 0, ANY_NUMBER), "'")
    rules["plain"] = Many(_one_of((chars('"\\\n{}', outside=True), escaped)), 1, ANY_NUMBER)
    rules["plain-single"] = Many(_one_of((chars("'\\\n{}", outside=True), escaped)), 1, ANY_NUMBER)
    rules["words"] = Many(chars("\n", outside=True), 1, ANY_NUMBER)
    rules["key"] = seq(chars("A-Za-z_"), Many(chars("A-Za-z0-9_ -"), 0, ANY_NUMBER))
    rules["spec"] = seq(":", Many(chars(",.+0-9a-z%"), 1, ANY_NUMBER))
    rules["number"] = seq(Use("integer"), _maybe(seq(".", Use("integer"))))

    rules["hole"], rules["hole-double"] = _hole("'"), _hole('"')
    operators = _one_of((" + ", " - ", " * ", " / "))
    calculated = seq(Use("hole"), Many(seq(operators, _one_of((Use("hole"), Use("number")))), 0, 3))
    joined = seq("', '.join(", Use("hole"), ")")
    rules["slot"] = seq("{", _one_of((calculated, joined)), _maybe(Use("spec")), "}")
    rules["slot-double"] = seq("{", Use("hole-double"), _maybe(Use("spec")), "}")
    rules["formatted"] = _one_of(
        (
            seq('f"', Many(_one_of((Use("plain"), Use("slot"))), 0, ANY_NUMBER), '"'),
            seq("f'", Many(_one_of((Use("plain-single"), Use("slot-double"))), 0, ANY_NUMBER), "'"),
        )
    )
    generator = seq(
        " for ", Use("targets"), " in ", Use("operand-chain"), _maybe(seq(" if ", Use("condition")))
    )
    rules["targets"] = seq(Use("name"), Many(seq(", ", Use("name")), 0, ANY_NUMBER))
    rules["list"] = seq("[", _one_of((seq(_EXPR, generator), _listed(_EXPR))), "]")
    entry = seq(_EXPR, ": ", _EXPR)
    rules["dict"] = seq("{", _one_of((seq(entry, generator), _listed(entry))), "}")
    argument = _one_of(
        (
            seq(_one_of(("key=", "reverse=", "default=", "start=")), Use("argument-value")),
            seq(_EXPR, _maybe(generator)),
        )
    )
    rules["argument-value"] = _one_of((seq("lambda ", Use("name"), ": ", _EXPR), _EXPR))
    rules["given"] = _listed(argument, 8)
    rules["pure"] = seq(_one_of(f"{name}(" for name in _PURE), Use("given"), ")")
    rules["method"] = seq(_one_of(f".{name}(" for name in _METHODS), Use("given"), ")")
    after = _one_of((Use("method"), Use("field"), seq("[", Use("index"), "]")))
    rules["index"] = _one_of((_EXPR, seq(_maybe(_EXPR), ":", _maybe(_EXPR))))
    rules["after"] = after
    atom = _one_of(
        (
            *map(Use, ("string", "single", "formatted", "number", "list", "dict", "pure", "await", "name")),
            *("True", "False", "None"),
            seq("(", _EXPR, _maybe(generator), ")"),
        )
    )
    rules["operand"] = seq(_maybe(_one_of(("not ", "-"))), atom, Many(Use("after"), 0, ANY_NUMBER))
    rules["condition"] = seq(Use("operand"), Many(seq(_one_of(_OPERATORS), Use("operand")), 0, ANY_NUMBER))
    rules["operand-chain"] = Use("operand")
    rules["expr"] = seq(Use("condition"), _maybe(seq(" if ", Use("condition"), " else ", Use("condition"))))


def _calls(rules: dict[str, Node], tools: Sequence[ToolShape]) -> None:
    """Awaits: of tools, of operations, of several side by side."""
    calls: list[Node] = []
    taken = {tool.name for tool in tools}
    for number, tool in enumerate(tools):
        rules[f"tool-{number}"] = seq(f"{tool.name}(", _arguments(tool.parameters), ")")
        calls.append(Use(f"tool-{number}"))
    for name, parameters in _OPERATIONS.items():
        if name not in taken:
            first, *rest = parameters
            more = [_maybe(seq(", ", _maybe(f"{one}="), _EXPR)) for one in rest]
            calls.append(seq(f"{name}(", _maybe(f"{first}="), _EXPR, *more, ")"))
    rules["call"] = _one_of(calls)
    several = seq(
        "*[",
        Use("call"),
        " for ",
        Use("targets"),
        " in ",
        Use("operand"),
        _maybe(seq(" if ", Use("condition"))),
        "]",
    )
    rules["gather"] = seq(
        "asyncio.gather(",
        _one_of((several, seq(Use("call"), Many(seq(", ", Use("call")), 0, ANY_NUMBER)))),
        ")",
    )
    rules["await"] = seq("await ", _one_of((Use("gather"), Use("call"))))


def _arguments(schema: Mapping[str, Any]) -> Node:
    """The arguments of a tool by name, in their order; the required ones are always given."""
    given = cast("Mapping[str, Any]", schema.get("properties") or {})
    required = set(cast("list[str]", schema.get("required") or []))
    names = [name for name in given if name.isidentifier()]
    first = [name for name in names if name in required]
    rest = [name for name in names if name not in required]
    nodes = [seq(f"{name}=", _value(given[name])) for name in first]
    must = seq(*(part for n, node in enumerate(nodes) for part in ((", ", node) if n else (node,))))
    optional_ones = [seq(f"{name}=", _value(given[name])) for name in rest]
    spread = seq("**", Use("dict"))  # arguments whose names Python cannot write
    if len(names) < len(given):
        optional_ones.append(spread)
    if nodes:
        return seq(must, *(_maybe(seq(", ", node)) for node in optional_ones))
    tails: list[Node] = []
    for n, node in enumerate(optional_ones):
        tails.append(seq(node, *(_maybe(seq(", ", later)) for later in optional_ones[n + 1 :])))
    return _maybe(_one_of(tails)) if tails else Text("")


def _value(schema: object) -> Node:
    """The value of an argument: of an enumeration one of its texts, or something computed."""
    given: Mapping[str, Any] = cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
    values: Any = given.get("enum")
    listed = cast("list[Any]", values) if isinstance(values, list) else []
    if listed and all(isinstance(one, str) and _PLAIN.fullmatch(one) for one in listed):
        texts = [f'"{text}"' for text in listed]
        return _one_of((*texts, seq(Use("name"), Many(Use("after"), 0, ANY_NUMBER))))
    return _EXPR


def _statements(rules: dict[str, Node], level: int) -> None:
    """The block of one level, each of whose statements begins with a line break."""
    indent = "\n" + "    " * level
    place = seq(Use("name"), Many(_one_of((Use("field"), seq("[", _EXPR, "]"))), 0, 3))
    simple = _one_of(
        (
            seq(place, Many(seq(", ", Use("name")), 0, ANY_NUMBER), _one_of((" = ", " += ", " -= ")), _EXPR),
            Use("await"),
            Use("pure"),
            seq(place, Use("method")),
            seq("# ", Use("words")),
        )
    )
    rules["simple"] = simple
    kinds = _one_of(("ToolError", "Exception", "(KeyError, ValueError)"))
    rules["except"] = seq("except ", kinds, _maybe(seq(" as ", Use("name"))), ":")
    rules["final"] = _one_of(
        (
            seq("return", _maybe(seq(" ", _EXPR, Many(seq(", ", _EXPR), 0, ANY_NUMBER)))),
            *("pass", "break", "continue"),
            seq("raise ", _one_of(("ToolError(", "ValueError(")), _maybe(_EXPR), ")"),
        )
    )
    options: list[Node] = [Use("simple")]
    if level < _DEPTH:
        inner = Use(f"block-{level + 1}")
        options += [
            seq(
                "if ", _EXPR, ":", inner,
                Many(seq(indent, "elif ", _EXPR, ":", inner), 0, ANY_NUMBER),
                _maybe(seq(indent, "else:", inner)),
            ),
            seq("for ", Use("targets"), " in ", _EXPR, ":", inner),
            seq("while ", _EXPR, ":", inner),
            seq(
                "try:", inner,
                Many(seq(indent, Use("except"), inner), 1, 2),
            ),
        ]  # fmt: skip
    last = seq(indent, Use("final"))  # nothing can be done behind it
    rules[f"block-{level}"] = _one_of(
        (seq(Many(seq(indent, _one_of(options)), 1, ANY_NUMBER), _maybe(last)), last)
    )
