"""The program in a model's answer, as text: taken out of it, with a `main`, imports and awaits that it lacks.

Pure. In: the text of an answer. Out: the text of a program, which the reader of programs judges.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from keyword import iskeyword

from callsheet import lazy
from callsheet.ports.models.prompts import one_line

_THOUGHTS = lazy.pattern(r"\s*<think>.*?</think>", re.DOTALL)
_FENCED = lazy.pattern(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_LOOKS_LIKE = lazy.pattern(
    r"^[ \t]*(?:(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|(?:[\w, ]+=[ \t]*|return[ \t]+)?await[ \t])",
    re.MULTILINE,
)


def looks_like_program(answer: str) -> bool:
    """Whether an answer has lines that only a Python program has.

    >>> looks_like_program("x = await f()"), looks_like_program('S1: @RESPOND ("await the end")')
    (True, False)
    """
    return _LOOKS_LIKE.search(answer) is not None


def program_in(answer: str) -> str:
    """The program in an answer, without thoughts, fences and prose around them.

    >>> program_in("Here:\\n```python\\nasync def main(): return 1\\n```\\nIt answers 1.")
    'async def main(): return 1\\n'
    """
    thoughts = _THOUGHTS.match(answer)
    text = answer if thoughts is None else answer[thoughts.end() :]
    fenced = [match[2] for match in _FENCED.finditer(text) if looks_like_program(match[2])]
    if fenced:
        return max(fenced, key=lambda one: ("def main" in one, len(one)))
    lines = text.strip("\n").split("\n")
    starts = [n for n, line in enumerate(lines) if line.startswith(_BEGINS)]
    if not starts:
        return "\n".join(lines) + "\n"
    ends = (
        n
        for n, line in enumerate(lines)
        if _PROSE.match(line) and any(one.startswith("async def ") for one in lines[:n])
    )
    return "\n".join(lines[starts[0] : next(ends, len(lines))]).rstrip() + "\n"


def with_main(program: str, given: Iterable[str] = ()) -> str:
    """A program whose statements stand in `main`, where a model wrote them at the top level.

    Imports, functions and classes that begin at the margin stay where they are; `given` are the inputs, of
    which those that Python cannot name are left out.

    >>> print(with_main("import math\\nx = await f(n=1)\\nreturn math.floor(x)\\n"), end="")
    import math
    async def main():
        x = await f(n=1)
        return math.floor(x)
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module):
        return program
    above = [one for one in tree.body if isinstance(one, _STAYS)]
    inside = [one for one in tree.body if not isinstance(one, _STAYS)]
    is_there = any(
        isinstance(one, ast.AsyncFunctionDef) or (isinstance(one, ast.FunctionDef) and one.name == "main")
        for one in above
    )
    if is_there or not any(isinstance(n, ast.Await) for one in inside for n in ast.walk(one)):
        return program
    named = (name for name in given if name.isidentifier() and not iskeyword(name))
    head = f"async def main({', '.join(named)}):\n"
    if not above and not _LONG_TEXT.search(program):
        return f"{head}{textwrap.indent(program, '    ')}"
    main = ast.parse(f"{head}    pass").body[0]
    assert isinstance(main, ast.AsyncFunctionDef)
    main.body = inside
    return "".join(f"{ast.unparse(one)}\n" for one in (*above, main))


_STAYS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LONG_TEXT = lazy.pattern("\"{3}|'{3}")
_BEGINS = ("async def ", "import ", "from ", "@plan", '"""', "def ", "class ")
_PROSE = lazy.pattern(r"[A-Za-z][\w ,]*(?:[:.!?]\s*)?$|```|[A-Z*-][\w']* [\w']+ [\w']+")
"""A line at the margin that no program has behind its functions."""


_QUESTION = lazy.pattern(r"[\s`*>]*QUESTION[`*]*:[`*]*\s*(\S.*)", re.DOTALL)
_MOST_OF_QUESTION = 1_000


def question_in(answer: str) -> str:
    """What an answer asks instead of being a plan; empty if it asks nothing.

    >>> question_in("QUESTION: Which room?"), question_in("async def main(): return 'QUESTION: none'")
    ('Which room?', '')
    """
    thoughts = _THOUGHTS.match(answer)
    text = answer if thoughts is None else answer[thoughts.end() :]
    asked = _QUESTION.match(text)
    if asked is None or looks_like_program(text):
        return ""
    return one_line(" ".join(asked[1].strip("` \n").split()))[:_MOST_OF_QUESTION]


