"""The blocks of a plan from those of a function: steps, conditions, loops, failures.

In: a `core.Function` and the facts about its variables. Out: the statements of a main plan or a sub-plan.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import assert_never, cast

from callsheet.diagnostics import Span
from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.kinds import ANY
from callsheet.frontends.python.analysis.objects import chain, find
from callsheet.frontends.python.lowering.computation import Computation, Path, grouped
from callsheet.frontends.python.lowering.expressions import NotSimple
from callsheet.frontends.python.source import (
    dotted,
    names_bound,
    tool_of,
)
from callsheet.frontends.python.syntax import parsed
from callsheet.ir import expression as ir
from callsheet.ir import tree
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression


class Blocks(Computation):
    """Makes the statements of one function."""

    def body(self) -> tree.Block:
        """The statements of the function."""
        return self._declared(0, self.block(self.function.body, ()))

    def _declared(self, place: int, block: tree.Block) -> tree.Block:
        """A scope's block, with a value for what an inner loop sets before the block itself does."""
        first_made: dict[str, int] = {}
        first_set: dict[str, int] = {}
        names = self.variables.predeclared.get(place, [])
        for number, one in enumerate(block) if names else ():
            if not isinstance(one, tree.Assign):
                for name in tree.variables_set(one):
                    first_made.setdefault(name, number)
            for each in tree.statements((one,)):
                for name in tree.variables_set(each):
                    first_set.setdefault(name, number)
        made = [
            tree.Let("", name, Literal(None), is_placeholder=True)
            for name in names
            if name in first_set and first_set[name] < first_made.get(name, len(block))
        ]
        return (*made, *block)

    def block(self, block: core.Block, path: Path) -> tree.Block:
        """The statements of a block; `path` are the loops around it."""
        out: list[tree.Statement] = []
        pending: list[core.Pure] = []
        for one in block:
            if isinstance(one, core.Pure):
                pending.append(one)
                continue
            self.statement(one, path, out, pending)
        if pending:
            self.flush(pending, self.variables.after[id(pending[-1])], path, out)
        return tuple(out)

    def flushed(
        self,
        one: core.Core,
        operands: Sequence[ast.expr],
        path: Path,
        out: list[tree.Statement],
        pending: list[core.Pure],
        lower: Callable[[ast.expr], Expression] | None = None,
        also: frozenset[str] = frozenset(),
    ) -> list[Expression]:
        """The operands of a statement as expressions; what they need is computed before.

        `also` are variables that the statement itself reads.
        """
        lower = lower or self.lowering.expression
        made: list[Expression | None] = []
        for each in operands:
            try:
                made.append(lower(each))
            except NotSimple:
                made.append(None)
        last = max((number for number, each in enumerate(made) if each is None), default=-1)
        held: list[core.Pure] = []
        result: list[Expression] = []
        reads: set[str] = set()
        made_names: set[str] = set()
        for number, (each, node) in enumerate(zip(made, operands, strict=True)):
            if each is None or (number < last and not isinstance(each, (Literal, ir.Variable))):
                name = self.fresh("value")
                value: ast.expr = node
                if (
                    lower == self.lowering.source
                    and self.program.resolved(getattr(node, "func", node)) == "itertools.groupby"
                ):
                    value = grouped(node)
                elif lower == self.lowering.source:
                    value = ast.copy_location(ast.Call(ast.Name("list", ast.Load()), [node], []), node)
                target = ast.Name(name, ast.Store())
                stmt = ast.fix_missing_locations(ast.copy_location(ast.Assign([target], value), node))
                held.append(core.Pure(stmt))
                made_names.add(name)
                self.names |= {name}
                result.append(ir.Variable(name, self.text.span(node)))
            else:
                result.append(each)
                reads |= self.variables.reads_of(node)
        walrus = {name for node in operands for name in names_bound(node)} & self.names
        needed = self.variables.inner[id(one)] | reads | made_names | also | walrus
        group = [*pending, *held]
        pending.clear()
        if group:
            self.flush(
                group, needed, path, out, self.variables.before[id(one)], self.variables.caught[id(one)]
            )
        return result

    def statement(  # noqa: PLR0912, PLR0915 - a case for each
        self, one: core.Core, path: Path, out: list[tree.Statement], pending: list[core.Pure]
    ) -> None:
        """The statements of one core statement."""
        span = self.text.head(one.node) if not isinstance(one, core.Pure) else None
        match one:
            case core.Pure():
                raise AssertionError
            case core.Call():
                values = self.flushed(one, [each.value for each in one.arguments], path, out, pending)
                after: list[tree.Statement] = []
                out.append(self._call(one, values, path, after))
                out += after
            case core.Wait():
                (seconds,) = self.flushed(one, [one.seconds], path, out, pending)
                out.append(tree.Say("", tree.Word.WAIT, (seconds,), span=span))
            case core.Choice():
                self._choice(one, path, out, pending)
            case core.Loop():
                after = []
                out.append(self._loop(one, path, out, pending, after))
                out += after
            case core.While():
                self._while(one, path, out, pending)
            case core.Attempt():
                limits = [] if one.within is None else [one.within]
                within = self.flushed(one, limits, path, out, pending)
                handlers = tuple(
                    tree.Handler(
                        each.kinds, self.block(each.body, path), each.binds, self.text.head(each.node)
                    )
                    for each in one.handlers
                )
                final = None if one.final is None else self.block(one.final, path)
                body = self.block(one.body, path)
                recovery = tree.Recovery(handlers=handlers, final=final, undo=one.undo)
                out.append(tree.Try("", body, recovery, span=span, within=next(iter(within), None)))
            case core.Together():
                self._together(one, path, out, pending)
            case core.Return(value=value):
                values = self.flushed(one, [] if value is None else [value], path, out, pending)
                if one.replans:
                    out.append(tree.Say("", tree.Word.REPLAN, tuple(values), span=span))
                    return
                word = tree.Word.RESPOND if self.is_main else tree.Word.RETURN
                out.append(tree.Say("", word, tuple(values) or (Literal(None),), span=span))
            case core.Give(value=value):
                values = self.flushed(one, [value], path, out, pending)
                out.append(tree.Say("", tree.Word.YIELD, tuple(values), span=span))
            case core.Break():
                self.flushed(one, [], path, out, pending)
                out.append(tree.Say("", tree.Word.BREAK, span=span))
            case core.Continue():
                self.flushed(one, [], path, out, pending)
                out.append(tree.Say("", tree.Word.CONTINUE, span=span))
            case core.Fail(message=message, kind=kind, again=again):
                also = frozenset[str]() if again is None else frozenset({again})
                given = [] if message is None else [message]
                values = self.flushed(one, given, path, out, pending, also=also)
                if again is not None:
                    values = [ir.Variable(again, span)]
                out.append(tree.Say("", tree.Word.FAIL, tuple(values) or (Literal(""),), kind, span=span))
            case core.Remark(value=value):
                values = self.flushed(one, [value], path, out, pending)
                out.append(tree.Say("", tree.Word.NOTE, tuple(values), span=span))
            case _:
                assert_never(one)

    def _into(
        self, name: str | None, path: Path, after: list[tree.Statement], span: Span | None
    ) -> tree.Into | None:
        """Where a result goes: the variable, or one of this scope from which it is then set."""
        if name is None:
            return None
        if self.is_here(name, path):
            return tree.Into(name)
        held = self.fresh(name)
        after.append(tree.Assign("", name, ir.Variable(held, span), span=span))
        return tree.Into(held)

    def _call(
        self, one: core.Call, values: Sequence[Expression], path: Path, after: list[tree.Statement]
    ) -> tree.Statement:
        span = self.text.span(one.node)
        into = self._into(one.into, path, after, span)
        named = [(each.name, value) for each, value in zip(one.arguments, values, strict=True)]
        if one.helper is not None:
            own = self.ids.make(self.function.name, one.into or one.callee)
            given = tuple((name or "", value) for name, value in named)
            return tree.Invoke(own, self.plan_names[id(one.helper)], given, into, span=span)
        own = self.ids.make(self.function.name, self._label(one))
        known = self.program.tools
        binding = None if known is not None and one.callee in known else self.program.bindings.get(one.callee)
        if binding is None:
            positional = tuple(value for name, value in named if name is None)
            words = tuple((name, value) for name, value in named if name is not None)
            return tree.Act(own, tool_of(one.callee), positional, words, into, span=span)
        others = dict(binding.parameters)
        order = [name for name, other in binding.parameters if not other]
        places = sorted((order.index(name), value) for name, value in named if name in order) if order else []
        return tree.Act(
            own,
            binding.tool,
            tuple(value for _, value in places),
            tuple(
                (others.get(name or "", name or "") or "", value)
                for name, value in named
                if name not in order
            ),
            into,
            span=span,
        )

    def _label(self, one: core.Call) -> str:
        """The name of a call's step: its variable, where the program wrote one, else the tool's."""
        if one.into is None or one.into.rpartition("_")[2].isdigit():
            return one.callee
        return one.into

    def _choice(
        self, one: core.Choice, path: Path, out: list[tree.Statement], pending: list[core.Pure]
    ) -> None:
        (test,) = self.flushed(one, [one.test], path, out, pending)
        branches = [tree.Branch(test, self.block(one.then, path), self.text.head(one.node))]
        rest = one.otherwise
        while len(rest) == 1 and isinstance(rest[0], core.Choice):
            inner = rest[0]
            try:
                condition = self.lowering.expression(inner.test)
            except NotSimple:
                break
            branches.append(tree.Branch(condition, self.block(inner.then, path), self.text.head(inner.node)))
            rest = inner.otherwise
        otherwise = self.block(rest, path) if rest else None
        out.append(tree.If("", tuple(branches), otherwise, is_named=False, span=self.text.head(one.node)))

    def _while(
        self, one: core.While, path: Path, out: list[tree.Statement], pending: list[core.Pure]
    ) -> None:
        span = self.text.head(one.node)
        own = self.ids.make(self.function.name, "while")
        self.flushed(one, [], path, out, pending)
        try:
            test = self.lowering.expression(one.test)
            body = self.block(one.body, path)
        except NotSimple:
            name = self.fresh("value")
            self.names |= {name}
            start: list[tree.Statement] = []
            stmt = ast.Assign([ast.Name(name, ast.Store())], one.test)
            made = core.Pure(ast.fix_missing_locations(ast.copy_location(stmt, one.test)))
            needed = self.variables.entry[id(one.body)] | self.variables.after[id(one)]
            before = needed | self.variables.reads_of(one.test)
            caught = self.variables.caught[id(one)]
            self.flush([made], needed | {name}, path, start, before, caught)
            leave = tree.Say("", tree.Word.BREAK, span=span)
            condition = ir.Unary(ir.UnaryOp.NOT, ir.Variable(name, span), span)
            start.append(tree.If("", (tree.Branch(condition, (leave,)),), is_named=False, span=span))
            test = Literal(True)
            body = (*start, *self.block(one.body, path))
        out.append(tree.Repeat(own, None, body, while_=test, is_named=True, span=span))

    def _loop(
        self,
        one: core.Loop,
        path: Path,
        out: list[tree.Statement],
        pending: list[core.Pure],
        after: list[tree.Statement],
    ) -> tree.Statement:
        span = self.text.head(one.node)
        self._note_shape(one)
        relink = self._relinks(one, path)
        source_node = one.source
        number = self.fresh("number") if relink is not None else ""
        if relink is not None:
            self.names |= {number}
            source_node = parsed(f"range(len({relink}))", one.source)
        (source,) = self.flushed(one, [source_node], path, out, pending, self.lowering.source)
        inner = (*path, one)
        here = self.variables.scope(one.target, inner) is one and not self._is_set_inside(one)
        name, start = one.target, cast("list[tree.Statement]", [])
        if relink is not None:
            name = number
            item = ir.Index(ir.Variable(relink, span), ir.Variable(number, span), False, span)
            start.append(self.write(one.target, item, inner, span))
            self.relinked[one.target] = (relink, number)
        elif not here:
            name = self.fresh(one.target)
            start.append(self.write(one.target, ir.Variable(name, span), inner, span))
        body = self._declared(id(one), (*start, *self.block(one.body, inner)))
        self.relinked.pop(one.target, None)
        stem = one.target.strip("_") if not one.target.rpartition("_")[2].isdigit() else ""
        stem = stem or "each"
        own = self.ids.make(self.function.name, f"for_{stem}")
        return tree.Foreach(
            own,
            name,
            source,
            body,
            in_order=not one.together,
            together=one.together,
            most=one.most,
            into=self._into(one.into, path, after, span),
            span=span,
            ends=tree.Ends.FIRST if one.first else tree.Ends.FAILED if one.stops else tree.Ends.ALL,
            as_done=one.as_done,
        )

    def _is_set_inside(self, one: core.Loop) -> bool:
        """Whether the body of a loop gives its name another value, or changes it."""
        top = self.sharing.node(one.target)
        for each in core.all_of(one.body):
            for part in core.parts_of(each):
                if one.target in names_bound(part):
                    return True
                if any(find(node) in chain(top) for node in self.sharing.changed(part)):
                    return True
            if isinstance(each, (core.Call, core.Loop)) and each.into == one.target:
                return True
            if isinstance(each, core.Loop) and each.target == one.target:
                return True
        return False

    def _note_shape(self, one: core.Loop) -> None:
        source = one.source
        if isinstance(source, ast.Call):
            name = dotted(source.func)
            if name == "enumerate":
                self.shapes[one.target] = 2
            elif name == "zip" and not any(isinstance(each, ast.Starred) for each in source.args):
                self.shapes[one.target] = len(source.args)
            elif isinstance(source.func, ast.Attribute) and source.func.attr == "items":
                self.shapes[one.target] = 2

    def _relinks(self, one: core.Loop, path: Path) -> str | None:
        """The list that a loop goes through, where its items are changed and the list is still needed."""
        if not isinstance(one.source, ast.Name) or one.together or one.source.id not in self.names:
            return None
        owner, is_needed = one.source.id, False
        top, held = self.sharing.node(one.target), find(self.sharing.node(owner))
        for each in core.all_of(one.body):
            back = each.takes_back if isinstance(each, core.Pure) else None
            if {owner, one.target} & core.bound_by(each) and (
                back != one.target or self.kinds.known.get(owner, ANY) not in {ANY, "list", "tuple"}
            ):
                return None
            if not isinstance(each, core.Pure):
                continue
            changed = [*self.sharing.changed(each.stmt), *self._changed_by_call(each, self.sharing)]
            live = self.variables.before[id(each)] | self.variables.after[id(each)]
            if owner in live and any(find(node) in chain(top) for node in changed):
                if held in map(find, changed):
                    return None
                is_needed = True
        return owner if is_needed else None

    def _together(
        self, one: core.Together, path: Path, out: list[tree.Statement], pending: list[core.Pure]
    ) -> None:
        members: list[tree.Statement] = []
        after: list[tree.Statement] = []
        if pending:
            group = list(pending)
            pending.clear()
            self.flush(group, self.variables.before[id(one)], path, out)
        for each in one.members:
            before: list[tree.Statement] = []
            match each:
                case core.Call():
                    values = self.flushed(each, [a.value for a in each.arguments], path, before, [])
                    members.append(self._call(each, values, path, after))
                case core.Loop():
                    members.append(self._loop(each, path, before, [], after))
                case core.Wait():
                    (seconds,) = self.flushed(each, [each.seconds], path, before, [])
                    members.append(tree.Say("", tree.Word.WAIT, (seconds,), span=self.text.span(each.node)))
                case _:
                    made = self.block([each], path)
                    members += made
            out += before
        out.append(tree.Parallel("", tuple(members), span=self.text.head(one.node), stops=one.stops))
        out += after
