"""The grammar of plans with blocks, as `fmt` prints them: every construct of version 2 of the language.

In: the tools, the names of variables. Out: a grammar. Blocks nest by their braces, so the indentation of a
line is free. Which variables are set where, and what stands in a loop alone, the checks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from callsheet.diagnostics import CallsheetError
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
    optional,
    seq,
)
from callsheet.frontends.export.shapes import ToolShape, check_names
from callsheet.frontends.export.values import arguments, properties
from callsheet.frontends.structured.lines import RESERVED_TOOLS
from callsheet.frontends.structured.printer import argument_name
from callsheet.frontends.structured.statements import ONE_VALUE, WORD_ONLY
from callsheet.frontends.values.printer import is_name
from callsheet.frontends.values.strings import ESCAPES
from callsheet.ir.expression import BinaryOp, Comparison, LogicOp
from callsheet.ir.operations import AGENT_OPERATIONS, HUMAN_OPERATIONS, MODEL_OPERATIONS, TRANSFORMS
from callsheet.ir.tree import Ends, Word
from callsheet.ir.types import Basic

_OPERATIONS: Final = AGENT_OPERATIONS | HUMAN_OPERATIONS | MODEL_OPERATIONS | TRANSFORMS
_QUOTES: Final = (("'",), ("'", '"'), ("'''", '"', "'"))
"""The quotes of texts inside a text, from the outermost, by how deep they nest."""
_MOST_QUOTES: Final = 6
"""The most quotes between which the source of a COMPUTE stands."""
_OPERATORS: Final = (*BinaryOp, *Comparison, *LogicOp, "??")
_MOST_DIGITS: Final = 18
"""The most digits of a number that is a type."""
_INDENT: Final = Many(Text("  "), 0, ANY_NUMBER)
_LINE: Final = chars("\n", outside=True)
_BODY: Final = seq(" {", Use("end"), Use("block"), _INDENT, "}")


def structured_grammar(
    tools: Sequence[ToolShape] | None = None, variables: Iterable[str] | None = None
) -> Grammar:
    """The grammar of plans of version 2 that call these tools, and of all with None.

    A tool is given its own arguments by name, in the order of its schema, the required ones always and first.
    With `variables` these are the only names. Raises ValueError for a tool, an argument or a name that no
    plan can have.

    >>> from callsheet.frontends.export import is_sentence
    >>> grammar = structured_grammar([ToolShape("read", {"properties": {"path": {}}, "required": ["path"]})])
    >>> good = '# ltp: 2\\nTRY WITHIN (30) {\\n  @READ (path="a") > $text\\n}\\n@RESPOND ($text)\\n'
    >>> is_sentence(grammar, good), is_sentence(grammar, good.replace("@READ", "@LOAD"))
    (True, False)
    """
    rules: dict[str, Node] = {}
    _words(rules, variables)
    _types(rules)
    for quotes in (None, *_chains()):
        _expressions(rules, quotes)
    rules["value"] = one_of((Use("expr"), Use("lines")))
    _calls(rules, tools)
    _failures(rules)
    _statements(rules)
    _declarations(rules)
    rules["plan"] = seq(
        "# ltp: 2\n",
        Many(Use("declaration"), 0, ANY_NUMBER),
        Use("statement"),
        Use("block"),
    )
    return Grammar("plan", {name: Rule(node) for name, node in rules.items()}, by_character=True)


def _chains() -> list[tuple[str, ...]]:
    """The quotes that texts may have inside of texts, for each place where one may stand."""
    every = [chain[start:] for chain in _QUOTES for start in range(len(chain) + 1)]
    return list(dict.fromkeys(every))


def _listed(item: Node) -> Node:
    """One or more items with commas between."""
    return seq(item, Many(seq(", ", item), 0, ANY_NUMBER))


# ------------------------------------------------------------ words and types


def _words(rules: dict[str, Node], variables: Iterable[str] | None) -> None:
    letter, word = chars("A-Za-z_"), chars("A-Za-z0-9_")
    digits = Many(chars("0-9"), 1, ANY_NUMBER)
    rules["bare"] = seq(letter, Many(word, 0, ANY_NUMBER))
    if variables is None:
        rules["name"] = rules["bare"]
    else:
        names = [*variables]
        wrong = next((name for name in names if not is_name(name)), None)
        if wrong is not None or not names:
            raise ValueError(f"{wrong!r} is not a valid name of a variable")
        rules["name"] = one_of(names)
    exponent = seq("e", optional(one_of(("+", "-"))), digits)
    rules["whole"] = digits
    rules["number"] = seq(digits, maybe(".", digits), optional(exponent))
    part = chars("A-Za-z0-9_-")
    dotted = Many(seq(".", Many(part, 1, ANY_NUMBER)), 0, ANY_NUMBER)
    rules["id"] = seq(letter, Many(part, 0, ANY_NUMBER), dotted)
    rules["escape"] = _escape("".join(ESCAPES))
    rules["words"] = Many(_LINE, 0, ANY_NUMBER)
    rules["tool"] = Many(chars("A-Z0-9_"), 1, ANY_NUMBER)
    rules["variable"] = seq("$", Use("name"))
    bare = seq(Use("bare"), Many(seq(", ", Use("bound")), 0, ANY_NUMBER), maybe(","))
    rules["bound"] = one_of((Use("bare"), seq("(", Use("target"), ")")))
    rules["target"] = one_of(
        (bare, seq("(", Use("target"), ")", maybe(", ", _listed(Use("bound"))), maybe(",")))
    )
    rules["end"] = seq(maybe("  #", Use("words")), "\n")
    rules["comment"] = seq(_INDENT, "#", Use("words"), "\n")


def _escape(short: str) -> Node:
    """A backslash, and one of these characters or a code in four digits."""
    return seq("\\", one_of((chars(short), seq("u", *[chars("0-9a-fA-F")] * 4))))


def _types(rules: dict[str, Node]) -> None:
    text = seq('"', Many(one_of((chars('"\\\n', outside=True), _escape('"\\/bfnrt'))), 0, ANY_NUMBER), '"')
    one = one_of((text, "True", "False", seq(maybe("-"), Many(chars("0-9"), 1, _MOST_DIGITS))))
    union = seq(one, Many(seq(" | ", one), 0, ANY_NUMBER))
    field = seq(Use("bare"), ": ", Use("type"))
    rules["type"] = one_of(
        (
            union,
            seq("(", union, ")?"),
            seq(
                one_of(
                    (
                        *(basic.value for basic in Basic),
                        seq("list[", Use("type"), "]"),
                        seq("dict[str, ", Use("type"), "]"),
                        Use("record"),
                        Use("bare"),
                    )
                ),
                maybe("?"),
            ),
        )
    )
    rules["record"] = seq("{", optional(_listed(field)), "}")


# ------------------------------------------------------------ expressions


def _suffix(quotes: tuple[str, ...] | None) -> str:
    """What the names of rules end in for expressions that stand inside of texts; "" for all others."""
    return "" if quotes is None else "-in" + "".join("sd"[one[0] == '"'] * len(one) for one in quotes)


def _expressions(rules: dict[str, Node], quotes: tuple[str, ...] | None) -> None:
    """The expressions of one place: outside of texts (None), or where texts may have only these quotes."""
    own = _suffix(quotes)
    expr, operand = Use(f"expr{own}"), Use(f"operand{own}")
    each = seq(" for ", Use("target"), " in ", expr, Many(seq(" if ", expr), 0, ANY_NUMBER))
    loops = Many(Use(f"each{own}"), 1, ANY_NUMBER)
    rules[f"each{own}"] = each
    pair = seq(expr, ": ", expr)
    pairs = seq(pair, one_of((loops, Many(seq(", ", pair), 0, ANY_NUMBER))))
    several = seq(expr, one_of((loops, Many(seq(", ", expr), 0, ANY_NUMBER))))
    named = seq(Use("bare"), "=", expr)
    rules[f"given{own}"] = one_of(
        (
            seq(several, maybe(", ", _listed(named))),
            _listed(named),
        )
    )
    call = seq("(", optional(Use(f"given{own}")), ")")
    part = optional(expr)
    after = one_of(
        (
            seq(".", Use("bare"), optional(one_of(("?", call)))),
            seq("[", one_of((seq(expr, "]", maybe("?")), seq(part, ":", part, maybe(":", part), "]")))),
        )
    )
    texts = () if quotes == () else (Use(f"text{own}"),)
    atom = one_of(
        (
            *texts,
            Use("number"),
            Use("variable"),
            seq(Use("bare"), optional(call)),
            seq("(", maybe(several, maybe(",")), ")"),
            seq("[", optional(several), "]"),
            seq("{", optional(one_of((several, pairs))), "}"),
        )
    )
    rules[f"operand{own}"] = seq(
        Many(one_of(("not ", "-", "+")), 0, ANY_NUMBER), atom, Many(after, 0, ANY_NUMBER)
    )
    binary = seq(" ", one_of(_OPERATORS), " ", operand)
    plain = seq(operand, Many(binary, 0, ANY_NUMBER))
    rules[f"expr{own}"] = one_of(
        (
            seq(plain, maybe(" if ", plain, " else ", expr)),
            seq("lambda ", _listed(Use("bare")), ": ", expr),
        )
    )
    _texts(rules, quotes)


def _texts(rules: dict[str, Node], quotes: tuple[str, ...] | None) -> None:
    """The texts of one place, and what a text has in its braces."""
    own = _suffix(quotes)
    if quotes is None:
        deep, deeper = _QUOTES[1], _QUOTES[2]
        options = [
            _text('"', _QUOTES[0]), _text('"""', deep), _text('"""', deeper), _raw('"'), _raw('"""'),
        ]  # fmt: skip
        inside = one_of((_filling('"', deep, is_block=True), _filling('"', deeper, is_block=True)))
        unit = seq(Many(Text('"'), 0, 2), inside)
        rules["lines"] = seq('"""\n', Many(unit, 0, ANY_NUMBER), '"""')
        rules["text"] = one_of(options)
    elif quotes:
        rules[f"text{own}"] = one_of((_text(quotes[0], quotes[1:]), _raw(quotes[0])))
    if quotes is not None:
        index = seq("[", Use(f"expr{own}"), "]")
        path = seq(Use("name"), Many(seq(one_of((seq(".", Use("bare")), index)), maybe("?")), 0, ANY_NUMBER))
        format_ = seq(":", Many(chars("}\"'\n{", outside=True), 1, ANY_NUMBER))
        rules[f"hole{own}"] = seq("${", one_of((path, Use(f"expr{own}"))), optional(format_), "}")


