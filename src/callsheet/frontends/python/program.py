"""The file around the functions: constants, helpers, classes, and what each name means.

In: the tree of a file. Out: a `Program`, or `Refused` for what may not stand at its top level.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from callsheet.diagnostics import did_you_mean
from callsheet.frontends.python.analysis.shared_values import Functions
from callsheet.frontends.python.error_values import (
    GROUP,
    check_causes,
    error_fields,
    made_of_others,
    raised_with_cause,
    uses_errors,
)
from callsheet.frontends.python.exceptions import DENIED, TOOL_ERROR, Exceptions, kind_of
from callsheet.frontends.python.imports import Imports
from callsheet.frontends.python.rewrites.changed_constants import ConstantChanged
from callsheet.frontends.python.rewrites.definitions import name_factories
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    dotted,
    names_bound,
    names_read,
    said,
    waits,
    walk,
)

FORBIDDEN: Final[Mapping[str, str]] = {
    "getattr": 'write the field: x.name, or x["name"] of a record',
    "__builtins__": "use Python's functions by their names",
    "__loader__": "import a module at the top",
    "__spec__": "import a module at the top",
    "__build_class__": "write class",
    "__debug__": "remove it",
    "eval": "a plan runs no text as code; write the expression itself",
    "exec": "a plan runs no text as code; write the statements themselves",
    "compile": "a plan runs no text as code; write the statements themselves",
    "__import__": "write `import` at the top, of a module that a plan may use",
    "open": "a plan reads files by tools only: await read_file(path=…)",
    "input": "ask a person by a step: await ask_human(…)",
    "globals": "write the name of the variable",
    "locals": "write the name of the variable",
    "vars": "write the name of the field",
    "setattr": "write x.name = value",
    "delattr": "write del x.name",
    "breakpoint": "debug a run with callsheet's own debugger",
    "exit": "end with return",
    "quit": "end with return",
    "help": "remove it",
    "memoryview": "use bytes or a list",
}
"""Built-in names that a plan may not use, and the way out."""

_BUILT_IN: Final = frozenset(dir(builtins)) | {"__name__", "__file__"}
IN_SCOPE: Final = frozenset({TOOL_ERROR, DENIED, "now", "today", "note", "undo", "replan"})
"""Names that a plan has without an import, and that are no tools."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a catalogue says of a tool: its parameters in order, and which of them have to be given."""

    parameters: tuple[str, ...]
    required: frozenset[str] = frozenset()
    is_open: bool = False
    """Whether it takes other arguments too."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A name in scope that is an operation of callsheet: the operation, and its name for each parameter.

    A parameter whose name is empty is given by its place.
    """

    tool: str
    parameters: tuple[tuple[str, str], ...]


BINDINGS: Final[Mapping[str, Binding]] = {
    "llm": Binding("LLM_GENERATE", (("prompt", ""), ("data", ""))),
    "llm_extract": Binding("LLM_EXTRACT", (("prompt", "target"), ("data", ""), ("schema", "format"))),
    "llm_classify": Binding("LLM_CLASSIFY", (("text", ""), ("categories", "categories"))),
    "llm_summarize": Binding("LLM_SUMMARIZE", (("text", ""), ("format", "format"))),
    "ask_human": Binding(
        "ASK_HUMAN", (("prompt", ""), ("options", "options"), ("default", "default"), ("timeout", "timeout"))
    ),
    "agent": Binding(
        "AGENT_SOLVE",
        (("goal", "goal"), *((name, name) for name in ("tools", "max_turns", "max_tokens", "max_cost"))),
    ),
}
"""The operations of callsheet as async functions, unless a tool of that name is in the catalogue."""


