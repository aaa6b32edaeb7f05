"""The program in a model's answer, as text: taken out of it, with imports, names and lookups that it lacks.

Pure. In: the text of an answer. Out: the text of a program, which the reader of programs judges.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from keyword import iskeyword
from typing import NamedTuple, cast

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


class Lookup(NamedTuple):
    """How what a call needs is found by a name: a tool, its argument, the field of the id, and the name.

    Where the tool lists things, `key` is the field that each has its name in.
    """

    tool: str
    argument: str
    field: str
    key: str
    name: str

    @property
    def noun(self) -> str:
        """The name of a variable for what is found."""
        noun = self.tool.partition("_")[2] or "found"
        noun = noun.removesuffix("s") if self.key else noun
        return noun if noun.isidentifier() and not iskeyword(noun) else "found"

    @property
    def value(self) -> ast.expr:
        """What finds the thing, or the things of a list with its name: other capitals make no other name."""
        name = ast.Constant(self.name)
        by = [ast.keyword(self.argument, name)] if self.argument else []
        call = ast.Await(ast.Call(ast.Name(self.tool), [], by))
        if not self.key:
            return call
        each = ast.parse(
            f"[x for x in y if str(x.get({self.key!r})).lower() == {self.name.lower()!r}]", mode="eval"
        )
        assert isinstance(each.body, ast.ListComp)
        each.body.generators[0].iter = call
        return each.body

    def assigned(self, variable: str) -> ast.Assign:
        """The statement that finds the thing; it fails where a list has several of that name, or none."""
        name = ast.Name(variable, ast.Store())
        return ast.Assign([ast.List([name], ast.Store()) if self.key else name], self.value)


def with_lookups(program: str, sought: Mapping[tuple[str, str, str], Lookup]) -> str:
    """A program that looks up what a call needs in place of a name, once in front of each statement.

    `sought` has the tool, the argument and the name, a text or a variable that is one.

    >>> text = "async def main(): await mail(to='Tom')"
    >>> found = Lookup("find_contact", "name", "email", "", "Tom")
    >>> print(with_lookups(text, {("mail", "to", "Tom"): found}), end="")
    async def main():
        contact = await find_contact(name='Tom')
        await mail(to=contact['email'])
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module) or not sought:
        return program
    names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
    constants, is_changed = _constants(tree), False
    for owner, part, block in _blocks(tree):
        changed = [*_looked_up(block, sought, constants, names)]
        is_changed = is_changed or len(changed) > len(block)
        setattr(owner, part, changed)
    return f"{ast.unparse(ast.fix_missing_locations(tree))}\n" if is_changed else program


def without_calls(program: str, meant: Collection[tuple[str, str, str]]) -> str:
    """A program without calls that it does not use; each of them has the tool, an argument and its text.

    >>> text = "async def main():\\n    ann = await person(name='Ann')\\n    await mail(to='a@b.example')"
    >>> print(without_calls(text, {("person", "name", "Ann")}), end="")
    async def main():
        await mail(to='a@b.example')
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module) or not meant:
        return program
    read = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}

    def stays(statement: ast.stmt) -> bool:
        match statement:
            case ast.Expr(value=ast.Await(value=ast.Call(func=ast.Name(id=tool)) as call)):
                pass
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Await(value=ast.Call(func=ast.Name(id=tool)) as call)
            ) if name not in read:
                pass
            case _:
                return True
        return not any(
            isinstance(one.value, ast.Constant) and (tool, one.arg, one.value.value) in meant
            for one in call.keywords
        )

    blocks = _blocks(tree)
    if all(stays(one) for _, _, block in blocks for one in block):
        return program
    for owner, part, block in blocks:
        setattr(owner, part, [one for one in block if stays(one)] or [ast.Pass()])
    return f"{ast.unparse(ast.fix_missing_locations(tree))}\n"


def with_ids(program: str, fields: Mapping[tuple[str, str], str]) -> tuple[str, tuple[str, ...]]:
    """A program that uses an id in place of the id of what it would find under it as a name; and these ids.

    `fields` are those of the ids, of tools that find a thing by its name, with their argument for the name.
    Small models look up whatever they are told.

    >>> text = "async def main():\\n    pet = await find_pet(name='P-7')\\n    await feed(pet_id=pet['id'])"
    >>> print(with_ids(text, {("find_pet", "name"): "id"})[0], end="")
    async def main():
        await feed(pet_id='P-7')
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module) or not fields:
        return program, ()
    direct = _Direct(fields, times_set(ast.walk(tree)))
    changed = direct.visit(tree)
    for owner, part, block in _blocks(changed):
        ends = (number for number, one in enumerate(block) if isinstance(one, ast.Return))
        setattr(owner, part, block[: next(ends, len(block)) + 1])
    text = f"{ast.unparse(ast.fix_missing_locations(changed))}\n"
    fewer = without_calls(text, direct.used)
    if not direct.used or fewer == text:  # what else is read of the thing has to be looked up
        return program, ()
    return fewer, tuple(dict.fromkeys(told for _, _, told in direct.used))


_IS_ID = lazy.pattern(r"(?:[A-Za-z]{1,5}[-_#])?\d+", re.ASCII)
"""A word that is rather an id than a name: a number, or letters and a number."""


