"""How messages of the checks say expressions and shapes."""

from __future__ import annotations

from callsheet.ir.expression import Expression, Field, Index
from callsheet.passes.structured import operations as of
from callsheet.passes.structured import shapes
from callsheet.passes.structured.shapes import Shape, Special, families

_MOST_TEXT = 60


def spelled(node: Expression) -> str:
    """An expression for a message."""
    from callsheet.frontends.expressions.printer import format_expression  # noqa: PLC0415 - for messages only

    try:
        text = format_expression(node)
    except ValueError:  # texts in texts in texts: no text says it
        text = "the value"
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def optional(node: Expression) -> str:
    """A path with `?` behind it, for a message."""
    return f"{spelled(node)}?" if isinstance(node, Field | Index) else f"({spelled(node)} ?? {{}})"


def plain(shape: Shape) -> str:
    """A shape for a message, without null and with texts as str."""
    return shapes.text(shapes.widened(shape.without(Special.NULL)))


def article(words: str) -> str:
    """The words with an article.

    >>> article("int"), article("list[str]"), article("an empty list")
    ('an int', 'a list[str]', 'an empty list')
    """
    if words.startswith(("a ", "an ", "{", '"', "nothing", "null")):
        return words
    return f"an {words}" if words[:1] in "aeiou" else f"a {words}"


def count(number: int) -> str:
    """A number of arguments in words."""
    return "one argument" if number == 1 else f"{number} arguments"


def may_be_number(shape: Shape) -> bool:
    """Whether a value may be an index."""
    known = families(shape)
    return not known or bool(known & {of.NUM, of.TRUTH, of.UNKNOWN})


def conversion(one: Shape, two: Shape) -> str | None:
    """How values of two shapes are made comparable."""
    both = families(one) | families(two)
    for name, how in ((of.TIME, "datetime(…)"), (of.DAY, "date(…)"), (of.SPAN, 'duration("2d")')):
        if name in both:
            return f"convert the other to a {name}: {how}"
    if both == {of.TEXT, of.NUM}:
        return "convert one of them: int(…), float(…) or str(…)"
    return "convert one of them"