@dataclass(slots=True)
class Program:
    """A file: its main function, the async functions it calls, and the definitions of its pure code."""

    main: ast.AsyncFunctionDef
    helpers: dict[str, ast.AsyncFunctionDef]
    definitions: dict[str, ast.stmt]
    """Pure functions, classes and constants of the file by name."""
    imports: dict[str, ast.stmt]
    modules: dict[str, str]
    """What an imported name is, as `asyncio.gather`."""
    exceptions: Exceptions
    tools: Mapping[str, Signature] | None
    bindings: Mapping[str, Binding] = field(default_factory=lambda: BINDINGS)
    about: str | None = None
    choices: dict[str, None] = field(default_factory=dict[str, None])
    """Tools and async functions in the literal tables of the file."""
    holders: set[str] = field(default_factory=set[str])
    """The names of these tables."""

    warnings: list[Refused] = field(default_factory=list[Refused])
    """What has another effect than its text says."""
    keeps_errors: bool = False
    """Whether errors may be values of the program, as among the results of a gather."""
    error_fields: tuple[str, ...] = ()
    """What the program's own exceptions carry beside their words."""
    made_of_others: ast.AST | None = None
    """What makes an error of something else than one text."""
    with_cause: tuple[str, ...] = ()
    """The kinds of the exceptions that it raises from others, where it asks for what they came from."""
    computed: list[ast.stmt] = field(default_factory=list[ast.stmt])
    """The statements that are left to the interpreter of pure code."""
    computed_definitions: dict[str, ast.stmt] = field(default_factory=dict[str, ast.stmt])
    """The imports and definitions that these need."""
    changed: dict[str, ConstantChanged] = field(default_factory=dict[str, ConstantChanged])
    """The first change of each constant of the file that is changed."""
    spellings: dict[ast.stmt, tuple[str, set[str]]] = field(
        default_factory=dict[ast.stmt, tuple[str, set[str]]]
    )
    """The texts of definitions, and the names that they read."""

    known_functions: dict[tuple[tuple[str, ast.stmt], ...], Functions] = field(
        default_factory=dict[tuple[tuple[str, ast.stmt], ...], Functions]
    )
    named_kinds: tuple[str, ...] = ()
    """The kinds of failure that `except Exception` does not catch, and that the program names."""
    tells_attributes: bool = False
    """Whether it names the error of `r.f` or of `r["f"]` where there is no such field."""

    def own_errors(self) -> tuple[str, ...]:
        """The program's own exceptions, if they carry more than their words."""
        groups = {GROUP} if "exceptions" in self.error_fields else set[str]()
        known = {*self.exceptions.own, *groups, *self.with_cause}
        return tuple(sorted(known)) if self.error_fields else ()

    def functions(self, local: Mapping[str, ast.stmt]) -> Functions:
        """The definitions of the file and these, with what is known of them so far."""
        definitions = {**self.definitions, **local}
        key = tuple(definitions.items())
        if key not in self.known_functions:
            self.known_functions[key] = Functions(definitions, self.resolved)
        return self.known_functions[key]

    def resolved(self, node: ast.AST) -> str | None:
        """The full name of `a.b` where `a` was imported, as in `asyncio.gather`; None for all else."""
        name = dotted(node)
        if name is None:
            return None
        first, dot, rest = name.partition(".")
        module = self.modules.get(first)
        return None if module is None else module + dot + rest

    def is_tool(self, name: str) -> bool:
        """Whether a name that is no variable is that of a tool or an operation."""
        if name in self.definitions or name in self.helpers or name in self.modules:
            return False
        if self.tools is not None and name in self.tools:
            return True
        if name in IN_SCOPE or self.exceptions.is_exception(name):
            return False
        return name not in _BUILT_IN

    def check_tool(self, name: str, node: ast.AST) -> None:
        """Raises Refused (PYT008) for a tool that is not in the catalogue, where there is one."""
        if self.tools is None or name in self.tools or name in self.bindings:
            return
        known = [*self.tools, *self.helpers, *self.bindings]
        meant = did_you_mean(name, known)
        listed = ", ".join(sorted(known)[:12])
        raise Refused(
            "PYT008", node, f"there is no tool {name}", said(meant) or f"call one that there is: {listed}"
        )

    def spelling(self, one: ast.stmt) -> tuple[str, set[str]]:
        """The text of a definition, and the names that it reads."""
        if one not in self.spellings:
            self.spellings[one] = ast.unparse(one), names_read(one)
        return self.spellings[one]

    def definitions_for(self, names: set[str], local: Mapping[str, ast.stmt]) -> dict[str, ast.stmt]:
        """The imports and definitions that pure code needs which reads these names, in the file's order."""
        wanted: dict[str, ast.stmt] = {}
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in wanted:
                continue
            found = local.get(name) or self.definitions.get(name) or self.imports.get(name)
            if found is None:
                continue
            wanted[name] = found
            if not isinstance(found, (ast.Import, ast.ImportFrom)):
                todo += self.spelling(found)[1]
        if len(wanted) < 2:
            return wanted
        order = [*self.imports, *self.definitions, *local]
        return {name: wanted[name] for name in order if name in wanted}


