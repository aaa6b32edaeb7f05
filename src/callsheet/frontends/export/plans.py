"""The grammar of plans with a catalogue of tools: which steps may follow, and what each may read.

In: tools and options. Out: a `Grammar`. The variables set so far are a state of the grammar: the rule for
"step i, d variables set" allows reading only `v1` to `vd`, sets the next one, and continues with the rule
for d + 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Protocol

from callsheet.frontends.export.operations import operation
from callsheet.frontends.export.rules import Grammar, Many, Node, chars, choice, optional, separated, seq
from callsheet.frontends.export.scope import Rules, Scope
from callsheet.frontends.export.shapes import ExportOptions, Form, ToolShape, check_names
from callsheet.frontends.export.values import Values
from callsheet.frontends.ltp.words import RESERVED
from callsheet.frontends.values.printer import is_name

_MOST_LEFT_OUT = 3
_MOST_REPEATED = 3
_MOST_IN_A_BRANCH = 2


class Steps(Protocol):
    """The parts of steps. `number` is that of the step, `bound` the number of variables set."""

    def label(self, number: int) -> Node:
        """The label of the step."""
        ...

    def called(self, bound: int) -> Node | None:
        """A line with a call whose result is stored; None if nothing can be called."""
        ...

    def risked(self, bound: int, target: int) -> Node | None:
        """The same with a jump to `target` on failure; None if plans have no failure handling."""
        ...

    def guard(self, bound: int) -> Node | None:
        """A condition; None if there can be none."""
        ...

    def goto(self, target: int) -> Node:
        """A jump and the end of its line."""
        ...

    def following(self, number: int, bound: int) -> Node | None:
        """The steps from this one to the end; None if they would exceed the most steps."""
        ...


def jumps(steps: Steps, number: int, bound: int) -> Iterator[Node | None]:
    """The alternatives with a jump for the text after the label of this step, to the end of the plan.

    An item is None if there is no room for it, or nothing to call or to compare.
    """
    for count in range(1, _MOST_LEFT_OUT + 1):
        yield _left_out(steps, number, bound, count)
        yield _left_out_after_failure(steps, number, bound, count)
    for count in range(1, _MOST_REPEATED + 1):
        yield _repeated(steps, number, bound, count)
    for one, other in product(range(1, _MOST_IN_A_BRANCH + 1), repeat=2):
        yield _one_of_two(steps, number, bound, one, other)


def _left_out(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`?IF (…) THEN GOTO` past `count` steps, whose results are not readable after them."""
    behind = number + 1 + count
    return _all(
        steps.guard(bound),
        steps.goto(behind),
        _calls(steps, number + 1, bound, count),
        steps.following(behind, bound),
    )


