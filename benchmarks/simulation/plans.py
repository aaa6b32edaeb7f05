"""Random plans of both versions, as texts, from a seed alone.

They call the tools of `world`, set each variable before it is read, and end: loops are over short lists.
"""

from __future__ import annotations

from random import Random

_ONE = ("$v", "[$v, 1]", '{"k": $v}', 'str($v) + "!"', "bool($v)", "$v ?? 2", "[x for x in [$v, $v]]")
_NONE = ("1", '"x"', "None", "[1, 2, 3]", '{"k": [1, 2]}', "2 + 3")
_TESTS = ("bool($v)", "$v is None", "not $v", "$v == $v", "str($v) == 'x'")
_TOOLS = ("READ", "KEEP", "WRITE", "KEYED", "PROBED", "FAULTY", "LARGE")
_INNER = ("[1, 2]", "range(2)", "[]")
_SOURCES = ("[1, 2, 3]", "range(5)", '["x", None]', "range(9)", "[]")


def _favouring(chance: Random) -> tuple[str, ...]:
    """The tools, one of them several times."""
    return (*_TOOLS, *(chance.choice(_TOOLS),) * 6)


class _Plan:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.fuel = chance.choice((3, 5, 8, 12))
        self.tools = _favouring(chance)
        self.loops = 0
        """How many loops there are around the place."""
        self.names = 0
        self.asks = chance.random() < 0.35
        self.has_part = chance.random() < 0.4
        self.has_agents = chance.random() < 0.15

    def new(self, stem: str = "v") -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def value(self, known: list[str]) -> str:
        if not known or self.chance.random() < 0.25:
            return self.chance.choice(_NONE)
        return self.chance.choice(_ONE).replace("$v", f"${self.chance.choice(known)}")

    def test(self, known: list[str]) -> str:
        if not known:
            return self.chance.choice(("1 < 2", "2 < 1"))
        return self.chance.choice(_TESTS).replace("$v", f"${self.chance.choice(known)}")

    def body(self, known: list[str], depth: int, pad: str, least: int = 1) -> list[str]:
        lines: list[str] = []
        for _ in range(self.chance.randint(least, 3)):
            lines += self.statement(known, depth, pad)
        return lines

    def handling(self, known: list[str], pad: str, *, is_loop: bool = False) -> tuple[list[str], bool]:
        """What is said about a failure, line by line, and whether the result is set whatever happens."""
        dice = self.chance.randrange(10)
        again = f" ON_FAIL @RETRY({self.chance.randint(1, 2)}, delay={self.chance.choice((0, 1))})"
        if dice < 3:
            return [""], True
        if dice == 3:
            return [again], True
        if dice == 4:
            return [f"{again if self.chance.random() < 0.5 else ''} ON_FAIL CONTINUE"], False
        if dice == 5 or (dice == 6 and not is_loop):
            return [f" ON_FAIL USE ({self.value(known)})"], True
        if dice == 6:
            return [" ON_FAIL SKIP"], True
        kinds = self.chance.choice(("", " TOOL", " TOOL, TIMEOUT"))
        inner = self.body([*known], 0, f"{pad}  ")
        lines = [f" ON_FAIL{kinds} {{", *inner, f"{pad}}}"]
        if dice == 9:
            lines[-1] += " FINALLY {"
            lines += [*self.call([*known], f"{pad}  "), f"{pad}}}"]
        return lines, False

    def call(self, known: list[str], pad: str) -> list[str]:
        tool = self.chance.choice(self.tools)
        args = ", ".join(f"{name}={self.value(known)}" for name in self.chance.choice(("x", "xy")))
        handled, is_set = self.handling(known, pad) if self.fuel > 0 else ([""], True)
        into = ""
        if self.chance.random() < 0.7:
            name = self.new()
            into = f" > ${name}"
            if is_set:
                known.append(name)
        said = f"@{tool} ({args})"
        if self.has_agents and self.chance.random() < 0.3:
            tools = self.chance.choice(('"READ", "WRITE"', '"KEYED"', '"WRITE"'))
            said = f'@AGENT_SOLVE (goal="put things in order", tools=[{tools}], max_turns=4, parallel=2)'
        return [f"{pad}{said}{into}{handled[0]}", *handled[1:]]

    def statement(self, known: list[str], depth: int, pad: str) -> list[str]:
        self.fuel -= 1
        chance = self.chance
        if depth == 0 or self.fuel <= 0 or chance.random() < 0.55:
            if self.asks and chance.random() < (0.1 if self.loops else 0.3):
                name = self.new()
                line = f'{pad}@ASK_HUMAN ("{name}?", options=["yes", "no"]) > ${name}'
                known.append(name)
                return [line]
            if chance.random() < 0.15:
                name = self.new()
                line = f"{pad}LET ${name} = {self.value(known)}"
                known.append(name)
                return [line]
            return self.call(known, pad)
        kind = chance.randrange(7)
        inner = f"{pad}  "
        if kind <= 2:
            return self.loop(known, depth, pad)
        if kind == 3:
            lines = [f"{pad}?IF ({self.test(known)}) {{", *self.body([*known], depth - 1, inner)]
            if chance.random() < 0.5:
                lines += [f"{pad}}} ELSE {{", *self.body([*known], depth - 1, inner)]
            return [*lines, f"{pad}}}"]
        if kind == 4:
            most = chance.randint(1, 3)
            self.loops += 1
            body = self.body([*known], depth - 1, inner)
            self.loops -= 1
            return [
                f"{pad}?REPEAT (max={most}) {{",
                *body,
                f"{pad}}} UNTIL ({self.test(known)}) ON_FAIL CONTINUE",
            ]
        if kind == 5:
            calls = [line for _ in range(chance.randint(2, 3)) for line in self._plain(known, inner)]
            return [f"{pad}@PARALLEL {{", *calls, f"{pad}}}"]
        if self.has_part and chance.random() < 0.5:
            name = self.new()
            known.append(name)
            return [f"{pad}CALL part (x={self.value(known[:-1])}) > ${name}"]
        body = self.body([*known], depth - 1, inner)
        return [f"{pad}TRY {{", *body, f"{pad}}} ON_FAIL {{", *self.body([*known], 0, inner), f"{pad}}}"]

    def _plain(self, known: list[str], pad: str) -> list[str]:
        name = self.new()
        line = f"{pad}@{self.chance.choice(self.tools)} (x={self.value(known)}) > ${name}"
        return [line + self.chance.choice(("", " ON_FAIL @RETRY(1, delay=0)", " ON_FAIL CONTINUE"))]

    def loop(self, known: list[str], depth: int, pad: str) -> list[str]:
        chance, var = self.chance, self.new("i")
        mode = chance.choice(("", "", " IN ORDER", " TOGETHER", " TOGETHER MAX 2"))
        scope = [*known, var]
        self.loops += 1
        body = self.body(scope, depth - 1, f"{pad}  ")
        self.loops -= 1
        into = ""
        handled, is_set = self.handling(known, pad, is_loop=True)
        if chance.random() < 0.6:
            name = self.new()
            body.append(f"{pad}  YIELD ({self.value(scope)})")
            into = f" > ${name}"
            if is_set:
                known.append(name)
        head = f"{pad}?FOREACH (${var} IN {chance.choice(_INNER if self.loops else _SOURCES)}){mode} {{"
        return [head, *body, f"{pad}}}{into}{handled[0]}", *handled[1:]]

    def text(self) -> str:
        lines = ["# ltp: 2", "# goal: a random plan", "INPUT $a: json"]
        if self.has_part:
            own, fuel, self.has_part = ["x"], self.fuel, False
            self.fuel = 3
            body = self.body(own, 1, "  ")
            lines += ["PLAN part ($x: json) {", *body, f"  RETURN ({self.value(own)})", "}"]
            self.fuel, self.has_part = fuel, True
        known = ["a"]
        while self.fuel > 0:
            lines += self.statement(known, 2, "")
        return "\n".join([*lines, f"@RESPOND ({self.value(known)})", ""])


