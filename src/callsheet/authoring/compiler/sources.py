"""What variables that are set once hold: a literal, or the result of a tool as it stands, or an item of it.

Pure. In: a plan with blocks. Out: for its variables, and for a value, the literal or the tool. What is read
by a field is another thing, and is left to the checks of types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from callsheet.ir import CallKind, Literal
from callsheet.ir.expression import (
    Bound,
    Call,
    Clause,
    Comprehension,
    Expression,
    Field,
    Index,
    Slice,
    Variable,
)
from callsheet.ir.tree import Act, Foreach, Let, Tree, all_statements, variables_set


def constants(tree: Tree) -> dict[str, Literal]:
    """The variables that are set once, to a literal."""
    times = _times_set(tree)
    lets = (one for one in all_statements(tree) if isinstance(one, Let) and times[one.name] == 1)
    return {one.name: one.value for one in lets if isinstance(one.value, Literal)}


def _times_set(tree: Tree) -> Counter[str]:
    """How often each name is set: by statements, as an item, or as an argument of a sub-plan."""
    every = [*all_statements(tree)]
    times = Counter(name for one in every for name in variables_set(one))
    times.update(one.name for plan in tree.plans for one in plan.inputs)
    times.update(one.var for one in every if isinstance(one, Foreach))
    return times


def sources(tree: Tree) -> dict[str, str]:
    """The variables that are set once, to the result of a tool or an item of it, each with the tool.

    No argument of a sub-plan is one.

    >>> from callsheet.frontends.python import read_python
    >>> text = "async def main():\\n    found = await find()\\n    first = found[0]\\n    x = first['a']"
    >>> sources(read_python(text).plan.tree)
    {'found': 'FIND', 'first': 'FIND'}
    >>> text = "async def do(x): await act(x)\\nasync def main():\\n    x = await find()\\n    await do(1)"
    >>> sources(read_python(text).plan.tree)
    {}
    """
    times, found = _times_set(tree), dict[str, str]()
    for one in all_statements(tree):
        match one:
            case Act(into=into) if into is not None and one.kind is CallKind.TOOL:
                name, tool = into.name, one.tool
            case Let(name=name, value=value):
                tool = source_of(value, found)
            case Foreach(var=name, source=value):
                tool = source_of(value, found)
            case _:
                continue
        if tool is not None and times[name] == 1:
            found[name] = tool
    return found


def ids(tree: Tree, known: Mapping[str, str]) -> dict[str, str]:
    """The variables that are set once, to the `id` of a tool's record, each with the tool.

    >>> from callsheet.frontends.python import read_python
    >>> tree = read_python("async def main():\\n    n = (await find())['id']").plan.tree
    >>> ids(tree, sources(tree))
    {'n': 'FIND'}
    """
    times = _times_set(tree)
    lets = (one for one in all_statements(tree) if isinstance(one, Let) and times[one.name] == 1)
    return {one.name: tool for one in lets if (tool := id_source(one.value, known)) is not None}


def id_source(value: Expression, known: Mapping[str, str]) -> str | None:
    """The tool whose record a value is the `id` of; None if it is none."""
    match value:
        case Field(target=target, name="id") | Index(target=target, index=Literal(value="id")):
            return source_of(target, known)
        case _:
            return None


def source_of(value: Expression, known: Mapping[str, str]) -> str | None:
    """The tool that a value is from, by what is known of variables; None if it is a part by name, or made."""
    match value:
        case Variable(name=name):
            return known.get(name)
        case Index(target=target, index=Literal(value=int())) | Slice(target=target):
            return source_of(target, known)
        case Call(function="list" | "sorted", arguments=(inner,)):
            return source_of(inner, known)
        case Comprehension(element=Bound(name=name), clauses=(Clause(target=one, source=inner),)):
            return source_of(inner, known) if one == name else None  # some of the items
        case _:
            return None
