"""What may stand where in a version 2 plan: ids, words, handlers, members of @PARALLEL, types and sub-plans.

In: the tree alone; no values, no tools. CHK016, CHK020, CHK021, CHK041, CHK042, CHK104 to CHK111.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from callsheet.diagnostics import Severity
from callsheet.ir.expression import Variable
from callsheet.ir.failing import BY_NAME, Failing
from callsheet.ir.inputs import NotOfType, read_value
from callsheet.ir.own_budgets import TOKENS, amount_of, budget_arguments
from callsheet.ir.scopes import Scope, Scopes
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Ends,
    Foreach,
    GoOn,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Say,
    Skip,
    Statement,
    SubPlan,
    Tree,
    Try,
    Use,
    Word,
    inner_blocks,
    is_single,
    recovery_of,
    statements,
    variables_read,
    variables_set,
)
from callsheet.ir.types import DictOf, ListOf, Maybe, Named, Record, Type
from callsheet.passes.structured.findings import Report, listed

MOST_STEPS = 10_000
"""How many statements the calls of sub-plans may add, written out."""


def repeated_ids(every: Iterable[Statement], report: Report) -> None:
    """CHK016 for an id that two statements have, at each but the first."""
    seen: set[str] = set()
    for one in every:
        if one.id in seen:
            report.add("CHK016", f"there is another step {one.id}", one, help="give each step its own id")
        seen.add(one.id)


def repeated_names(tree: Tree, report: Report) -> None:
    """CHK106 for two inputs, fields, types or sub-plans of one name."""
    _repeated(report, "two types are called {}", (name for name, _ in tree.types))
    _repeated(report, "two sub-plans are called {}", (one.name for one in tree.plans))
    _repeated(report, "two inputs are called ${}", (one.name for one in tree.inputs))
    for plan in tree.plans:
        _repeated(report, f"two inputs of {plan.name} are called ${{}}", (one.name for one in plan.inputs))
    for name, record in tree.types:
        _repeated(report, f"two fields of {name} are called {{}}", (field for field, _ in record.fields))


def _repeated(report: Report, message: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            report.add("CHK106", message.format(name), help="rename one of them")


# ---------------------------------------------------------------- types


def unknown_types(tree: Tree, every: Iterable[Statement], report: Report) -> None:
    """CHK107 for the name of a type that the plan does not declare, and for one that contains itself."""
    known = tree.named_types
    for where, statement, of in _types(tree, every):
        for name in _named(of):
            if name not in known:
                there = f"the plan declares {listed(known)}" if known else f"declare it: TYPE {name} = {{…}}"
                help_ = report.near(name, known, there)
                report.add(
                    "CHK107", f"{where} has the type {name}, which there is not", statement, help=help_
                )
    for name in _not_made_of_simpler(known):
        if name in _reached(name, known):
            report.add(
                "CHK107",
                f"the type {name} contains itself",
                help="write json where it nests",
            )


def _types(tree: Tree, every: Iterable[Statement]) -> Iterator[tuple[str, Statement | None, Type]]:
    for name, record in tree.types:
        yield f"a field of {name}", None, record
    for plan in (None, *tree.plans):
        for one in tree.inputs if plan is None else plan.inputs:
            yield f"the input ${one.name}", None, one.type
        result = tree.result if plan is None else plan.result
        if result is not None:
            yield f"the result of {'the plan' if plan is None else plan.name}", None, result
    for one in every:
        if isinstance(one, Act | Invoke | Foreach) and one.into is not None and one.into.type is not None:
            yield f"${one.into.name}", one, one.into.type
        elif isinstance(one, Let) and one.type is not None:
            yield f"${one.name}", one, one.type


def _named(of: Type) -> Iterator[str]:
    match of:
        case Named(name=name):
            yield name
        case ListOf(item=inner) | DictOf(value=inner) | Maybe(of=inner):
            yield from _named(inner)
        case Record(fields=fields):
            for _, inner in fields:
                yield from _named(inner)
        case _:
            pass


def _not_made_of_simpler(known: Mapping[str, Record]) -> list[str]:
    """The declared types that contain themselves or one that does, in the order of the text."""
    inside = {name: set(_named(record)) & known.keys() for name, record in known.items()}
    around: dict[str, list[str]] = {}
    for name, parts in inside.items():
        for part in parts:
            around.setdefault(part, []).append(name)
    left = {name: len(parts) for name, parts in inside.items()}
    simple = [name for name, count in left.items() if not count]
    while simple:
        part = simple.pop()
        del left[part]
        for name in around.get(part, ()):
            left[name] -= 1
            if not left[name]:
                simple.append(name)
    return [name for name in known if name in left]


def _reached(name: str, known: dict[str, Record]) -> set[str]:
    """The types that a declared type contains, directly or not."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        record = known.get(waiting.pop())
        fresh = set[str]() if record is None else set(_named(record)) - reached
        reached |= fresh
        waiting.extend(fresh)
    return reached