def _first_version(chance: Random) -> str:
    """A plan in the order of its text, with groups, loops, jumps and retries."""
    count = chance.randint(2, 7)
    lines: list[str] = []
    number = 0
    asks, tools = chance.random() < 0.3, _favouring(chance)

    def call(*, grouped: bool) -> str:
        tool = chance.choice(tools)
        guard = ""
        argument = chance.choice(("$a", "$b", '"<$a|$b>"', "7", "$c"))
        if not grouped and chance.random() < 0.4:
            source = chance.choice(("$a", "[1, 2, 3, 4, 5, 6, 7]", "$c", '["x", $b]'))
            guard, argument = f"?FOREACH ($i IN {source}) THEN ", '"$i"'
        elif chance.random() < 0.2:
            guard = f"?IF ({chance.choice(('$a == $b', 'NOT_EMPTY($a)', 'IS_EMPTY($c)'))}) THEN "
        fail = chance.choice(
            ("", "", " ON_FAIL @RETRY(1)", " ON_FAIL @RETRY(2)", f" ON_FAIL GOTO S{count + 1}")
        )
        return f"S{number}: {guard}@{tool} ({argument}) > ${chance.choice('abc')}{fail}"

    while number < count:
        if count - number >= 3 and chance.random() < 0.3:
            lines.append("@PARALLEL {")
            for _ in range(2):
                number += 1
                lines.append(f"  {call(grouped=True)}")
            lines.append("}")
            continue
        number += 1
        if asks and chance.random() < 0.3:
            lines.append(
                f'S{number}: @ASK_HUMAN ("S{number}?", options=["yes", "no"]) > ${chance.choice("abc")}'
            )
        else:
            lines.append(call(grouped=False))
    return "\n".join([*lines, f'S{count + 1}: @RESPOND ("$a", $b, $c)', ""])


def random_plan(chance: Random) -> str:
    """The text of a plan; its input is `a`."""
    return _first_version(chance) if chance.random() < 0.3 else _Plan(chance).text()
