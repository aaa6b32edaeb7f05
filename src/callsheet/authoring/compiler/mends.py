"""What the program of a small model is mended by: its words, its ids, its lookups.

Pure. In: a program, and the request that it answers. Out: the program, and a hint for each mend.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from keyword import iskeyword
from typing import NamedTuple, cast

from callsheet.authoring.compiler.answers import nodes_of
from callsheet.authoring.compiler.asking import NAME
from callsheet.authoring.compiler.origins import Origins, address_kind
from callsheet.authoring.compiler.program_prompt import EXAMPLES_OF_SMALL
from callsheet.authoring.compiler.request import Request
from callsheet.authoring.compiler.value_doubts import IS_ID, doubtful
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.frontends.python import read_python
from callsheet.ir.expression import Variable
from callsheet.ir.tree import Act, Tree, acts, all_statements, variables_set
from callsheet.ports.models.prompts import one_line
from callsheet.views.stubs import function_name


def mended(program: str, request: Request, reads: Collection[str]) -> tuple[str, tuple[Diagnostic, ...]]:
    """A program with each word spelled as in the goal, with ids that are looked up, and less else.

    A hint says so for each; `reads` are the tools declared to only read. Small models write `living_room` for
    the living room, `to="Tom"` where one tool finds the address of Tom, and `pet_id=pet` for the id of the
    pet that was found; and they look things up by what they need not, or of which nobody spoke.
    """
    result = read_python(program, NAME)
    if result.plan is None or result.plan.tree is None:
        return program, ()
    origins, specs = Origins(request.tools), {spec.name: spec for spec in request.tools}
    sought: dict[tuple[str, str, str], Lookup] = {}
    unmeant: set[tuple[str, str]] = set()
    done: list[str] = []
    for one in doubtful(result.plan.tree, request.told, request.tools, EXAMPLES_OF_SMALL):
        found = origins.by_name(specs[one.act.tool], one.argument) if one.named else None
        if one.spellings is not None:
            word, told = one.spellings
            before = program
            for quote in "\"'":
                program = program.replace(f"{quote}{word}{quote}", f"{quote}{told}{quote}")
            if program != before:
                done.append(f"{word!r} is written as in the goal, {told!r}")
        elif found is not None:
            sought[function_name(one.act.tool), one.argument, one.phrase] = Lookup(*found, one.named)
        elif one.made_up and one.act.tool in reads:
            unmeant.add((function_name(one.act.tool), one.made_up))
    taken = dict(_whole(result.plan.tree, request, origins, times_set(nodes_of(program))))
    direct, told = with_told(program, _found_by_name(request, origins, reads))
    guessed = {said for one, said in told.items() if one.is_by_id and not one.is_called_so(request.goal)}
    done += told.values()

    def is_unmeant(tool: str, call: ast.Call) -> bool:
        given = (one.value for one in call.keywords)
        return any(isinstance(one, ast.Constant) and (tool, one.value) in unmeant for one in given)

    fewer = without_calls(direct, is_unmeant)
    if fewer != direct:
        done.append("a lookup of what the goal does not speak of, which nothing reads, is left out")
    for (tool, argument, phrase), lookup in sought.items():  # a value that is written otherwise stays
        if with_lookups(fewer, {(tool, argument, phrase): lookup}) != fewer:
            done.append(f"{argument}={one_line(phrase)[:60]!r} is looked up by {lookup.tool}")
    for whole, field in taken.items():
        if with_fields(fewer, {whole: field}) != fewer:
            done.append(f"{whole[1]} takes the field {field} of what is found, and not the whole")
    hints = (
        Diagnostic("CMP010", Severity.WARNING if one in guessed else Severity.HINT, one, help=None)
        for one in dict.fromkeys(done)
    )
    return with_fields(with_lookups(fewer, sought), taken), tuple(hints)


def _found_by_name(
    request: Request, origins: Origins, reads: Collection[str]
) -> dict[tuple[str, str], str | None]:
    """The tools that read and need one text alone, each with its argument, and the field of the id there.

    The field is None where no other tool takes the id of what is found, or nothing says which it is.
    """
    finders = (
        origins.by_name(spec, argument)
        for spec in request.tools
        for argument in spec.parameter_names
        if address_kind(spec, argument) is None
    )
    alone = {(tool, name): None for tool, name in origins.by_text() if tool in map(function_name, reads)}
    return alone | {(one.tool, one.argument): one.field for one in finders if one and not one.key}


def _whole(
    tree: Tree, request: Request, origins: Origins, times_set: Mapping[str, int]
) -> Iterator[tuple[tuple[str, str, str], str]]:
    """The records that are passed on whole where a tool takes an id or an address, and the field that has it.

    Each with the tool, the argument and what is passed, by the names that programs know: a variable that the
    program sets once, or the tool that is awaited there.
    """
    specs = {spec.name: spec for spec in request.tools}
    every = [*all_statements(tree)]
    times = Counter(name for one in every for name in variables_set(one))
    results = {
        one.into.name: function_name(one.tool)
        for one in every
        if isinstance(one, Act) and one.into is not None
        if times[one.into.name] == 1 and times_set.get(one.into.name, 0) < 2
    }
    for act in acts(tree):
        for argument, value in act.named if act.tool in specs else ():
            spec = specs[act.tool]
            if isinstance(value, Variable) and value.name in results and origins.takes_id(spec, argument):
                for origin in origins.of(spec, argument):
                    if origin.field and not origin.is_guess and origin.tool == results[value.name]:
                        passed = value.name if value.name in times_set else f"{origin.tool}()"
                        yield (function_name(act.tool), argument, passed), origin.field


class Lookup(NamedTuple):
    """How what a call needs is found by a name: a tool, its argument, the field of the id, and the name.

    Where the tool lists things, `key` is the field that each has its name in; the field is empty where the
    result is what the call needs.
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