def wrong_defaults(tree: Tree, report: Report) -> None:
    """CHK125 for a default that is not of the type of its input."""
    named = tree.named_types
    for where, inputs in (("", tree.inputs), *((f" of {one.name}", one.inputs) for one in tree.plans)):
        for one in inputs:
            if one.is_required:
                continue
            try:
                read_value(one.type, one.default, named)
            except NotOfType as error:
                place = f"${one.name}{error.path}{where}"
                message = f"the default of {place} is to be {error.wanted}, not {error.found}"
                report.add("CHK125", message, span=one.span, help="write a default of the type, or none")


# ---------------------------------------------------------------- sub-plans


def sub_plans(tree: Tree, every: Iterable[Statement], report: Report) -> list[str]:
    """CHK104, CHK041, CHK042, CHK105 and CHK108: which sub-plans are called, how, and how much that makes.

    Gives their names, each after those that it calls if none calls itself.
    """
    known = {one.name: one for one in tree.plans}
    is_called = False
    for one in every:
        if isinstance(one, Invoke):
            is_called = True
            _invoke(one, known, report)
    order = _callees_first(tree, report) if is_called else None
    if order is not None:
        _expanded(tree, order, report)
    return list(known) if order is None else order


def _invoke(call: Invoke, known: dict[str, SubPlan], report: Report) -> None:
    plan = known.get(call.plan)
    if plan is None:
        there = f"the plan has {listed(known)}" if known else f"write PLAN {call.plan} (…) {{ … }}, or USE it"
        help_ = report.near(call.plan, known, there)
        report.add("CHK104", f"there is no sub-plan {call.plan}", call, help=help_)
        return
    names = [one.name for one in plan.inputs]
    given = Counter(name for name, _ in call.named)
    budget = budget_arguments(call, plan)
    for name, value in budget.items():
        if amount_of(name, value) is None:
            what = "a whole number" if name == TOKENS else "a number"
            help_ = f"write it as {what}, as in {name}={20_000 if name == TOKENS else 0.5}"
            place = getattr(value, "span", None)
            report.add(
                "CHK045",
                f"{name} of CALL {plan.name} is {what} above 0, and constant",
                call,
                span=place,
                help=help_,
            )
    for name, value in call.named:
        if name not in names and name not in budget:
            help_ = report.near(name, names, f"it takes {listed(names)}" if names else "it takes none")
            place = getattr(value, "span", None)
            report.add("CHK041", f"{plan.name} has no input {name}", call, span=place, help=help_)
    for name, count in given.items():
        if count > 1:
            report.add("CHK041", f"{plan.name} is given {name} twice", call, help="give it once")
    for one in plan.inputs:
        if one.must_be_given and one.name not in given:
            report.add("CHK042", f"{plan.name} lacks its input {one.name}", call, help=f"add {one.name}=…")


def _calls(plan: SubPlan) -> dict[str, Invoke]:
    """The sub-plans that one calls, each with the first call."""
    found: dict[str, Invoke] = {}
    for one in statements(plan.body):
        if isinstance(one, Invoke):
            found.setdefault(one.plan, one)
    return found