def _text(quote: str, inner: tuple[str, ...]) -> Node:
    return seq(quote, Many(_filling(quote[0], inner), 0, ANY_NUMBER), quote)


def _filling(quote: str, inner: tuple[str, ...], *, is_block: bool = False) -> Node:
    """A piece of a text: a character, an escape, or what is filled in, in which texts have these quotes."""
    char = chars(f"{quote}\\$" + "\n" * (not is_block), outside=True)
    return one_of((char, Use("escape"), Use(f"hole{_suffix(inner)}"), Use("variable")))


def _raw(quote: str) -> Node:
    return seq("r", quote, Many(chars(f"{quote[0]}$\n", outside=True), 0, ANY_NUMBER), quote)


# ------------------------------------------------------------ calls


def _calls(rules: dict[str, Node], tools: Sequence[ToolShape] | None) -> None:
    word = seq('"', Many(chars('"\\$\n', outside=True), 1, ANY_NUMBER), '"')
    named = rules["named"] = seq(one_of((Use("bare"), word)), "=", Use("value"))
    broken = seq("\n", _INDENT)
    rules["open"], rules["close"] = seq(" (", optional(broken)), seq(optional(broken), ")")
    rules["next"] = seq(",", one_of((" ", broken)))
    names = rules["names"] = seq(named, Many(seq(Use("next"), named), 0, ANY_NUMBER))
    values = Many(seq(Use("next"), Use("value")), 0, ANY_NUMBER)
    given = seq(Use("value"), values, maybe(Use("next"), names))
    rules["given-any"] = maybe(Use("open"), one_of((given, names)), Use("close"))
    if tools is None:
        rules["call"] = seq("@", Use("tool"), Use("given-any"))
        return
    check_names(tools, RESERVED_TOOLS, _OPERATIONS)
    options: list[Node] = [seq(one_of(sorted(_OPERATIONS)), Use("given-any"))]
    for number, tool in enumerate(tools):
        rules[f"given-{number}"] = _arguments(tool)
        options.append(seq(tool.canonical, Use(f"given-{number}")))
    rules["call"] = seq("@", one_of(options))


