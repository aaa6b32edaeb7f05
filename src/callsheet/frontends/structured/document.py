"""Reads a whole text of version 2: its head, its declarations, its statements, and what surrounds them.

In: a text and a name for it. Out: a `ParseResult`; no text makes it raise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from callsheet import lazy
from callsheet.diagnostics import Source
from callsheet.frontends.ltp.words import VERSION_2, header_of
from callsheet.frontends.structured.blocks import BlockReader
from callsheet.frontends.structured.lines import DECLARATIONS
from callsheet.frontends.unseen import hidden_characters
from callsheet.frontends.values.reader import ParseResult, Stop, no_step, shown
from callsheet.frontends.values.reader import replace as replace_text
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Field, Hole, Index, Text, Variable
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    Input,
    Invoke,
    Let,
    Origin,
    Statement,
    SubPlan,
    Tree,
    all_statements,
    recovery_of,
    statements,
)
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type

_SUSPECT = lazy.pattern(r"\$[A-Za-z_]\w*\.\w")
_SCALARS: Final = frozenset({Basic.STR, Basic.INT, Basic.FLOAT, Basic.BOOL})
_FAILURE: Final = Record(
    (*((name, Basic.STR) for name in ("error", "message", "kind", "step")), ("attempts", Basic.INT))
)
_T = TypeVar("_T")


def with_ended_references(tree: Tree, source: str) -> Tree:
    """The tree that was read from a text, with each reference ended where its types say so."""
    if _SUSPECT.search(source) is None:
        return tree
    plans = {one.name: one.result for one in tree.plans}

    def ended(block: Block, inputs: Iterable[Input]) -> Block:
        return _Scope(block, inputs, tree.named_types, plans).ended(block)

    bodies = tuple(replace(one, body=ended(one.body, one.inputs)) for one in tree.plans)
    return replace(tree, body=ended(tree.body, tree.inputs), plans=bodies)


class _Scope:
    """The types of the variables of a plan or sub-plan."""

    def __init__(
        self,
        block: Block,
        inputs: Iterable[Input],
        named: Mapping[str, Record],
        plans: Mapping[str, Type | None],
    ) -> None:
        self._named, self._plans = named, plans
        self._sources: dict[str, list[Type | Expression | None]] = {}
        self._items: dict[str, list[Expression]] = {}
        self._known: dict[str, Type | None] = {}
        for one in inputs:
            self._sources.setdefault(one.name, []).append(one.type)
        for statement in statements(block):
            self._read(statement)

    def _read(self, one: Statement) -> None:
        """Note what a statement sets its variables to."""
        match one:
            case Act(into=into) | Invoke(into=into) | Foreach(into=into) if into is not None:
                result = self._plans.get(one.plan) if isinstance(one, Invoke) else None
                self._sources.setdefault(into.name, []).append(into.type or result)
            case Let(name=name, value=value, type=kind):
                self._sources.setdefault(name, []).append(kind or value)
            case Assign(name=name, value=value):
                self._sources.setdefault(name, []).append(value)
            case Compute(into=names):
                for name in names:
                    self._sources.setdefault(name, []).append(None)
            case _:
                pass
        if isinstance(one, Foreach):
            self._items.setdefault(one.var, []).append(one.source)
        recovery = recovery_of(one)
        for handler in () if recovery is None else recovery.handlers:
            self._sources.setdefault(handler.binds, []).append(_FAILURE)

    def _of_variable(self, name: str) -> Type | None:
        """The type of a variable, if all that sets it agrees on one."""
        if name not in self._known:
            self._known[name] = None  # while it is looked for: a value may depend on itself
            kinds = [self._of_source(one) for one in self._sources.get(name, ())]
            kinds += [self._item(self.of(one)) for one in self._items.get(name, ())]
            is_one = bool(kinds) and all(kind == kinds[0] for kind in kinds)
            self._known[name] = kinds[0] if is_one else None
        return self._known[name]

    def _of_source(self, one: Type | Expression | None) -> Type | None:
        if one is None or isinstance(one, Basic | ListOf | DictOf | OneOf | Maybe | Named | Record):
            return one
        return self.of(one)

    def _plain(self, kind: Type | None) -> Type | None:
        """A type without `?` and names."""
        while isinstance(kind, Maybe | Named):
            kind = kind.of if isinstance(kind, Maybe) else self._named.get(kind.name)
        return kind

    def _item(self, kind: Type | None) -> Type | None:
        kind = self._plain(kind)
        return kind.item if isinstance(kind, ListOf) else None

    def of(self, node: Expression) -> Type | None:
        """The type of an expression; None where it is not known."""
        match node:
            case Literal(value=bool()):
                return Basic.BOOL
            case Literal(value=str()) | Text():
                return Basic.STR
            case Literal(value=int()):
                return Basic.INT
            case Variable(name=name):
                return self._of_variable(name)
            case Field(target=target, name=name):
                kind = self._plain(self.of(target))
                if isinstance(kind, Record):
                    return dict(kind.fields).get(name)
                return kind.value if isinstance(kind, DictOf) else None
            case Index(target=target):
                kind = self._plain(self.of(target))
                return kind.value if isinstance(kind, DictOf) else self._item(kind)
            case _:
                return None

    # ------------------------------------------------------------ texts

    def ended(self, node: _T) -> _T:
        """A part of a tree with the references in its texts ended."""
        return self._ended(node)

    def _ended(self, node: Any) -> Any:
        if isinstance(node, tuple):
            made = tuple(map(self._ended, node))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return node if all(a is b for a, b in zip(made, node, strict=True)) else made  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if not hasattr(node, "__dataclass_fields__"):
            return node
        changed: dict[str, Any] = {}
        for part in fields(node):
            value = getattr(node, part.name)
            if part.compare and value is not (made := self._ended(value)):
                changed[part.name] = made
        node = replace(node, **changed) if changed else node
        return self._ended_text(node) if isinstance(node, Text) else node

    def _ended_text(self, text: Text) -> Text:
        parts: list[str | Hole] = []
        for part in text.parts:
            made = self._split(part) if isinstance(part, Hole) and part.is_open else (part,)
            for one in made:
                if isinstance(one, str) and parts and isinstance(parts[-1], str):
                    parts[-1] += one
                else:
                    parts.append(one)
        return (
            text
            if len(parts) == len(text.parts) and parts == list(text.parts)
            else replace(text, parts=tuple(parts))
        )

    def _split(self, hole: Hole) -> tuple[str | Hole, ...]:
        """A reference without braces, and the text behind its end."""
        path: list[Field | Index] = []
        node = hole.expression
        while isinstance(node, Field | Index):
            path.insert(0, node)
            node = node.target
        for number, step in enumerate(path):
            kind = self._plain(self.of(step.target))
            if kind in _SCALARS or isinstance(kind, OneOf):
                rest = "".join(map(_written, path[number:]))
                return Hole(step.target, is_open=isinstance(step.target, Field | Index)), rest
        return (hole,)


def _written(step: Field | Index) -> str:
    """A field or an index as it stands behind a reference without braces."""
    name = (
        step.name if isinstance(step, Field) else step.index.value if isinstance(step.index, Literal) else ""
    )
    return f".{name}"


_STATEMENT = lazy.pattern(
    r"^[ \t]*(@[A-Za-z]\w*[ \t]*\(|\?(?:IF|FOREACH|REPEAT)\b|(?:LET|SET|INPUT)[ \t]+\$\w+|@PARALLEL[ \t]*\{)",
    re.MULTILINE,
)
"""What only statements begin with."""
_META = lazy.pattern(r"((?i:ltp)|id|title|goal):(?: |$)(.*)", re.DOTALL)
_FENCE = lazy.pattern(r"^[ \t]*(?:```|~~~)[^\n`]*$", re.MULTILINE)
_MARKER = lazy.pattern(r"^[ \t]*PLAN_(?:START|END)\b[ \t\r]*(?=$|#)", re.MULTILINE)
_LARGE = 20_000
"""From this many characters on the cyclic garbage collector is paused."""


def read_structured(text: str, name: str = "<plan>", *, strict: bool = False) -> ParseResult:
    """Parses a text of version 2. `name` is its name in diagnostics; `strict` makes loose spellings errors.

    >>> result = read_structured("# ltp: 2\\nLET $x = 1\\n@RESPOND ($x + 1)")
    >>> [type(one).__name__ for one in result.plan.tree.body], result.diagnostics
    (['Let', 'Say'], ())
    """
    return read_document(Document(text), name, strict=strict)


def read_document(document: Document, name: str, *, strict: bool) -> ParseResult:
    """What a reader of a text makes of it."""
    with gc_paused(len(document.text) >= _LARGE):
        return _read(document, name, strict)


def _read(document: Document, name: str, strict: bool) -> ParseResult:
    text = document.text
    tree = document.read()
    diagnostics = document.diagnostics
    diagnostics.extend(hidden_characters(text))
    if not document.found and not any(d.is_error for d in diagnostics):
        diagnostics.append(no_step(text))
    meta = document.meta
    partial = plan_of_tree(
        with_ids(with_ended_references(tree, text)),
        id=meta.get("id"),
        title=meta.get("title"),
        goal=meta.get("goal"),
        comments=tuple(document.comments),
    )
    return ParseResult.of(partial, diagnostics, Source(name, text), document.lost, strict=strict)


class Document(BlockReader):
    """The parser of one text and what it has found besides statements."""

    __slots__ = ("found", "inputs", "meta", "plans", "result", "types")

    def __init__(self, text: str) -> None:
        super().__init__(text, 1 if text.startswith("\ufeff") else 0)
        self.meta: dict[str, str] = {}
        self.types: dict[str, Record] = {}
        self.inputs: dict[str, Input] = {}
        self.plans: dict[str, SubPlan] = {}
        self.result: Type | None = None
        self.found = False
        """Whether there is a statement, right or wrong."""

    def read(self) -> Tree:
        """Parse the text; its statements have the ids that are written."""
        end = self._surroundings()
        whole = self.text
        comments = self._head()
        self.text = whole[:end]  # offsets stay those of the whole text
        body = self.block(None, [], comments)
        self.text = whole
        self.found = self.found or bool(body) or bool(self.plans) or self.errors > 0
        plans = tuple(self.plans.values())
        tree = Tree(body, tuple(self.inputs.values()), tuple(self.types.items()), plans, self.result)
        self._check_ids(tree)
        return tree

    # ------------------------------------------------------------ the head, and prose

    def _surroundings(self) -> int:
        """Skip what is before the header and cut what is behind a closing fence; gives the plan's end."""
        text = self.text
        header = header_of(text)
        if header is None:
            return len(text)
        start, end = header.start(), len(text)
        before = [line for line in text[self.pos : start].splitlines() if line.strip()]
        fence = _FENCE.search(text, 0, start)
        if any(not line.lstrip().startswith("#") for line in before):
            at = self.pos
            lost = _STATEMENT.search(text, at, start)
            if lost is not None:
                message = f"a statement stands before # ltp: {VERSION_2}, and would be left out"
                self.error("LTP003", message, lost.start(1), lost.end(1), help="put the header first")
            self.loose("LTP103", "this is not part of the plan and is ignored", at, start, "")
            self.pos = start
        if fence is not None:
            close = _FENCE.search(text, header.end())
            if close is not None:
                end = close.start()
                self.loose("LTP103", "this is not part of the plan and is ignored", end, len(text), "")
        return end

    def _head(self) -> list[str]:
        """Read the comments before the plan; those that say nothing about it are given."""
        comments: list[str] = []
        while (char := self.skip()) in {"\n", "#"}:
            if char == "\n":
                self.pos += 1
                continue
            start = self.pos
            self.pos = self.line_end(start)
            line = self.text[start + 1 : self.pos].removesuffix("\r").removeprefix(" ")
            found = _META.match(line)
            if found is None:
                comments.append(line.rstrip())
                continue
            name, content = found.groups()
            if name.lower() == "ltp":
                if content.strip() != str(VERSION_2):
                    message = f"version {shown(content)!r} of the language is unknown"
                    self.error("LTP003", message, start, self.pos, help=f"write # ltp: {VERSION_2} once")
            else:
                self.meta[name] = f"{self.meta[name]}\n{content}" if name in self.meta else content
        return comments

    # ------------------------------------------------------------ declarations

    def found_call(self) -> None:
        """Note that the text has a statement."""
        self.found = True

    def statement_word(self) -> str:
        """The word of a declaration at the position, in capitals; "" if none is there."""
        word = self.word()
        after = self.text[self.pos + len(word) : self.pos + len(word) + 1]
        return word.upper() if word.upper() in DECLARATIONS and after in {" ", "\t"} else ""

    def declares(self, comments: list[str], *, is_main: bool) -> bool:
        """Read a declaration or a plan marker at the position; whether there was one."""
        self.head = self.pos
        self.found = True
        marker = _MARKER.match(self.text, self.pos)
        if marker is not None:
            self.loose("LTP122", "version 2 needs no plan markers", *marker.span(), "")
            self.pos = marker.end()
            return True
        word = self.statement_word()
        if not word:
            return False
        start = self.pos
        if not is_main:
            help_ = "move it before the first step of the plan"
            raise self.error(
                "LTP210", f"{word} stands outside all blocks", start, start + len(word), help=help_
            )
        self.takes(word)
        match word:
            case "INPUT":
                self._input(start, comments)
            case "TYPE":
                self._type(start, comments)
            case "PLAN":
                self._plan(start, comments)
            case "USE":
                self._use(start, comments)
            case _:
                self.result = self.type()
                self._end(start, comments)
        return True

    def _end(self, start: int, comments: list[str]) -> str | None:
        """The remark at the end of a declaration, which its line must reach."""
        self.head_comments(start, comments)
        remark = self.remark()
        char = self.skip()
        if char not in {"", "\n"}:
            raise self.too_much(char)
        return remark

    def _input(self, start: int, comments: list[str]) -> None:
        one = self._parameter()
        help_ = self._end(start, comments)
        one = replace(one, help=help_, comments=tuple(comments), span=self.since(start))
        comments.clear()
        if one.name in self.inputs:
            raise self._twice(f"the input ${one.name}", start)
        self.inputs[one.name] = one

    def _parameter(self) -> Input:
        """`$name: type = default`, perhaps with SECRET before it."""
        is_secret = self.takes("SECRET")
        start = self.pos
        name = self.variable("for the input")
        if self.skip() != ":":
            end = self.pos
            fix = replace_text("write : str", end, end, ": str")
            help_ = "write INPUT $name: type, such as str, int, list[str] or json"
            raise self.error("LTP209", f"the input ${name} has no type", start, end, help=help_, fix=fix)
        self.pos += 1
        kind = self.type()
        if self.skip() != "=":
            return Input(name, kind, is_secret=is_secret, span=self.since(start))
        self.pos += 1
        default = self.constant(f"the default of ${name}")
        return Input(name, kind, default, is_required=False, is_secret=is_secret, span=self.since(start))

    def _type(self, start: int, comments: list[str]) -> None:
        name = self.name("the type")
        if self.skip() != "=":
            raise self.error("LTP209", "= is missing", help="write TYPE Ticket = {id: int, title: str?}")
        self.pos += 1
        record = self.record()
        remark = self._end(start, comments)
        if remark is not None:
            comments.append(remark)
        if name in self.types:
            raise self._twice(f"the type {name}", start)
        self.types[name] = record

    def _plan(self, start: int, comments: list[str]) -> None:
        name = self.name("the plan")
        inputs = self._parameters(name)
        result = None
        if self.text.startswith("->", self.pos) or self.skip() == "-":
            self.expect("-", "before the type of the result")
            self.expect(">", "before the type of the result")
            result = self.type()
        self.head_comments(self.pos, comments)
        body = self.inner(f"PLAN {name} (…)", comments)
        remark = self._end(self.pos, [])
        if remark is not None:
            comments.append(remark)
        self._add_plan(SubPlan(name, inputs, body, result, None, tuple(comments), self.since(start)), start)
        comments.clear()

    def _parameters(self, plan: str) -> tuple[Input, ...]:
        """The inputs of a sub-plan in parentheses; the comment behind one is its help."""
        if self.skip() != "(":
            help_ = f"write PLAN {plan} ($name: type) -> type {{"
            raise self.error("LTP209", f"the inputs of the plan {plan} are missing", help=help_)
        self.open()
        inputs: list[Input] = []
        while self.skip() != ")":
            waiting = tuple(self.comments)
            self.comments.clear()
            start = self.pos
            one = self._parameter()
            if any(other.name == one.name for other in inputs):
                raise self._twice(f"the input ${one.name}", start)
            self.depth -= 1
            has_comma = self.skip() == ","
            self.pos += has_comma
            help_ = self.remark()
            self.depth += 1
            inputs.append(replace(one, help=help_, comments=waiting))
            if not has_comma and self.skip() != ")":
                self.expect(")", f"at the end of the inputs of the plan {plan}")
        self.pos += 1
        self.depth -= 1
        self.skip()
        return tuple(inputs)

    def _use(self, start: int, comments: list[str]) -> None:
        name = self.name("the plan that is used")
        if not self.takes("FROM"):
            help_ = f'write USE {name} FROM "{name}.ltp", or USE {name} FROM LIBRARY "{name}@3"'
            raise self.error("LTP209", "FROM is missing", help=help_)
        is_library = self.takes("LIBRARY")
        reference = self.constant("the place of the plan")
        if not isinstance(reference, str) or not reference:
            raise self.error("LTP209", "the place of the plan is a text", start, self.pos)
        remark = self._end(start, comments)
        if remark is not None:
            comments.append(remark)
        origin = Origin(reference, is_library)
        self._add_plan(SubPlan(name, (), (), None, origin, tuple(comments), self.since(start)), start)
        comments.clear()

    def _add_plan(self, plan: SubPlan, start: int) -> None:
        if plan.name in self.plans:
            raise self._twice(f"the plan {plan.name}", start)
        self.plans[plan.name] = plan

    def _twice(self, what: str, start: int) -> Stop:
        return self.error("LTP217", f"{what} is declared twice", start, max(start, self.line_end(start)))

    def _check_ids(self, tree: Tree) -> None:
        """Report each id that is used again."""
        repeated = repeated_ids(tree)
        counts = Counter(one.id for one in all_statements(tree)) if repeated else Counter[str]()
        for one in repeated:
            at = one.span.start if one.span else 0
            free = self._free_id(one.id, counts)
            counts[free] += 1
            fix = replace_text(f"write {free}", at, at + len(one.id), free)
            message, help_ = f"the id {one.id} is used twice", "ids are unique in the whole plan"
            self.error("LTP206", message, at, at + len(one.id), help=help_, fix=fix)

    def _free_id(self, own: str, taken: Counter[str]) -> str:
        stem = own.rstrip("0123456789") or own
        number = 1
        while f"{stem}{number}" in taken:
            number += 1
        return f"{stem}{number}"


def repeated_ids(tree: Tree) -> list[Statement]:
    """The statements with a written id that another one has before them in the text."""
    written = [one for one in all_statements(tree) if one.id]
    if len({one.id for one in written}) == len(written):
        return []
    seen: set[str] = set()
    repeated: list[Statement] = []
    for one in sorted(written, key=lambda each: each.span.start if each.span else 0):
        if one.id in seen:
            repeated.append(one)
        seen.add(one.id)
    return repeated
