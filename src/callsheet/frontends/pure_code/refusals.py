"""What pure code may not say: each part of a program that is refused, its place, the reason, a rewrite.

In: the tree of a program. Out: `Refusal`s in the order of the text. A program without any may be lowered.
What may be called is in the table of `understood.json`; what holds for statements, classes and generators is
here.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from callsheet.frontends.pure_code.class_refusals import ClassJudge, Judged, Refusal, RefusalKind
from callsheet.frontends.pure_code.classes import ENUMS
from callsheet.frontends.pure_code.expressions import NAMED_ONLY
from callsheet.frontends.pure_code.facts import ERRORS
from callsheet.frontends.pure_code.laziness import calls_gone_through, could_tell, ran_ahead
from callsheet.frontends.pure_code.names import is_generator
from callsheet.frontends.pure_code.table import Entry, understood


def judged(tree: ast.Module, given: Iterable[str] = ()) -> list[Judged]:
    """`refusals`, each with its node."""
    found = _Judge(tree, given)
    found.visit(tree)
    return sorted(found.found, key=lambda one: (one.refusal.line, one.refusal.column))


def refusals(tree: ast.Module, given: Iterable[str] = ()) -> list[Refusal]:
    """What pure code may not say of a program whose inputs are `given`, in the order of the text.

    >>> [one.reason for one in refusals(ast.parse("text = open('a').read()"))]
    ['`open` is not pure: it touches a file']
    """
    return list(dict.fromkeys(one.refusal for one in judged(tree, given)))


_IMPURE: Final = {
    "open": ("it touches a file", "read the file with a tool, and give its text to this code"),
    "input": ("it waits for a person", "ask with ask_human"),
    "eval": ("it runs a text as code", "write the expression out, or use json.loads for data"),
    "exec": ("it runs a text as code", "write the statements out"),
    "compile": ("it runs a text as code", "write the statements out"),
    "__import__": ("it imports what a text names", "import the module by its name"),
    "globals": ("it reaches all names", "use a dict of your own"),
    "locals": ("it reaches all names", "use a dict of your own"),
    "vars": ("it reaches inside of objects", "read the fields by their names"),
    "dir": ("it reaches inside of objects", "read the fields by their names"),
    "id": ("it differs in each run", "compare with `is`, or give the items numbers"),
    "hash": ("it differs in each run", "use the value itself as the key"),
    "breakpoint": ("it waits for a person", "leave it out"),
    "exit": ("it ends the process", "return, or raise an exception"),
    "quit": ("it ends the process", "return, or raise an exception"),
    "delattr": ("it changes objects from outside", "make a new object"),
    "issubclass": ("classes are not compared", "use isinstance on a value"),
}
_MODULES: Final = {
    "time": ("it reads a clock or waits", "use now() for the time, asyncio.sleep to wait"),
    "os": ("it touches the system", "use a tool"),
    "sys": ("it touches the system", "leave it out"),
    "subprocess": ("it starts processes", "use a tool"),
    "threading": ("it starts threads", "use asyncio.gather in the plan's own function"),
    "requests": ("it uses the network", "use a tool"),
}
_OF_ANNOTATIONS: Final = (
    "cast", "final", "override", "overload", "runtime_checkable", "abstractmethod", "annotations",
)  # fmt: skip
"""What modules of annotations have beside types."""
_LOWERED: Final[Mapping[str, tuple[str, ...]]] = {
    "dataclasses": ("dataclass", "field", "asdict", "astuple", "fields", "replace", "KW_ONLY"),
    "functools": ("total_ordering", "cached_property"),
    "enum": (*ENUMS, "auto", "unique"),
}
"""What is no call of a function, but says what a class is."""
_READ_DUNDERS: Final = ("__name__", "__class__", "__init__")
_OTHER_NAMES: Final = (
    "now",
    "today",
    "super",
    "NotImplemented",
    "Ellipsis",
    "__name__",
    "property",
    "staticmethod",
    "classmethod",
)
_BUILTINS: Final = frozenset(vars(builtins))
_CONSUMERS: Final = (
    "list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "min", "max", "Counter", "enumerate", "len",
)  # fmt: skip


class _Judge(ClassJudge):
    """Walks a program and notes what is refused."""

    # ------------------------------------------------------------ statements

    def _awaits(self, node: ast.AST) -> None:
        self.statement(
            node,
            "pure code calls no tool and waits for nothing",
            "await in the plan's own function, and give the result to this code",
        )

    visit_Await = visit_AsyncFor = visit_AsyncWith = visit_AsyncFunctionDef = _awaits

    def visit_Global(self, node: ast.Global) -> None:
        names = ", ".join(node.names)
        self.statement(
            node, f"`global` changes names of the file: {names}", "return the value, and assign it"
        )

    def visit_TryStar(self, node: ast.AST) -> None:
        self.statement(node, "`except*` is not understood", "use `except`")

    def visit_TypeAlias(self, node: ast.AST) -> None:
        self.statement(node, "`type` is not understood", "leave it out: annotations mean nothing here")

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            match target:
                case ast.Subscript():
                    self.visit(target.value)
                    self.visit(target.slice)
                case ast.Name():
                    self.statement(
                        node, f"`del {target.id}` of a name is not understood", "leave it out, or assign None"
                    )
                case _:
                    self.statement(node, "`del` of a field is not understood", "assign None to it")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._module(node, alias.name)

    def _module(self, node: ast.AST, name: str) -> bool:
        known = understood().modules
        if name in known or name in (*NAMED_ONLY, "dataclasses", "asyncio", "enum"):
            return True
        if any(one.startswith(f"{name}.") for one in known):
            return True  # what is used of it is a module inside it, or refused
        reason, rewrite = _MODULES.get(
            name.partition(".")[0],
            ("it is not one of the pure modules that are understood", _known_modules()),
        )
        self.refuse(RefusalKind.MODULE, node, f"the module `{name}` may not be used here: {reason}", rewrite)
        return False

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or "."
        if node.level or not self._module(node, module):
            if node.level:
                self.refuse(
                    RefusalKind.MODULE, node, "an import from a neighbour is not followed", "write it here"
                )
            return
        for alias in node.names:
            self._member(node, module, alias.name)

    def _member(self, node: ast.AST, module: str, name: str) -> Entry | None:
        is_type = module in NAMED_ONLY and (name[:1].isupper() or name in _OF_ANNOTATIONS)
        if is_type or name in _LOWERED.get(module, ()):
            return None
        if module == "enum":
            reason, rewrite = (
                f"`enum.{name}` is not understood",
                "use Enum, IntEnum or StrEnum; a set of members in place of a Flag",
            )
            self.refuse(RefusalKind.MEMBER, node, reason, rewrite)
            return None
        if module == "asyncio":
            self._awaits(node)
            return None
        members = understood().modules.get(module, {})
        if name in members:
            return members[name]
        if f"{module}.{name}" in understood().modules or f"{module}.{name}" in NAMED_ONLY:
            return None
        if module == "random":
            self.refuse(
                RefusalKind.MEMBER,
                node,
                f"`random.{name}` differs in each run, also when one is resumed",
                f"write rng = random.Random(7) with a seed of yours, and rng.{name}(…)",
            )
            return None
        if module == "uuid" and name in ("uuid1", "uuid4"):
            self.refuse(
                RefusalKind.MEMBER,
                node,
                f"`uuid.{name}` differs in each run, also when one is resumed",
                "make the id of the data: uuid.uuid5(uuid.NAMESPACE_URL, f'order/{number}')",
            )
            return None
        if not members and module in _MODULES:
            reason, rewrite = _MODULES[module]
            self.refuse(RefusalKind.MEMBER, node, f"`{module}.{name}` is not pure: {reason}", rewrite)
            return None
        known = ", ".join(sorted(one for one in members if "." not in one and not one.startswith("_"))[:40])
        self.refuse(
            RefusalKind.MEMBER, node, f"`{module}.{name}` is not understood", f"of {module} there is: {known}"
        )
        return None

    # ------------------------------------------------------------ scopes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.check_own_name(node, node.name)
        for decorator in node.decorator_list:
            if not self._class:
                self.visit(decorator)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        if is_generator(node):
            self._generator(node)
        self.scopes.enter(node)
        inside, self._class = self._class, []
        outer, self._function = self._function, node.name
        known = self._class_name
        if inside:
            is_of_class = any(ast.unparse(one) == "classmethod" for one in node.decorator_list)
            self._class_name = node.args.args[0].arg if is_of_class and node.args.args else ""
        self._super = inside
        for statement in node.body:
            self.visit(statement)
        self._class, self._function, self._class_name = inside, outer, known
        self.scopes.leave()

    def _generator(self, node: ast.FunctionDef) -> None:
        plain = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Expr)}
        for one in ast.walk(node):
            if isinstance(one, (ast.Yield, ast.YieldFrom)) and id(one) not in plain:
                self.refuse(
                    RefusalKind.GENERATOR, one, "a value that is sent to a generator is not understood",
                    "let `yield` be a statement of its own",
                )  # fmt: skip

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self.scopes.enter(node)
        self.visit(node.body)
        self.scopes.leave()

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        for one in node.generators:
            self.consumed.add(id(one.iter))
            made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            self._tells(one.iter, [*made, *one.ifs])
        self.visit(node.generators[0].iter)
        self.scopes.enter(node)
        for at, one in enumerate(node.generators):
            if at:
                self.visit(one.iter)
            for test in one.ifs:
                self.visit(test)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self.scopes.leave()

    visit_ListComp = visit_SetComp = visit_DictComp = _comprehension

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        if id(node) not in self.consumed:
            for one in ast.walk(node):
                if isinstance(one, ast.NamedExpr):
                    self.refuse(
                        RefusalKind.GENERATOR, one, "`:=` in a generator that may stop early has no place",
                        "write a `for` loop with `break`",
                    )  # fmt: skip
        self._comprehension(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self.consumed.add(id(node.value))
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_For(self, node: ast.For) -> None:
        leaves = any(
            isinstance(one, (ast.Break, ast.Return, ast.Raise))
            for part in node.body
            for one in ast.walk(part)
        )
        if not leaves:
            self.consumed.add(id(node.iter))
        self._tells(node.iter, node.body)
        self.generic_visit(node)

    def _tells(self, source: ast.expr, body: Sequence[ast.AST]) -> None:
        """Note a loop over a generator of which one changes what the other reads."""
        for name, call in calls_gone_through(source):
            for made in self.functions_named.get(name, ()):
                if is_generator(made) and could_tell(made, call, body, self.functions_named):
                    self.refuse(RefusalKind.GENERATOR, call, *ran_ahead(name))
                    return

    # ------------------------------------------------------------ expressions

    def visit_Name(self, node: ast.Name) -> None:
        self.check_own_name(node, node.id)
        if node.id in self.scopes.imports.modules:
            reason = f"the module `{node.id}` is used as a value"
            self.refuse(RefusalKind.MODULE, node, reason, "name what it holds: math.floor")
            return
        if not isinstance(node.ctx, ast.Load) or self.scopes.is_bound(node.id):
            return
        name = node.id
        is_known = name in understood().builtins or name in _OTHER_NAMES or _is_error(name)
        if name == "hash" and self._function == "__hash__":
            return
        if name not in _IMPURE and (is_known or name not in _BUILTINS):
            return
        reason, rewrite = _IMPURE.get(name, ("", ""))
        text = f"`{name}` is not pure: {reason}" if reason else f"`{name}` is not understood"
        self.refuse(RefusalKind.NAME, node, text, rewrite or "write it with other builtins")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr.startswith("__") and node.attr not in _READ_DUNDERS:
            reason = f"`{node.attr}` reaches inside of objects"
            self.refuse(RefusalKind.MEMBER, node, reason, "use the object's own fields and methods")
            return
        if not isinstance(node.ctx, ast.Load):
            self._stored(node)
            return
        member = self._member_name(node)
        if member is not None:
            self._member(node, *member)
            return
        self.visit(node.value)

    def _stored(self, node: ast.Attribute) -> None:
        root = node.value
        if self._is_class(root) or (
            isinstance(root, ast.Name)
            and (root.id in self.scopes.imports.modules or self.scopes.member_of(root) is not None)
        ):
            reason = f"`{ast.unparse(node)} = …` changes a class or a module for everybody"
            self.statement(node, reason, "make an object with the value, or a function of your own")
            return
        self.visit(root)

    def _is_class(self, node: ast.expr) -> bool:
        """Whether an expression stands for a class: its name, `cls` of a class method, `type(x)`."""
        match node:
            case ast.Name(id=name):
                return name in self.classes or name == self._class_name
            case ast.Call(func=ast.Name(id="type"), args=[_]):
                return not self.scopes.is_bound("type")
            case _:
                return isinstance(node, ast.Attribute) and node.attr == "__class__"

    def _member_name(self, node: ast.AST) -> tuple[str, str] | None:
        """The module and the member that an expression stands for, also `chain.from_iterable`."""
        if isinstance(node, ast.Attribute):
            outer = self.scopes.member_of(node.value)
            if outer is not None and f"{outer[1]}.{node.attr}" in understood().modules.get(outer[0], {}):
                return outer[0], f"{outer[1]}.{node.attr}"
        return self.scopes.member_of(node)

    def visit_Call(self, node: ast.Call) -> None:
        self._consumes(node)
        func = node.func
        if isinstance(func, ast.Name) and not self.scopes.is_bound(func.id):
            self._builtin_call(node, func)
        member = self._member_name(func)
        if member is not None:
            entry = understood().modules.get(member[0], {}).get(member[1])
            if member == ("random", "Random") and not (node.args or node.keywords):
                reason = "`random.Random()` differs in each run, also when one is resumed"
                rewrite = "give it a seed, a number or text of yours: random.Random(7)"
                self.refuse(RefusalKind.MEMBER, node, reason, rewrite)
            elif entry is not None and not entry.allows(node):
                self._form(node, f"{member[0]}.{member[1]}", [entry])
            if member == ("operator", "methodcaller"):
                self._methodcaller(node)
        elif isinstance(func, ast.Attribute):
            self._method_call(node, func)
        if isinstance(func, ast.Name) and func.id in self.generators and id(node) not in self.consumed:
            self.refuse(
                RefusalKind.GENERATOR, node, f"the generator {func.id} is run to its end when it is called",
                f"use all it gives at once: list({func.id}(…)), or a `for` loop without break",
            )  # fmt: skip
        self.generic_visit(node)

    def _methodcaller(self, node: ast.Call) -> None:
        name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        known = isinstance(name, str) and (name in understood().methods or name in self.own_methods)
        if not known:
            reason = "`methodcaller` with a method that is not known here is not understood"
            self.refuse(RefusalKind.MEMBER, node, reason, "write a lambda: lambda one: one.strip()")

    def _consumes(self, node: ast.Call) -> None:
        func = node.func
        takes_all = (isinstance(func, ast.Name) and func.id in _CONSUMERS) or (
            isinstance(func, ast.Attribute) and func.attr in ("join", "extend", "update", *_CONSUMERS)
        )
        if takes_all:
            self.consumed.update(id(argument) for argument in node.args)
        elif isinstance(func, ast.Name):
            own = self.functions_named.get(func.id, [])
            parameters = own[0].args.posonlyargs + own[0].args.args if len(own) == 1 else []
            for one, argument in zip(parameters, node.args, strict=False):
                if isinstance(argument, ast.Call) and _goes_through(own[0], one.arg):
                    self.consumed.add(id(argument))

    def _builtin_call(self, node: ast.Call, func: ast.Name) -> None:
        name = func.id
        entry = understood().builtins.get(name)
        if name in ("getattr", "hasattr", "setattr"):
            literal = len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
            if not literal:
                reason = f"`{name}` with a name that is not literal is not understood"
                self.refuse(RefusalKind.NAME, node, reason, "use a dict, or write the name out")
                return
        if name == "isinstance" and len(node.args) == 2:
            self._kinds(node.args[1])
        if name == "super" and not self._is_super(node):
            self.refuse(
                RefusalKind.CLASS, node, "`super()` is only understood in a method", "name the method"
            )
        if _is_error(name):
            has_number = name not in ERRORS or issubclass(getattr(builtins, name), OSError)
            if node.keywords or (len(node.args) > 1 and has_number):
                reason = "an exception with these arguments is not understood"
                self.refuse(RefusalKind.NAME, node, reason, "put them into one text: f'…'")
        elif entry is not None and not entry.allows(node):
            self._form(node, name, [entry])

    def _kinds(self, node: ast.expr) -> None:
        for kind in node.elts if isinstance(node, ast.Tuple) else [node]:
            member = self.scopes.member_of(kind)
            if member is not None and member[0] in NAMED_ONLY:
                reason = f"isinstance with `{member[1]}` is not understood"
                self.refuse(
                    RefusalKind.MEMBER, kind, reason, "name built-in types: dict, list, str, (int, float)"
                )

    def _is_super(self, node: ast.Call) -> bool:
        outer = getattr(self, "_super", [])
        return not node.args and bool(outer) and (outer[-1].parent is not None or bool(outer[-1].kinds))

    def _method_call(self, node: ast.Call, func: ast.Attribute) -> None:
        if func.attr in self.own_methods or func.attr.startswith("__"):
            return
        if isinstance(func.value, ast.Name) and func.value.id in self.scopes.imports.modules:
            return
        owners = understood().methods.get(func.attr)
        if owners is None:
            if not self._is_record_call(func):
                self.refuse(
                    RefusalKind.MEMBER, func, f"the method .{func.attr}() is not understood",
                    "write it with other methods, or as a function",
                )  # fmt: skip
            return
        unbound = 1 if self._is_type_name(func.value) else 0
        if not any(entry.allows(node) or entry.allows(node, unbound) for entry in owners.values()):
            self._form(node, f".{func.attr}", owners.values())

    def _is_record_call(self, func: ast.Attribute) -> bool:
        """Whether a call may be one of a name that an input or a named tuple has."""
        return func.attr.startswith("_") and func.attr in ("_asdict", "_replace", "_fields")

    def _is_type_name(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Name)
            and not self.scopes.is_bound(node.id)
            and node.id in understood().builtins
        )

    def _form(self, node: ast.Call, name: str, entries: Iterable[Entry]) -> None:
        forms = "; or ".join(sorted({str(entry) for entry in entries}))
        reason = f"`{name}` is not understood with these arguments"
        self.refuse(RefusalKind.MEMBER, node, reason, f"it takes {forms}")

    def visit_Dict(self, node: ast.Dict) -> None:
        self._mixed_keys([key for key in node.keys if key is not None])
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._mixed_keys(node.elts)
        self.generic_visit(node)

    def _mixed_keys(self, keys: Iterable[ast.expr]) -> None:
        seen: dict[object, type] = {}
        for key in keys:
            if isinstance(key, ast.Constant):
                first = seen.setdefault(key.value, type(key.value))
                if first is not type(key.value):
                    reason = f"the key {key.value!r} equals one of another type"
                    self.refuse(RefusalKind.STATEMENT, key, reason, "use keys of one type")


def _is_error(name: str) -> bool:
    one = getattr(builtins, name, None)
    return isinstance(one, type) and issubclass(one, BaseException)


def _known_modules() -> str:
    return "there are: " + ", ".join(sorted({*understood().modules, "dataclasses", "typing"}))


def _goes_through(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function uses all that a parameter gives, in one loop or comprehension or by one consumer."""
    inside = list(ast.walk(function))
    uses = [one for one in inside if isinstance(one, ast.Name) and one.id == name]
    if len(uses) != 1:
        return False
    for one in inside:
        match one:
            case ast.For(iter=source) if source is uses[0]:
                return not any(isinstance(each, (ast.Break, ast.Return, ast.Raise)) for each in ast.walk(one))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() if one.generators[0].iter is uses[0]:
                return True
            case ast.Call(func=ast.Name(id=called), args=[source, *_]) if source is uses[0]:
                return called in _CONSUMERS
            case _:
                pass
    return False