def _arguments(tool: ToolShape) -> Node:
    """The arguments of a tool by name, in the order of its schema; the required ones first."""
    required = set(cast("list[str]", tool.parameters.get("required") or []))
    try:
        written = {name: argument_name(name) for name in properties(tool.parameters)}
    except CallsheetError as error:
        raise ValueError(f"no plan can call {tool.canonical}: {error}") from None
    named = [(f"{text}=", Use("value"), name in required) for name, text in written.items()]
    body = arguments(named, Use("next"))
    given = seq() if body is None else seq(Use("open"), body, Use("close"))
    return given if body is None or required & written.keys() else optional(given)


# ------------------------------------------------------------ statements


def _failures(rules: dict[str, Node]) -> None:
    """What a statement says about its failure, up to the end of its last line."""
    expr, number = Use("expr"), Use("number")
    remedy = one_of(
        (
            "CONTINUE",
            "SKIP",
            seq("USE (", expr, ")"),
            seq("TERMINATE", maybe(" (", _listed(expr), ")")),
        )
    )
    more = maybe(", delay=", number), maybe(", backoff=", number)
    retry = seq("@RETRY(", Use("whole"), *more, ")")
    once = seq(" ON_FAIL ", one_of((seq(retry, maybe(" ", remedy)), remedy)))
    rules["remedy"] = optional(once)
    kinds = seq(" ", _listed(Use("bare")))
    handler = seq(" ON_FAIL", optional(kinds), maybe(" AS ", Use("variable")), _BODY)
    last = seq(" FINALLY", _BODY)
    handlers = seq(maybe(" ON_FAIL ", retry), Many(handler, 1, ANY_NUMBER), optional(last))
    rules["recovery"] = one_of((seq(once, optional(last)), handlers, last))
    rules["rest"] = seq(maybe(Use("recovery")), Use("end"))
    rules["into"] = maybe(" > ", Use("variable"), maybe(":", Use("type")))


