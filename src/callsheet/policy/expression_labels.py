"""The labels of pure code: what a policy knows of the value of an expression, before a run and during it.

In: an expression, and what is known of the variables it reads. Out: its label, how the plan composes it, and
which of its failures test content. The proof and the monitor share these rules. Only constructors and paths
with literal keys narrow a label; everything else gives the join of all it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, assert_never

from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Binary,
    BinaryOp,
    Bound,
    Coalesce,
    Compared,
    Comparison,
    Comprehension,
    Conditional,
    Display,
    Expression,
    Field,
    Index,
    Kind,
    Lambda,
    Logic,
    Method,
    Slice,
    Text,
    Unary,
    UnaryOp,
    Variable,
    target_names,
    variables_in,
)
from callsheet.ir.expression import Call as Function
from callsheet.ir.expression import Mapping as Dict
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.policy.calls import Argument, Hole, Part, bare
from callsheet.policy.field_labels import either
from callsheet.policy.function_traits import (
    CHOOSING,
    CONVERSIONS,
    KEEPING,
    NO_SAYING,
    NO_TEXT,
    PATTERNS,
    SAME_BITS,
    SAME_ITEMS,
    STRIPPING,
    Decision,
    EvaluationFailures,
    is_fixed,
    may_overflow,
    parts_by_operator,
    parts_by_slice,
    split_tests,
)
from callsheet.policy.judge import Judge
from callsheet.policy.labelled import (
    FAILURE_FIELDS,
    MOST_ITEMS,
    MOST_PIECES,
    MOST_SHAPES,
    NOTHING,
    Labelled,
    Says,
    are_many,
    behind_another,
    dotted,
    has_data,
    is_data,
    is_failure,
    is_shown,
    item_of,
    literal_text,
    member_of,
    merged_parts,
    named_shape,
    number_of_items,
    one_shape,
    origins_of,
    pieces_of,
    presence_of,
    raised,
    said_by,
    ways_apart,
    ways_together,
    with_fields,
)
from callsheet.policy.plan_texts import said_by_text, texts_beside, told
from callsheet.policy.rules.base import pairs

if TYPE_CHECKING:
    from callsheet.policy.program_flow import ProgramFlow


_ONE_WAY: Mapping[str, Labelled] = {}


class ExpressionLabels(EvaluationFailures):
    """Evaluates expressions on labels; `content`, `reads`, `can_fail` collect over all evaluations.

    `variable` gives what is known of a variable, `clock` the label of the time, `literal` that of the plan's
    own texts.
    """

    __slots__ = ("_bound", "_clock", "_judge", "_literal", "_reads_several", "_variable")

    def __init__(
        self,
        judge: Judge,
        variable: Callable[[str], Labelled],
        clock: Callable[[], Label] = lambda: LITERAL,
        literal: Label | None = None,
    ) -> None:
        super().__init__()
        self._judge = judge
        self._variable: Callable[[str], Labelled] = variable
        self._clock = clock
        self._literal = judge.policy.planner if literal is None else literal
        self._bound: dict[str, Labelled] = {}
        self._reads_several = False
        """Whether a variable was read that the plan composes in several ways."""

    def result_of(self, flow: ProgramFlow, name: str, given: Mapping[str, Labelled], time: Label) -> Labelled:
        """What is known of a variable that pure code sets: it is made of the inputs that lead to it.

        `time` is the label of the clock if the code reads it.
        """
        leading = flow.inputs_of(name, given)
        values = [value for one, value in given.items() if one in leading]
        label = self._literal.join(join(value.label for value in values)).join(time)
        label = told(self._judge, flow.texts, label, spells=flow.spells)
        return Labelled(label, label, (), origins_of(values), said_by(values))

    def value(self, node: Expression) -> Labelled:
        """What is known of the value of an expression; alternatives of what it reads stay apart."""
        made = self._of_one_way((node,))
        if made is not None:
            return made[0]
        ways = self._choices((node,))
        if ways is None:
            return self._of(node)
        results = [self._under(way, node) for way in ways]
        joined = results[0]
        for result in results[1:]:
            joined = self.joined(joined, result, most=MOST_ITEMS)
        return joined

    def limit(self, node: Expression) -> Labelled:
        """What is known of the LIMIT of a loop, which must not be negative."""
        value = self.value(node)
        if not is_fixed(node):
            self.fails(value)
        return value

    def time(self, node: Expression) -> Labelled:
        """What is known of seconds or a duration, which may be none unless the plan's text has it."""
        value = self.value(node)
        if not isinstance(node, Literal):
            self.fails(value)
        return value

    def arguments(
        self, named: Iterable[tuple[str, Expression]]
    ) -> list[tuple[tuple[Argument, ...], tuple[Labelled, ...]]]:
        """The ways in which the arguments of a call may be composed, each with what is known of them."""
        pairs_ = tuple(named)
        nodes = [node for _, node in pairs_]
        known = self._of_one_way(nodes)
        ways = self._choices(nodes) if known is None else None
        made: list[tuple[tuple[Argument, ...], tuple[Labelled, ...]]] = []
        for way in (_ONE_WAY,) if ways is None else ways:
            together = known or tuple([self._under(way, node) if way else self._of(node) for node in nodes])
            for values in ways_apart(together):
                arguments = [
                    self.argument(name, value, dotted(node))
                    for (name, node), value in zip(pairs_, values, strict=True)
                ]
                made.append((tuple(arguments), values))
        return made

    def argument(self, name: str, value: Labelled, shown: str) -> Argument:
        """A value as an argument of this name; `shown` is what a message calls it."""
        if value.shapes:
            shape = one_shape(value)
            if shape is not None:
                return named_shape(shape, name)
            value = self.forgotten(value)
        label = value.label
        return bare(Argument, (name, (bare(Hole, (shown, label, None)),), label, ()))

    def _of_one_way(self, nodes: Iterable[Expression]) -> tuple[Labelled, ...] | None:
        """What is known of expressions if all that they read is composed in one way; else None."""
        before = self.content, self.reads, self.can_fail, self.fails_by_content
        self._reads_several = False
        made = tuple([self._of(node) for node in nodes])
        if not self._reads_several:
            return made
        self.content, self.reads, self.can_fail, self.fails_by_content = before
        return None

    def _choices(self, nodes: Iterable[Expression]) -> list[dict[str, Labelled]] | None:
        """The combinations of alternatives of what expressions read; None if there is only one."""
        names = dict.fromkeys(chain.from_iterable(map(variables_in, nodes)))
        return ways_together({name: self._variable(name) for name in names})

    def _under(self, way: Mapping[str, Labelled], node: Expression) -> Labelled:
        variable = self._variable

        def chosen(name: str) -> Labelled:
            return way[name] if name in way else variable(name)

        self._variable = chosen
        try:
            return self._of(node)
        finally:
            self._variable = variable

    def forgotten(self, value: Labelled) -> Labelled:
        """The value as one piece of data: if it may be an address with data in it, nobody may be shown it."""
        if not value.shapes:
            return value
        label = own = value.label
        if not own.is_public:
            for shape in value.shapes:
                label = label.join(self._judge.of_items(shape._replace(label=own)))
        fields = value.fields if label == own else None
        return bare(Labelled, (label, value.presence, (), value.origins, value.says, fields))

    def joined(self, one: Labelled, other: Labelled, *, most: int = MOST_SHAPES) -> Labelled:
        """What is known of a value that is either of both."""
        if one is other:
            return one
        label, presence = one.label.join(other.label), one.presence.join(other.presence)
        origins, says = origins_of((one, other)), one.says | other.says
        fields = either(one.fields, other.fields)
        if one.shapes and other.shapes:
            shapes = tuple(dict.fromkeys((*one.shapes, *other.shapes)))
            if len(shapes) <= most:
                return Labelled(label, presence, shapes, origins, says, fields)
        forgotten = self.forgotten(one).label.join(self.forgotten(other).label)
        fields = fields if forgotten == label else None
        return Labelled(forgotten, presence, (), origins, says, fields)

    # ------------------------------------------------------------ conditions

    def decision(self, condition: Expression, *, counts_bits: bool) -> Decision:
        """What a condition reveals; with `counts_bits` a test of presence counts like one of content."""
        contents: list[Expression] = []
        presence: list[tuple[Variable, bool]] = []
        split_tests(condition, contents, presence)
        values = [self.value(one) for one in contents]
        tested = [(self._variable(one.name), by_length) for one, by_length in presence]
        label = join(value.label for value in values)
        reveals = False
        for value, by_length in tested:
            label = label.join(value.label if counts_bits else presence_of(value, by_length=by_length))
            self.reads = self.reads.join(value.label)
        if not counts_bits:
            reveals = any(not is_shown(value.label, label) for value, _ in tested)
        return Decision(label, reveals, origins_of((*values, *(value for value, _ in tested))))

    # ------------------------------------------------------------ nodes

    def _of(self, node: Expression) -> Labelled:  # noqa: PLR0911, PLR0912 - a case for each kind of node
        match node:
            case Literal():
                return Labelled(
                    self._literal,
                    LITERAL,
                    (Argument("", (literal_text(node),), self._literal),),
                    (),
                    said_by_text(self._judge, node.value) if isinstance(node.value, str) else Says.NOTHING,
                )
            case Variable(name=name):
                value = self._variable(name)
                self.reads = self.reads.join(value.label)
                if len(value.shapes) > 1:
                    self._reads_several = True
                return value
            case Bound(name=name):
                return self._bound.get(name, NOTHING)
            case Field(target=target, name=name, is_optional=is_optional):
                return self._path(target, name, is_optional=is_optional)
            case Index(target=target, index=Literal(value=(str() | int()) as key), is_optional=is_optional):
                return self._path(target, key, is_optional=is_optional)
            case Index(target=target, index=index):
                values = (self._of(target), self._of(index))
                return self._computed(node, values, fails=not node.is_optional)
            case Slice():
                parts = (node.target, node.start, node.stop, node.step)
                values = [self._of(one) for one in parts if one is not None]
                value = with_fields(self._computed(node, values, keeps=True), values)
                says = parts_by_slice(node)
                return value if says is NO_SAYING else value._replace(says=value.says | says)
            case Unary(op=op, operand=operand):
                value = self._of(operand)
                return self._plain((value,), is_typed=op is not UnaryOp.NOT)
            case Binary():
                return self._binary(node)
            case Compared(first=first, rest=rest):
                values = self._in_turn((first, *(one for _, one in rest)), always=2)
                is_typed = any(op not in (Comparison.IS, Comparison.IS_NOT) for op, _ in rest)
                return self._plain(values, is_typed=is_typed)
            case Logic(operands=operands):
                values = self._in_turn(operands)
                return self._computed(node, values)._replace(
                    says=said_by(values), presence=join(value.label for value in values)
                )
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                decided = self.forgotten(self._of(condition)).label
                either = self._behind(decided, then), self._behind(decided, otherwise)
                return raised(self.joined(*either), decided)
            case Coalesce(left=left, right=right):
                first = self._forgiven(left)
                second = self._behind(first.label, right)
                return raised(self.joined(first, second), first.label)
            case Text():
                return self._text(node)
            case Display():
                return self._display(node)
            case Dict():
                return self._mapping(node)
            case Comprehension():
                return self._comprehension(node)
            case Lambda(body=body):
                return self._of(body)
            case Function():
                return self._call(node)
            case Method():
                return self._method(node)
        assert_never(node)

    def _behind(self, label: Label, node: Expression) -> Labelled:
        """An expression that is evaluated or not by data of this label, which its failure then tells."""
        could, self.can_fail = self.can_fail, False
        value = self._of(node)
        if self.can_fail:
            self.content = self.content.join(label)
        self.can_fail = self.can_fail or could
        return value

    def _in_turn(self, operands: Iterable[Expression], always: int = 1) -> tuple[Labelled, ...]:
        """Operands of which each is evaluated only if those before it say so, the first ones `always`."""
        values: list[Labelled] = []
        label = LITERAL
        for number, operand in enumerate(operands):
            value = self._of(operand) if number < always else self._behind(label, operand)
            label = label.join(value.label)
            values.append(value)
        return tuple(values)

    def _forgiven(self, node: Expression) -> Labelled:
        """The value left of `??`, which forgives that its path leads nowhere."""
        match node:
            case Field() | Index():
                return self._of(replace(node, is_optional=True))
            case _:
                return self._of(node)

    def _plain(self, values: Iterable[Labelled], *, is_typed: bool = True) -> Labelled:
        """A truth value or a number made of these values."""
        values = tuple(values)
        if is_typed:
            self._typed(values)
        label = join(self.forgotten(value).label if value.shapes else value.label for value in values)
        return Labelled(label, LITERAL, (), origins_of(values))

    def _binary(self, node: Binary) -> Labelled:
        left, right = self._of(node.left), self._of(node.right)
        values = (left, right)
        if node.op is BinaryOp.ADD:
            added = behind_another(left, right)
            if added is not None:
                self._typed(values)
                return added
        if may_overflow(node, left, right):
            self._fails(values)
        value = self._computed(node, values, keeps=True)
        parts = parts_by_operator(node, left, right)
        return value if parts is NO_SAYING else value._replace(says=value.says | parts)

    def _computed(
        self,
        node: Expression,
        values: Iterable[Labelled],
        *,
        fails: bool = False,
        keeps: bool = False,
        of: str = "",
    ) -> Labelled:
        """A value that is computed of these: the join of all, at its limit an address that leaks data."""
        values = tuple(values)
        if fails:
            self._fails(values)
        else:
            self._typed(values)
        known = [self.forgotten(value) for value in values]
        label = self._literal.join(join(value.label for value in known)) if known else self._literal
        presence = join((value.presence if keeps else value.label) for value in values)
        if of in NO_TEXT:
            return Labelled(
                join(value.label for value in values),
                presence if not keeps else LITERAL,
                (),
                origins_of(values),
            )
        if not label.is_public:
            label = told(self._judge, texts_beside(node, values), label)
        return Labelled(label, presence, (), origins_of(values), said_by(values))

    def _path(self, target: Expression, key: str | int, *, is_optional: bool) -> Labelled:
        """A path with a literal key, which narrows to what the plan put there."""
        value = self._of(target)
        part = self._part(value, key, is_optional=is_optional)
        if is_optional and value.fields is not None:  # whether the part is there is said by the rest
            return raised(part, value.fields.rest)
        return part

    def _part(self, value: Labelled, key: str | int, *, is_optional: bool) -> Labelled:
        if key in FAILURE_FIELDS and is_failure(value):
            return value._replace(shapes=())
        members: list[Argument] = []
        for shape in value.shapes:
            member = member_of(shape, key)
            if member is None:
                if not has_data(shape) or shape.items:
                    self.fails_by_content = self.fails_by_content or not is_optional
                members = []
                break
            members.append(member)
        self.can_fail = True  # no path forgives a value of another type
        if value.says is not NO_SAYING and not value.shapes and Says.SIZED in value.says:
            self._fails((value,))
        self.content = self.content.join(value.presence)
        if members and len(members) == len(value.shapes):
            label = join(member.label for member in members)
            shapes = tuple(dict.fromkeys(members))
            _, fields = (None, None) if value.fields is None else value.fields.at(key)
            if len(shapes) == 1 and is_data(shapes[0]):
                shapes = ()
            return Labelled(label, value.presence, shapes, value.origins, value.says, fields)
        presence = value.label if is_optional else value.presence
        known = self.forgotten(value)
        label, fields = (known.label, None) if known.fields is None else known.fields.at(key)
        return Labelled(label, presence, (), value.origins, value.says, fields)

    def _text(self, node: Text) -> Labelled:
        parts: list[Part] = []
        pieces = 0
        values: list[Labelled] = []
        label = LITERAL
        says = Says.NOTHING
        for part in node.parts:
            if isinstance(part, str):
                parts.append(part)
                label = label.join(self._literal)
                says |= said_by_text(self._judge, part)
                continue
            value = self._of(part.expression)
            values.append(value)
            self.can_fail = True  # a null in a text
            self.content = self.content.join(value.presence)
            shape = one_shape(value) if part.format is None else None
            if shape is not None and not shape.items and pieces + pieces_of(shape) <= MOST_PIECES:
                pieces += pieces_of(shape)
                parts += shape.parts
            else:
                value = self.forgotten(value)
                parts.append(Hole(dotted(part.expression), value.label))
            label = label.join(value.label)
        shape = Argument("", merged_parts(parts), label)
        presence = join(value.presence for value in values)
        return Labelled(label, presence, (shape,), origins_of(values), says | said_by(values))

    def _display(self, node: Display) -> Labelled:
        values = tuple(self._of(one) for one in node.items)
        if node.kind is Kind.SET or are_many(values):
            value = self._computed(node, values, keeps=True)
            return value._replace(says=value.says | Says.CHOSEN) if node.kind is Kind.SET else value
        items = tuple(
            self.argument("", value, dotted(one)) for one, value in zip(node.items, values, strict=True)
        )
        return self._composed(values, items, "[]")

    def _mapping(self, node: Dict) -> Labelled:
        keys = [key.value for key, _ in node.items if isinstance(key, Literal) and isinstance(key.value, str)]
        values = tuple(self._of(value) for _, value in node.items)
        if len(set(keys)) < len(node.items) or are_many(values):
            names = tuple(self._of(key) for key, _ in node.items)
            value = self._computed(node, (*values, *names), keeps=True)
            return value._replace(says=value.says | Says.CHOSEN | Says.SIZED)
        items: list[Argument] = []
        for key, (_, one), value in zip(keys, node.items, values, strict=True):
            items.append(Argument(key, (key,), self._literal))
            items.append(self.argument(key, value, dotted(one)))
        return self._composed(values, tuple(items), "{}")

    def _composed(self, values: tuple[Labelled, ...], items: tuple[Argument, ...], empty: str) -> Labelled:
        """A list or a dict of these items, which is written as `empty` without any."""
        label = self._literal.join(join(item.label for item in items))
        shape = Argument("", () if items else (empty,), label, items)
        presence = join(value.presence for value in values)  # of what is inside, for those who take it out
        return Labelled(label, presence, (shape,), origins_of(values), said_by(values))

    def items_of(self, source: Labelled) -> Labelled:
        """What is known of one item of a list."""
        shape = one_shape(source)
        if shape is not None and shape.items and pairs(shape) is None and len(shape.items) <= MOST_ITEMS:
            return Labelled(
                source.label, source.presence, tuple(dict.fromkeys(shape.items)), source.origins, source.says
            )
        return item_of(self.forgotten(source))

    def _comprehension(self, node: Comprehension) -> Labelled:
        before = dict(self._bound)
        sources: list[Labelled] = []
        conditions: list[Labelled] = []
        for clause in node.clauses:
            source = self._inner(clause.source, sources, conditions)
            sources.append(source)
            item = item_of(self.forgotten(source))
            names = tuple(target_names(clause.target))
            self._bound.update(dict.fromkeys(names, item if len(names) == 1 else item._replace(fields=None)))
            for one in clause.conditions:
                conditions.append(self._behind(join(known.label for known in conditions), one))
        tested = join(known.label for known in conditions)
        elements = [self._behind(tested, one) for one in (node.key, node.element) if one is not None]
        self._bound = before
        values = (*sources, *conditions, *elements)
        self._typed(tuple(sources))
        counts = (number_of_items(self.forgotten(source)) for source in sources)
        label = join((*counts, *(self.forgotten(value).label for value in (*conditions, *elements))))
        presence = join((join(value.presence for value in sources), join(c.label for c in conditions)))
        says = said_by(values)
        if node.key is not None or node.kind is Kind.SET:
            presence, says = presence.join(label), says | Says.CHOSEN
        return Labelled(self._literal.join(label), presence, (), origins_of(values), says)

    def _inner(self, node: Expression, outer: Sequence[Labelled], conditions: Sequence[Labelled]) -> Labelled:
        """What a clause goes through: how much work that is, which has a limit, the clauses before it decide.

        Lists that the plan makes in the clause, like a range, are as long as the plan wants.
        """
        could, self.fails_by_content = self.fails_by_content, False
        source = self._of(node)
        if self.fails_by_content:
            self.content = join((self.content, *(number_of_items(self.forgotten(one)) for one in outer)))
        self.fails_by_content = self.fails_by_content or could
        if conditions:
            self._fails(conditions)
        return source

    def _method(self, node: Method) -> Labelled:
        values = (
            self._of(node.target),
            *(self._of(one) for one in node.arguments),
            *(self._of(one) for _, one in node.named),
        )
        fails = node.name in CONVERSIONS or not node.name.islower()
        value = self._computed(node, values, fails=fails, keeps=node.name in KEEPING, of=node.name)
        is_part = node.arguments and node.name in STRIPPING
        return value._replace(says=value.says | Says.PART) if is_part else value

    def _call(self, node: Function) -> Labelled:
        name = node.function.lower()
        if name in ("now", "today"):
            return Labelled(self._clock())
        if name in SAME_BITS:
            values = tuple(self._of(one) for one in node.arguments)
            return Labelled(join(value.label for value in values), LITERAL, (), origins_of(values))
        arguments = list(node.arguments)
        values = [self._of(one) for one in arguments]
        for _, one in node.named:
            if isinstance(one, Lambda):
                item = join(value.label for value in values)
                before = dict(self._bound)
                self._bound.update({parameter: Labelled(item) for parameter in one.parameters})
                values.append(self._of(one.body))
                self._bound = before
            else:
                values.append(self._of(one))
        fails = name in CONVERSIONS
        if name in PATTERNS and not (arguments and isinstance(arguments[0], Literal)):
            fails = True
        if name == "str" and len(values) == 1 and not node.named:
            shape = one_shape(values[0])
            if shape is not None and not shape.items:
                return values[0]
        value = self._computed(node, values, fails=fails, keeps=name in KEEPING, of=name)
        if name in CHOOSING:
            value = value._replace(says=value.says | Says.CHOSEN)
        return with_fields(value, values) if name in SAME_ITEMS and not node.named else value
