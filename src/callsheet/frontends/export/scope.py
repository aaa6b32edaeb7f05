"""The variables that a place in a plan may read, and the rules for references and texts there.

A scope is the number of variables set, and whether there is an item of a loop; the names of its rules end
with its name. Rules are created on first use, so that a grammar has no others. The rules of scopes with
variables differ only in the names of these, so they are created once, as patterns for the scope `ANY`.
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
from callsheet.frontends.unseen import ESCAPED

_UNSEEN = ((0x00, 0x1F), *ESCAPED)
"""Characters that canonical text always escapes."""
_PLAIN = Chars((*_UNSEEN, (0x22, 0x22), (0x24, 0x24), (0x5C, 0x5C)), outside=True)
_FIRST = Chars((*_PLAIN.ranges, (0x29, 0x29)), outside=True)
_RAW = Chars((*_UNSEEN, (0x22, 0x22), (0x24, 0x24)), outside=True)
_AFTER = chars(" !#%&'()*+,/:;<=>?@]^`{|}~¡-©«¬®-±´¶-¸»¿×÷‐-‧‰-⁞₠-₿←-⏿、-〃-")
"""Characters after a reference in a string that end it: no letter, digit, `.` or `[`."""
_ESCAPE = seq("\\", chars('"\\nt$'))
_FIELD = seq(chars("A-Za-z_"), Many(chars("A-Za-z0-9_"), 0, 30))
_INDEX = Choice((Text("0"), seq(chars("1-9"), optional(chars("0-9")))))
_TAIL = 100
_MOST_REFERENCES = 4
_MOST_PARTS = 3


_NAMES = "names"
"""The prefix of the rules for the names in a scope, which are no copies of a pattern."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The readable variables: the first `bound` of the plan's own variables, and an item."""

    bound: int = 0
    has_item: bool = False
    is_any: bool = False
    """Whether this is the pattern for all scopes with variables."""

    @property
    def name(self) -> str:
        """The suffix of the names of its rules."""
        return f"{HOLE if self.is_any else self.bound}{'i' if self.has_item else ''}"

    @property
    def in_loop(self) -> Scope:
        """The same scope with an item."""
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
    """The variable of all loops: that of the options, with a number added if the name is taken."""
    taken = {*options.given, *output_names(options)}
    names = (options.item, *(f"{options.item}_{number}" for number in range(len(taken))))
    return next(name for name in names if name not in taken)


class Rules:
    """Creates the rules of one grammar on demand."""

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
        """The start rule and all rules that it uses, each after those that it uses itself."""
        rules: dict[str, Rule] = {}
        used = {name: tuple(dict.fromkeys(uses(node))) for name, node in self._rules.items()}

        def visit(name: str) -> None:
            if name in rules:
                return
            key, filler = self._pattern_of(name)
            for other in used.get(key, ()):
                visit(other.replace(HOLE, filler))
            rules[name] = Rule(self._rules[key], filler)
            if key in self._tokens:
                self._tokens.add(name)

        visit(start)
        return Grammar(start, rules, frozenset(self._tokens))

    def _pattern_of(self, name: str) -> tuple[str, str]:
        """The name of the stored rule or pattern for a name, and the filler."""
        if name in self._rules:
            return name, ""
        base, _, scope = name.rpartition("-")
        if base == _NAMES:
            return self._names_of(name, Scope(int(scope.rstrip("i")), scope.endswith("i"))), ""
        return f"{base}-{HOLE}", scope

    def rule(self, name: str, make: Callable[[], Node | None], *, is_token: bool = False) -> Node | None:
        """A reference to the rule of this name, created by `make` if new; None if `make` returns None."""
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
        """Like `rule`, for rules that always exist."""
        return self.rule(name, make, is_token=is_token) or Use(name)

    def scoped(
        self, name: str, scope: Scope, make: Callable[[Scope], Node | None], *, is_token: bool = False
    ) -> Node | None:
        """The rule of this name for a scope: a copy of the pattern if the scope has variables."""
        if scope == ANY or not self.holds(scope):
            return self.rule(f"{name}-{scope.name}", lambda: make(scope), is_token=is_token)
        pattern = self.rule(f"{name}-{HOLE}", lambda: make(ANY), is_token=is_token)
        return None if pattern is None else Use(f"{name}-{scope.name}")

    def holds(self, scope: Scope) -> bool:
        """Whether a scope has variables."""
        return bool(scope.is_any or scope.has_item or scope.bound or self.options.given)

    def numbered(self, what: str) -> int:
        """A unique number for a text; equal texts have the same."""
        return self._numbers.setdefault(what, len(self._numbers))

    def shared(self, name: str, node: Node | None, *, is_token: bool = False) -> Node | None:
        """A rule for this node, one for all equal nodes; a `Use` or `Text` is returned unchanged."""
        if node is None or isinstance(node, Use | Text):
            return node
        if node not in self._shared:
            self._shared[node] = f"{name}-{len(self._shared)}{f'-{HOLE}' if is_pattern(node) else ''}"
        return self.rule(self._shared[node], lambda: node, is_token=is_token)

    # ------------------------------------------------------------ references

    def reference(self, scope: Scope) -> Node | None:
        """A reference to a variable of the scope; None if it has none."""
        if not self.holds(scope):
            return None
        return self.scoped("ref", scope, lambda some: seq("$", _names(some), self._path()), is_token=True)

    def _names_of(self, name: str, scope: Scope) -> str:
        """Create the rule for the names of variables in a scope; returns its name."""
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
        """A string with references to variables of the scope.

        A `$` occurs in it only before a variable of the scope, or in the escape of a dollar sign.
        """
        cap = self._cap(least, most)

        def make(some: Scope) -> Node:
            begun = self._beginning(least, cap)
            if not self.holds(some):
                return seq('"', begun, '"')
            references = Many(self._within_text(some), 1, _MOST_REFERENCES)
            filled = seq(self._beginning(0, cap), references, optional(Text(".")))
            return seq('"', choice(begun, filled) or filled, '"')

        return self.scoped(f"text-{least}-{cap}", scope, make, is_token=True) or seq()

    def raw(self, least: int = 0, most: int | None = None) -> Node | None:
        """A raw string; its last character may be `$`, as in regular expressions."""
        cap = self._cap(least, most)
        if cap <= least:
            return None

        def make() -> Node:
            return seq('r"', Many(_RAW, least, cap - 1), optional(Text("$")), '"')

        return self.sure(f"raw-{least}-{cap}", make, is_token=True)

    def words(self, scope: Scope) -> Node:
        """A non-empty string, or a reference."""
        text = self.text(scope, 1)
        return self.shared("words", choice(self.reference(scope), text, self.raw(1))) or text

    def _cap(self, least: int, most: int | None) -> int:
        cap = max(self.options.max_text, least)
        return cap if most is None else min(most, cap)

    def _within_text(self, scope: Scope) -> Node:
        """A reference inside a string, and the text after it up to the next one."""

        def make(some: Scope) -> Node:
            name = seq(_names(some), self._path())
            more = self._chunk(0, min(_TAIL, self.options.max_text))
            return Choice((seq("$", name, optional(self._tail())), seq("${", name, "}", more)))

        return self.scoped("inner", scope, make, is_token=True) or seq()

    def _beginning(self, least: int, most: int) -> Node:
        """The characters at the beginning of a string."""
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