def without_calls(program: str, is_unmeant: Callable[[str, ast.Call], bool]) -> str:
    """A program without calls that it does not use; `is_unmeant` says which of these may go.

    >>> text = "async def main():\\n    ann = await person(name='Ann')\\n    await mail(to='a@b.example')"
    >>> print(without_calls(text, lambda tool, _: tool == "person"), end="")
    async def main():
        await mail(to='a@b.example')
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module):
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
        is_alone = not any(isinstance(one, ast.Await | ast.NamedExpr) for one in ast.walk(call))
        return not (is_alone and is_unmeant(tool, call))

    blocks = _blocks(tree)
    if all(stays(one) for _, _, block in blocks for one in block):
        return program
    for owner, part, block in blocks:
        setattr(owner, part, [one for one in block if stays(one)] or [ast.Pass()])
    return f"{ast.unparse(ast.fix_missing_locations(tree))}\n"


def with_told(program: str, fields: Mapping[tuple[str, str], str | None]) -> tuple[str, Mapping[Told, str]]:
    """A program that does not look up what it was told; and what is said of that.

    `fields` has the tools that find one thing by a text, with their argument for it, and the field of the id
    that other tools take, if there is one. What is found by a name has that name. A number, or letters and a
    number, is taken for an id: it is used in place of the id of what would be found under it as a name.

    >>> text = "async def main():\\n    pet = await find_pet(name='P-7')\\n    await feed(pet_id=pet['id'])"
    >>> print(with_told(text, {("find_pet", "name"): "id"})[0], end="")
    async def main():
        await feed(pet_id='P-7')
    """
    tree = next(nodes_of(program), None)
    if not isinstance(tree, ast.Module) or not fields:
        return program, {}
    told = _Told(fields, times_set(ast.walk(tree)), {*_ids_given(tree)})
    changed = told.visit(tree)
    for owner, part, block in _blocks(changed):
        ends = (number for number, one in enumerate(block) if isinstance(one, ast.Return))
        setattr(owner, part, block[: next(ends, len(block)) + 1])
    text = f"{ast.unparse(ast.fix_missing_locations(changed))}\n"
    fewer = without_calls(text, lambda tool, call: told.lookup(tool, call) in told.used)
    if not told.used or fewer == text:  # what else is read of the thing has to be looked up
        return program, {}
    return fewer, told.used


def _ids_given(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The texts that are given as ids, each with the thing that its argument names: `pet` for `pet_id`."""
    for one in ast.walk(tree):
        match one:
            case ast.keyword(arg=str(name), value=ast.Constant(value=str(text))) if name.endswith("_id"):
                yield name.removesuffix("_id").rpartition("_")[2], text
            case _:
                pass