def _callees_first(tree: Tree, report: Report) -> list[str] | None:
    """The sub-plans, each after those that it calls; None and CHK105 for each circle of calls, if any."""
    calls = {plan.name: _calls(plan) for plan in tree.plans}
    done: dict[str, None] = {}
    found = False
    for start, first in calls.items():
        path: dict[str, Iterator[str]] = {start: iter(first)} if start not in done else {}
        while path:
            name = next(reversed(path))
            callee = next((one for one in path[name] if one in calls and one not in done), None)
            if callee is None:
                done[name] = None
                path.popitem()
            elif callee in path:
                found = True
                circle = [*list(path)[list(path).index(callee) :], callee]
                message = f"{callee} calls itself" + (f" ({' → '.join(circle)})" if len(circle) > 2 else "")
                help_ = "write a loop instead: ?FOREACH or ?REPEAT"
                report.add("CHK105", message, calls[name][callee], help=help_)
            else:
                path[callee] = iter(calls[callee])
    return None if found else list(done)


def _expanded(tree: Tree, order: list[str], report: Report) -> None:
    """CHK108 at the first call of the main plan with which its sub-plans come to too many statements."""
    bodies = {plan.name: plan.body for plan in tree.plans}
    size: dict[str, int] = {}
    for name in order:
        inside = list(statements(bodies[name]))
        size[name] = len(inside) + sum(size.get(one.plan, 0) for one in inside if isinstance(one, Invoke))
    total = 0
    for one in statements(tree.body):
        if isinstance(one, Invoke):
            total += size.get(one.plan, 0)
            if total > MOST_STEPS:
                report.add(
                    "CHK108",
                    f"with this call of {one.plan} ({size[one.plan]:,} steps written out) the sub-plans come"
                    f" to {total:,} steps; at most {MOST_STEPS:,} are possible",
                    one,
                    help="call it in a loop, which counts once",
                )
                return


