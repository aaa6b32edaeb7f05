"""Compiles a Python program to a plan: an async function whose awaits are calls of tools.

In: a text, and what is known of the tools. Out: a `ParseResult`, whose plan has a tree; no text makes it
raise, and none is ever executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from callsheet.diagnostics import Severity, Span
from callsheet.frontends.pure_code.refusals import judged
from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.class_state import check_class_state
from callsheet.frontends.python.analysis.early_ends import early_ends
from callsheet.frontends.python.analysis.kinds import arguments_given, ltp_function
from callsheet.frontends.python.analysis.ordered_texts import check_ordered_texts
from callsheet.frontends.python.analysis.unordered import orders_seen
from callsheet.frontends.python.annotations import Annotations, is_moment, moment
from callsheet.frontends.python.error_values import classes_as_types
from callsheet.frontends.python.exceptions import denials_apart, error_tuples_in_place, suppress_as_try
from callsheet.frontends.python.lowering.blocks import Blocks
from callsheet.frontends.python.lowering.changes import (
    Taking,
    changes_of,
    effects_in,
    give_back,
    guarded_names,
    keep_failure,
    sharing_alone,
)
from callsheet.frontends.python.lowering.failures import InFunctions
from callsheet.frontends.python.lowering.function_facts import Ids, Result
from callsheet.frontends.python.lowering.links import Linking
from callsheet.frontends.python.lowering.products import guard_functions
from callsheet.frontends.python.lowering.scope import Names, Scope
from callsheet.frontends.python.lowering.statements import Translator
from callsheet.frontends.python.module import Within, hoist_imports, needed_part, plans_of
from callsheet.frontends.python.program import BINDINGS, Binding, Program, Signature, read_program
from callsheet.frontends.python.rewrites.asyncio_words import asyncio_words_as_plain
from callsheet.frontends.python.rewrites.buffers import buffers_as_texts
from callsheet.frontends.python.rewrites.cancelled_groups import cancelled_groups_as_groups
from callsheet.frontends.python.rewrites.changed_constants import ConstantChanged, moved_into_main
from callsheet.frontends.python.rewrites.closures import box_nonlocals
from callsheet.frontends.python.rewrites.contexts import (
    CONTEXT_WORDS,
    contexts_as_statements,
    returns_after_finally,
)
from callsheet.frontends.python.rewrites.decorators import (
    decorated_as_calls,
    names_of_functions,
    registries_as_tables,
)
from callsheet.frontends.python.rewrites.definitions import (
    lookups_as_lambdas,
    partials_as_calls,
    unawaiting_as_pure,
    with_constants,
)
from callsheet.frontends.python.rewrites.factories import factories_as_classes
from callsheet.frontends.python.rewrites.first_done import firsts_as_one
from callsheet.frontends.python.rewrites.flows import ASKED_FOR_ITEMS, flows_as_loops
from callsheet.frontends.python.rewrites.function_lists import function_lists_as_names
from callsheet.frontends.python.rewrites.function_tables import tables_by_place
from callsheet.frontends.python.rewrites.given_calls import given_calls_as_own
from callsheet.frontends.python.rewrites.group_handlers import group_handlers_as_plain
from callsheet.frontends.python.rewrites.inherited import inherited_methods_as_own
from callsheet.frontends.python.rewrites.iterator_steps import iterators_as_steps
from callsheet.frontends.python.rewrites.known_numbers import limits_as_numbers
from callsheet.frontends.python.rewrites.logs import logs_as_prints, notes_as_prints
from callsheet.frontends.python.rewrites.made_once import check_made_once
from callsheet.frontends.python.rewrites.methods import declare_fields, methods_as_functions
from callsheet.frontends.python.rewrites.mixed_calls import mixed_calls_as_one, spread_calls_as_functions
from callsheet.frontends.python.rewrites.module_names import modules_by_their_names
from callsheet.frontends.python.rewrites.nested_groups import nested_groups_as_functions
from callsheet.frontends.python.rewrites.parameters import (
    SEMAPHORES,
    idle_locks_left_out,
    semaphores_of_objects,
    settle_parameters,
)
from callsheet.frontends.python.rewrites.queue_users import QUEUES
from callsheet.frontends.python.rewrites.recursion import Copies, depth_of
from callsheet.frontends.python.rewrites.recursive_flows import recursive_flows_as_visits
from callsheet.frontends.python.rewrites.setters import setters_as_methods
from callsheet.frontends.python.rewrites.shared_defaults import shared_defaults_as_variables
from callsheet.frontends.python.rewrites.started_in_loops import collect_tasks, sources_before_tasks
from callsheet.frontends.python.rewrites.task_numbers import tasks_as_numbers
from callsheet.frontends.python.rewrites.task_words import STARTS
from callsheet.frontends.python.rewrites.timeouts import loop_times_as_moments
from callsheet.frontends.python.rewrites.worker_pools import queues_as_lists
from callsheet.frontends.python.source import Nodes, Refused, Text, among, names_bound, walk
from callsheet.frontends.unseen import hidden_characters
from callsheet.frontends.values.reader import ParseResult
from callsheet.ir import tree, types
from callsheet.ir.expr import JSON
from callsheet.ir.plan import Order, Plan
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree_edits import plan_of_tree


def read_python(
    text: str,
    name: str = "<plan>",
    *,
    tools: Mapping[str, Signature] | None = None,
    bindings: Mapping[str, Binding] = BINDINGS,
    within: Within | None = None,
    function: str | None = None,
) -> ParseResult:
    """Compile a Python program; `tools` are the signatures of all tools by name, if they are known.

    Without them any name that is not defined is a tool. `bindings` are names for operations of callsheet.
    With `within`, or where the text has a function with `@plan`, it is a user's module, of which only that
    function and what it needs is read; `function` names one where there are several, or none has `@plan`.

    >>> result = read_python('async def main(): return await search(query="tea")')
    >>> [(step.id, step.call.tool) for step in result.plan.steps]
    [('main.search', 'SEARCH')]
    """
    source = Text(text, name)
    found = [*hidden_characters(text)]
    plan: Plan | None = None
    try:
        module = source.tree()
        within = _within(module, function) if within is None else within
        module = module if within is None else needed_part(module, within)
        if within is not None:
            spans = [source.span(one) for one in module.body]
            found = [one for one in found if any(_is_in(one.span, span) for span in spans)]
        plan, warnings = _compiled(source, module, within, tools, bindings)
        found += [source.diagnostic(one, Severity.WARNING) for one in warnings]
    except Refused as refused:
        found.append(source.diagnostic(refused))
    except RecursionError:
        refused = Refused("PYT002", None, "the text nests too deep", "split deep expressions into variables")
        found.append(source.diagnostic(refused))
    found.sort(key=lambda one: one.span.start if one.span else -1)
    if any(one.is_error for one in found):
        plan = None
    return ParseResult(plan, plan or Plan((), Order.TREE), tuple(found), source.source)


_Change = Callable[[ast.Module, Nodes], bool]


def _of_nodes(change: Callable[[Nodes], bool]) -> _Change:
    return lambda _, nodes: change(nodes)


def _rewrites(
    changed: Sequence[ConstantChanged], warned: list[Refused]
) -> tuple[tuple[_Change, tuple[type[ast.AST] | str, ...]], ...]:
    """What a file says in other words before it is compiled, in order.

    Each tells whether it changed anything, which it does only in a file with some of the nodes or words that
    stand beside it. `changed` are the containers of the file that are moved into the main function; what runs
    in another way than it is written is added to `warned`.
    """

    def move(module: ast.Module, _: Nodes) -> bool:
        failed = moved_into_main(module, changed)
        if failed is not None:
            raise failed
        return bool(changed)

    generators = (ast.Yield, ast.YieldFrom, ast.GeneratorExp, "map", "filter", *ASKED_FOR_ITEMS)
    return (
        (hoist_imports, (ast.Import, ast.ImportFrom)),
        (modules_by_their_names, (ast.Import, ast.ImportFrom)),
        (logs_as_prints, ("logging",)),
        (notes_as_prints, ("note",)),
        (buffers_as_texts, ("file", "StringIO", "writer", "DictWriter")),
        (_of_nodes(classes_as_types), ("__class__",)),
        (names_of_functions, ("__name__",)),
        (error_tuples_in_place, (ast.ExceptHandler, "isinstance")),
        (suppress_as_try, ("suppress",)),
        (setters_as_methods, ("setter",)),
        (
            asyncio_words_as_plain,
            ("to_thread", "run_in_executor", "acquire", "expired", *SEMAPHORES, *QUEUES),
        ),
        (loop_times_as_moments, ("time", "monotonic", "perf_counter")),
        (_of_nodes(nested_groups_as_functions), ("gather",)),
        (_of_nodes(lookups_as_lambdas), ("__getitem__", "__contains__")),
        (_of_nodes(partials_as_calls), ("partial",)),
        (unawaiting_as_pure, (ast.Lambda,)),
        (function_lists_as_names, (ast.List, ast.Tuple)),
        (tables_by_place, (ast.List, ast.Tuple, ast.Dict)),
        (factories_as_classes, (ast.FunctionDef,)),
        (decorated_as_calls, (ast.FunctionDef,)),
        (move, (ast.Module,)),
        (lambda _, nodes: cancelled_groups_as_groups(nodes, warned), ("cancel",)),
        (_of_nodes(group_handlers_as_plain), (ast.TryStar,)),
        (contexts_as_statements, tuple(CONTEXT_WORDS)),
        (_of_nodes(returns_after_finally), (ast.Try,)),
        (_of_nodes(denials_apart), (ast.Try,)),
        (recursive_flows_as_visits, (ast.AsyncFor,)),
        (flows_as_loops, generators),
        (semaphores_of_objects, tuple(SEMAPHORES)),
        (idle_locks_left_out, ("Lock",)),
        (inherited_methods_as_own, (ast.ClassDef,)),
        (methods_as_functions, (ast.ClassDef,)),
        (flows_as_loops, generators),  # over methods, which are functions by now
        (given_calls_as_own, (ast.Call,)),
        (limits_as_numbers, tuple(SEMAPHORES)),
        (lambda module, nodes: queues_as_lists(module, nodes, warned), tuple(QUEUES)),
        (iterators_as_steps, (ast.Call, ast.GeneratorExp)),
        (spread_calls_as_functions, ("gather", *STARTS)),
        (_of_nodes(mixed_calls_as_one), ("gather",)),
        (sources_before_tasks, tuple(STARTS)),
        (_of_nodes(collect_tasks), ("TaskGroup",)),
        (_of_nodes(firsts_as_one), ("return_when",)),
        (lambda module, nodes: tasks_as_numbers(module, nodes, warned), tuple(STARTS)),
        (_of_nodes(declare_fields), (ast.ClassDef,)),
        (_of_nodes(box_nonlocals), (ast.Nonlocal,)),
        (_of_nodes(guard_functions), (ast.AugAssign,)),
        (settle_parameters, (ast.AsyncFunctionDef,)),
    )


def _within(module: ast.Module, function: str | None) -> Within | None:
    """The function of a module that is the plan; None if the whole file is. Raises Refused (PYT003)."""
    found = plans_of(module, function)
    if function is not None and not found:
        have = [one.name for one in module.body if isinstance(one, ast.AsyncFunctionDef)]
        raise Refused(
            "PYT003",
            None,
            f"the file has no async function {function} at its top level",
            f"it has {', '.join(have)}" if have else "it has none",
        )
    if len(found) > 1:
        names = [one.function for one in found]
        raise Refused(
            "PYT003",
            next(one for one in module.body if getattr(one, "name", None) == names[1]),
            f"several functions are plans: {', '.join(names)}",
            f"name one: FILE.py:{names[0]} on the command line, Plan.of({names[0]}) in Python",
        )
    return found[0] if found else None


def _compiled(
    source: Text,
    module: ast.Module,
    within: Within | None,
    tools: Mapping[str, Signature] | None,
    bindings: Mapping[str, Binding],
    changed: tuple[ConstantChanged, ...] = (),
) -> tuple[Plan, list[Refused]]:
    """The plan of a tree, and its warnings; `changed` are the containers that were moved into `main`."""
    nodes = Nodes(module)
    _check_names(nodes)
    if registries_as_tables(module, nodes):
        nodes = Nodes(module)
    if shared_defaults_as_variables(module, nodes):
        nodes = Nodes(module)
    check_made_once(module, nodes)
    check_class_state(module, nodes)
    warned = orders_seen(module) if nodes.has(ast.Set, ast.SetComp, "set", "frozenset") else []
    warned += early_ends(nodes) if nodes.has("as_completed") else []
    if nodes.has("OrderedDict"):
        check_ordered_texts(nodes)
    for change, signs in _rewrites(changed, warned):
        if nodes.has(*signs) and change(module, nodes):
            nodes = Nodes(module)
    program = read_program(module, tools, bindings, nodes)
    compiler = _Compiler(program, source, Names(nodes), nodes)
    try:
        made = compiler.plan()
    except Refused:
        if not program.changed:
            raise
    else:
        if not program.changed:
            return made, [*program.warnings, *warned]
    first, *others = program.changed.values()
    known = {one.name for one in changed}
    if first.name in known:
        raise first
    changed = (*changed, first, *(one for one in others if one.name not in known))
    module = source.tree()
    module = module if within is None else needed_part(module, within)
    return _compiled(source, module, within, tools, bindings, changed)


def _is_in(inner: Span | None, outer: Span | None) -> bool:
    return inner is None or outer is None or outer.start <= inner.start < outer.end


def _check_names(nodes: Nodes) -> None:
    words = " ".join(nodes.words)
    if words.isascii() and "_cs_" not in words:
        return
    for node in nodes:
        for field in ("id", "arg", "name"):
            held = getattr(node, field, None)
            if isinstance(held, str) and not held.isascii():
                raise Refused(
                    "PYT022", node, f"the name {held} is not written in ASCII letters", "give it another name"
                )
            if isinstance(held, str) and held.startswith("_cs_"):
                raise Refused(
                    "PYT022", node, "names that begin with _cs_ are callsheet's", "give it another name"
                )


class _Compiler:
    """Compiles the functions of one program."""

    def __init__(self, program: Program, source: Text, names: Names, nodes: Nodes) -> None:
        self.program, self.source, self.names, self.nodes = program, source, names, nodes
        self.annotations = Annotations(program.definitions, program.resolved)
        self.ids = Ids()
        self.plan_names: dict[int, str] = {}
        self.done: dict[int, tuple[core.Function, Translator]] = {}
        self.order: list[ast.AsyncFunctionDef] = []
        self.copies = Copies()
        self.deep: set[str] = set()
        self.results: dict[int, Result] = {}
        self.given: dict[int, dict[str, str]] = {}

    @cached_property
    def guarded(self) -> frozenset[str]:
        """The async functions whose failure the program may go on after."""
        helpers = {one.name: one for one in self.nodes.of(ast.AsyncFunctionDef)}
        return guarded_names(self.nodes, helpers)

    def plan(self) -> Plan:
        """The plan of the main function."""
        program = self.program
        self._check_definitions()
        main, translator = self._translate(program.main, None, ())
        callers = [(main, translator), *(self.done[id(node)] for node in reversed(self.order))]
        self.given = arguments_given(
            ((one, {**program.definitions, **each.definitions()}) for one, each in callers), program.resolved
        )
        inputs = tuple(self._input(one, main) for one in main.parameters)
        plans = tuple(self._sub_plan(*self.done[id(node)]) for node in self.order)
        body = self._blocks(main, translator, is_main=True)
        self._check_pure_code()
        made = with_ids(
            tree.Tree(
                body,
                inputs,
                plans=plans,
                result=self.annotations.type(main.node.returns),
                types=tuple(self.annotations.records.items()),
            )
        )
        goal = " ".join((program.about or "").split()) or None
        return replace(plan_of_tree(made, goal=goal), in_python=True)

    def _check_definitions(self) -> None:
        """Raises Refused for a definition of the file that uses a tool, or what a plan may not use."""
        check = Translator(self.program, self.program.main, self.names)
        check.bound = set()
        if self.program.keeps_errors:
            InFunctions(check).visit(self.nodes[0])
        for name, one in self.program.definitions.items():
            is_alias = isinstance(one, ast.Assign) and isinstance(one.value, ast.Name)
            changed = one if is_alias else check.with_choices(one)
            if changed is not one:
                self.program.definitions[name] = changed
        self.program.choices |= check.choices
        self.program.holders |= check.holders
        for one in dict.fromkeys(self.program.definitions.values()):
            check.check(one)

    def _check_pure_code(self) -> None:
        """Raises Refused (PYT026) for what the interpreter of pure code does not do as CPython does."""
        program = self.program
        if not program.computed:
            return
        definitions = list(dict.fromkeys(program.computed_definitions.values()))
        for one in (node for each in (*definitions, *program.computed) for node in walk(each)):
            if isinstance(one, ast.Attribute) and ltp_function(program.resolved(one) or "") is not None:
                raise Refused(
                    "PYT026",
                    one,
                    f"{ast.unparse(one)} stands in code that only Python's own functions may compute",
                    "give its result a name in a line of its own, and compute with that",
                )
        names = [name for _, made in self.done.values() for name in made.bound]
        found = judged(ast.Module([*definitions, *program.computed], []), names)
        if found:
            first = found[0]
            raise Refused("PYT026", first.node, first.refusal.reason, first.refusal.rewrite)

    # ------------------------------------------------------------ functions

    def _translate(
        self, node: ast.AsyncFunctionDef, outer: Scope | None, around: tuple[ast.AsyncFunctionDef, ...]
    ) -> tuple[core.Function, Translator]:
        known = self.done.get(id(node))
        if known is not None:
            return known
        translator = Translator(self.program, node, self.names, outer)
        try:
            made = translator.translate()
        except Refused as refused:
            if refused.code not in {"PYT020", "PYT007"} or not self.program.keeps_errors:
                raise
            translator = Translator(self.program, node, self.names, outer)
            translator.eager = True
            try:
                made = translator.translate()
            except Refused as again:
                raise (again if again.code != "PYT020" else refused) from None
        for one in core.all_of(made.body):
            if isinstance(one, core.Call) and one.helper is not None:
                self.copies.fit(one)
                if self.copies.deepen(one, (*around, node)):
                    self._warn_of_depth(one, (*around, node))
                inner, _ = self._translate(one.helper, self._owner(one.helper, translator), (*around, node))
                self._complete(one, inner)
        functions = {number: function for number, (function, _) in self.done.items()}
        taking = Taking(
            functions,
            self.names.fresh,
            self.program.warnings.append,
            self.program.own_errors(),
            around=node,
            is_guarded=node.name in self.guarded,
        )
        made.body = taking.block(made.body)
        self._note_constants(made)
        if node is not self.program.main:
            sharing = sharing_alone(made, self.program.functions(translator.definitions()))
            changes = changes_of(made, sharing, self.names.fresh)
            if changes:
                give_back(made, changes, effects_in(sharing), functions)
                if not made.is_late and node.name in self.guarded:
                    own = self.program.own_errors()
                    keep_failure(made, self.names.fresh, own, self.program.named_kinds)
        self.done[id(node)] = made, translator
        if node is not self.program.main:
            self._name(node)
            self.order.append(node)
        return made, translator

    def _note_constants(self, made: core.Function) -> None:
        """Note the constants of the file that a function gives to a call that changes them."""
        own = {*made.parameters, *made.captured, *names_bound(*made.node.body)}
        calls = [one for one in core.all_of(made.body) if isinstance(one, core.Call)]
        for one in calls:
            for name in one.changes:
                definition = self.program.definitions.get(name)
                if name not in own and isinstance(definition, ast.Assign | ast.AnnAssign):
                    constant = ConstantChanged(one.node, name, self.program.main.name)
                    self.program.changed.setdefault(name, constant)

    def _warn_of_depth(self, call: core.Call, around: Sequence[ast.AsyncFunctionDef]) -> None:
        """Note once for each function that calls itself how deep it may go."""
        origin = self.copies.origin(call.helper or around[-1])
        if origin.name in self.deep:
            return
        self.deep.add(origin.name)
        first = next(number for number, one in enumerate(around) if self.copies.origin(one) is origin)
        most = depth_of(around[first:])
        self.program.warnings.append(
            Refused(
                "PYT103",
                call.node,
                f"{origin.name} calls itself: a plan goes at most {most} deep, and then fails",
                "write a loop where it may go deeper: while there is more to do, take the next and add what"
                " it leads to",
            )
        )

    def _owner(self, helper: ast.AsyncFunctionDef, at: Scope) -> Scope | None:
        """The function around a helper; None for one of the file."""
        helper = self.copies.origin(helper)
        translator: Scope | None = at
        while translator is not None:
            if any(helper is one for one in translator.local_helpers.values()):
                return translator
            translator = translator.outer
        return None

    def _name(self, node: ast.AsyncFunctionDef) -> None:
        name, number = node.name, 1
        while name in self.plan_names.values() or name == self.program.main.name:
            number += 1
            name = f"{node.name}_{number}"
        self.plan_names[id(node)] = name

    def _complete(self, call: core.Call, helper: core.Function) -> None:
        """Give a call the defaults of what it leaves out, and what the function reads from around it."""
        given = {one.name for one in call.arguments}
        for name in helper.parameters:
            if name not in given and name in helper.defaults:
                call.arguments.append(core.Argument(name, helper.defaults[name]))
        for name in helper.captured:
            if name not in given:
                value = ast.copy_location(ast.Name(name, ast.Load()), call.node)
                call.arguments.append(core.Argument(name, value))

    def _blocks(self, function: core.Function, translator: Translator, *, is_main: bool) -> tree.Block:
        """The statements of a function; where its variables share what it changes, of one that says which."""
        program, taken = self.program, set(self.ids.taken)
        computed, definitions = list(program.computed), dict(program.computed_definitions)
        made = self._made_blocks(function, translator, is_main=is_main)
        body = made.body()
        if not made.shared:
            return body
        refusal = made.shared[0][0]
        nodes = [node for _, changed in made.shared for node in changed]
        Linking(function, made.facts(), nodes, refusal, self.names.fresh).link()
        self.ids.taken = taken
        program.computed, program.computed_definitions = computed, definitions
        made = self._made_blocks(function, translator, is_main=is_main)
        body = made.body()
        if made.shared:
            raise refusal
        return body

    def _made_blocks(self, function: core.Function, translator: Translator, *, is_main: bool) -> Blocks:
        return Blocks(
            self.program,
            function,
            translator.definitions(),
            self.source,
            self.ids,
            self.names.fresh,
            self.plan_names,
            self.results,
            given=self.given.get(id(function.node), {}),
            is_main=is_main,
        )

    def _sub_plan(self, function: core.Function, translator: Translator) -> tree.SubPlan:
        names = (*function.parameters, *function.captured)
        inputs = tuple(tree.Input(name, types.Basic.JSON) for name in names)
        body = self._blocks(function, translator, is_main=False)
        return tree.SubPlan(
            self.plan_names[id(function.node)], inputs, body, span=self.source.head(function.node)
        )

    def _input(self, name: str, main: core.Function) -> tree.Input:
        annotation, is_secret = self.annotations.revealed(main.annotations.get(name))
        kind = self.annotations.type(annotation) or types.Basic.JSON
        place = next((one for one in among(walk(main.node.args), ast.arg) if one.arg == name), None)
        span = self.source.span(place)
        if name not in main.defaults:
            return tree.Input(name, kind, is_secret=is_secret, span=span)
        default = main.defaults[name]
        try:
            value: Any = ast.literal_eval(with_constants(default, self.program.definitions))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = ...
            bare = kind.of if isinstance(kind, types.Maybe) else kind
            if isinstance(bare, types.Basic) and is_moment(bare):
                value = moment(default, bare, self.program.resolved)
        if not _is_json(value):
            raise Refused(
                "PYT019",
                default,
                f"the default of {name} is no plain value: a number, text, list or dict of JSON",
                "write a list: a plan is given JSON, which has no tuples"
                if isinstance(value, tuple)
                else f"write {name}=None, and compute the value in the function if it is None",
            )
        if value is None and not isinstance(kind, types.Maybe) and kind is not types.Basic.JSON:
            kind = types.Maybe(kind)
        return tree.Input(name, kind, cast("JSON", value), is_required=False, is_secret=is_secret, span=span)


def _is_json(value: object) -> bool:
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    if isinstance(value, list):
        return all(map(_is_json, cast("list[object]", value)))
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value)
        return all(isinstance(key, str) for key in pairs) and all(map(_is_json, pairs.values()))
    return False
