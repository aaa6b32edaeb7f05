"""Pure statements of a function as LET and SET where expressions can say them, else as COMPUTE.

In: runs of pure statements, and the facts about their variables. Out: statements of a plan. What a change
of an object would have to do to a second name of it is kept in one COMPUTE, or `Refused`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias, cast

from callsheet.diagnostics import Span
from callsheet.frontends.pure_code.facts import FACTORY
from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.atomicity import kept_after_failure, may_end_half_done
from callsheet.frontends.python.analysis.container_words import generators_in
from callsheet.frontends.python.analysis.kinds import ANY, FLAT, NUMBERS
from callsheet.frontends.python.analysis.objects import find
from callsheet.frontends.python.analysis.variables import PureFlow
from callsheet.frontends.python.exceptions import DENIED, TOOL_ERROR
from callsheet.frontends.python.lowering.expressions import NotSimple
from callsheet.frontends.python.lowering.function_facts import FunctionFacts, Path
from callsheet.frontends.python.lowering.products import guarded, in_place, is_product
from callsheet.frontends.python.rewrites.definitions import has_functions, is_built_in
from callsheet.frontends.python.source import Refused, Text, names_bound, names_read, own_nodes, walk
from callsheet.frontends.python.syntax import assigned, marked_failure, name_of, parsed
from callsheet.ir import expression as ir
from callsheet.ir import tree
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression

_Made: TypeAlias = "tuple[str, Expression, Span | None] | tree.Require"


class Computation(FunctionFacts):
    """Lowers the pure statements of one function."""

    def is_here(self, name: str, path: Path) -> bool:
        """Whether a variable belongs to the innermost scope around the place."""
        return self.variables.scope(name, path) is (path[-1] if path else None)

    def flush(
        self,
        group: Sequence[core.Pure],
        needed: frozenset[str] | set[str],
        path: Path,
        out: list[tree.Statement],
        before: frozenset[str] | set[str] | None = None,
        caught: frozenset[str] | None = None,
    ) -> None:
        """Pure statements as LET and SET where their expressions allow it, else as COMPUTE.

        `needed` are the variables that are needed after them, `before` those that have a value before them,
        `caught` those that handlers need if one of them fails.
        """
        for one in group:
            self._guard_product(one)
        first = id(group[0])
        before = self.variables.before.get(first, before or frozenset())
        caught = self.variables.caught.get(first, caught or frozenset()) & self.names
        self._check_sharing(group, before, path)
        for part, rest in self._parts(group, caught, before):
            later = self._reads_first([one.stmt for one in rest])
            self._part(part, frozenset(needed) | later | caught, path, out, before, caught)
            before = frozenset(before) | {name for one in part for name in core.bound_by(one)}

    def _guard_product(self, one: core.Pure) -> None:
        """Let `x *= n` change a list; where its kind is not known, fail if something else may hold it."""
        if any(is_product(each) for each in walk(one.stmt)):
            one.stmt = in_place(one.stmt, lambda target: self.kinds.of(target) == "list")
        stmt = one.stmt
        if not isinstance(stmt, ast.AugAssign) or not is_product(stmt):
            return
        if self.kinds.of(stmt.target) in {*FLAT, "list", "tuple"} or self.kinds.of(stmt.value) == "float":
            return
        node = find(self.sharing.value(stmt.target))
        others = set(self._seers(node, self.names))
        given = set[str]() if self.is_main else {*self.function.parameters, *self.function.captured}
        is_name = isinstance(stmt.target, ast.Name)
        if len(others) > 1 or (is_name and others & given):
            one.stmt = ast.copy_location(ast.If(ast.Constant(True), guarded(stmt), []), stmt)

    def _parts(
        self, group: Sequence[core.Pure], caught: frozenset[str], before: frozenset[str] | set[str]
    ) -> list[tuple[list[core.Pure], list[core.Pure]]]:
        """Pure statements in parts, each with its rest: a handler sees what was set before a failure.

        A name and a change that is seen through it stay in one part.
        """
        if not caught:
            return [(list(group), [])]
        ends = {number for number, one in enumerate(group) if self._writes(one.stmt, caught)}
        for start, last in self._references(group, before):
            ends -= set(range(start, last))
        ends = {self._end_of_segment(group, number) for number in ends}
        bounds = [0, *(number + 1 for number in sorted(ends)), len(group)]
        return [(list(group[start:end]), list(group[end:])) for start, end in pairwise(bounds) if start < end]

    @staticmethod
    def _end_of_segment(group: Sequence[core.Pure], number: int) -> int:
        """The last statement of those that follow the changes of shared objects together with this one."""
        segment = group[number].segment
        while segment is not None and number + 1 < len(group) and group[number + 1].segment == segment:
            number += 1
        return number

    def _part(
        self,
        group: Sequence[core.Pure],
        needed: frozenset[str],
        path: Path,
        out: list[tree.Statement],
        before: frozenset[str] | set[str],
        caught: frozenset[str],
    ) -> None:
        group = [each for one in group for each in (one, *self._put_back(one))]
        simple = [None if one.segment is not None else self._simple(one.stmt) for one in group]
        first = next((number for number, each in enumerate(simple) if each is None), len(group))
        last = max((number for number, each in enumerate(simple) if each is None), default=-1)
        first, last = self._with_references(group, first, last, before)
        for number in range(first):
            self._lets(
                cast("list[_Made]", simple[number]), path, out, is_placeholder=group[number].is_placeholder
            )
            before = frozenset(before) | core.bound_by(group[number])
        if first <= last:
            later = self._reads_first([one.stmt for one in group[last + 1 :]])
            body = [one.stmt for one in group[first : last + 1]]
            if group[last].is_link and not core.bound_by(group[last]) & (needed | later):
                body.pop()  # nothing asks any more which objects are shared
            keeps = self._kept(body, caught)
            self._compute(body, needed | later, path, out, before, keeps)
            for number in range(last + 1, len(group)):
                self._lets(cast("list[_Made]", simple[number]), path, out)

    def _put_back(self, one: core.Pure) -> list[core.Pure]:
        """What puts an item of a list, which a call has changed, back into the list."""
        if one.takes_back not in self.relinked:
            return []
        owner, number = self.relinked[one.takes_back]
        items = f"*{owner}[:{number}], {one.takes_back}, *{owner}[{number} + 1:]"
        text = f"[{items}]"
        if self.kinds.known.get(owner) != "list":
            text = f"({items}) if isinstance({owner}, tuple) else {text}"
        return [assigned(owner, parsed(text, one.stmt), one.stmt)]

    def _kept(self, body: Sequence[ast.stmt], caught: frozenset[str]) -> frozenset[str]:
        """What of the variables that handlers need statements may have set or changed when they fail."""
        *first, last = body
        written = frozenset(name for one in first for name in self._writes(one, caught))
        touched = self._writes(last, caught)
        if not written and (not touched or not self._may_end_half_done(last)):
            return frozenset()
        return written | touched

    def _may_end_half_done(self, stmt: ast.stmt) -> bool:
        return may_end_half_done(
            stmt, lambda node: bool(self.sharing.changed(node)), self.kinds.of, self.methods
        )

    def _with_references(
        self, group: Sequence[core.Pure], first: int, last: int, before: frozenset[str] | set[str]
    ) -> tuple[int, int]:
        """What of a group has to be one COMPUTE, since a change in it is seen through a second name of it."""
        for start, end in self._references(group, before):
            first, last = min(first, start), max(last, end)
        return first, last

    def _references(
        self, group: Sequence[core.Pure], before: frozenset[str] | set[str]
    ) -> Iterator[tuple[int, int]]:
        """From where to where a group has a second name of an object and a change that it sees."""
        known = set(before)
        for number, one in enumerate(group):
            for node in self._changed(one.stmt):
                seen = self._seers(node, known)
                if len(seen) < 2 and not self.sharing.is_doubled(node):
                    continue
                yield (
                    next((at for at, each in enumerate(group) if core.bound_by(each) & set(seen)), number),
                    number,
                )
            known |= core.bound_by(one)

    def _reads_first(self, body: Sequence[ast.stmt]) -> frozenset[str]:
        flow = PureFlow()
        flow.run(body)
        return self._with_captured(flow.exposed)

    def _with_captured(self, found: Iterable[str]) -> frozenset[str]:
        made = set(found)
        for name in found:
            if name in self.local:
                made |= self._captured_by(name)
        return frozenset(made & self.names)

    def _lets(
        self, made: Sequence[_Made], path: Path, out: list[tree.Statement], *, is_placeholder: bool = False
    ) -> None:
        for one in made:
            if isinstance(one, tree.Require):
                out.append(one)
            else:
                name, value, span = one
                written = self.write(name, value, path, span)
                is_one = is_placeholder and isinstance(written, tree.Let)
                out.append(replace(written, is_placeholder=True) if is_one else written)

    def write(self, name: str, value: Expression, path: Path, span: Span | None) -> tree.Statement:
        """A statement that gives a variable a value."""
        if self.is_here(name, path) or name not in self.variables.scopes:
            return tree.Let("", name, value, span=span)
        return tree.Assign("", name, value, span=span)

    def _simple(self, stmt: ast.stmt) -> list[_Made] | None:
        """The assignments that a statement is, None if it is more than expressions can say."""
        try:
            return self._as_assignments(stmt)
        except NotSimple:
            return None

    def _as_assignments(self, stmt: ast.stmt) -> list[_Made]:
        span = self.text.span(stmt)
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [(name, self.lowering.expression(value), span)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return [(name, self.lowering.expression(value), span)]
            case ast.AnnAssign(value=None):
                return []
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                return self._unpacked(targets, value, span)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                return [(name, self._increased(name, op, value, span), span)]
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
                self._must_be(name, "dict")
                item = ir.Mapping(((self.lowering.expression(key), self.lowering.expression(value)),), span)
                return [(name, ir.Binary(ir.BinaryOp.UNION, ir.Variable(name, span), item, span), span)]
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name), slice=key), op=op, value=value):
                self._must_be(name, "dict")
                if self.kinds.of(value) not in NUMBERS | {"str"}:
                    raise NotSimple
                at = ast.Subscript(ast.Name(name, ast.Load()), key, ast.Load())
                total = ast.fix_missing_locations(ast.copy_location(ast.BinOp(at, op, value), stmt))
                item = ir.Mapping(((self.lowering.expression(key), self.lowering.expression(total)),), span)
                return [(name, ir.Binary(ir.BinaryOp.UNION, ir.Variable(name, span), item, span), span)]
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr=method), args=[value], keywords=[]
                )
            ) if method in {"append", "add"} and name in self.names:
                self._must_be(name, "list" if method == "append" else "set")
                kind = ir.Kind.LIST if method == "append" else ir.Kind.SET
                if isinstance(value, ast.Starred):
                    raise NotSimple
                item = ir.Display(kind, (self.lowering.expression(value),), span)
                op_ = ir.BinaryOp.ADD if method == "append" else ir.BinaryOp.UNION
                return [(name, ir.Binary(op_, ir.Variable(name, span), item, span), span)]
            case ast.Assert(test=test, msg=message):
                condition = self.lowering.expression(test)
                made = None if message is None else self.lowering.expression(message)
                if message is not None and self.kinds.of(message) != "str" and made is not None:
                    made = ir.Call("pystr", (made,), (), made.span)
                return [tree.Require("", condition, made, span=span)]
            case _:
                raise NotSimple

    def _must_be(self, name: str, kind: str) -> None:
        if name not in self.names or self.kinds.known.get(name) != kind:
            raise NotSimple

    def _unpacked(self, targets: Sequence[ast.expr], value: ast.expr, span: Span | None) -> list[_Made]:
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        if len(names) < len(targets) or len(set(names)) < len(names):
            raise NotSimple
        if isinstance(value, ast.Name) and self.shapes.get(value.id) == len(names):
            held = ir.Variable(value.id, span)
            return [
                (name, ir.Index(held, Literal(number), False, span), span)
                for number, name in enumerate(names)
            ]
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(names):
            if set(names) & names_read(value):
                raise NotSimple
            return [
                (name, self.lowering.expression(one), span)
                for name, one in zip(names, value.elts, strict=True)
            ]
        raise NotSimple

    def _increased(self, name: str, op: ast.operator, value: ast.expr, span: Span | None) -> Expression:
        kind, other = self.kinds.known.get(name, ANY), self.kinds.of(value)
        fits = (
            kind in NUMBERS
            or (kind == "str" and isinstance(op, ast.Add))
            or (kind == other and kind in {"list", "tuple", "set"})
            or (other in NUMBERS | {"str"} and isinstance(op, (ast.Add, ast.Sub)))
        )
        if name not in self.names or not fits:
            raise NotSimple
        made = ast.copy_location(ast.BinOp(ast.Name(name, ast.Load()), op, value), value)
        ast.fix_missing_locations(made)
        lowered = self.lowering.expression(made)
        return replace(lowered, span=span) if isinstance(lowered, ir.Binary) else lowered

    def _compute(  # noqa: PLR0915 - one after another
        self,
        body: Sequence[ast.stmt],
        needed: frozenset[str],
        path: Path,
        out: list[tree.Statement],
        before: frozenset[str] | set[str],
        keeps: frozenset[str] = frozenset(),
    ) -> None:
        """A COMPUTE; where it fails, `keeps` are set to what they are then, and the failure follows."""
        self._check_functions(body, needed)
        flow = PureFlow()
        done = flow.run(body)
        reads = set(self._with_captured(flow.exposed))
        bound = {name for one in body for name in names_bound(one)} & self.names
        reads -= bound - set(before) - set(flow.exposed)  # a local function reads what is set first here
        changed = [node for one in body for node in self.sharing.changed(one)]
        among = frozenset(needed & self.names)
        touched = {name for one in body for name in self._touched(one, among)}
        outputs = sorted(
            name for name in (bound | touched) & needed if name in (done or set()) or name in before
        )
        self._check_generators(body, outputs)
        carries = bool(self.program.error_fields) and self._may_raise_own(body)
        sure = set[str]() if keeps or done is None else done
        reads |= {name for name in outputs if name not in sure and name in before}
        start: list[str] = []
        seeing = self.sharing.seeing(self.relinked, changed)
        for name, (owner, number) in self.relinked.items():
            if name in reads and name in seeing:
                start.append(f"{name} = {owner}[{number}]")
                reads = (reads - {name}) | {owner, number}
                if owner not in outputs:
                    outputs.append(owner)
        for name in sorted(reads & self.kinds.errors):  # a failure is no data: its record is
            record = self.fresh("record")
            plain = marked_failure(name, body[0], self.program.own_errors())
            out.append(tree.Let("", record, self.lowering.expression(plain)))
            start.append(f"{name} = {record}")
            reads = (reads - {name}) | {record}
        renamed = {
            name: self.fresh(name)
            for name in outputs
            if name in self.variables.scopes and not self.is_here(name, path)
        }
        end = body[-1]
        stores = {name: assigned(held, name_of(name, end), end).stmt for name, held in renamed.items()}
        failed = self.fresh("failed") if keeps or carries else None
        if failed is None:
            body = [*body, *stores.values()]
        else:
            body = kept_after_failure(
                [*body, *(one for name, one in stores.items() if name not in keeps)],
                failed,
                self.program.error_fields,
            )
            body += [one for name, one in stores.items() if name in keeps]
        source = self._source(body, start)
        span = _around(self.text, body)
        into = [renamed.get(name, name) for name in outputs]
        own = self.ids.make(self.function.name, self._compute_label(outputs))
        names = (*into, failed) if failed is not None else tuple(into)
        out.append(tree.Compute(own, source, tuple(sorted(reads)), names, span=span))

        def assign(name: str) -> None:
            out.append(tree.Assign("", name, ir.Variable(renamed[name], span), span=span))

        if failed is not None:
            for name in renamed:
                if name in keeps:
                    assign(name)
            held = ir.Variable(failed, span)
            test = ir.Compared(held, ((ir.Comparison.IS_NOT, Literal(None)),), span)
            again = tree.Say("", tree.Word.FAIL, (held,), span=span)
            out.append(tree.If("", (tree.Branch(test, (again,)),), is_named=False, span=span))
        for name in renamed:
            if name not in keeps:
                assign(name)

    def _may_raise_own(self, body: Sequence[ast.stmt]) -> bool:
        """Whether statements may raise an exception of the program's own class."""
        found = self.program.definitions_for(names_read(*body), self.local)
        own = self.program.exceptions.own
        return any(
            isinstance(one, ast.Raise) and one.exc is not None and bool(names_read(one.exc) & own.keys())
            for part in (*body, *found.values())
            for one in walk(part)
        )

    def _check_functions(self, body: Sequence[ast.stmt], needed: frozenset[str]) -> None:
        """Raises Refused (PYT019) for functions that a variable would have to keep over a call."""
        for one in (each for part in body for each in own_nodes(part)):
            match one:
                case (
                    ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])
                    | ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value)
                ) if name in needed and self._is_function(value):
                    raise Refused(
                        "PYT019",
                        one,
                        "a function is kept in a value, and a plan keeps values alone between its calls",
                        "write the table as one literal, or keep what the function is called with",
                    )
                case _:
                    pass
        holders = set[str]()

        def is_function(name: str) -> bool:
            return name in holders or self._is_pure_function(name)

        for one in body:
            if not isinstance(one, ast.Assign):
                continue
            is_kept = bool(names_bound(one) & needed)
            if is_kept and isinstance(one.value, ast.Call):
                made = self.program.resolved(one.value.func) or ""
                if made.startswith("hashlib."):
                    raise Refused(
                        "PYT019",
                        one.value,
                        "a hash that is not yet made is kept in a variable, and a plan keeps values alone"
                        " between its calls",
                        "collect what goes into it in a list, and make it at once:"
                        ' hashlib.sha256(b"".join(parts)).hexdigest()',
                    )
            if not has_functions(one.value, is_function, self.program.resolved, self.all_definitions.get):
                continue
            if is_kept:
                raise Refused(
                    "PYT019",
                    one.value,
                    "a function is kept in a value, and a plan keeps values alone between its calls",
                    "define it with def, and call it where it is needed",
                )
            if isinstance(one.targets[0], ast.Name):
                holders.add(one.targets[0].id)

    def _is_function(self, node: ast.expr) -> bool:
        """Whether a value is a function that the program defines."""
        return isinstance(node, ast.Lambda) or (
            isinstance(node, ast.Name) and node.id in self.all_definitions and self._is_pure_function(node.id)
        )

    def _is_pure_function(self, name: str) -> bool:
        if name in self.names:
            return False
        found = self.all_definitions.get(name)
        return isinstance(found, ast.FunctionDef) or (found is None and is_built_in(name))

    def _check_generators(self, body: Sequence[ast.stmt], outputs: Sequence[str]) -> None:
        """Raises Refused (PYT015) for a generator that is kept over a call, and reads what is set again."""
        for one in body:
            if not isinstance(one, (ast.Assign, ast.AnnAssign)) or one.value is None:
                continue
            is_kept = bool(names_bound(one) & {*outputs})
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            is_unpacked = all(isinstance(each, (ast.Tuple, ast.List)) for each in targets)
            if is_kept and not is_unpacked and _is_view(one.value):
                raise Refused(
                    "PYT015",
                    one.value,
                    "this looks at a dict, and is kept over a call",
                    f"write a list, which is made once: list({ast.unparse(one.value)})",
                )
            for made, late in generators_in(one.value) if is_kept else ():
                for name in sorted(late & self.names):
                    if sum(name in core.bound_by(each) for each in core.all_of(self.function.body)) > 1:
                        is_plain = isinstance(made, ast.GeneratorExp)
                        text = f"[{ast.unparse(made)[1:-1]}]" if is_plain else f"list({ast.unparse(made)})"
                        raise Refused(
                            "PYT015",
                            made,
                            f"this generator would see later values of {name}, and is kept over a call",
                            f"write a list: {text}",
                        )

    def _compute_label(self, outputs: Sequence[str]) -> str:
        named = [name for name in outputs if not name.rpartition("_")[2].isdigit()]
        return named[-1] if named else "compute"

    def _source(self, body: Sequence[ast.stmt], start: Sequence[str]) -> str:
        """The text of a COMPUTE, with the definitions it needs."""
        wanted = names_read(*body)
        own = self.program.exceptions.own
        classes = {
            name
            for name, one in self.all_definitions.items()
            if (isinstance(one, ast.ClassDef) and name not in own) or name.startswith(FACTORY)
        }
        needs_classes = classes if wanted & self.names else set[str]()
        found = self.program.definitions_for(wanted | needs_classes, self.local)
        self.program.computed += body
        self.program.computed_definitions |= found
        spelled = [self.program.spelling(one) for one in dict.fromkeys(found.values())]
        parts = [text for text, _ in spelled]
        reached = wanted.union(*(read for _, read in spelled))
        parts[:0] = [
            f"class {name}(Exception):\n    pass" for name in (DENIED, TOOL_ERROR) if name in reached
        ]
        return "\n".join([*parts, *start, *(ast.unparse(one) for one in body)])


def grouped(node: ast.expr) -> ast.expr:
    """What `groupby` gives, as a list of keys with the list of each group."""
    made = cast("ast.ListComp", ast.parse("[(_key, list(_group)) for _key, _group in x]", mode="eval").body)
    made.generators[0].iter = node
    inside = {id(one) for one in walk(node)}
    for one in walk(made):
        if id(one) not in inside:
            ast.copy_location(one, node)
    return made


def _is_view(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="keys" | "values" | "items"), args=[], keywords=[]):
            return True
        case _:
            return False


def _around(text: Text, body: Sequence[ast.stmt]) -> Span | None:
    spans = [span for one in body if (span := text.span(one)) is not None]
    return None if not spans else Span(min(one.start for one in spans), max(one.end for one in spans))