_IMPORTED: Mapping[str, str] = {
    **dict.fromkeys(("asyncio", "json", "math", "re", "itertools", "functools", "statistics"), ""),
    **dict.fromkeys(("datetime", "timedelta", "date", "timezone"), "datetime"),
    **dict.fromkeys(("Counter", "defaultdict", "deque"), "collections"),
}
"""The names that a program may use after an import: empty for a module, else the module that has them."""
_MODULE_OF_DATES = frozenset({"datetime", "timedelta", "date", "timezone", "time"})


def with_imports(program: str, tools: Iterable[str] = ()) -> str:
    """A program with the imports of the modules that it uses; models forget them.

    >>> with_imports("async def main(): return json.dumps(str(date(2026, 1, 1)))").splitlines()[:2]
    ['import json', 'from datetime import date']
    """
    used: set[str] = set()
    bound = set(tools)
    is_module_of_dates = False
    for one in nodes_of(program):
        match one:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.Attribute(value=ast.Name(id="datetime"), attr=attribute):
                is_module_of_dates = is_module_of_dates or attribute in _MODULE_OF_DATES
            case _:
                pass
    missing = sorted(name for name in used - bound if name in _IMPORTED)
    lines: list[str] = []
    for name in missing:
        module = _IMPORTED[name]
        is_whole = not module or (name == "datetime" and is_module_of_dates)
        lines.append(f"import {name}" if is_whole else f"from {module} import {name}")
    if not lines:
        return program
    before = _end_of_docstring(program)
    rows = program.split("\n")
    return "\n".join(
        (*rows[:before], *sorted(lines, key=lambda line: line.startswith("from")), *rows[before:])
    )


def _end_of_docstring(program: str) -> int:
    """The number of lines that the docstring of the file takes."""
    match ast.parse(program).body:
        case [ast.Expr(value=ast.Constant(value=str()), end_lineno=int(last)), *_]:
            return last
        case _:
            return 0


def bound_names(program: str) -> frozenset[str]:
    """The names that a program gives a value to."""
    found: set[str] = set()
    for one in nodes_of(program):
        match one:
            case ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def with_own_names(program: str, tools: Collection[str]) -> str:
    """A program whose variables do not have names of tools that it calls: models name a result so.

    >>> program = "async def main():\\n    find = await find(a=1)\\n    return find"
    >>> print(with_own_names(program, {"find"}), end="")
    async def main():
        find_result = await find(a=1)
        return find_result
    """
    hidden = bound_names(program) & frozenset(tools)
    if not hidden:
        return program
    tree = ast.parse(program)
    called = {id(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    for one in ast.walk(tree):
        if isinstance(one, ast.Name) and one.id in hidden and id(one) not in called:
            one.id = f"{one.id}_result"
    return f"{ast.unparse(tree)}\n"


def with_results_awaited(program: str, tools: Collection[str]) -> str:
    """A program that awaits a call before it reads a part of its result.

    >>> print(with_results_awaited("async def main(): return await find(a=1)[0]['id']", {"find"}), end="")
    async def main():
        return (await find(a=1))[0]['id']
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module):
        return program
    awaited = _Awaited(frozenset(tools))
    changed = awaited.visit(tree)
    return f"{ast.unparse(changed)}\n" if awaited.is_changed else program


class _Awaited(ast.NodeTransformer):
    """Moves `await` from a part of a call's result to the call."""

    def __init__(self, tools: frozenset[str]) -> None:
        self._tools = tools
        self.is_changed = False

    def visit_Await(self, node: ast.Await) -> ast.expr:
        """A node whose call of a tool stands deeper than in its place is replaced by what it awaits."""
        self.generic_visit(node)
        above: ast.Subscript | ast.Attribute | ast.Call | None = None
        inner: ast.expr = node.value
        while True:
            match inner:
                case ast.Subscript(value=value) | ast.Attribute(value=value):
                    above, inner = inner, value
                case ast.Call(func=ast.Attribute() as method):
                    above, inner = inner, method
                case _:
                    break
        is_tool = (
            isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in self._tools
        )
        if not is_tool or not isinstance(above, ast.Subscript | ast.Attribute):
            return node
        above.value = ast.Await(value=inner)
        self.is_changed = True
        return node.value


def nodes_of(program: str) -> Iterator[ast.AST]:
    """Every node of a program; none of a text that is no program."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the reader says what is wrong
        return iter(())
    return ast.walk(tree)