def _statements(rules: dict[str, Node]) -> None:
    """The lines of a block."""
    expr = Use("expr")
    label = maybe(Use("id"), ": ")
    values = maybe(" (", _listed(Use("value")), ")")
    answer = seq(label, one_of((Word.RESPOND, Word.TERMINATE, Word.REPLAN)), values)
    kind = seq('kind="', Use("bare"), '"')
    fail = seq(Word.FAIL, " (", Use("value"), maybe(", ", kind), ")")
    one_value = seq(one_of(sorted(ONE_VALUE)), " (", Use("value"), ")")
    message = maybe(" ", one_of((Use("text"), seq("(", expr, ")"))))
    rules["simple"] = one_of(
        (
            seq("LET ", Use("variable"), maybe(": ", Use("type")), " = ", Use("value")),
            seq("SET ", Use("variable"), " = ", Use("value")),
            seq("REQUIRE (", expr, ")", message),
            answer,
            fail,
            one_value,
            seq(Word.RETURN, maybe(" (", Use("value"), ")")),
            *sorted(WORD_ONLY),
        )
    )
    given = seq(Use("open"), maybe(Use("names")), Use("close"))
    rules["invoke"] = seq(label, "CALL ", Use("bare"), given, Use("into"))
    rules["act"] = seq(label, Use("call"), Use("into"))
    call = one_of((Use("act"), Use("invoke")))
    short = one_of((seq(call, Use("remedy")), Use("simple")))
    branches = seq(
        _BODY,
        Many(seq(" ELSE IF (", expr, ")", _BODY), 0, ANY_NUMBER),
        maybe(" ELSE", _BODY),
        Use("end"),
    )
    how = one_of((f" {Ends.FIRST}", seq(maybe(f" {Ends.FAILED}"), maybe(" AS DONE"))))
    order = one_of((" IN ORDER", seq(" TOGETHER", how, maybe(" MAX ", Use("whole")))))
    head = seq("?FOREACH (", Use("variable"), " IN ", expr, ")", optional(order), maybe(" LIMIT ", expr))
    rounds = seq("?REPEAT (max=", expr, maybe(", every=", expr), ")")
    until = one_of((seq(" WHILE (", expr, ")", _BODY), seq(_BODY, " UNTIL (", expr, ")")))
    inverse = seq(Use("bare"), "=", Use("text"))
    undo = seq(" ON_FAIL UNDO", maybe(" (", _listed(inverse), ")"))
    compound = one_of(
        (
            seq("?IF (", expr, ")", one_of((branches, seq(" THEN ", short, Use("end"))))),
            seq(head, _BODY, Use("into"), Use("rest")),
            seq(rounds, until, Use("rest")),
            seq("TRY WITHIN (", Use("value"), ")", _BODY, optional(undo), Use("rest")),
            seq("TRY", _BODY, one_of((seq(undo, Use("rest")), seq(Use("recovery"), Use("end"))))),
            seq("@PARALLEL", maybe(" STOP"), _BODY, Use("rest")),
            Use("compute"),
        )
    )
    _code(rules)
    line = one_of((seq(label, compound), seq(call, Use("rest")), seq(Use("simple"), Use("end"))))
    rules["statement"] = seq(_INDENT, line)
    rules["block"] = Many(one_of((Use("statement"), Use("comment"))), 0, ANY_NUMBER)


