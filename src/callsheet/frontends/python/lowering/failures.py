"""What a program says of the errors that it has caught or kept, as what a plan records of a failure."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, cast

from callsheet.frontends.pure_code.lowering import JSON_FIELDS, json_field
from callsheet.frontends.python.error_values import CAUSE, fields_of, is_marked, is_repeatable, made_error
from callsheet.frontends.python.exceptions import FAILURE_KINDS, TOOL_ERROR, exception_name, kind_of
from callsheet.frontends.python.source import Refused, dotted, names_bound, own_nodes, parameters_of
from callsheet.frontends.python.syntax import MARK, load, marked_failure, name_of, parsed, placed, store

if TYPE_CHECKING:
    from callsheet.frontends.python.lowering.scope import Scope


def _field(held: ast.expr, field: str, node: ast.AST) -> ast.expr:
    return placed(ast.Subscript(held, ast.Constant(field), ast.Load()), node)


def _own_field(held: ast.expr, name: str, node: ast.AST, caused: tuple[str, ...] = ()) -> ast.expr:
    """A field that an exception of the program's own has given itself, or the error that it came from.

    `caused` are the kinds whose failures have fields, where the error is one that is caught, and no record.
    """
    if name == CAUSE:
        text = ast.unparse(held)
        fields = f"{text}.get('fields')"
        if caused:
            fields = f"{text}['fields'] if {text}['kind'] in {caused!r} else None"
        return placed(ast.parse(f"(({fields}) or {{}}).get({CAUSE!r})", mode="eval").body, node)
    return _field(_field(held, "fields", node), name, node)


def _key_in(message: ast.expr) -> ast.expr:
    """The key, a text or a whole number, whose literal a message is."""
    m = ast.unparse(message)
    key = f"""{m}[1:-1] if {m}[:1] in ("'", '"') else int({m}) if {m}.lstrip("-").isdigit() else {m}"""
    return ast.parse(key, mode="eval").body


def _asks_for_mark(test: ast.expr) -> bool:
    """Whether a test is whether a value is an error that is kept, as printed plans have it."""
    match test:
        case ast.BoolOp(op=ast.And(), values=[_, ast.Compare(left=ast.Constant(value=mark)), *_]):
            return mark == MARK
        case _:
            return False


class Failures(ast.NodeTransformer):
    """What is said of caught and kept errors, as fields of their failures."""

    is_pure = False
    """Whether it is said in a pure function, which may have exceptions of its own, too."""

    def __init__(self, of: Scope) -> None:
        self.of = of
        self.keeps = of.program.keeps_errors

    def _held(self, node: ast.AST) -> ast.expr | None:
        """The failure that a handler's name stands for."""
        name = self.of.failure_variable(node.id) if isinstance(node, ast.Name) else None
        return None if name is None else ast.copy_location(load(name), node)

    def _may_be_error(self, node: ast.expr) -> bool:
        return self.keeps and not isinstance(node, ast.Constant) and is_repeatable(node)

    # ------------------------------------------------------------ calls

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        name = dotted(node.func)
        if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
            if node.func.attr == "result" and not self.of.has_method("result"):
                return self.visit(node.func.value)
            if node.func.attr == "exception" and self.keeps:
                value = self.visit(node.func.value)
                return placed(ast.IfExp(is_marked(value), value, ast.Constant(None)), node)
        if name == "isinstance" and len(node.args) == 2:
            made = self._is_instance(node)
            if made is not None:
                return made
        if name in {"str", "repr"} and len(node.args) == 1 and not node.keywords:
            made = self._text(node.args[0], node, name)
            if made is not None:
                return made
        self._check_filled(node)
        if self.keeps and name == "map" and len(node.args) == 2:
            function = node.args[0]
            if isinstance(function, ast.Name) and function.id in {"str", "repr"}:
                one = load("_one")
                clause = ast.comprehension(store("_one"), self.visit(node.args[1]), [], 0)
                text = self._text(one, placed(ast.Call(function, [one], []), node), function.id)
                return placed(ast.GeneratorExp(text or one, [clause]), node)
        if name == "getattr" and len(node.args) == 3:
            made = self._field_or(node, *node.args)
            if made is not None:
                return made
        made_kind = made_error(node, self.of.program.exceptions)
        if made_kind is not None and self.keeps and not self.is_pure:
            return self._new(node, made_kind)
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"print_exc", "format_exc"}:
            raise Refused("PYT021", node, "a plan has no traceback", "use str(error)")
        return self.generic_visit(node)

    def _new(self, node: ast.Call, name: str) -> ast.expr:
        """An error that is made and not raised: the record of its failure."""
        self.generic_visit(node)
        program = self.of.program
        fields = fields_of("_error", program.error_fields) if name in program.exceptions.own else "None"
        carried = f"'fields': {fields}, " if program.error_fields else ""
        is_key = name == "KeyError" and len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
        made, words = (node.args[0], "repr(_error)") if is_key else (node, "str(_error)")
        text = (
            f"[{{'kind': {kind_of(name)!r}, 'message': {words}, 'step': '', {carried}{MARK!r}: True}}"
            f" for _error in [{ast.unparse(made)}]][0]"
        )
        if name == TOOL_ERROR:
            text = text.replace(
                f"[{ast.unparse(node)}]", f"[{', '.join(map(ast.unparse, node.args)) or repr('')}]"
            )
        return parsed(text, node)

    def _field_or(self, node: ast.Call, value: ast.expr, name: ast.expr, other: ast.expr) -> ast.expr | None:
        """`getattr(error, "code", None)`, of an error that the program's own class may carry it."""
        known = isinstance(name, ast.Constant) and name.value in self.of.program.error_fields
        held = self._held(value)
        if held is None and not (known and self._may_be_error(value)):
            return None
        fields = placed(
            ast.parse(f"({ast.unparse(held or value)}.get('fields') or {{}})", mode="eval").body, node
        )
        found = placed(ast.Call(ast.Attribute(fields, "get", ast.Load()), [name, other], []), node)
        return found if held is not None else placed(ast.IfExp(is_marked(value), found, node), node)

    def _is_instance(self, node: ast.Call) -> ast.expr | None:
        value, kind = node.args
        listed = kind.elts if isinstance(kind, ast.Tuple) else [kind]
        names = [(dotted(one) or "").split(".")[-1] for one in listed]
        exceptions = [one for one in names if self.of.program.exceptions.is_exception(one)]
        held = self._held(value)
        if held is not None:
            kinds = self.of.program.exceptions.caught(exceptions)
            if exceptions and not kinds:
                return ast.copy_location(ast.Constant(True), node)
            return self._is_of(held, kinds, node)
        if not self._may_be_error(value):
            return None
        value = self.visit(value)
        tests: list[ast.expr] = []
        if exceptions:
            kinds = self.of.program.exceptions.caught(exceptions)
            test: ast.expr = is_marked(value)
            if kinds:
                test = ast.BoolOp(ast.And(), [test, self._is_of(value, kinds, node)])
            tests.append(test)
        pairs = zip(listed, names, strict=True)
        others = [one for one, name in pairs if self.is_pure or name not in exceptions]
        if others:
            given = others[0] if len(others) == 1 else ast.Tuple(others, ast.Load())
            plain: ast.expr = ast.Call(node.func, [value, given], [])
            if "dict" in names or "Mapping" in names:
                plain = ast.BoolOp(ast.And(), [plain, ast.UnaryOp(ast.Not(), is_marked(value))])
            tests.append(plain)
        return placed(tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests), node)

    def _is_of(self, value: ast.expr, kinds: tuple[str, ...], node: ast.AST) -> ast.expr:
        among = ast.Tuple([ast.Constant(one) for one in kinds], ast.Load())
        return placed(ast.Compare(_field(value, "kind", node), [ast.In()], [among]), node)

    def _text(self, value: ast.expr, node: ast.expr, how: str) -> ast.expr | None:
        """`str` or `repr` of an error, or of what may be one."""
        self._check_shown(value, node)
        held = self._held(value)
        if held is not None:
            return _field(held, "message", node) if how == "str" else self._repr(held, node)
        if self.keeps and (self._takes_item(value) or self._is_made(value)):
            one, target = load("_one"), store("_one")
            text = _field(one, "message", node) if how == "str" else self._repr(one, node)
            if not self._is_made(value):
                text = ast.IfExp(is_marked(one), text, ast.Call(load(how), [one], []))
            clause = ast.comprehension(target, ast.List([self.visit(value)], ast.Load()), [], 0)
            made = ast.Subscript(ast.ListComp(text, [clause]), ast.Constant(0), ast.Load())
            return placed(made, node)
        if not self._may_be_error(value):
            return None
        value = self.visit(value)
        text = _field(value, "message", node) if how == "str" else self._repr(value, node)
        plain = placed(ast.Call(load(how), [value], []), node)
        return placed(ast.IfExp(is_marked(value), text, plain), node)

    def _check_filled(self, node: ast.Call) -> None:
        """Raises Refused (PYT021) where a call makes a text of what it is given, and that holds errors."""
        if dotted(node.func) == "json.dumps" or getattr(node.func, "attr", "") == "format":
            for one in (*node.args, *(word.value for word in node.keywords)):
                self._check_shown(one, node)

    def _check_shown(self, value: ast.expr, node: ast.AST) -> None:
        """Raises Refused (PYT021) where the text of a container of errors is asked for."""
        if isinstance(value, ast.List | ast.Tuple | ast.Dict):
            for one in value.values if isinstance(value, ast.Dict) else value.elts:
                self._check_shown(one, node)
        elif self.keeps and isinstance(value, ast.Name) and value.id in self.of.error_collections:
            raise Refused(
                "PYT021",
                node,
                f"{value.id} holds errors, and a plan does not know how Python shows them in a container",
                f'write each: ", ".join(str(error) for error in {value.id})',
            )

    def _is_made(self, value: ast.expr) -> bool:
        """Whether a value is an error that is made here, and no object of Python."""
        return not self.is_pure and made_error(value, self.of.program.exceptions) is not None

    def _takes_item(self, value: ast.expr) -> bool:
        """Whether a value is taken out of a container, so that it may be asked for only once."""
        match value:
            case ast.Call(func=ast.Attribute(attr="pop" | "popleft")) | ast.Call(func=ast.Name(id="next")):
                return self._may_be_error(ast.copy_location(name_of("_one", value), value))
            case _:
                return False

    def _kinds(self, held: ast.expr) -> tuple[str, ...]:
        """The kinds of failure that a handler is for; empty for all, and where it is not known."""
        name = held.id if isinstance(held, ast.Name) else None
        return next((tuple(kinds) for _, known, kinds in self.of.caught if known == name), ())

    def _given_to(self, held: ast.expr, node: ast.AST) -> ast.expr:
        """What an error was made of: its words, or the key that was missing."""
        self._check_given(node)
        message, key = _field(held, "message", node), kind_of("KeyError")
        kinds = self._kinds(held)
        if kinds == ("CycleError",):
            raise Refused(
                "PYT021",
                node,
                "the nodes of a cycle are not kept with the error",
                "catch it in a def of its own, which returns error.args[1]",
            )
        if kinds and key not in kinds:
            return message
        is_key = ast.Compare(_field(held, "kind", node), [ast.Eq()], [ast.Constant(key)])
        return placed(ast.IfExp(is_key, _key_in(message), message), node)

    def _of_json(self, held: ast.expr, node: ast.Attribute) -> ast.expr:
        """A part of what a JSONDecodeError says: `words: line 1 column 2 (char 1)`."""
        kinds = self._kinds(held)
        if kinds != ("JSONDecodeError",):
            raise Refused(
                "PYT021",
                node,
                f"{node.attr} is a field of json.JSONDecodeError, and this may be another error",
                "catch it alone: except json.JSONDecodeError as error",
            )
        return json_field(_field(held, "message", node), node.attr, node)

    def _check_given(self, node: ast.AST) -> None:
        """Raises Refused (PYT021) where what an error was given is asked for, and may be no single text."""
        made = self.of.program.made_of_others
        if made is not None:
            raise Refused(
                "PYT021",
                node,
                "an error that is made of several values, or of one that may be no text, keeps its text"
                f" alone: see line {getattr(made, 'lineno', 0)}",
                "ask for str(error), or make each error of one text: f'…'",
            )

    def _repr(self, held: ast.expr, node: ast.AST) -> ast.expr:
        self._check_given(node)
        message, key = _field(held, "message", node), kind_of("KeyError")
        kinds = self._kinds(held)
        given: ast.expr = ast.Call(load("repr"), [message], [])
        if not kinds or key in kinds:  # whose words are what it was given, as `repr` says it
            is_key = ast.Compare(_field(held, "kind", node), [ast.Eq()], [ast.Constant(key)])
            given = ast.IfExp(is_key, message, given)
        given = ast.IfExp(message, given, ast.Constant(""))
        parts: list[ast.expr] = [
            ast.FormattedValue(self._type(held, node), -1, None),
            ast.Constant("("),
            ast.FormattedValue(given, -1, None),
            ast.Constant(")"),
        ]
        return placed(ast.JoinedStr(parts), node)

    def _type(self, held: ast.expr, node: ast.AST) -> ast.expr:
        """The name of the class of an error."""
        known_names = {one: exception_name(one) for one in self._kinds(held) or FAILURE_KINDS}
        if len(set(known_names.values())) == 1:
            return ast.copy_location(ast.Constant(next(iter(known_names.values()))), node)
        table = {one: name for one, name in known_names.items() if one != name}
        kind = _field(held, "kind", node)
        if not table:
            return kind
        known = ast.Dict([ast.Constant(one) for one in table], [ast.Constant(one) for one in table.values()])
        made = ast.Call(ast.Attribute(known, "get", ast.Load()), [kind, kind], [])
        return placed(made, node)

    # ------------------------------------------------------------ other expressions

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """A conditional expression, if it is none that asks for a mark already."""
        return node if _asks_for_mark(node.test) else self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """A test of several, if it is none that asks for a mark already."""
        return node if _asks_for_mark(node) else self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """A hole of a text."""
        how = "repr" if node.conversion == ord("r") else "str"
        is_error = self._held(node.value) is not None
        plain = node.format_spec is None and node.conversion == -1
        if is_error or plain or node.conversion in {ord("r"), ord("s")}:
            text = self._text(node.value, node.value, how)
            if text is not None:
                return ast.copy_location(ast.FormattedValue(text, -1, node.format_spec), node)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """An operation: `%` of a text shows what is on its right."""
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            self._check_shown(node.right, node)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An index."""
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr == "args":
            held = self._held(value.value)
            if held is not None and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
                return self._given_to(held, node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A field."""
        value = node.value
        if node.attr == "__name__":
            of: ast.expr | None = None
            if isinstance(value, ast.Call) and dotted(value.func) == "type" and len(value.args) == 1:
                of = value.args[0]
            held = None if of is None else self._held(of)
            if held is not None:
                return self._type(held, node)
            if of is not None and self._may_be_error(of):
                kept: ast.expr = self.visit(of)
                cast("ast.Call", value).args = [kept]
                return placed(ast.IfExp(is_marked(kept), self._type(kept, node), node), node)
            return self.generic_visit(node)
        held = self._held(value)
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        fields = self.of.program.error_fields
        if held is not None:
            if node.attr in fields:
                return _own_field(held, node.attr, node, ("", *self.of.program.own_errors()))
            if node.attr == "args":
                return placed(ast.Tuple([self._given_to(held, node)], ast.Load()), node)
            if node.attr in JSON_FIELDS:
                return self._of_json(held, node)
            raise Refused(
                "PYT021",
                node,
                f"the error has no field {node.attr} that is known here",
                "use str(error), or give a class of this file that field in its __init__",
            )
        if node.attr in fields and self._may_be_error(value):
            value = self.visit(value)
            plain = ast.copy_location(ast.Attribute(value, node.attr, ast.Load()), node)
            return placed(ast.IfExp(is_marked(value), _own_field(value, node.attr, node), plain), node)
        of_cause = isinstance(value, ast.Attribute) and value.attr == CAUSE
        if node.attr == "args" and of_cause and self._may_be_error(value):
            value = self.visit(value)
            plain = ast.copy_location(ast.Attribute(value, node.attr, ast.Load()), node)
            given = ast.Tuple([self._given_to(value, node)], ast.Load())
            return placed(ast.IfExp(is_marked(value), given, plain), node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        if isinstance(node.ctx, ast.Load) and node.id in self.of.results:
            return ast.copy_location(load(self.of.results[node.id]), node)
        held = self._held(node) if isinstance(node.ctx, ast.Load) else None
        if isinstance(held, ast.Name):
            return marked_failure(held.id, node, self.of.program.own_errors())
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        """A pattern of a class of exceptions."""
        name = (dotted(node.cls) or "").split(".")[-1]
        if not self.keeps or not self.of.program.exceptions.is_exception(name) or node.patterns:
            return self.generic_visit(node)
        keys: list[ast.expr] = [ast.Constant(MARK)]
        patterns: list[ast.pattern] = [ast.MatchSingleton(True)]
        kinds = self.of.program.exceptions.caught([name])
        if kinds:
            keys.append(ast.Constant("kind"))
            values: list[ast.pattern] = [ast.MatchValue(ast.Constant(one)) for one in kinds]
            patterns.append(values[0] if len(values) == 1 else ast.MatchOr(values))
        if node.kwd_attrs:
            self._check_fields(node)
            fields: list[ast.expr] = [ast.Constant(one) for one in node.kwd_attrs]
            keys.append(ast.Constant("fields"))
            patterns.append(ast.MatchMapping(fields, [self.visit(one) for one in node.kwd_patterns], None))
        made = ast.MatchMapping(keys, patterns, None)
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _check_fields(self, node: ast.MatchClass) -> None:
        """Raises Refused (PYT021) for a pattern of fields that errors are not known to have."""
        unknown = [one for one in node.kwd_attrs if one not in self.of.program.error_fields]
        if unknown:
            raise Refused(
                "PYT021",
                node,
                f"the error has no field {unknown[0]} that is known here",
                f"write case {ast.unparse(node.cls)}(): and ask for error.{unknown[0]} in it",
            )

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """A match: a pattern of a dict is not for an error that is kept, whose record is one."""
        is_open = self._may_be_error(node.subject)
        kept = is_marked(node.subject)
        for one in node.cases if is_open else ():
            if self._is_of_dict(one.pattern):
                plain = ast.UnaryOp(ast.Not(), copy.deepcopy(kept))
                guard = plain if one.guard is None else ast.BoolOp(ast.And(), [plain, one.guard])
                one.guard = placed(guard, one.pattern)
        return self.generic_visit(node)

    def _is_of_dict(self, pattern: ast.pattern) -> bool:
        """Whether a pattern is for dicts, as a record is one; raises Refused if it is for errors, too."""
        match pattern:
            case ast.MatchMapping():
                return True
            case ast.MatchAs(pattern=ast.pattern() as inner):
                return self._is_of_dict(inner)
            case ast.MatchClass(cls=cls):
                return (dotted(cls) or "").rpartition(".")[2] in {"dict", "Mapping", "MutableMapping"}
            case ast.MatchOr(patterns=patterns):
                are_dicts = [self._is_of_dict(one) for one in patterns]
                names = [dotted(one.cls) or "" for one in patterns if isinstance(one, ast.MatchClass)]
                if any(are_dicts) and any(map(self.of.program.exceptions.is_exception, names)):
                    raise Refused(
                        "PYT021",
                        pattern,
                        "one pattern is for dicts and for errors, which a plan keeps as dicts",
                        "write a case for each",
                    )
                return any(are_dicts)
            case _:
                return False

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """A raise."""
        node.cause = None
        if made_error(node.exc, self.of.program.exceptions):
            self.generic_visit(cast("ast.expr", node.exc))
            return node
        return self.generic_visit(node)


class InFunctions(Failures):
    """What the pure functions of a file say of errors that they are given: each may be one that is kept."""

    is_pure = True

    def __init__(self, of: Scope) -> None:
        super().__init__(of)
        self.depth = 0
        self.caught: list[str] = []
        self.itself: list[str] = []
        self.made: set[str] = set()

    def _held(self, node: ast.AST) -> ast.expr | None:
        return None

    def _may_be_error(self, node: ast.expr) -> bool:
        is_own = isinstance(node, ast.Name) and node.id in (*self.caught, *self.itself)
        return bool(self.depth) and not is_own and super()._may_be_error(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """An async function: those inside it are meant."""
        for one in own_nodes(*node.body):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.visit(one)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class."""
        for one in node.body:
            parameters = parameters_of(one.args) if isinstance(one, ast.FunctionDef) else []
            self.itself += [parameters[0].arg] if parameters else []
            self.visit(one)
            if parameters:
                self.itself.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A pure function."""
        self.depth += 1
        outer = self.made
        self.made = outer | {
            name for one in own_nodes(*node.body) if isinstance(one, ast.Assign) for name in names_bound(one)
        }
        made = self.generic_visit(node)
        self.made = outer
        self.depth -= 1
        return made

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """A lambda of the file."""
        self.depth += 1
        made = self.generic_visit(node)
        self.depth -= 1
        return made

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """A handler, whose error is one of Python."""
        self.caught += [node.name] if node.name else []
        made = self.generic_visit(node)
        if node.name:
            self.caught.pop()
        return made

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """A return: an error that is made there is one that is kept."""
        made = made_error(node.value, self.of.program.exceptions)
        if made is None or not self.depth:
            return self.generic_visit(node)
        node.value = self._new(cast("ast.Call", node.value), made)
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        """A pattern of a class of exceptions: of a kept one, or of one of Python."""
        made = super().visit_MatchClass(copy.copy(node))
        if not isinstance(made, ast.MatchMapping):
            return made
        return ast.copy_location(ast.MatchOr([made, node]), node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """A raise: of an error that was given, one of the same class and with the same words."""
        raised = node.exc
        is_class = isinstance(raised, ast.Name) and self.of.program.exceptions.is_exception(raised.id)
        if not isinstance(raised, ast.Name) or is_class or raised.id in (*self.made, *self.caught):
            return self.generic_visit(node)
        if self.of.program.own_errors():
            raise Refused(
                "PYT021",
                node,
                f"{raised.id} is raised again in a pure function, without what it carries",
                "raise it in the async function that has caught it",
            )
        made: ast.expr = raised
        for name in (*map(exception_name, FAILURE_KINDS), "RuntimeError", *self.of.program.exceptions.own):
            message = _field(raised, "message", node)
            error = ast.Call(load(name), [_key_in(message) if name == "KeyError" else message], [])
            is_kind = ast.Compare(_field(raised, "kind", node), [ast.Eq()], [ast.Constant(kind_of(name))])
            made = ast.IfExp(ast.BoolOp(ast.And(), [is_marked(raised), is_kind]), error, made)
        node.exc = placed(made, node)
        return node
