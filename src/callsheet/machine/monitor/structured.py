"""The labels of a run of a plan of version 2: of each variable in its scope, of what led to each statement.

In: what the machine does, statement by statement, with the values. Out: admitted calls with the labels of
their results, or RefusedByPolicy. The rules are those of the proof: `policy.expression_labels` for pure code,
`ir.tree_flow` for what a decision, an early end or a failure governs. Pure; it keeps no values.

A machine calls, with the scope of the activation and the id of the statement:

- `begin` once; `item` and `invoked` for the scope of an item or a sub-plan, `item_done` and `returned` at
  their end;
- `tested` before a condition is evaluated, `looped` when a loop knows its items;
- `assigned` after LET, SET; `yielded`, `left` for the words that end something;
- `admit` before a call, then `succeeded` or `failed`; `computing` before a COMPUTE, then `computed`;
  `unmade` when the arguments of a call cannot be evaluated; `failed` for every statement that fails, also
  for one whose inner statement has; `caught` when a handler begins or a remedy gives the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from callsheet.ir.expression import Expression
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.tree import (
    Act,
    Assign,
    Compute,
    Ends,
    Foreach,
    If,
    Invoke,
    Let,
    Repeat,
    Require,
    Say,
    Word,
    operands,
    variables_set,
)
from callsheet.ir.types import names_values
from callsheet.machine.monitor.reads import argument_of
from callsheet.machine.monitor.tree_labels import (
    ABSENT,
    Known,
    LabelReading,
    Lists,
    Scope,
    Values,
    no_value,
    stored,
)
from callsheet.machine.monitor.variable_labels import NOTHING_SHOWN, Admitted
from callsheet.policy.calls import Argument, CallView, Hole
from callsheet.policy.disarming import addresses_within
from callsheet.policy.labelled import NOTHING, Labelled, dotted, failure_of, item_of, raised, undo_of
from callsheet.policy.program_flow import program_flow

MOST_LINKS = 16
"""The most calls of a run that open an address whose author knows it, and the most to choose from."""


class TreeLabels(LabelReading):
    """The labels of one run; raises RefusedByPolicy from `admit` and `answered`."""

    # ------------------------------------------------------------ items and sub-plans

    def item_done(self, scope: Scope, id_: str, item: Scope, *, is_undone: bool = False) -> None:
        """An item has ended, or failed: what it yielded becomes part of the list.

        `is_undone` says that the outer variables have again the values from before it.
        """
        for home, name, known in item.before if is_undone else ():
            now = home.variables[name]
            value = Labelled(
                now.value.label.join(known.value.label),
                now.value.presence.join(known.value.presence),
                (),
                known.value.origins,
            )
            home.variables[name] = Known(value, tuple(dict.fromkeys((*known.noted, *now.noted))))
        listed = scope.lists[id_]
        listed.label = listed.label.join(self._evaluator(item, id_, no_value).forgotten(item.result).label)
        listed.label = listed.label.join(item.failure)

    def invoked(self, scope: Scope, id_: str, values: Values) -> Scope:
        """The scope of a sub-plan that is called: its inputs have the labels of the arguments."""
        call = self._statements[id_]
        assert isinstance(call, Invoke)
        plan = self._tree.plan(call.plan)
        assert plan is not None
        evaluator = self._evaluator(scope, id_, values)
        given = {name: evaluator.value(value) for name, value in call.named}
        for one in plan.inputs:
            if one.name in given:
                evaluator.casts(evaluator.forgotten(given[one.name]), one.type, self._tree.named_types)
        self._may_fail(scope, call, evaluator)
        in_loop = scope.in_loop or self._governed(scope, id_).in_loop
        is_timed = scope.is_timed or self._governed(scope, id_).is_timed
        inner = Scope(self._body(plan.name, plan.body), None, self.counter(scope, id_), in_loop, is_timed)
        for one in plan.inputs:
            known = given.get(one.name, Labelled(self._literal))
            inner.variables[one.name] = Known(stored(known, evaluator, self._judge))
        return inner

    def returned(self, scope: Scope, id_: str, inner: Scope) -> None:
        """A sub-plan has ended without a failure; what it gives is checked against types then."""
        call = self._statements[id_]
        assert isinstance(call, Invoke)
        plan = self._tree.plan(call.plan)
        self._checked(scope, call, None if plan is None else plan.result, inner.result)
        self._checked(scope, call, None if call.into is None else call.into.type, inner.result)
        scope.told[id_] = inner.result.label
        self._store(scope, id_, inner.result)

    def called(self, scope: Scope, id_: str, inner: Scope) -> None:
        """A sub-plan has ended: note what is told by whether it has failed."""
        self._tell(scope, self._governed(scope, id_), inner.content, inner.caught)

    # ------------------------------------------------------------ statements without calls

    def assigned(self, scope: Scope, id_: str, values: Values) -> None:
        """LET or SET is about to store its value; `values` are those that it reads."""
        statement = self._statements[id_]
        assert isinstance(statement, Let | Assign)
        is_cast = isinstance(statement, Let) and statement.type is not None
        if not is_cast and self._is_plain(scope, statement.value):
            self._put(scope, id_, statement.name, NOTHING)
            return
        evaluator = self._evaluator(scope, id_, values, has_call=False)
        value = evaluator.value(statement.value)
        if isinstance(statement, Let):
            evaluator.casts(evaluator.forgotten(value), statement.type, self._tree.named_types)
        self._may_fail(scope, statement, evaluator)
        self._put(scope, id_, statement.name, stored(value, evaluator, self._judge))

    def tested(self, scope: Scope, id_: str, condition: Expression, values: Values) -> None:
        """A condition of ?IF, REPEAT or REQUIRE is about to be evaluated."""
        statement = self._statements[id_]
        if self._is_plain(scope, condition):
            if isinstance(statement, If):
                self._note(scope, self._governed(scope, id_).decides, self.counter(scope, id_))
            if not (isinstance(statement, Require) and scope.noted):
                return
        evaluator = self._evaluator(scope, id_, values, has_call=False)
        counts = self._counts(scope, id_) or isinstance(statement, Repeat)
        decision = evaluator.decision(condition, counts_bits=counts)
        match statement:
            case If():
                label = decision.label.join(self.counter(scope, id_))
                by = self._untrusted_in(scope, condition)
                self._note(scope, self._governed(scope, id_).decides, label, by)
                self._may_fail(scope, statement, evaluator)
            case Repeat():
                by = self._untrusted_in(scope, condition)
                self._note(scope, self._governed(scope, id_).decides, decision.label, by)
                self._may_fail(scope, statement, evaluator, decision.label)
            case _:
                self._may_fail(scope, statement, evaluator, decision.label)

    def looped(self, scope: Scope, id_: str, values: Values) -> None:
        """A loop is about to begin: its items, and how many there are, have the label of its source."""
        loop = self._statements[id_]
        assert isinstance(loop, Foreach)
        evaluator = self._evaluator(scope, id_, values, has_call=False)
        source = evaluator.forgotten(evaluator.value(loop.source))
        label = source.label
        if loop.limit is not None:
            limit = evaluator.limit(loop.limit)
            label = label.join(limit.label)
        scope.lists[id_] = Lists(label, item_of(source))
        by = self._untrusted_in(scope, loop.source)
        self._note(scope, self._governed(scope, id_).decides, label.join(self.counter(scope, id_)), by)
        self._may_fail(scope, loop, evaluator)

    def may_tell_apart(self, scope: Scope, id_: str, outer: Iterable[str]) -> bool:
        """Whether the order of calls may show that the items of a loop that begins differ in what they touch.

        They differ or they do not: that is a single bit, of the items and of what else names what is touched.
        """
        if not self._counts(scope, id_):
            return True
        listed, number = scope.lists[id_], scope.body.flow.of[id_].number
        read = [self._read(scope, name, number).label for name in outer]
        return join([listed.label, listed.item.label, *read]).readers is None

    def loop_checked(self, scope: Scope, id_: str) -> None:
        """The list of a loop is about to be checked against a type."""
        loop = self._statements[id_]
        assert isinstance(loop, Foreach)
        if loop.into is not None:
            self._checked(scope, loop, loop.into.type, Labelled(self.listed(scope, id_)))

    def loop_done(self, scope: Scope, id_: str) -> None:
        """A loop has its list."""
        loop = self._statements[id_]
        assert isinstance(loop, Foreach)
        listed = scope.lists.pop(id_)
        if loop.into is None:
            return
        presence = listed.label.join(self.counter(scope, loop.body[0].id) if loop.body else LITERAL)
        if loop.ends is Ends.FIRST:
            presence = presence.join(self._reached())
        label = presence.join(self.clock) if loop.as_done else presence
        self._put(scope, id_, loop.into.name, Labelled(label, presence, (), listed.item.origins))

    def waited(self, scope: Scope, id_: str, time: Expression, values: Values) -> Label:
        """How long a block may take, or a REPEAT waits, is about to be computed; gives its label."""
        if self._is_plain(scope, time):
            return LITERAL
        evaluator = self._evaluator(scope, id_, values, has_call=False)
        label = evaluator.time(time).label
        by = self._untrusted_in(scope, time)
        self._note(scope, self._governed(scope, id_).decides, label, by)
        self._may_fail(scope, self._statements[id_], evaluator)
        return label

    def left(self, scope: Scope, id_: str, values: Values) -> None:
        """YIELD, RETURN, BREAK, CONTINUE, FAIL, an answer: what it says, and what is not executed then."""
        statement = self._statements[id_]
        assert isinstance(statement, Say)
        evaluator = self._evaluator(scope, id_, values, has_call=False)
        is_wait = statement.word is Word.WAIT
        said = [evaluator.time(one) if is_wait else evaluator.value(one) for one in statement.values]
        pc = self.counter(scope, id_)
        if is_wait:
            self.takes_time(join(known.label for known in said))
        if said and statement.word in (Word.YIELD, Word.RETURN):
            home = scope if statement.word is Word.YIELD else scope.root
            result = raised(stored(said[0], evaluator, self._judge), pc)
            home.result = result if home.result is NOTHING else evaluator.joined(home.result, result)
        self._may_fail(scope, statement, evaluator)
        self._note(scope, self._governed(scope, id_).decides, pc)

    def edited(self, scope: Scope, name: str) -> None:
        """A person has set a variable of a scope: it is labelled like an input.

        The value may derive from the one it replaces, so its readers are restricted to those of the old one.
        """
        home = scope.home_of(name)
        known = self._enforcement.inputs.get(name, self._enforcement.given)
        before = home.variables.get(name)
        readers = None if before is None else before.value.label.readers
        noted = () if before is None else before.noted
        home.variables[name] = Known(Labelled(known.join(Label(False, readers))), noted)

    # ------------------------------------------------------------ calls

    def admit(
        self, scope: Scope, id_: str, given: Mapping[str, Any], values: Values, *, is_asked: bool = False
    ) -> tuple[Admitted, CallView]:
        """Judge a call before it is issued; `given` are the values of its arguments by name.

        Returns what is admitted and the call as it was judged. Raises RefusedByPolicy.
        """
        act = self._statements[id_]
        assert isinstance(act, Act)
        named = self._named(act, given)
        return self._admitted(scope, id_, act.tool, named, given, values, is_asked=is_asked)

    def answered(
        self,
        scope: Scope,
        id_: str,
        tool: str,
        said: Sequence[Expression],
        given: Sequence[Any],
        values: Values,
    ) -> tuple[Admitted, CallView]:
        """Judge an answer, a message or a RE-PLAN; raises RefusedByPolicy."""
        named = [(str(number), one) for number, one in enumerate(said)]
        known = {str(number): one for number, one in enumerate(given)}
        return self._admitted(scope, id_, tool, named, known, values, is_asked=False)

    def _named(self, act: Act, given: Mapping[str, Any]) -> list[tuple[str, Expression]]:
        """The arguments of a call by the names under which the machine gives them, positional ones first."""
        names = [name for name in given if name not in dict(act.named)]
        return [*zip(names, act.positional, strict=False), *act.named]

    def _admitted(
        self,
        scope: Scope,
        id_: str,
        tool: str,
        named: Sequence[tuple[str, Expression]],
        given: Mapping[str, Any],
        values: Values,
        *,
        is_asked: bool,
    ) -> tuple[Admitted, CallView]:
        statement = self._statements[id_]
        evaluator = self._evaluator(scope, id_, values)
        ways = evaluator.arguments(named)
        known = {name: part for part, (name, _) in zip(ways[0][1], named, strict=True)}
        shapes = {argument.name: argument for argument in ways[0][0]}
        arguments = tuple(
            filled(shapes[name], given[name], dotted(value)) if name in given else shapes[name]
            for name, value in named
        )
        pc = self.counter(scope, id_).join(self._literal).join(evaluator.content)
        if evaluator.can_fail and self._counts(scope, id_):
            pc = pc.join(Label(False, evaluator.reads.readers))
        governed = self._governed(scope, id_)
        recovery = statement.recovery if isinstance(statement, Act) else None
        retries = 0 if recovery is None or recovery.again is None else recovery.again.count
        by = self.deciders(scope, id_) if pc.untrusted else ()
        call = CallView(
            id_, tool, arguments, pc, retries, approved=is_asked, repeats=governed.in_rounds, decided_by=by
        )
        steps = self._steps(known.values())
        scope.told.pop(id_, None)
        shown = self._with_known_link(scope, call, values)
        admitted = self.judging.admitted(
            shown, steps, is_asked=is_asked, origins_of=lambda name: self._sources(known[name])
        )
        if shown is not call:  # which of the addresses it is tells as much as before
            sent = join(argument.label for argument in arguments)
            admitted = admitted._replace(
                result=admitted.result.join(Label(False, sent.readers)), sent=admitted.sent.join(sent)
            )
        fields = self._judge.fields(call)
        if fields is None:
            scope.fields.pop(id_, None)  # of a call before it, which has failed
        else:
            scope.fields[id_] = fields.raised(pc)
        self._may_fail(scope, statement, evaluator)
        self.takes_time(admitted.result)
        return admitted, call

    def _with_known_link(self, scope: Scope, call: CallView, values: Values) -> CallView:
        """The call, whose address is public if it stands as it is in a result whose links are known.

        Its host then learns nothing but that it was chosen: one of a few addresses, in a few calls of a run.
        """
        traits = self._judge.traits(call.tool)
        if traits is None or self._counts(scope, call.step):
            return call
        if traits.destructive or traits.on_host or self.known_links_opened >= MOST_LINKS:
            return call
        name = traits.address or traits.audience
        for number, argument in enumerate(call.arguments):
            if argument.name != name or argument.label.is_public or argument.label.is_secret:
                continue
            text = argument.text
            if text is None or text not in self.known_links(scope, values):
                return call
            self.known_links_opened += 1
            label = Label(argument.label.untrusted, None)
            known = argument._replace(label=label, parts=(Hole("", label, text),))
            return call._replace(arguments=(*call.arguments[:number], known, *call.arguments[number + 1 :]))
        return call

    def known_links(self, scope: Scope, values: Values) -> frozenset[str]:
        """The addresses in results whose links are known to their authors, where there are not too many."""
        found: set[str] = set()
        around: Scope | None = scope
        while around is not None:
            for name, known in around.variables.items():
                if known.has_known_links and (value := values(name)) is not ABSENT:
                    links = addresses_within(value)
                    found |= links if len(links) <= MOST_LINKS else set()
            around = around.parent
        return frozenset(found)

    def succeeded(
        self,
        scope: Scope,
        id_: str,
        admitted: Admitted,
        label: Label | None = None,
        reported: Label | None = None,
    ) -> None:
        """A call has its result, which has this label; None for that of its admission.

        `reported` is what the driver knows of the whole result, so of each of its fields.
        """
        label = admitted.result if label is None else label
        fields = scope.fields.pop(id_, None)
        if reported is not None and fields is not None:
            fields = fields.raised(reported)
        if label != (admitted.result if reported is None else admitted.result.join(reported)):
            fields = None  # something is known of it besides
        scope.told[id_] = label.join(admitted.sent)
        self.takes_time(label)
        act = self._statements[id_]
        into = act.into if isinstance(act, Act) else None
        if into is not None and into.type is not None and names_values(into.type, self._tree.named_types):
            self._checked(scope, act, into.type, Labelled(label))
        presence = self._presence(scope, id_, admitted)
        origins = tuple(self._places[step] for step in admitted.origins if step in self._places)
        self._store(scope, id_, Labelled(label, presence, (), origins, fields=fields))
        traits = self._judge.traits(act.tool) if isinstance(act, Act) else None
        if traits is not None and traits.links_known and (traits.no_echo or admitted.sent.is_public):
            for name in variables_set(act):
                if (known := scope.find(name)) is not None:
                    known.has_known_links = True
        self._call_may_fail(scope, id_, label, presence)

    def is_text(self, scope: Scope, name: str) -> None:
        """The result in a variable is a text, even if stored as what its JSON says: it has no fields."""
        known = scope.find(name)
        if known is not None and known.value.fields is not None:
            known.value = known.value._replace(fields=None)

    def _presence(self, scope: Scope, id_: str, admitted: Admitted) -> Label:
        """The label of whether a call gives a result, beyond the one bit that its data is."""
        act = self._statements[id_]
        prepared = self._judge.prepared(act.tool) if isinstance(act, Act) else None
        label = self.counter(scope, id_)
        number = scope.body.flow.of[id_].number
        for operand in operands(act):
            for name in self.names_of(operand):
                label = label.join(self._read(scope, name, number).presence)
        if prepared is not None and (prepared.is_program or prepared.tool in ("READ_FILE", "GET_WM")):
            label = label.join(admitted.result if prepared.is_program else admitted.sent)
        return Label(label.untrusted, None) if id_ in self._judge.policy.declassify else label

    def _call_may_fail(self, scope: Scope, id_: str, result: Label, presence: Label) -> Label:
        """Note what is told by whether a call failed; gives the label of that."""
        told = result if self._counts(scope, id_) else presence
        self._tell(scope, self._governed(scope, id_), LITERAL, told)
        return told

    def computing(self, scope: Scope, id_: str, values: Values) -> Admitted:
        """A COMPUTE is about to run. It needs no judgement: it touches nothing."""
        program = self._statements[id_]
        assert isinstance(program, Compute)
        evaluator = self._evaluator(scope, id_, values)
        number = scope.body.flow.of[id_].number
        given = {name: evaluator.forgotten(self._read(scope, name, number)) for name in program.names}
        flow = program_flow(program.source)
        every = join(value.label for value in given.values())
        time = self.clock.join(self.counter(scope, id_)) if flow.reads_clock else LITERAL
        every = every.join(time)
        self.takes_time(every)
        results = {name: evaluator.result_of(flow, name, given, time) for name in program.into}
        scope.computed[id_] = results
        evaluator.reads, evaluator.can_fail = every, True
        content = join(given[name].label for name in flow.tested(program.names))
        self._may_fail(scope, program, evaluator, content)
        sent = every.join(self.counter(scope, id_))
        return Admitted(sent, sent, self._steps(given.values()), (), NOTHING_SHOWN)

    def computed(self, scope: Scope, id_: str, made: Iterable[str]) -> None:
        """A COMPUTE has given these of its results."""
        results = scope.computed.get(id_, {})
        for name in made:
            if name in results:
                self._put(scope, id_, name, results[name])

    # ------------------------------------------------------------ failures

    def unmade(self, scope: Scope, id_: str, values: Values) -> None:
        """The arguments of a call cannot be evaluated: note what is told by that."""
        act = self._statements[id_]
        if isinstance(act, Act):
            evaluator = self._evaluator(scope, id_, values)
            evaluator.arguments([(str(n), one) for n, one in enumerate(operands(act))])
            self._may_fail(scope, act, evaluator)

    def failed(self, scope: Scope, id_: str, admitted: Admitted | None = None) -> Label:
        """A statement has failed, or one inside it; gives the label of the words of its failure.

        With `admitted` it is a call, whose words may repeat all that it sent.
        """
        label = self.words_of(scope, id_)
        if admitted is not None:
            label = label.join(admitted.result).join(admitted.sent)
            scope.told[id_] = admitted.result.join(admitted.sent)
            self._call_may_fail(scope, id_, label, self._presence(scope, id_, admitted))
        scope.failure = label.join(self._literal)
        return scope.failure

    def caught(self, scope: Scope, id_: str, name: str, words: Label, *, is_failure: bool) -> None:
        """A handler begins, or a remedy gives the value of a statement: `name` holds the failure or it.

        With `is_failure` it is surely the former, which always has the same fields.
        """
        place = self._places[id_]
        if is_failure:
            self._put(scope, id_, name, failure_of(words, self.counter(scope, id_), (place,)))
        else:
            self._put(scope, id_, name, Labelled(words, words, (), (place,)))

    def undoing(self, scope: Scope, id_: str, name: str, words: Label, given: Label, led: Label) -> None:
        """An ON_FAIL UNDO begins: `name` holds the failure, and what calls sent and gave that is undone.

        `led` is the label of the decisions that led to these calls.
        """
        failed = undo_of(words, self.counter(scope, id_), given, led, (self._places[id_],))
        self._put(scope, id_, name, failed)


def filled(argument: Argument, value: Any, shown: str) -> Argument:
    """An argument with the text that it has in the run: what the plan writes at its beginning stays its own.

    >>> filled(Argument("url", ("https://a.example/", Hole("x", LITERAL))), "https://a.example/7", "x").parts
    ('https://a.example/', Hole(name='x', label=Label(untrusted=False, readers=None), text='7'))
    """
    if argument.items or argument.text is not None:
        return argument
    first = argument.parts[0] if argument.parts else ""
    if (
        isinstance(value, str)
        and isinstance(first, str)
        and value.startswith(first)
        and len(argument.parts) > 1
    ):
        return argument._replace(parts=(first, Hole(shown, argument.label, value[len(first) :])))
    return argument_of(argument.name, value, argument.label, shown)
