"""Draws trees at random: every construct, over variables that hold secrets, open data, or both."""

from __future__ import annotations

from functools import partial
from random import Random

NAMES = ("a", "b", "c", "d")
"""The variables of each body; all are set at its beginning."""
_GROUPS = (
    "",
    " STOP",
    " FIRST",
    " AS DONE",
    " MAX 1",
    " MAX 2",
    " MAX 2 STOP",
    " MAX 2 FIRST",
    " MAX 1 FIRST",
)
_REMEDIES = ("CONTINUE", "USE (0)", "@RETRY(1)", 'TERMINATE ("no")')
_KINDS = ("", "TOOL ", "TIMEOUT ", "CANCELLED, TIMEOUT ", "REQUIRE, FAIL ", "TIMEOUT, TOOL ", "DENIED ")
_FAILURES = ('FAIL ("no")',) * 3 + tuple(
    f'FAIL ("no", kind="{kind}")' for kind in ("DENIED", "CANCELLED", "NOT_UNDONE")
)


class Drawing:
    """The text of one plan; `bits` allows what reveals single bits: tests of presence, handled calls, and
    groups and time limits, of which time decides how far they come.
    """

    def __init__(self, seed: int, *, bits: bool) -> None:
        self._dice = Random(seed)
        self._bits = bits
        self._count = 0
        self._lines: list[str] = []
        self._in_sub_plan = False

    def text(self) -> str:
        """The lines of the plan."""
        self._in_sub_plan = True
        for name in ("p", "q")[: self._dice.randrange(3)]:
            self._lines.append(f"PLAN {name} ($a: json, $b: json) {{")
            self._lines += ['LET $c = "0"', "LET $d = 1"]
            self._block(2, loops=0, scope=NAMES, calls="p" if name == "q" else "")
            self._lines += [f"RETURN ({self._expression(NAMES)})", "}"]
        self._in_sub_plan = False
        known = "".join(line[5] for line in self._lines if line.startswith("PLAN "))
        first = "INPUT $a: json" if self._bits else "X1: @SECRET () > $a"
        self._lines += [first, "LET $b = 0", 'LET $c = "1"', "X2: @OPEN (x=1) > $d"]
        self._block(3, loops=0, scope=NAMES, calls=known)
        self._lines.append(f"X3: @SEND (x={self._dice.choice(('1', self._expression(NAMES)))})")
        return "\n".join(self._lines)

    def _id(self) -> str:
        self._count += 1
        return f"S{self._count}"

    def _variable(self, scope: tuple[str, ...]) -> str:
        return "$" + self._dice.choice(scope)

    def _expression(self, scope: tuple[str, ...], depth: int = 0) -> str:  # noqa: PLR0911, PLR0912 - a case each
        dice, inner = self._dice, lambda: self._expression(scope, depth + 1)
        if depth > 2 or dice.random() < 0.45:
            return dice.choice((self._variable(scope), self._variable(scope), "0", "1", '"x"', "None"))
        match dice.randrange(23):
            case 0:
                return f"[{inner()}, {inner()}]"
            case 1:
                return f"[{inner()}, {inner()}][{dice.choice(('0', '1', inner()))}]"
            case 2:
                return f'{{"k": {inner()}, "m": {inner()}}}'
            case 3:
                return f"{self._variable(scope)}.k"
            case 4:
                return f"({inner()} if {self._condition(scope, depth + 1)} else {inner()})"
            case 5:
                return f"({self._variable(scope)}.k? ?? {inner()})"
            case 6:
                return f'"${{{self._variable(scope)}}}"'
            case 7:
                return f"str({inner()})"
            case 8:
                return f"len(str({inner()}))"
            case 9:
                return f"[i for i in [0, 1, 2] if {self._condition(scope, depth + 1)}]"
            case 10:
                return f"({inner()} or {inner()})"
            case 12:
                return f"({inner()} + {inner()})"
            case 13:
                return f"sorted([{inner()}, {inner()}])[0]"
            case 14:
                times = f"len(str({inner()}))" if dice.random() < 0.5 else inner()
                return f"({dice.choice((inner(), '[0]', self._variable(scope)))} * ({times} - 1))"
            case 15:
                return f"{self._variable(scope)}[{dice.choice((':', '1:', '0:'))}len(str({inner()}))]"
            case 16:
                return f"str({inner()})[len(str({inner()})) - 2:{dice.choice(('', '2'))}]"
            case 17:
                order = dice.choice(
                    ("sorted([{}, {}], key={})[0]", "min({}, {}, key={})", "max([{}, {}], key={})")
                )
                return order.format(inner(), inner(), f"lambda i: {self._condition(scope, depth + 1)}")
            case 18:
                return f'{{str({inner()}): {inner()}, "x": None}}.{dice.choice("xa")}'
            case 19:
                return f"({inner()} {dice.choice(('in', 'not in'))} [{inner()}, {inner()}])"
            case 20:
                return f"list(set([str({inner()}), 1]) {dice.choice('-&^')} set([str({inner()}), 1]))"
            case 21:
                return f"{inner()}[0]"
            case 11:
                return f'{{"k": {inner()}, "m": {inner()}}}.{dice.choice("kmn")}'
            case _:
                return f"int(str({inner()}))"

    def _sent(self, scope: tuple[str, ...]) -> str:
        fixed = self._dice.random() < (0.85 if self._bits else 0.6)
        return self._dice.choice("12") if fixed else self._expression(scope)

    def _condition(self, scope: tuple[str, ...], depth: int = 0) -> str:
        dice = self._dice
        if self._bits and dice.random() < 0.3:
            return f"{self._variable(scope)} is {dice.choice(('', 'not '))}None"
        left, right = f"str({self._expression(scope, depth + 1)})", dice.choice(('"0"', '"x"', '"a"', '"1"'))
        return f"{left} {dice.choice(('==', '!=', '<'))} {right}"

    def _block(
        self, depth: int, *, loops: int, scope: tuple[str, ...], calls: str, outer: str = "abcd"
    ) -> None:
        for _ in range(self._dice.randrange(1, 4)):
            self._statement(depth, loops, scope, calls, outer)

    def _statement(self, depth: int, loops: int, scope: tuple[str, ...], calls: str, outer: str) -> None:  # noqa: PLR0912, PLR0915
        dice, lines = self._dice, self._lines
        if self._bits and depth > 0 and outer and dice.random() < 0.35:
            self._group(depth, scope, calls, outer)
            return
        kind = dice.randrange(20 if depth > 0 else 10)
        inside = partial(self._block, depth - 1, loops=loops, scope=scope, calls=calls, outer=outer)
        if kind <= 2:
            lines.append(f"SET ${dice.choice(outer)} = {self._expression(scope)}")
        elif kind == 3:
            tool, argument = dice.choice(
                (("SECRET", "x=1"), ("OPEN", f"x={self._expression(scope)}"), ("FLAKY", "x=1"))
            )
            if tool == "FLAKY" and not self._bits and loops == 0:
                tool = "SECRET"
            remedy = dice.choice((" ON_FAIL CONTINUE", " ON_FAIL USE (0)")) if self._bits else ""
            number = self._id()
            lines.append(f"{number}: @{tool} ({argument}) > $n{number}{remedy}")
            lines.append(f"SET ${dice.choice(outer)} = $n{number}")
        elif kind in (4, 5, 6):
            lines.append(f"{self._id()}: @SEND (x={self._sent(scope)})")
        elif kind == 7:
            lines.append(f"REQUIRE ({self._condition(scope)})")
        elif kind == 8 and loops:
            lines.append(dice.choice(("BREAK", "CONTINUE", f"YIELD ({self._expression(scope)})")))
        elif kind == 9:
            if calls and dice.random() < 0.7:
                number = self._id()
                given = f"a={self._expression(scope)}, b={self._expression(scope)}"
                lines.append(f"{number}: CALL {dice.choice(calls)} ({given}) > $n{number}")
                lines.append(f"SET ${dice.choice(outer)} = $n{number}")
            else:
                word = f"RETURN ({self._expression(scope)})" if self._in_sub_plan else "@RESPOND (1)"
                lines += [
                    f"?IF ({self._condition(scope)}) {{",
                    dice.choice((word, dice.choice(_FAILURES))),
                    "}",
                ]
        elif kind in (10, 11, 12, 13):
            lines.append(f"?IF ({self._condition(scope)}) {{")
            inside()
            if dice.random() < 0.5:
                lines.append("} ELSE {")
                inside()
            lines.append("}")
        elif kind in (14, 15):
            lines.append("TRY {")
            inside()
            handler = dice.choice(
                ("ON_FAIL {", "ON_FAIL VALUE {", "ON_FAIL REQUIRE, FAIL {", "ON_FAIL DENIED, FAIL {")
            )
            is_final = dice.random() >= 0.8
            lines.append("} FINALLY {" if is_final else f"}} {handler}")
            inside()
            if not is_final and dice.random() < 0.3:
                end = "RETURN (1)" if self._in_sub_plan else "@RESPOND (1)"
                lines.append(dice.choice((end, "FAIL ($error)", *(("BREAK", "CONTINUE") if loops else ()))))
            lines.append("}")
        elif kind in (16, 17):
            number = self._id()
            source = dice.choice(("[1, 2]", "[1, 2]", self._variable(scope), f"[{self._variable(scope)}]"))
            order = dice.choice(("", f" LIMIT len(str({self._expression(scope)})) - 1")) + dice.choice(
                ("", " IN ORDER")
            )
            lines.append(f"{number}: ?FOREACH ($i{number} IN {source}){order} {{")
            sets = outer if dice.random() < 0.5 else ""
            lines.append(f"LET $w{number} = {self._expression(scope)}")
            within = (*scope, f"i{number}", f"w{number}")
            self._items(depth - 1, loops + 1, within, calls, sets)
            lines.append(f"}} > $n{number}{dice.choice(('', ' ON_FAIL SKIP') if self._bits else ('',))}")
            lines.append(f"SET ${dice.choice(outer)} = $n{number}")
        elif kind in (18, 19):
            lines.append(f"?REPEAT (max={dice.choice('123')}) {{")
            inside(loops=loops + 1)
            lines.append(f"}} UNTIL ({self._condition(scope)})")
        else:
            lines.append(f"SET ${dice.choice(outer)} = {self._expression(scope)}")

    def _items(self, depth: int, loops: int, scope: tuple[str, ...], calls: str, sets: str) -> None:
        if sets:
            self._block(depth, loops=loops, scope=scope, calls=calls, outer=sets)
            return
        dice = self._dice
        for _ in range(dice.randrange(1, 4)):
            self._lines.append(
                dice.choice(
                    (
                        f"{self._id()}: @SEND (x={self._sent(scope)})",
                        f"YIELD ({self._expression(scope)})",
                        f"REQUIRE ({self._condition(scope)})",
                        f"?IF ({self._condition(scope)}) {{\nCONTINUE\n}}",
                        f"{self._id()}: @FLAKY (x={self._expression(scope)})",
                    )
                )
            )

    def _group(self, depth: int, scope: tuple[str, ...], calls: str, outer: str) -> None:
        """A block that runs things side by side or against time, or makes another attempt."""
        dice, lines = self._dice, self._lines
        match dice.randrange(5):
            case 0:
                lines.append(f"@PARALLEL {dice.choice(('', 'STOP '))}{{")
                for _ in range(dice.randrange(2, 4)):
                    self._member(scope)
                self._caught(scope)
            case 1 | 2:
                number = self._id()
                source = dice.choice(
                    ("[1, 2]", "[1, 2, 3]", self._variable(scope), f"[{self._variable(scope)}, 1]")
                )
                how = dice.choice(_GROUPS)
                lines.append(f"{number}: ?FOREACH ($i{number} IN {source}) TOGETHER{how} {{")
                for _ in range(dice.randrange(1, 4)):
                    self._task((*scope, f"i{number}"), in_loop=True)
                remedy = dice.choice(("", " ON_FAIL SKIP", " ON_FAIL USE ([])", " ON_FAIL CONTINUE"))
                lines.append(f"}} > $n{number}{remedy}")
                lines.append(f"SET ${dice.choice(outer)} = $n{number}")
            case 3:
                lines.append(f"TRY WITHIN ({dice.choice('1248')}) {{")
                self._block(depth - 1, loops=0, scope=scope, calls=calls, outer=outer)
                self._caught(scope)
            case _:
                lines.append("TRY {")
                self._block(depth - 1, loops=0, scope=scope, calls=calls, outer=outer)
                lines.append(f"}} ON_FAIL @RETRY({dice.choice('12')}{dice.choice(('', ', delay=1'))})")

    def _member(self, scope: tuple[str, ...]) -> None:
        """A member of @PARALLEL: a statement, or a block of some."""
        start = self._dice.choice(("", "TRY {", "TRY WITHIN (1) {", "TRY WITHIN (3) {"))
        if not start:
            self._task(scope)
            return
        self._lines.append(start)
        for _ in range(self._dice.randrange(1, 4)):
            self._task(scope)
        self._caught(scope)

    def _caught(self, scope: tuple[str, ...]) -> None:
        """The end of a block, with what it does about its failure."""
        end = self._dice.choice(("}", "} FINALLY {", *[f"}} ON_FAIL {kinds}{{" for kinds in _KINDS]))
        self._lines.append(end)
        if end != "}":
            self._task(scope)
            if "ON_FAIL" in end and self._dice.random() < 0.3:
                self._lines.append("FAIL ($error)")
            self._lines.append("}")

    def _task(self, scope: tuple[str, ...], *, in_loop: bool = False) -> None:
        """A statement that sets nothing outside."""
        dice, number = self._dice, self._id()
        condition = self._condition(scope)
        choices = [
            f"{number}: @SEND (x={self._sent(scope)})",
            f"{number}: @SEND (x=1) ON_FAIL {dice.choice(_REMEDIES)}",
            f"{number}: @FLAKY (x=1)",
            f"{number}: @FLAKY (x={self._expression(scope)}) > $o{number} ON_FAIL {dice.choice(_REMEDIES)}",
            f"{number}: @SECRET (x=1)",
            f"{number}: @OPEN (x={self._expression(scope)}) > $o{number}",
            f"{number}: @WAIT ({dice.choice('123')})",
            f"REQUIRE ({condition})",
            f"?IF ({condition}) {{\n{number}: @SEND (x=1)\n}}",
            f"?IF ({condition}) {{\n{dice.choice(_FAILURES)}\n}}",
            f"TRY {{\n{number}: @FLAKY (x=1)\n}} ON_FAIL {{\n{number}b: @SEND (x=1)\n}}",
            f"TRY WITHIN (2) {{\n{number}: @SECRET (x=2)\n{number}b: @SEND (x=1)\n}}",
        ]
        dice.shuffle(choices)
        self._lines.append(
            f"YIELD ({self._expression(scope)})" if in_loop and dice.random() < 0.3 else choices[0]
        )