def read_program(
    tree: ast.Module,
    tools: Mapping[str, Signature] | None,
    bindings: Mapping[str, Binding],
    nodes: Nodes | None = None,
) -> Program:
    """The program of a file, whose `nodes` may be known already. Raises Refused."""
    nodes = Nodes(tree) if nodes is None else nodes
    name_factories(tree, nodes)
    made = _Reader(tools, bindings, Imports(nodes))
    for number, one in enumerate(tree.body):
        made.read(one, is_first=number == 0)
    return made.program(tree, nodes)


class _Reader:
    """Reads the statements of a file's top level."""

    def __init__(
        self, tools: Mapping[str, Signature] | None, bindings: Mapping[str, Binding], imports: Imports
    ) -> None:
        self.tools, self.bindings, self.imports = tools, bindings, imports
        self.functions: dict[str, ast.AsyncFunctionDef] = {}
        self.definitions: dict[str, ast.stmt] = {}
        self.own_exceptions: dict[str, str] = {}
        self.marked: list[str] = []
        self.about: str | None = None

    def read(self, one: ast.stmt, *, is_first: bool) -> None:
        """Read one statement of the top level."""
        match one:
            case ast.Expr(value=ast.Constant(value=value)):
                if is_first and isinstance(value, str):
                    self.about = value.strip()
            case ast.Import() | ast.ImportFrom():
                for name in self.imports.read(one):
                    self._take(name, one)
            case ast.AsyncFunctionDef():
                self._take(one.name, one)
                for mark in one.decorator_list:
                    name = dotted(mark.func if isinstance(mark, ast.Call) else mark) or ""
                    if name.split(".")[-1] != "plan":
                        raise Refused(
                            "PYT024", mark, f"an async function takes no decorator {name}", "remove it"
                        )
                    self.marked.append(one.name)
                self.functions[one.name] = one
            case ast.FunctionDef():
                self._take(one.name, one)
                check_pure_function(one)
                self.definitions[one.name] = one
            case ast.ClassDef():
                self._take(one.name, one)
                self._class(one)
            case ast.Assign() | ast.AnnAssign():
                self._constant(one)
            case ast.If() if _is_main_guard(one):
                pass
            case ast.Expr(value=ast.Call(func=func)) if dotted(func) == "asyncio.run":
                pass
            case ast.Pass():
                pass
            case _:
                raise Refused(
                    "PYT004",
                    one,
                    "a plan's file has imports, functions, classes and constants at its top level, and "
                    "nothing else",
                    "move this statement into the async function",
                )

    def _take(self, name: str, node: ast.stmt) -> None:
        known = self.tools or {}
        if name in known or (name in self.bindings and self.tools is None):
            raise Refused(
                "PYT010",
                node,
                f"{name} is the name of a tool, and would hide it from all who read the plan",
                f"give it another name, such as {name}_with_care, and call the tool {name} in it",
            )
        if name in self.functions or name in self.definitions:
            raise Refused(
                "PYT010",
                node,
                f"{name} is defined twice; which one is meant depends on when it is called",
                "give one of them another name",
            )

    def _constant(self, one: ast.Assign | ast.AnnAssign) -> None:
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        if one.value is None:
            return
        if waits(one.value):
            raise Refused(
                "PYT004", one, "nothing is awaited at the top level", "await inside the async function"
            )
        for target in targets:
            bound = names_bound(target)
            if not bound or any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in walk(target)):
                raise Refused(
                    "PYT004",
                    one,
                    "a constant of the file is changed, or something else's field is set",
                    "write constants as NAME = value, once each, and compute in functions",
                )
            for name in bound:
                self._take(name, one)
                self.definitions[name] = one

    def _class(self, one: ast.ClassDef) -> None:
        for each in walk(one):
            if isinstance(each, ast.AsyncFunctionDef):
                raise Refused(
                    "PYT024",
                    each,
                    f"a method that awaits ({one.name}.{each.name}) is not understood",
                    f"write it as an async function of the file: async def {each.name}(…)",
                )
            if isinstance(each, ast.FunctionDef):
                check_pure_function(each)
        for base in one.bases:
            name = dotted(base) or ""
            self.own_exceptions[one.name] = name.split(".")[-1]
        self.definitions[one.name] = one

    def program(self, tree: ast.Module, nodes: Nodes) -> Program:
        """What was read."""
        exceptions = Exceptions({})
        changed = True
        while changed:
            changed = False
            for name, base in self.own_exceptions.items():
                if name not in exceptions.own and exceptions.is_exception(base):
                    exceptions.own[name] = base
                    changed = True
        main = self._main(tree)
        check_causes(nodes)
        helpers = {name: one for name, one in self.functions.items() if one is not main}
        about = ast.get_docstring(main) or self.about
        return Program(
            main,
            helpers,
            self.definitions,
            self.imports.statements,
            self.imports.modules,
            exceptions,
            self.tools,
            self.bindings,
            about,
            keeps_errors=uses_errors(nodes, exceptions),
            error_fields=error_fields(nodes, exceptions),
            with_cause=raised_with_cause(nodes),
            made_of_others=made_of_others(nodes, exceptions),
            warnings=self.imports.warnings,
            named_kinds=(kind_of(DENIED),) if any(one.id == DENIED for one in nodes.of(ast.Name)) else (),
            tells_attributes=any(one.id in _OF_FIELDS for one in nodes.of(ast.Name)),
        )

    def _main(self, tree: ast.Module) -> ast.AsyncFunctionDef:
        if self.marked:
            return self.functions[self.marked[0]]
        if "main" in self.functions:
            return self.functions["main"]
        called = {name for one in self.functions.values() for name in names_read(*one.body)}
        roots = [one for name, one in self.functions.items() if name not in called]
        if len(roots) == 1:
            return roots[0]
        if not self.functions:
            raise Refused(
                "PYT003",
                tree.body[0] if tree.body else None,
                "there is no async function, so nothing is called",
                "write async def main(): … and await the tools in it",
            )
        raise Refused(
            "PYT003",
            roots[-1] if roots else None,
            "which of the async functions is the plan is not clear",
            "call it main, or mark it with @plan",
        )


_OF_FIELDS: Final = frozenset({"AttributeError", "KeyError", "LookupError"})


def _is_main_guard(one: ast.If) -> bool:
    test = one.test
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def check_pure_function(one: ast.FunctionDef) -> None:
    """Raises Refused for a function without async that awaits, or whose defaults are changed."""
    for each in walk(one):
        if isinstance(each, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            raise Refused(
                "PYT013",
                each,
                f"{one.name} is no async function, and cannot await",
                f"write async def {one.name}",
            )
        if isinstance(each, ast.AsyncFunctionDef):
            raise Refused(
                "PYT013",
                each,
                f"an async function inside {one.name}, which awaits nothing",
                "write it beside, not inside",
            )
