"""What a place in a plan may read, and the rules that every such place shares: references and texts.

A scope is a number of variables that are set and whether an item of a loop is there; its rules end in
its name. Rules are made when they are first used, so that a grammar holds no others. Those of scopes that
hold something differ in the names of variables alone: they are made once, as patterns for `ANY` scope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from callsheet.frontends.export.rules import (
    HOLE,
    Chars,
    Choice,
    Grammar,
    Many,
    Node,
    Rule,
    Text,
    Use,
    chars,
    choice,
    is_pattern,
    optional,
    seq,
    uses,
)
from callsheet.frontends.export.shapes import ExportOptions, Form

_UNSEEN = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0x200E, 0x200F),
    (0x2028, 0x202E),
    (0x2066, 0x2069),
    (0xFEFF, 0xFEFF),
)
"""Characters that canonical text has as escapes alone."""
_PLAIN = Chars((*_UNSEEN, (0x22, 0x22), (0x24, 0x24), (0x5C, 0x5C)), outside=True)
_FIRST = Chars((*_PLAIN.ranges, (0x29, 0x29)), outside=True)
_RAW = Chars((*_UNSEEN, (0x22, 0x22), (0x24, 0x24)), outside=True)
_AFTER = chars(" !#%&'()*+,/:;<=>?@]^`{|}~¡-©«¬®-±´¶-¸»¿×÷‐-‧‰-⁞₠-₿←-⏿、-〃-")
"""What may follow a reference in a text so that the reference ends there: no letter, digit, `.` or `[`."""
_ESCAPE = seq("\\", chars('"\\nt$'))
_FIELD = seq(chars("A-Za-z_"), Many(chars("A-Za-z0-9_"), 0, 30))
_INDEX = Choice((Text("0"), seq(chars("1-9"), optional(chars("0-9")))))
_TAIL = 100
_MOST_REFERENCES = 4
_MOST_PARTS = 3


_NAMES = "names"
"""The rules of what a scope holds; of these each is another one."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be read: the first `bound` of the plan's own variables, and an item."""

    bound: int = 0
    has_item: bool = False
    is_any: bool = False
    """Whether it stands for each scope that holds something."""

    @property
    def name(self) -> str:
        """How the names of its rules end."""
        return f"{HOLE if self.is_any else self.bound}{'i' if self.has_item else ''}"

    @property
    def in_loop(self) -> Scope:
        """The same with an item."""
        return replace(self, has_item=True)


ANY = Scope(is_any=True)


def output_names(options: ExportOptions) -> list[str]:
    """The names of a plan's own variables, in the order in which they are set.

    >>> output_names(ExportOptions(max_steps=3, given=("v2",)))
    ['v1', 'v3', 'v4']
    """
    numbers = range(1, options.max_steps + len(options.given) + 1)
    return [name for number in numbers if (name := f"v{number}") not in options.given][: options.max_steps]


def item_name(options: ExportOptions) -> str:
    """The variable of every loop: the one that is wished for, or one like it where that is given."""
    taken = {*options.given, *output_names(options)}
    names = (options.item, *(f"{options.item}_{number}" for number in range(len(taken))))
    return next(name for name in names if name not in taken)