class _Direct(ast.NodeTransformer):
    """Puts ids in place of a field of what is looked up under them."""

    def __init__(self, fields: Mapping[tuple[str, str], str], times: Mapping[str, int]) -> None:
        self._fields = fields
        self._times = times
        self._found: dict[str, tuple[str, str, str]] = {}
        self.used: dict[tuple[str, str, str], None] = {}
        """The lookups that are not needed: tool, argument and id."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """A variable that is set once may hold what is looked up."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if self._times[name] == 1:
                lookup = self._lookup(node.value)
                if lookup is not None:
                    self._found[name] = lookup
            case _:
                pass
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Whether something was found need not be asked."""
        self.generic_visit(node)
        match node.test:
            case ast.Name(id=name) if name in self._found:
                return node.body
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
            ) if name in self._found:
                return node.body
            case _:
                return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """The field of the id is the id, and so is that of the name, where it is only told."""
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=field)):
                lookup = self._found.get(name)
            case ast.Subscript(value=ast.Await(), slice=ast.Constant(value=field)):
                lookup = self._lookup(node.value)
            case _:
                return self.generic_visit(node)
        if lookup is None or field not in (self._fields[lookup[:2]], lookup[1]):
            return self.generic_visit(node)
        self.used[lookup] = None
        return ast.Constant(lookup[2])

    def _lookup(self, node: ast.expr) -> tuple[str, str, str] | None:
        match node:
            case ast.Await(
                value=ast.Call(
                    func=ast.Name(id=tool),
                    args=[],
                    keywords=[ast.keyword(arg=str(argument), value=ast.Constant(value=str(text)))],
                )
            ) if (tool, argument) in self._fields and _IS_ID.fullmatch(text):
                return tool, argument, text
            case _:
                return None


def _blocks(tree: ast.Module) -> list[tuple[ast.AST, str, list[ast.stmt]]]:
    """The blocks of statements in a program that have any, each with what it belongs to."""
    return [
        (owner, part, cast("list[ast.stmt]", block))
        for owner in ast.walk(tree)
        for part in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(owner, part, None), list) and block
    ]


def with_fields(program: str, taken: Mapping[tuple[str, str, str], str]) -> str:
    """A program that passes on a field where it passed on the whole record; models forget it.

    `taken` has the tool, the argument and the variable, or the tool that is awaited there, with `()`, each
    with the field.

    >>> program = "async def main(pet): await feed(pet_id=pet, by=await find())"
    >>> print(with_fields(program, {("feed", "pet_id", "pet"): "id", ("feed", "by", "find()"): "no"}), end="")
    async def main(pet):
        await feed(pet_id=pet['id'], by=(await find())['no'])
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module) or not taken:
        return program
    is_changed = False
    for call in (one for one in ast.walk(tree) if isinstance(one, ast.Call)):
        for given in call.keywords:
            match given.value:
                case ast.Name(id=name):
                    passed = name
                case ast.Await(value=ast.Call(func=ast.Name(id=name))):
                    passed = f"{name}()"
                case _:
                    continue
            tool = call.func.id if isinstance(call.func, ast.Name) else ""
            if (field := taken.get((tool, given.arg or "", passed))) is not None:
                given.value = ast.Subscript(given.value, ast.Constant(field))
                is_changed = True
    return f"{ast.unparse(ast.fix_missing_locations(tree))}\n" if is_changed else program


def times_set(every: Iterable[ast.AST]) -> Counter[str]:
    """How often each variable is set in a program; the argument of a function is set there."""
    times: Counter[str] = Counter()
    for one in every:
        match one:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                times[name] += 1
            case _:
                pass
    return times


def _constants(tree: ast.Module) -> dict[str, str]:
    """The variables that are set once, to a text."""
    times = times_set(ast.walk(tree))
    found: dict[str, str] = {}
    for one in ast.walk(tree):
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                if times[name] == 1:
                    found[name] = text
            case _:
                pass
    return found


def _looked_up(
    block: list[ast.stmt],
    sought: Mapping[tuple[str, str, str], Lookup],
    constants: Mapping[str, str],
    names: set[str],
) -> Iterator[ast.stmt]:
    """The statements of a block with the lookups that their own expressions need."""
    known: dict[tuple[str, str, str], str] = {}
    for statement in block:
        parts = [one for one in ast.iter_child_nodes(statement) if isinstance(one, ast.expr | ast.withitem)]
        for call in (one for part in parts for one in ast.walk(part) if isinstance(one, ast.Call)):
            tool = call.func.id if isinstance(call.func, ast.Name) else ""
            for given in call.keywords:
                text = ""
                match given.value:
                    case ast.Constant(value=str() as said):
                        text = said
                    case ast.Name(id=name):
                        text = constants.get(name, "")
                    case _:
                        pass
                lookup = sought.get((tool, given.arg or "", text))
                if lookup is None:
                    continue
                found = (lookup.tool, lookup.argument, lookup.name)
                if found not in known:
                    variable = lookup.noun
                    while variable in names:
                        variable = f"{variable}_found"
                    names.add(variable)
                    known[found] = variable
                    yield lookup.assigned(variable)
                given.value = ast.Subscript(ast.Name(known[found]), ast.Constant(lookup.field))
        yield statement


def nodes_of(program: str) -> Iterator[ast.AST]:
    """Every node of a program; none of a text that is no program."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the reader says what is wrong
        return iter(())
    return ast.walk(tree)