def _code(rules: dict[str, Node]) -> None:
    """COMPUTE, whose source ends at as many quotes as it began with."""
    names = _listed(Use("variable"))
    head = seq("COMPUTE", maybe(" (reads=[", names, "])"), maybe(" > ", names), " ")
    options: list[Node] = []
    for count in range(3, _MOST_QUOTES + 1):
        quotes = '"' * count
        run = Many(Text('"'), 0, count - 1)
        line = seq(Many(seq(run, chars('"\n', outside=True)), 0, ANY_NUMBER), run, "\n")
        options.append(seq(quotes, "\n", Many(line, 0, ANY_NUMBER), _INDENT, quotes))
    rules["compute"] = seq(head, one_of(options), Use("rest"))


def _declarations(rules: dict[str, Node]) -> None:
    """What stands outside of all blocks."""
    given = seq(maybe("SECRET "), Use("variable"), ": ", Use("type"), maybe(" = ", Use("expr")))
    lines = seq("\n", Many(one_of((seq(_INDENT, given, ",", Use("end")), Use("comment"))), 0, ANY_NUMBER))
    result = maybe(" -> ", Use("type"))
    plan = seq("PLAN ", Use("bare"), " (", one_of((optional(_listed(given)), lines)), ")", result)
    rules["declaration"] = one_of(
        (
            seq("TYPE ", Use("bare"), " = ", Use("record"), "\n"),
            seq("INPUT ", given, Use("end")),
            seq("RESULT ", Use("type"), "\n"),
            seq("USE ", Use("bare"), " FROM ", maybe("LIBRARY "), Use("text"), "\n"),
            seq(plan, _BODY, "\n"),
            Use("comment"),
            "\n",
        )
    )
