"""What the names in an async function mean, and what its pure code may not say."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from callsheet.diagnostics import did_you_mean
from callsheet.frontends.expressions.names import FUNCTIONS, VERSION_1
from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.atomicity import methods_of
from callsheet.frontends.python.analysis.kinds import OF_LTP, ltp_function
from callsheet.frontends.python.error_values import collections_of_errors
from callsheet.frontends.python.lowering.failures import Failures
from callsheet.frontends.python.lowering.templates import FORMATS, Templates
from callsheet.frontends.python.program import FORBIDDEN, Program
from callsheet.frontends.python.rewrites.definitions import is_built_in
from callsheet.frontends.python.source import (
    Nodes,
    Refused,
    dotted,
    names_bound,
    names_read,
    outer_name_changed,
    own_nodes,
    parameters_of,
    said,
    walk,
)
from callsheet.frontends.python.syntax import assigned, bound_inside, chosen_from, kept_in, loads_of

if TYPE_CHECKING:
    from callsheet.frontends.python.lowering.held_calls import Held

_PRINTS: Final = frozenset({"print", "note"})
_WALL_CLOCKS: Final = frozenset(
    {"time.sleep", "time.time", "time.perf_counter", "time.process_time", "time.monotonic", "time.time_ns"}
)
_FRAMES: Final = frozenset({"mro", "func_globals", "__wrapped__"})
_OF_FRAMES: Final = ("gi_", "cr_", "tb_", "f_globals", "f_locals", "f_back", "co_")
"""How the names of attributes begin that lead from values to what runs."""
_WITHOUT_QUEUE: Final = (
    "keep what is to be done in a list, and do it side by side: results = await"
    " asyncio.gather(*[work(item) for item in items]); a Semaphore in work limits how many run at a time"
)
_OF_TASKS = frozenset({"cancel", "cancelled", "done"})
"""Methods that only tasks have."""
_CHANNELS: Final[Mapping[str, str]] = {
    "Queue": _WITHOUT_QUEUE,
    "PriorityQueue": _WITHOUT_QUEUE,
    "LifoQueue": _WITHOUT_QUEUE,
    "Event": "await what has to come first, and then start the others",
    "Condition": "await what has to come first, and then start the others",
    "Future": "await the call itself, and keep its result",
}
"""What to write instead of the ways in which tasks wait for each other."""


_CHECKED: Final = frozenset(
    {
        *(ast.Assign, ast.For, ast.Call, ast.Name, ast.Attribute, ast.MatchClass, ast.Global, ast.Nonlocal),
        *(ast.Yield, ast.YieldFrom),
    }
)


class Names:
    """The names of one file; makes new ones."""

    def __init__(self, nodes: Nodes) -> None:
        """`nodes` are all those of the file."""
        self.taken = set(nodes.words)
        self.numbers: dict[str, int] = {}
        self.made: set[str] = set()

    def fresh(self, stem: str) -> str:
        """A name that nothing has: the stem with a number."""
        while True:
            number = self.numbers[stem] = self.numbers.get(stem, 0) + 1
            name = f"{stem}_{number}"
            if name not in self.taken:
                self.taken.add(name)
                self.made.add(name)
                return name


class Scope:
    """An async function: its names, and the checks of what it says."""

    def __init__(
        self, program: Program, function: ast.AsyncFunctionDef, names: Names, outer: Scope | None = None
    ) -> None:
        self.program, self.function, self.names, self.outer = program, function, names, outer
        self.parameters = [one.arg for one in parameters_of(function.args)]
        self.local_definitions: dict[str, ast.stmt] = {}
        self.local_helpers: dict[str, ast.AsyncFunctionDef] = {}
        self.semaphores: dict[str, int | None] = {}
        self.caught: list[tuple[str, str, tuple[str, ...]]] = []
        """What the handlers around the place name their errors, their variables, and the kinds they catch."""
        self.flags: list[str | None] = []
        """For each loop around the place, the variable that says that it was left by break."""
        self.most: int | None = None
        self.nonlocals: set[str] = set()
        """Variables of the functions around this one that it assigns."""
        self.bound: set[str] = names_bound(*function.body) | set(self.parameters)
        self.stored: set[str] = set()
        """What is assigned in its body: a definition of that name may be replaced."""
        self.inner_names: set[str] = bound_inside(walk(function))
        """What comprehensions and lambdas bind: without a catalogue, they would be taken for tools."""
        self.held: dict[str, Held] = {}
        self.call_names: set[str] = set()
        """Variables that stand for a call which is made before it is awaited, and have no value."""
        self.listed: dict[str, tuple[list[core.Call], core.Block]] = {}
        """Lists of different calls, and the blocks in which they were made."""
        self.awaits: int = 0
        self.eager, self.has_limit = False, False
        """Whether tasks run where they are started, as some are kept and awaited elsewhere; whether a time
        limit is around."""
        self.alone: list[ast.AST] = []
        """Tasks that run one after another, since each is started by itself."""
        self.groups: dict[str, str] = {}
        """The names of task groups, and the variables of what their tasks failed with."""
        self.results: dict[str, str] = {}
        """Tasks of a finished TaskGroup, and the variable of the result of each."""
        self.may_have_failed: dict[str, ast.expr | None] = {}
        """Those whose result may be the error that they ended in."""
        self.choices: dict[str, None] = {}
        """Tools and async functions that the program chooses among by data."""
        self.holders: set[str] = set()
        """Variables that hold one of these, or a table of them."""

    def definitions(self) -> Mapping[str, ast.stmt]:
        """The pure functions and classes of this function and those around it."""
        outer: Mapping[str, ast.stmt] = {} if self.outer is None else self.outer.definitions()
        return {**outer, **self.local_definitions}

    def helper(self, name: str) -> ast.AsyncFunctionDef | None:
        """The async function of this name that can be called here."""
        if name in self.local_helpers:
            return self.local_helpers[name]
        if self.outer is not None:
            return self.outer.helper(name)
        return self.program.helpers.get(name)

    def add_helper(self, like: ast.AsyncFunctionDef, made: ast.AsyncFunctionDef) -> None:
        """Let a copy of an async function be called where that one can be."""
        if like in self.local_helpers.values():
            self.local_helpers[made.name] = made
        elif self.outer is not None:
            self.outer.add_helper(like, made)
        else:
            self.program.helpers[made.name] = made

    def add_copy(self, function: ast.AsyncFunctionDef, call: ast.Call, made: ast.AsyncFunctionDef) -> None:
        """Let a copy of a function be called that calls what a call gives it: beside what is given.

        Raises Refused (PYT011) if a name in it would mean another there.
        """
        given = names_read(*call.args, *(word.value for word in call.keywords))
        if function in self.local_helpers.values() or not given & {
            *self.local_helpers,
            *self.local_definitions,
        }:
            if function in self.local_helpers.values() or self.outer is None:
                self.add_helper(function, made)
            else:
                self.outer.add_copy(function, call, made)
            return
        own = names_bound(*function.body) | {one.arg for one in parameters_of(function.args)}
        hidden = (names_read(*function.body) - own) & (
            self.bound | {*self.local_helpers, *self.local_definitions}
        )
        if hidden:
            name = min(hidden)
            raise Refused(
                "PYT011",
                call,
                f"{function.name} calls what it is given, and {name} has another meaning there than here",
                f"give {name} another name here",
            )
        self.local_helpers[made.name] = made

    def is_variable(self, name: str) -> bool:
        """Whether a name is a variable of this function or of one around it."""
        if name in self.bound or (name in self.names.made and self.helper(name) is None):
            return True
        return self.outer is not None and self.outer.is_variable(name)

    def known_semaphores(self) -> dict[str, int | None]:
        """The semaphores of this function and those around it, with their numbers."""
        outer: dict[str, int | None] = {} if self.outer is None else self.outer.known_semaphores()
        return {**outer, **self.semaphores}

    def check_not_tool(self, name: str, node: ast.AST) -> None:
        """Raises Refused (PYT010) for a definition that hides a tool."""
        known = self.program.tools or {}
        if name in known or (name in self.program.bindings and self.program.tools is None):
            raise Refused(
                "PYT010", node, f"{name} is the name of a tool, and would hide it", "give it another name"
            )

    def is_pure_function(self, name: str) -> bool:
        """Whether a name is that of a pure function: of the file, of an async function, or of Python."""
        found = self.definitions().get(name) or self.program.definitions.get(name)
        if found is None:
            return is_built_in(name) and name not in FORBIDDEN and not self.is_variable(name)
        return isinstance(found, ast.FunctionDef)

    def has_method(self, name: str) -> bool:
        """Whether a class of the program has a method of this name."""
        return name in methods_of({**self.program.definitions, **self.definitions()}.values())

    def is_function(self, name: str) -> bool:
        """Whether a name is that of a tool or an async function."""
        if self.is_variable(name) or name in self.definitions() or name in self.program.definitions:
            return False
        known = self.program.tools
        if self.helper(name) is not None:
            return True
        return self.program.is_tool(name) and (
            name not in self.inner_names if known is None else name in known or name in self.program.bindings
        )

    def new_name(self, stem: str) -> str:
        """A name for a new variable."""
        name = self.names.fresh(stem)
        self.bound.add(name)
        return name

    def result(self, value: ast.expr, out: core.Block, into: str | None) -> ast.expr:
        """A value, in the variable `into` if that has a name."""
        if not into:
            return value
        out.append(assigned(into, value))
        return ast.copy_location(ast.Name(into, ast.Load()), value)

    def failure_variable(self, name: str) -> str | None:
        """The variable of the failure that a handler has under a name."""
        return next((held for known, held, _ in reversed(self.caught) if known == name), None)

    @cached_property
    def templates(self) -> Templates:
        """The templates of the function."""
        return Templates(self)

    @cached_property
    def error_collections(self) -> set[str]:
        """The variables that hold errors in a container."""
        return collections_of_errors(self.function, self.program.exceptions)

    def without_failures(self, node: ast.stmt) -> ast.stmt:
        """The statement, with what it says of caught errors as fields of their failures."""
        if not self._needs_replacing(node):
            return node
        return cast("ast.stmt", Failures(self).visit(copy.deepcopy(node)))

    def replaced(self, node: ast.expr) -> ast.expr:
        """The same for an expression."""
        if not self._needs_replacing(node):
            return node
        return cast("ast.expr", Failures(self).visit(copy.deepcopy(node)))

    def _needs_replacing(self, node: ast.AST) -> bool:
        if self.results or self.program.keeps_errors:
            return True
        names = {name for name, _, _ in self.caught if name}
        return bool(names) and any(isinstance(one, ast.Name) and one.id in names for one in walk(node))

    def is_remark(self, call: ast.Call) -> bool:
        """Whether a call prints."""
        name = dotted(call.func) or ""
        return name in _PRINTS and not self._is_defined(name)

    def is_own(self, node: ast.AST, name: str) -> bool:
        """Whether a node is a name that plans have, and no tool, variable or function of the program."""
        return dotted(node) == name and not self._is_defined(name) and not self.program.is_tool(name)

    def _is_defined(self, name: str) -> bool:
        """Whether a name is that of a variable or a function of the program."""
        own = name in self.program.definitions or name in self.definitions()
        return own or self.is_variable(name) or self.helper(name) is not None

    def needs_statements(self, node: ast.expr) -> bool:
        """Whether an expression binds names, as `while page := …` does."""
        return any(isinstance(one, ast.NamedExpr) for one in own_nodes(node))

    def check(self, root: ast.AST) -> None:
        """Raises Refused for what pure code may not say."""
        self.check_nodes(root, list(walk(root)))

    def check_nodes(self, root: ast.AST, nodes: Sequence[ast.AST]) -> None:
        """Check a tree of which these are all nodes."""
        inner = bound_inside(nodes)
        for node in nodes:
            if node.__class__ not in _CHECKED:
                continue
            if isinstance(node, (ast.Assign, ast.For)) and self._takes_function(node):
                self.holders |= names_bound(node)
            if isinstance(node, ast.Call):
                if not (isinstance(node.func, ast.Name) and node.func.id in inner):
                    self.check_call(node)
            elif isinstance(node, ast.Name) and node.id in self.call_names and node.id not in inner:
                if isinstance(node.ctx, ast.Load):
                    raise Refused(
                        "PYT020",
                        node,
                        f"{node.id} stands for a call, and is used as a value here",
                        "await it where it is made, and use its result",
                    )
            elif isinstance(node, ast.Attribute):
                self.check_attribute(node)
            elif isinstance(node, ast.MatchClass):
                if any(name.startswith("_") for name in node.kwd_attrs):
                    raise Refused(
                        "PYT025",
                        node,
                        "the pattern reaches behind the values of the plan",
                        "match fields that the records have",
                    )
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                raise outer_name_changed(node)
            elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                self._check_yield(root, node)
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        for name, node in loads_of(nodes):
            if name != "getattr" or id(node) not in called:
                self.check_name(name, node, inner)

    def _takes_function(self, node: ast.Assign | ast.For) -> bool:
        """Whether what holds functions that call tools gives variables one of them."""
        source = node.value if isinstance(node, ast.Assign) else node.iter
        match source:
            case ast.Call(func=ast.Attribute(attr="values" | "items", value=ast.Name(id=name))):
                return name in self.holders | self.program.holders
            case _:
                return isinstance(node, ast.Assign) and chosen_from(source) in (
                    self.holders | self.program.holders
                )

    def _check_yield(self, root: ast.AST, node: ast.AST) -> None:
        if isinstance(root, (ast.FunctionDef, ast.ClassDef)):
            return
        if any(isinstance(one, ast.FunctionDef) for one in walk(root)):
            return
        raise Refused("PYT019", node, "a plan yields nothing", "append to a list, and return it")

    def check_attribute(self, node: ast.Attribute) -> None:
        """Raises Refused (PYT025) for an attribute that leads behind values."""
        name = node.attr
        if name in FORMATS and self.program.resolved(node) is None:
            self.templates.check(node)
        is_special = name.startswith("__") and name.endswith("__") and name not in {"__name__", "__init__"}
        if is_special or name in _FRAMES or name.startswith(_OF_FRAMES):
            raise Refused(
                "PYT025", node, f"{name} reaches behind the values of the plan", "use a field or a function"
            )
        if name == "__name__" and not (
            isinstance(node.value, ast.Call) and dotted(node.value.func) == "type"
        ):
            raise Refused("PYT025", node, "__name__ is understood of type(x) only", "write type(x).__name__")

    def check_whole(self, node: ast.expr) -> None:
        """Raises Refused as `check` does, for an expression whose parts have been checked by themselves."""
        self.check_call(node)
        of = node.func if isinstance(node, ast.Call) else node
        if isinstance(of, ast.Attribute):
            self.check_attribute(of)
        elif of is not node and isinstance(of, ast.Name) and of.id != "getattr":
            self.check_name(of.id, of, set())

    def check_call(self, node: ast.AST) -> None:
        """Raises Refused for a call of a tool without await, and of what a plan may not call."""
        if not isinstance(node, ast.Call):
            return
        resolved = self.program.resolved(node.func)
        func = node.func
        if isinstance(func, ast.Attribute):
            self.check_attribute(func)
            is_of_task = func.attr in _OF_TASKS and not node.args and self.program.keeps_errors
            if is_of_task and not self.has_method(func.attr):
                raise Refused(
                    "PYT020",
                    node,
                    f"a task is asked for .{func.attr}() where it is not known which task that is",
                    "await the task, in a try if it may fail",
                )
        if resolved in {"operator.attrgetter", "operator.methodcaller"} and not (
            node.args
            and isinstance(node.args[0], ast.Constant)
            and not any(part.startswith("_") for part in str(node.args[0].value).split("."))
        ):
            raise Refused("PYT006", node, f"{resolved} takes its name from data", "write lambda x: x.name")
        if isinstance(func, ast.Name) and func.id == "type" and len(node.args) > 1:
            raise Refused("PYT006", node, "type makes a class of data", "write class")
        if resolved in _WALL_CLOCKS:
            rewrite = (
                "await asyncio.sleep(seconds): a timer" if resolved == "time.sleep" else "datetime.now()"
            )
            raise Refused("PYT023", node, f"{resolved} is no part of a plan", f"write {rewrite}")
        if resolved is not None and resolved.startswith("asyncio."):
            part = resolved.removeprefix("asyncio.")
            if part in {"create_task", "ensure_future"}:
                raise Refused(
                    "PYT020",
                    node,
                    "a task is started here, and awaited somewhere else",
                    "await what runs side by side in one place:"
                    " results = dict(zip(keys, await asyncio.gather(*[f(k) for k in keys])))",
                )
            if part in {"Semaphore", "Lock", "BoundedSemaphore"}:
                raise Refused(
                    "PYT020",
                    node,
                    f"asyncio.{part} stands where it is not understood",
                    "assign it to a variable before its use: limit = asyncio.Semaphore(5)",
                )
            if part in _CHANNELS:
                raise Refused(
                    "PYT020",
                    node,
                    f"asyncio.{part} lets tasks talk to each other, which a plan cannot say",
                    _CHANNELS[part],
                )
            raise Refused(
                "PYT007",
                node,
                f"{resolved} is not awaited here",
                "write await before it, where its result is used",
            )
        held = chosen_from(node.func)
        if held in self.holders or (held in self.program.holders and not self.is_variable(held)):
            raise Refused(
                "PYT007",
                node,
                f"{held} holds functions that call tools, and what it gives is called without await",
                "write await before the call",
            )
        if (resolved or "").startswith(f"{OF_LTP}.") and ltp_function(resolved or "") is None:
            name, known = ast.unparse(node.func), [f"ltp.{one}" for one in sorted(FUNCTIONS | VERSION_1)]
            meant = said(did_you_mean(name, known))
            raise Refused(
                "PYT008", node, f"LTP text has no function {name}", meant or f"it has {', '.join(known)}"
            )
        if isinstance(node.func, ast.Name):
            self._check_called(node, node.func.id)

    def _check_called(self, node: ast.Call, name: str) -> None:
        if self.is_variable(name) or name in self.definitions() or name in self.program.definitions:
            return
        if self.helper(name) is not None:
            raise Refused(
                "PYT007",
                node,
                f"{name} is an async function, and is not awaited: nothing in it would happen",
                f"write await {name}(…)",
            )
        if name == "getattr":
            literal = (
                len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and str(node.args[1].value)
            )
            if not literal or str(literal).startswith("_"):
                raise Refused(
                    "PYT006",
                    node,
                    "getattr takes the name of the field from data",
                    'write the field: x.name, or x["name"] of a record',
                )
            return
        if name == "super" or not self.program.is_tool(name):
            return
        if (
            self.program.tools is not None
            and name not in self.program.tools
            and name not in self.program.bindings
        ):
            self.program.check_tool(name, node)
        place = node.lineno, node.col_offset
        kept = (each for one in walk(self.function) for each in kept_in(one))
        if any((each.lineno, each.col_offset) == place for each in kept):
            raise Refused(
                "PYT020",
                node,
                f"the call of {name} is kept here, and awaited in a way that is not understood",
                "await such calls in one place:"
                f" results = dict(zip(keys, await asyncio.gather(*[{name}(…) for … in keys])))",
            )
        raise Refused(
            "PYT007",
            node,
            f"the tool {name} is not awaited: it would never be called",
            f"write await {name}(…)",
        )

    def check_name(self, name: str, node: ast.AST, inner: set[str]) -> None:
        """Raises Refused for a name that a plan may not use, or that is a tool."""
        if name in inner or self.is_variable(name):
            return
        if name in FORBIDDEN and name not in self.program.definitions:
            raise Refused("PYT006", node, f"a plan does not use {name}", FORBIDDEN[name])
        if name in self.known_semaphores() or name in self.definitions():
            return
        if self.helper(name) is not None or self.program.is_tool(name):
            known = self.program.tools
            if known is not None and name not in known and self.helper(name) is None:
                raise Refused(
                    "PYT008", node, f"nothing here is called {name}", "define it, or import it at the top"
                )
            what = (
                f"{name} is not defined in this file, and a tool cannot be used as a value"
                if known is None and self.helper(name) is None
                else f"{name} calls tools, and is used as a value here"
            )
            raise Refused(
                "PYT011",
                node,
                what,
                f"call it where it is needed: await {name}(…); to choose one of several, write an if",
            )