def _left_out_after_failure(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`ON_FAIL GOTO` past `count` steps; the result of the failed call is its error."""
    behind = number + 1 + count
    return _all(
        steps.risked(bound, behind),
        _calls(steps, number + 1, bound + 1, count),
        steps.following(behind, bound + 1),
    )


def _one_of_two(steps: Steps, number: int, bound: int, one: int, other: int) -> Node | None:
    """Two branches of `one` and `other` steps; the variables that both set are set after them."""
    over = number + 1 + one
    behind = over + 1 + other
    return _all(
        steps.guard(bound),
        steps.goto(over + 1),
        _calls(steps, number + 1, bound, one),
        steps.label(over),
        steps.goto(behind),
        _calls(steps, over + 1, bound, other),
        steps.following(behind, bound + min(one, other)),
    )


def _repeated(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`count` steps, and a conditional jump back to the first of them."""
    return _all(
        steps.called(bound),
        _calls(steps, number + 1, bound + 1, count - 1),
        steps.label(number + count),
        steps.guard(bound + count),
        steps.goto(number),
        steps.following(number + count + 1, bound + count),
    )


def _calls(steps: Steps, number: int, bound: int, count: int) -> Node | None:
    """`count` calls in sequence, with their labels."""
    return _all(*(part for i in range(count) for part in (steps.label(number + i), steps.called(bound + i))))


def _all(*nodes: Node | None) -> Node | None:
    """The nodes in sequence; None if one of them is None."""
    present = [node for node in nodes if node is not None]
    return seq(*present) if len(present) == len(nodes) else None


_FEWEST_MEMBERS, _MOST_MEMBERS = 2, 4
_MOST_SAID = 4
_MOST_COMPARED = 3
_NUMBER = {"type": "number"}
_COMMENT = seq("# ", chars("A-Za-z"), Many(chars("A-Za-z0-9 ,.'-"), 0, 59), "\n")
_OPERATORS = ("==", "!=", ">", "<", ">=", "<=", "contains")


def plan_grammar(tools: Sequence[ToolShape], options: ExportOptions) -> Grammar:
    """The grammar of plans that call these tools; the last step answers or ends the plan.

    Raises ValueError for duplicate names of tools, a name that no plan can call, an invalid name of
    a variable or field, bounds that cannot be met, and an unknown operation.
    """
    _check(tools, options)
    return _Plans(tools, options).grammar()


def _check(tools: Sequence[ToolShape], options: ExportOptions) -> None:
    check_names(tools, RESERVED, options.operations)
    for name in (options.item, *options.given, *(options.fields or ())):
        if not is_name(name):
            raise ValueError(f"{name!r} is not a valid name of a variable or field")
    if min(options.max_steps, options.max_text, options.max_items) < 1:
        raise ValueError("max_steps, max_text and max_items must be at least 1")
    if not 0 <= options.min_results < options.max_steps:
        raise ValueError("min_results must be at least 0 and less than max_steps")


class _Plans:
    """Builds the rules of one grammar: values and calls by scope, steps by number and variables set."""

    def __init__(self, tools: Sequence[ToolShape], options: ExportOptions) -> None:
        self._options = options
        self._is_lean = options.form is Form.LEAN
        self._rules = Rules(options)
        self._tools = [(tool.canonical, Values(self._rules, tool.parameters)) for tool in tools]
        self._plain = Values(self._rules, {})

    def grammar(self) -> Grammar:
        """The complete grammar."""
        steps = self._steps_from(1, 0)
        if not self._is_lean:
            steps = seq(optional(seq("# ltp: 1\n")), "PLAN_START\n", steps)
        self._rules.sure("plan", lambda: steps)
        return self._rules.grammar("plan")

    def _word(self, word: str) -> str:
        return f"@{word.lower()}" if self._is_lean else word

    # ------------------------------------------------------------ steps

    def following(self, number: int, bound: int) -> Node | None:
        """The steps from this one on; None if the required results do not fit into them."""
        room = self._options.max_steps - number
        return self._steps_from(number, bound) if 0 <= room >= self._options.min_results - bound else None

    def _steps_from(self, number: int, bound: int) -> Node:
        """The steps from this one to the end."""

        def make() -> Node:
            last = self._last(bound)
            if number == self._options.max_steps:
                return seq(self.label(number), last)
            calls = self._calling(number, bound)
            alternatives = [*calls, self._ending(number, bound)]
            if bound >= self._options.min_results or not calls:
                alternatives.insert(0, last)
            if self._options.jumps:
                alternatives += jumps(self, number, bound)
            step = seq(self.label(number), choice(*alternatives) or last)
            has_group = self._options.groups and number + 2 <= self._options.max_steps
            return choice(step, self._group(number, bound) if has_group else None) or step

        return self._rules.sure(f"from-{number}-{bound}", make)

    def label(self, number: int) -> Node:
        """The label of a step, with an optional comment before it."""
        label = seq(f"S{number}: ")
        if not self._options.comments:
            return label
        return seq(optional(self._rules.sure("comment", lambda: _COMMENT, is_token=True)), label)

    def _last(self, bound: int) -> Node:
        return seq(self._end(Scope(bound)), "" if self._is_lean else "\nPLAN_END\n")

    def _calling(self, number: int, bound: int) -> tuple[Node, ...]:
        """A call and the steps after it: with its result in a variable, or without."""
        call = self.called(bound)
        if call is None:
            return ()
        stored = seq(call, self._steps_from(number + 1, bound + 1))
        following = self.following(number + 1, bound) if self._options.bare_calls else None
        act = None if following is None else self._act(Scope(bound))
        if act is None or following is None:
            return (stored,)
        lost = self._rules.sure(f"bare-{bound}", lambda: seq(act, self._failing(Scope(bound)), "\n"))
        return (stored, seq(lost, following))

    def called(self, bound: int) -> Node | None:
        """A line with a call whose result is stored; None if there can be none."""

        def make() -> Node | None:
            act = self._stored_act(bound)
            return None if act is None else seq(act, self._output(bound), self._failing(Scope(bound)), "\n")

        return self._rules.rule(f"call-to-{bound}", make)

    def _stored_act(self, bound: int) -> Node | None:
        """A call, if there is a variable left for its result."""
        return self._act(Scope(bound)) if bound < len(self._rules.outputs) else None

    def risked(self, bound: int, target: int) -> Node | None:
        """A call whose result is stored, with a jump on failure."""
        act = self._stored_act(bound)
        if act is None or not self._options.failures:
            return None
        goto = self.goto(target)
        then = choice(seq(self._retry(), self._separate_rule("blank", " "), goto), goto) or goto
        return seq(act, self._output(bound), " ON_FAIL ", then)

    def goto(self, target: int) -> Node:
        """A jump and the end of its line."""
        return self._separate_rule(f"goto-{target}", f"{self._word('GOTO')} S{target}\n")

    def guard(self, bound: int) -> Node | None:
        """A condition over the first variables."""
        return self._condition(Scope(bound))

    def _ending(self, number: int, bound: int) -> Node | None:
        """A conditional end of the plan, and the steps after it."""
        following = self.following(number + 1, bound)
        if following is None:
            return None

        def make(some: Scope) -> Node | None:
            guard = self._condition(some)
            return None if guard is None else seq(guard, self._end(some), "\n")

        end = self._rules.scoped("early", Scope(bound), make)
        return None if end is None else seq(end, following)

    def _group(self, number: int, bound: int) -> Node | None:
        act = self._act(Scope(bound))
        most = min(_MOST_MEMBERS, self._options.max_steps - number)
        if act is None or most < _FEWEST_MEMBERS:
            return None

        def members(count: int) -> Node:
            line = seq(f"  S{number + count}: ", act, self._output(bound + count))
            member = seq(line, self._failing(Scope(bound)), "\n")
            closed = seq("}\n", self._steps_from(number + count + 1, bound + count + 1))
            if count == 0:
                return seq(member, members(1))
            return seq(member, closed if count + 1 == most else choice(closed, members(count + 1)) or closed)

        return seq("@PARALLEL {\n", members(0))

    # ------------------------------------------------------------ parts of a step

    def _act(self, scope: Scope) -> Node | None:
        """A call with its guards."""

        def make(some: Scope) -> Node | None:
            call = self._call(some)
            condition = self._condition(some)
            under = None if condition is None or call is None else seq(condition, call)
            return choice(call, under, self._loop(some))

        return self._rules.scoped("act", scope, make)

    def _loop(self, scope: Scope) -> Node | None:
        if not self._options.loops:
            return None
        inside = scope.in_loop
        call, condition = self._call(inside), self._condition(inside)
        if call is None:
            return None
        literal = choice(self._rules.text(Scope(), 1), self._number())
        listed = None if literal is None else separated(literal, ", ", 1, self._options.max_items)
        reference = self._rules.reference(scope)
        source = choice(reference, None if listed is None else seq("[", listed, "]"))
        each = seq(f"?FOREACH (${self._rules.item} IN ", source or "", ") THEN ")
        return seq(each, optional(condition), call)

    def _call(self, scope: Scope) -> Node | None:
        """A call of any tool or operation that `scope` allows."""

        def make(some: Scope) -> Node | None:
            alike: dict[Node, list[str]] = {}
            for name, values in self._tools:
                behind = values.call(some)
                if behind is not None:
                    alike.setdefault(behind, []).append(self._name(name))
            for name in sorted(self._options.operations):
                behind = operation(name, self._rules, some)
                if behind is not None:
                    alike.setdefault(behind, []).append(self._name(name))
            called = ((self._rules.shared("name", choice(*names)), behind) for behind, names in alike.items())
            return choice(*(seq(name, behind) for name, behind in called if name is not None))

        return self._rules.scoped("call", scope, make)

    def _name(self, name: str) -> str:
        return f"@{name.lower() if self._is_lean else name}"

    def _output(self, bound: int) -> Node:
        casts = choice(":json", ":int", ":float", ":bool", ":list") if self._options.casts else None
        cast = self._rules.shared("cast", casts)
        return seq(f" > ${self._rules.outputs[bound]}", optional(cast))

    def _failing(self, scope: Scope) -> Node:
        if not self._options.failures:
            return seq()

        def make(some: Scope) -> Node | None:
            end = self._terminate(some)
            then = seq(self._retry(), optional(seq(self._separate_rule("blank", " "), end)))
            return seq(" ON_FAIL ", choice(then, end) or end)

        return optional(self._rules.scoped("on-fail", scope, make))

    def _retry(self) -> Node:
        begin = "@retry(" if self._is_lean else "@RETRY("
        return self._separate_rule("retry", begin, chars("1-5"), ")")

    def _separate_rule(self, name: str, *parts: Node | str) -> Node:
        """A rule of its own, so that its text is not merged with adjacent texts.

        A greedy lexer that has begun a longer token does not backtrack to a shorter one.
        """
        return self._rules.sure(name, lambda: seq(*parts))

    # ------------------------------------------------------------ ends

    def _end(self, scope: Scope) -> Node:
        def make(some: Scope) -> Node | None:
            values = separated(self._rules.words(some), ", ", 1, _MOST_SAID)
            name = "@respond" if self._is_lean else "@RESPOND"
            replan = seq("@replan" if self._is_lean else "RE-PLAN", " (", self._rules.words(some), ")")
            return choice(
                None if values is None else seq(name, " (", values, ")"),
                self._terminate(some),
                replan if self._options.replans else None,
            )

        return self._rules.scoped("end", scope, make) or seq()

    def _terminate(self, scope: Scope) -> Node:
        return seq(self._word("TERMINATE"), " (", self._rules.words(scope), ")")

    # ------------------------------------------------------------ conditions

    def _condition(self, scope: Scope) -> Node | None:
        """`?IF (…) THEN ` on the variables of a scope; None if it has none."""
        if not self._options.conditions or not self._rules.holds(scope):
            return None

        def make(some: Scope) -> Node | None:
            reference = self._rules.reference(some)
            if reference is None:
                return None
            literal = choice(self._rules.text(Scope()), self._number(), "true", "false")
            compared = self._rules.shared("operator", choice(*_OPERATORS)) or reference
            right = self._rules.shared("value", choice(literal, reference)) or reference
            test = choice(
                seq(reference, " ", compared, " ", right),
                seq("IS_EMPTY(", reference, ")"),
                seq("NOT_EMPTY(", reference, ")"),
            )
            one = self._rules.shared("test", test) or reference
            single = self._rules.shared("test", choice(one, seq("NOT (", one, ")"))) or one
            more = _MOST_COMPARED - 1
            all_, any_ = Many(seq(" AND ", single), 1, more), Many(seq(" OR ", single), 1, more)
            return seq("?IF (", single, optional(choice(all_, any_)), ") THEN ")

        return self._rules.scoped("if", scope, make)

    def _number(self) -> Node | None:
        return self._plain.literal(_NUMBER, Scope())