class Told(NamedTuple):
    """What is looked up by a text: the tool, its argument and the text."""

    tool: str
    argument: str
    text: str

    def is_called_so(self, goal: str) -> bool:
        """Whether a goal says what a thing is in front of its id: member M-104, for `find_member`."""
        noun = self.tool.rpartition("_")[2].removesuffix("s")
        said = rf"\b{re.escape(noun)}\w*\W+(?:(?:no|number|id)\b\W*)?{re.escape(self.text)}(?!\w)"
        return re.search(said, goal, re.IGNORECASE) is not None

    @property
    def is_by_id(self) -> bool:
        """Whether the text is rather an id than a name."""
        return self.text.isdecimal() or IS_ID.fullmatch(self.text) is not None


class _Told(ast.NodeTransformer):
    """Puts what was told in place of fields of what is looked up by it."""

    def __init__(
        self,
        fields: Mapping[tuple[str, str], str | None],
        times: Mapping[str, int],
        given: Collection[tuple[str, str]],
    ) -> None:
        self._fields = fields
        self._times = times
        self._given = given
        self._found: dict[str, Told] = {}
        self.used: dict[Told, str] = {}
        """The lookups that may not be needed, and what is said of them."""

    def lookup(self, tool: str, call: ast.Call) -> Told | None:
        """What a call looks up by a literal text; None if it does something else."""
        match call:
            case ast.Call(
                args=[], keywords=[ast.keyword(arg=str(argument), value=ast.Constant(value=str(text)))]
            ) if (tool, argument) in self._fields:
                return Told(tool, argument, text)
            case _:
                return None

    def _is_of_another(self, lookup: Told) -> bool:
        """Whether the text is given elsewhere as the id of what this tool does not find: a `repair_id`."""
        found = {word.removesuffix("s") for word in lookup.tool.split("_")}
        return any(text == lookup.text and thing not in found for thing, text in self._given)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """A variable that is set once may hold what is looked up."""
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Await(value=ast.Call(func=ast.Name(id=tool)) as call)
            ) if self._times[name] == 1 and (lookup := self.lookup(tool, call)) is not None:
                self._found[name] = lookup
            case _:
                pass
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Whether something is found under an id need not be asked."""
        self.generic_visit(node)
        match node.test:
            case ast.Name(id=name):
                pass
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                pass
            case _:
                return node
        is_by_id = name in self._found and self._found[name].is_by_id
        return node.body if is_by_id and not any(map(_awaits, node.orelse)) else node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """A lookup whose failure is handled may be there for that."""
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """The field of the id is the id, and that of the name the name."""
        lookup: Told | None = None
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=field)):
                lookup = self._found.get(name)
            case ast.Subscript(
                value=ast.Await(value=ast.Call(func=ast.Name(id=tool)) as call),
                slice=ast.Constant(value=field),
            ):
                lookup = self.lookup(tool, call)
            case _:
                return self.generic_visit(node)
        if lookup is None:
            return self.generic_visit(node)
        if field == self._fields[lookup[:2]] and lookup.is_by_id and not self._is_of_another(lookup):
            self.used[lookup] = f"{lookup.text!r} is taken for an id, and not looked up as a name"
        elif field == lookup.argument:
            self.used.setdefault(
                lookup, f"{one_line(lookup.text)[:60]!r} is not looked up for its name alone"
            )
        else:
            return self.generic_visit(node)
        return ast.Constant(lookup.text)


def _awaits(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Await) for one in ast.walk(node))


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
                changed: list[ast.expr] = []
                for value in given.value.elts if isinstance(given.value, ast.List) else (given.value,):
                    text = ""
                    match value:
                        case ast.Constant(value=str() as said):
                            text = said
                        case ast.Name(id=name):
                            text = constants.get(name, "")
                        case _:
                            pass
                    lookup = sought.get((tool, given.arg or "", text))
                    if lookup is None:
                        changed.append(value)
                        continue
                    found = (lookup.tool, lookup.argument, lookup.name)
                    if found not in known:
                        variable = lookup.noun
                        while variable in names:
                            variable = f"{variable}_found"
                        names.add(variable)
                        known[found] = variable
                        yield lookup.assigned(variable)
                    thing = ast.Name(known[found])
                    changed.append(
                        ast.Subscript(thing, ast.Constant(lookup.field)) if lookup.field else thing
                    )
                if isinstance(given.value, ast.List):
                    given.value.elts = changed
                else:
                    (given.value,) = changed
        yield statement