class Rules:
    """The rules of one grammar as they are asked for."""

    def __init__(self, options: ExportOptions) -> None:
        self.options = options
        self._rules: dict[str, Node] = {}
        self._tokens = {f"{_NAMES}-{HOLE}"}
        self._shared: dict[Node, str] = {}
        self._numbers: dict[str, int] = {}
        self._without: set[str] = set()
        self.outputs = output_names(options)
        self.item = item_name(options)

    def grammar(self, start: str) -> Grammar:
        """The rule to begin with and all that it uses, each behind those that it uses itself."""
        found: dict[str, Rule] = {}
        used = {name: tuple(dict.fromkeys(uses(node))) for name, node in self._rules.items()}

        def visit(name: str) -> None:
            if name in found:
                return
            key, filler = self._pattern_of(name)
            for other in used.get(key, ()):
                visit(other.replace(HOLE, filler))
            found[name] = Rule(self._rules[key], filler)
            if key in self._tokens:
                self._tokens.add(name)

        visit(start)
        return Grammar(start, found, frozenset(self._tokens))

    def _pattern_of(self, name: str) -> tuple[str, str]:
        """The name under which what this rule says is kept, and what fills its holes."""
        if name in self._rules:
            return name, ""
        base, _, scope = name.rpartition("-")
        if base == _NAMES:
            return self._names_of(name, Scope(int(scope.rstrip("i")), scope.endswith("i"))), ""
        return f"{base}-{HOLE}", scope

    def rule(self, name: str, make: Callable[[], Node | None], *, is_token: bool = False) -> Node | None:
        """The rule of this name, made where it is not there yet; None where nothing can be said."""
        if name in self._without:
            return None
        if name not in self._rules:
            node = make()
            if node is None:
                self._without.add(name)
                return None
            self._rules[name] = node
            if is_token:
                self._tokens.add(name)
        return Use(name)

    def sure(self, name: str, make: Callable[[], Node], *, is_token: bool = False) -> Node:
        """As `rule`, for what can always be said."""
        return self.rule(name, make, is_token=is_token) or Use(name)

    def scoped(
        self, name: str, scope: Scope, make: Callable[[Scope], Node | None], *, is_token: bool = False
    ) -> Node | None:
        """The rule of this name for a scope: a copy of the pattern where the scope holds something."""
        if scope == ANY or not self.holds(scope):
            return self.rule(f"{name}-{scope.name}", lambda: make(scope), is_token=is_token)
        pattern = self.rule(f"{name}-{HOLE}", lambda: make(ANY), is_token=is_token)
        return None if pattern is None else Use(f"{name}-{scope.name}")

    def holds(self, scope: Scope) -> bool:
        """Whether anything can be read in a scope."""
        return bool(scope.is_any or scope.has_item or scope.bound or self.options.given)

    def numbered(self, what: str) -> int:
        """A number for a text, the same whenever it is asked for."""
        return self._numbers.setdefault(what, len(self._numbers))

    def shared(self, name: str, node: Node | None, *, is_token: bool = False) -> Node | None:
        """A rule for this node, the same wherever it stands; what is a rule or a text already stays."""
        if node is None or isinstance(node, Use | Text):
            return node
        if node not in self._shared:
            self._shared[node] = f"{name}-{len(self._shared)}{f'-{HOLE}' if is_pattern(node) else ''}"
        return self.rule(self._shared[node], lambda: node, is_token=is_token)

    # ------------------------------------------------------------ references

    def reference(self, scope: Scope) -> Node | None:
        """A reference to a variable of the scope; None where none is set."""
        if not self.holds(scope):
            return None
        return self.scoped("ref", scope, lambda some: seq("$", _names(some), self._path()), is_token=True)

    def _names_of(self, name: str, scope: Scope) -> str:
        """Make the rule of what can be read in a scope; its name."""
        own = self.outputs[: scope.bound]
        items = (self.item,) if scope.has_item else ()
        self.rule(name, lambda: choice(*self.options.given, *own, *items), is_token=True)
        return name

    def _path(self) -> Node:
        if not self.options.paths:
            return Text("")
        fields = self.options.fields
        named = _FIELD if fields is None else choice(*sorted(fields))
        part = seq(".", choice(named, _INDEX) or _INDEX)
        return self.sure("path", lambda: Many(part, 0, _MOST_PARTS), is_token=True)

    # ------------------------------------------------------------ texts

    def text(self, scope: Scope, least: int = 0, most: int | None = None) -> Node:
        """A text in quotes, with references of the scope in it.

        A `$` stands in it only before a variable of the scope, or as the escape of a dollar sign.
        """
        cap = self._cap(least, most)

        def make(some: Scope) -> Node:
            begun = self._begun(least, cap)
            if not self.holds(some):
                return seq('"', begun, '"')
            references = Many(self._within_text(some), 1, _MOST_REFERENCES)
            filled = seq(self._begun(0, cap), references, optional(Text(".")))
            return seq('"', choice(begun, filled) or filled, '"')

        return self.scoped(f"text-{least}-{cap}", scope, make, is_token=True) or seq()

    def raw(self, least: int = 0, most: int | None = None) -> Node | None:
        """A raw text; a `$` may be its last character, as patterns end."""
        cap = self._cap(least, most)
        if cap <= least:
            return None

        def make() -> Node:
            return seq('r"', Many(_RAW, least, cap - 1), optional(Text("$")), '"')

        return self.sure(f"raw-{least}-{cap}", make, is_token=True)

    def words(self, scope: Scope) -> Node:
        """A text that is not empty, or a reference."""
        text = self.text(scope, 1)
        return self.shared("words", choice(self.reference(scope), text, self.raw(1))) or text

    def _cap(self, least: int, most: int | None) -> int:
        cap = max(self.options.max_text, least)
        return cap if most is None else min(most, cap)

    def _within_text(self, scope: Scope) -> Node:
        """A reference inside a text, and what stands behind it up to the next one."""

        def make(some: Scope) -> Node:
            name = seq(_names(some), self._path())
            more = self._chunk(0, min(_TAIL, self.options.max_text))
            return Choice((seq("$", name, optional(self._tail())), seq("${", name, "}", more)))

        return self.scoped("inner", scope, make, is_token=True) or seq()

    def _begun(self, least: int, most: int) -> Node:
        """Characters from the beginning of a text on."""
        if self.options.form is not Form.LEAN or not most:
            return self._chunk(least, most)
        first = self.sure("first", lambda: Choice((_FIRST, self._escape())), is_token=True)
        rest = self._chunk(max(least - 1, 0), most - 1)
        begun = self.sure(f"begun-{max(least, 1)}-{most}", lambda: seq(first, rest), is_token=True)
        return begun if least else optional(begun)

    def _chunk(self, least: int, most: int) -> Node:
        if not most:
            return Text("")
        return self.sure(f"chunk-{least}-{most}", lambda: Many(self._character(), least, most), is_token=True)

    def _character(self) -> Node:
        return self.sure("char", lambda: Choice((_PLAIN, self._escape())), is_token=True)

    def _escape(self) -> Node:
        return self.sure("escape", lambda: _ESCAPE, is_token=True)

    def _tail(self) -> Node:
        def make() -> Node:
            after_dot = Choice((chars(" "), self._escape()))
            begin = Choice((_AFTER, self._escape(), seq(".", after_dot)))
            return seq(begin, self._chunk(0, min(_TAIL, self.options.max_text)))

        return self.sure("tail", make, is_token=True)


def _names(scope: Scope) -> Node:
    return Use(f"{_NAMES}-{scope.name}")