# ---------------------------------------------------------------- words


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a block stands.

    `plan` is the sub-plan, None in the main plan; `loop` the innermost loop; `beside` says what runs side by
    side here, so that nothing may end early: the whole plan (`beside`), or the loop (`beside_loop`).
    """

    plan: str | None
    is_top: bool = True
    has_item: bool = False
    loop: Foreach | Repeat | None = None
    beside: str | None = None
    beside_loop: str | None = None


def misplaced_words(tree: Tree, report: Report) -> None:
    """CHK110 for a word where it means nothing, CHK111 for an early end of what runs side by side."""
    for plan in tree.plans:
        _block(plan.body, _Place(plan.name), report)
    _block(tree.body, _Place(None), report)


def _block(block: Block, place: _Place, report: Report) -> None:
    inner = replace(place, is_top=False)
    for one in block:
        if isinstance(one, Say):
            _word(one, place, report)
        recovery = recovery_of(one)
        if recovery is None and is_single(one):
            continue
        if recovery is not None:
            _recovery(one, recovery, place, report)
            _handlers(one, recovery, report)
        blocks = list(inner_blocks(one))
        if isinstance(one, Foreach):
            kind = f"the items of {one.id} run TOGETHER" if one.together else None
            body = replace(
                inner, has_item=True, loop=one, beside=kind or inner.beside, beside_loop=kind or None
            )
            _block(blocks.pop(0), body, report)
        elif isinstance(one, Repeat):
            _block(blocks.pop(0), replace(inner, loop=one, beside_loop=None), report)
        elif isinstance(one, Parallel):
            kind = "the members of @PARALLEL run side by side"
            _block(blocks.pop(0), replace(inner, beside=kind, beside_loop=kind), report)
        for each in blocks:
            _block(each, inner, report)


def _word(one: Say, place: _Place, report: Report) -> None:
    match one.word:
        case Word.RESPOND | Word.TERMINATE:
            _end_of_run(one, one.word.value, place, report)
        case Word.RETURN:
            if place.beside is not None:
                _beside(one, "RETURN", place.beside, report)
            elif len(one.values) > 1:
                report.add("CHK110", "RETURN gives one value", one, help="put them into a list or a dict")
        case Word.BREAK | Word.CONTINUE:
            if place.loop is None:
                message = f"{one.word.value} stands outside a loop"
                report.add("CHK110", message, one, help="it belongs into the body of ?FOREACH or ?REPEAT")
            elif place.beside_loop is not None:
                _beside(one, one.word.value, place.beside_loop, report)
        case Word.YIELD:
            if not place.has_item:
                message = "YIELD stands outside a ?FOREACH: there is no item whose result it could be"
                report.add("CHK110", message, one, help="LET keeps a value; RETURN ends the plan with one")
        case Word.REPLAN:
            if place.plan is not None or not place.is_top:
                message = "RE-PLAN stands inside a " + ("sub-plan" if place.plan is not None else "block")
                report.add("CHK110", message, one, help="it may stand only at the top level of the main plan")
        case Word.NOTE | Word.FAIL | Word.WAIT:
            pass


def _end_of_run(one: Statement, word: str, place: _Place, report: Report) -> None:
    if place.plan is not None:
        message = f"{word} stands in the sub-plan {place.plan}, which cannot end the run"
        help_ = "RETURN (…) ends the sub-plan with a result, FAIL (…) with a failure"
        report.add("CHK110", message, one, help=help_)
    elif place.beside is not None:
        _beside(one, word, place.beside, report)


def _beside(one: Statement, word: str, kind: str, report: Report) -> None:
    message = f"{word} ends something early, but {kind}"
    help_ = "decide after the loop or group, by what it gave"
    if "TOGETHER" in kind:
        help_ += "; or use IN ORDER in place of TOGETHER"
    report.add("CHK111", message, one, help=help_)


def _recovery(one: Statement, recovery: Recovery, place: _Place, report: Report) -> None:
    match recovery.remedy:
        case Leave():
            _end_of_run(one, "ON_FAIL TERMINATE", place, report)
        case Skip() if not isinstance(one, Foreach):
            message = "ON_FAIL SKIP stands at something that is no ?FOREACH: there is no item to leave out"
            report.add("CHK110", message, one, help="ON_FAIL CONTINUE goes on, ON_FAIL USE (…) gives a value")
        case Skip() if isinstance(one, Foreach) and one.ends is Ends.FAILED:
            message = "STOP ends the other items when one fails, but ON_FAIL SKIP leaves out those that fail"
            report.add("CHK110", message, one, help="write one of the two", severity=Severity.WARNING)
        case Use() if isinstance(one, Try | Parallel | Repeat) or (
            isinstance(one, Act | Invoke | Foreach) and one.into is None
        ):
            message = "ON_FAIL USE gives a value in place of a result, but nothing is stored here"
            help_ = "store the result (> $name), or write ON_FAIL CONTINUE"
            report.add("CHK110", message, one, help=help_, severity=Severity.WARNING)
        case Use() if isinstance(one, Compute) and len(one.into) != 1:
            message = "ON_FAIL USE gives one value in place of a result, but several or none are stored here"
            help_ = "write ON_FAIL { LET … } with each of them"
            report.add("CHK110", message, one, help=help_, severity=Severity.WARNING)
        case Skip() | Use() | GoOn() | None:
            pass


def _handlers(one: Statement, recovery: Recovery, report: Report) -> None:
    """CHK010 for a handler whose kinds the ones before it have caught."""
    caught: set[str] = set()
    catches_all = False
    for handler in recovery.handlers:
        kinds = set(handler.kinds)
        left = kinds - caught if not catches_all else (kinds - caught) & BY_NAME
        if (catches_all and not kinds) or (kinds and not left):
            report.add(
                "CHK010",
                "this ON_FAIL block is never reached: the ones before it handle its failures",
                one,
                span=handler.span,
                help="put the block without kinds last",
                severity=Severity.WARNING,
            )
        caught |= kinds
        catches_all = catches_all or not kinds


def unknown_kinds(every: Iterable[Statement], report: Report) -> None:
    """CHK010 for a handler of a kind that no failure of the plan has.

    `except ValueError` of a Python program is for VALUE and for all errors that derive from it: beside a kind
    that there is, those are no mistake.
    """
    every = list(every)
    handlers = [each for one in every if (found := recovery_of(one)) is not None for each in found.handlers]
    fails = [one for one in every if isinstance(one, Say) and one.word is Word.FAIL]
    if any(_raises_kept(one, {each.binds for each in handlers}) for one in fails):
        return  # of which kind that failure is, is known only when it is raised again
    own = {one.kind for one in fails if one.kind}
    known = [*(kind.value for kind in Failing), *sorted(own)]
    for one in every:
        recovery = recovery_of(one)
        for handler in () if recovery is None or recovery.undo is not None else recovery.handlers:
            is_met = any(kind in known for kind in handler.kinds)
            for kind in handler.kinds:
                if kind not in known and not (is_met and kind.endswith("Error")):
                    report.add(
                        "CHK010",
                        f"this ON_FAIL block waits for {kind}, a kind that no failure has",
                        one,
                        span=handler.span,
                        help=report.near(kind, known, f'FAIL ("…", kind="{kind}") would have it'),
                        severity=Severity.WARNING,
                    )


def _raises_kept(fail: Say, handled: Set[str]) -> bool:
    """Whether a FAIL may raise a failure again that was kept in a variable, not that of a handler."""
    match fail.values:
        case (Variable(name=name),):
            return fail.kind is None and name not in handled
        case _:
            return False


def changes_beside(every: Iterable[Statement], scopes: Scopes, report: Report) -> None:
    """CHK111 for a loop whose items run TOGETHER and SET a variable from outside."""
    for one in every:
        if isinstance(one, Foreach) and one.together and scopes.items[one.id].sets:
            names = listed(scopes.items[one.id].sets, "$")
            report.add(
                "CHK111",
                f"the items of {one.id} run TOGETHER, and SET {names} from outside the loop",
                one,
                help="YIELD from each item and compute from the list; or remove TOGETHER",
            )


# ---------------------------------------------------------------- members of groups


def members(every: Iterable[Statement], scopes: Scopes, report: Report) -> dict[str, dict[str, str]]:
    """CHK020 and CHK021: members of @PARALLEL that read or set what another one sets.

    Gives for each member's id the variables that other members set, with the id of the one that does.
    """
    found: dict[str, dict[str, str]] = {}
    for one in every:
        if isinstance(one, Parallel):
            found.update(_group(one, scopes, report))
    return found


def _group(group: Parallel, scopes: Scopes, report: Report) -> dict[str, dict[str, str]]:
    scope = scopes.places[group.id]
    setters: dict[str, Statement] = {}
    for member in group.members:
        for name, inner in _set_by(member, scope, scopes).items():
            other = setters.setdefault(name, member)
            if other is not member:
                report.add(
                    "CHK021",
                    f"{other.id} and {member.id} run side by side, and both set ${name}",
                    inner,
                    help="give each a variable of its own, or move one behind the group",
                )
    of_others: dict[str, dict[str, str]] = {}
    for member in group.members:
        others: dict[str, str] = {}
        for inner in statements((member,)):
            for name in variables_read(inner):
                setter = setters.get(name)
                if setter is None or setter is member or not _means(name, inner, scope, scopes):
                    continue
                if name not in others:
                    report.add(
                        "CHK020",
                        f"{member.id} reads ${name}, which {setter.id} sets at the same time",
                        inner,
                        help="move one of them out of @PARALLEL",
                    )
                others[name] = setter.id
        of_others[member.id] = others
    return of_others


def _set_by(member: Statement, scope: Scope, scopes: Scopes) -> dict[str, Statement]:
    """The variables of a group's scope or outer ones that a member sets, with the statement that does."""
    found: dict[str, Statement] = {}
    for inner in statements((member,)):
        here = scopes.places[inner.id]
        if here is scope or isinstance(inner, Assign):
            for name in variables_set(inner):
                if here is scope or _means(name, inner, scope, scopes):
                    found.setdefault(name, inner)
    return found


def _means(name: str, inner: Statement, scope: Scope, scopes: Scopes) -> bool:
    """Whether a name means at a statement inside a group a variable that the group's own scope sees."""
    for around in scopes.places[inner.id].around():
        if around is scope:
            return True
        if name in around.names or name in around.bound:
            return False
    return False
