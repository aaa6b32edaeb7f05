# ruff: noqa: E501 - a way is a line
"""Draws plans that carry a value to a call by a chain of channels, each of another kind, inside random blocks.

Nearly every one leaks what it begins with; so none may be accepted that begins with a secret, and the same
plan must be accepted if it begins with what everybody may know.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.passes.verify_tree.corpus import plan_of
from tests.reference_interpreter import Failed, Interpreter, Scope

from callsheet.ir import tree
from callsheet.ir.types import Basic
from callsheet.machine.tree.values import conformed

VALUES = (
    "str($V)", "[str($V)][0]", '{"k": $V}.k', '{"k": str($V), "m": 1}["k"]', '"<${str($V)}>"', "str($V)[::-1]",
    '"a" if "x" in str($V) else "b"', 'str($V) or "none"', '["a", "b"][len(str($V)) % 2]', "len(str($V))",
    '{"k": 1}[str($V)]? ?? "no"', '[w for w in ["x", "a", "7"] if w in str($V)]', "sorted([str($V), \"m\"])[0]",
    'sorted(["x", "7"], key=lambda w: str($V).find(w))', 'max(["x", "7"], key=lambda w: str($V).count(w))',
    'list(zip(["p", "q"], str($V)))', '{w: 1 for w in str($V)}', '"m".join(str($V))', '"-".replace("-", str($V))',
    '[$V] + ["e"]', '{"a": $V} | {"b": 2}', 'any(w == "x" for w in str($V))', "str($V).upper().strip()",
    'str($V) == "x"', 'not str($V)', 'match("x.*", str($V))', 'enumerate(str($V))', 'range(len(str($V)))',
)  # fmt: skip
"""Expressions with the value `$V`."""
WAYS = (
    '?IF ("x" in str($V)) {\nSET $W = "1"\n}',
    '?IF ("x" in str($V)) {\nNOTE ("x")\n} ELSE {\nSET $W = "1"\n}',
    '?IF (1 == 2) {\nNOTE ("x")\n} ELSE IF (len(str($V)) > 1) {\nSET $W = "2"\n} ELSE {\nSET $W = "3"\n}',
    '?FOREACH ($iN IN ["x", "7"]) IN ORDER {\n?IF ($iN in str($V)) {\nBREAK\n}\nSET $W = $iN\n}',
    '?FOREACH ($iN IN ["x", "7"]) IN ORDER {\n?IF ($iN in str($V)) {\nCONTINUE\n}\nSET $W = $W + $iN\n}',
    '?FOREACH ($iN IN [1, 2]) IN ORDER {\nSET $W = str($V)\n?IF ($iN == 1) {\nBREAK\n}\nSET $W = "0"\n}',
    '?FOREACH ($iN IN [1, 2]) IN ORDER {\nSET $W = str($V)\n?IF ($iN == 2) {\nCONTINUE\n}\nSET $W = "0"\n}',
    '?FOREACH ($iN IN [1]) IN ORDER {\nTRY {\nBREAK\n} FINALLY {\nSET $W = str($V)\n}\nSET $W = "0"\n}',
    '?FOREACH ($iN IN [1, 2]) {\nYIELD ($V)\n} > $lN\nSET $W = $lN',
    '?FOREACH ($iN IN ["x", "7"]) {\n?IF ($iN in str($V)) {\nYIELD ($iN)\n}\n} > $lN\nSET $W = $lN',
    '?FOREACH ($iN IN list(str($V))) {\nYIELD (1)\n} > $lN\nSET $W = $lN',
    '?FOREACH ($iN IN [1, 2, 3]) LIMIT len(str($V)) {\nYIELD (1)\n} > $lN\nSET $W = $lN',
    '?FOREACH ($iN IN [1]) {\n?REPEAT (max=2) {\nYIELD ($V)\n} UNTIL (1 == 1)\n} > $lN\nSET $W = $lN',
    '?FOREACH ($iN IN ["x", "7"]) {\nREQUIRE ($iN in str($V))\nYIELD (1)\n} > $lN ON_FAIL SKIP\nSET $W = $lN',
    '?FOREACH ($iN IN ["x"]) {\nREQUIRE (1 == 2) "no ${str($V)}"\n} > $lN ON_FAIL {\nSET $W = $error.message\n}',
    'LET $nN = 0\n?REPEAT (max=9) {\nSET $nN = $nN + 1\n} UNTIL ($nN > len(str($V)))\nSET $W = $nN',
    'LET $nN = 0\n?REPEAT (max=9) WHILE ($nN < len(str($V))) {\nSET $nN = $nN + 1\n}\nSET $W = $nN',
    '?REPEAT (max=3) {\nSET $W = str($V)\n?IF (1 == 1) {\nBREAK\n}\nSET $W = "0"\n} UNTIL (1 == 1)',
    'LET $nN = 0\nTRY {\n?REPEAT (max=1 + len(str($V))) {\nSET $nN = $nN + 1\n} UNTIL ($nN > 1)\nSET $W = "1"\n} ON_FAIL {\nNOTE ("x")\n}',
    'LET $bN = "0"\n?REPEAT (max=3) {\nSET $W = $bN\nSET $bN = str($V)\n} UNTIL ($W != "0")',
    'TRY {\nREQUIRE ("x" in str($V))\nSET $W = "1"\n} ON_FAIL {\nNOTE ("x")\n}',
    'TRY {\nREQUIRE ("x" in str($V))\n} ON_FAIL {\nSET $W = "1"\n}',
    'TRY {\nLET $hN = int(str($V))\n} ON_FAIL VALUE {\nSET $W = "1"\n}',
    'TRY {\nLET $hN = 1 / str($V).count("x")\n} ON_FAIL {\nSET $W = "1"\n}',
    'TRY {\nLET $hN = {"x": 1}[str($V)]\n} ON_FAIL {\nSET $W = $error.message\n}',
    'TRY {\nSET $W = "1"\nLET $hN = int(str($V))\nSET $W = "2"\n} ON_FAIL {\nNOTE ("x")\n}',
    'TRY {\nLET $kN: "x" | "a" = $V\n} ON_FAIL {\nSET $W = "1"\n}',
    'TRY {\nLET $kN: int = {"x": 1}[str($V)]? ?? "no"\n} ON_FAIL {\nSET $W = "1"\n}',
    'TRY {\nWAIT (len(str($V)) - 1)\n} ON_FAIL {\nSET $W = "1"\n}',
    'TRY {\n?IF ("x" in str($V)) {\nFAIL ("no")\n}\n} ON_FAIL {\nSET $W = $error.message\n}',
    'TRY {\nFAIL ("no ${str($V)}")\n} ON_FAIL {\nSET $W = $error.message\n}',
    'TRY {\nTRY {\nREQUIRE ("x" in str($V))\nSET $W = "1"\n} FINALLY {\nNOTE ("x")\n}\n} ON_FAIL {\nNOTE ("x")\n}',
    'LET $t0N = now()\nWAIT (len(str($V)))\nSET $W = now() - $t0N',
    'COMPUTE (reads=[$V]) > $cN """\ncN = str(V)[::-1]\n"""\nSET $W = $cN',
    'COMPUTE (reads=[$V]) > $cN """\ncN = []\nfor w in str(V):\n    cN.append(w)\n"""\nSET $W = $cN',
    'COMPUTE (reads=[$V]) > $cN """\ncN = 0\nif "x" in str(V):\n    cN = 1\n"""\nSET $W = $cN',
    'COMPUTE (reads=[$V]) > $cN """\ncN = []\ndef f(x, y):\n    x.append(y)\nf(cN, str(V))\n"""\nSET $W = $cN',
    'COMPUTE (reads=[$V]) > $cN """\ncN = []\nd = {"k": cN}\ne = d\ne["k"].append(str(V))\n"""\nSET $W = $cN',
    'COMPUTE (reads=[$V]) > $cN """\ncN = []\nlist(map(cN.append, str(V)))\n"""\nSET $W = $cN',
    'COMPUTE (reads=[$V]) > $cN """\ncN = 0\nfor i in range(9):\n    if i > len(str(V)):\n        break\n    cN += 1\n"""\nSET $W = $cN',
    'COMPUTE (reads=[$V]) > $cN """\nn = 0\nwhile n < len(str(V)):\n    n += 1\ncN = n\n"""\nSET $W = $cN',
    'TRY {\nCOMPUTE (reads=[$V]) > $cN """\nassert "x" in str(V)\ncN = 1\n"""\nSET $W = "1"\n} ON_FAIL {\nNOTE ("x")\n}',
    'CN: CALL same (t=$V) > $rN\nSET $W = $rN',
    'CN: CALL early (t=str($V)) > $rN\nSET $W = $rN',
    'CN: CALL looks (t=str($V)) > $rN\nSET $W = $rN',
    'TRY {\nCN: CALL checks (t=str($V)) > $rN\n} ON_FAIL {\nSET $W = "1"\n}',
    'TRY {\nCN: CALL typed (t=str($V)) > $rN\n} ON_FAIL {\nSET $W = "1"\n}',
    'CN: CALL tells (t=str($V)) > $rN ON_FAIL {\nSET $W = $error.message\n}',
    'CN: CALL tells (t=str($V)) > $rN ON_FAIL CONTINUE\nSET $W = $rN.error',
    'CN: CALL waits (t=str($V)) > $rN\nSET $W = $rN',
    '@PARALLEL {\nPN: @OPEN (x=str($V)) > $pN\nQN: @OPEN (x=2) > $qN\n}\nSET $W = $pN',
    'UN: @OPEN (x=$V) > $oN\nSET $W = $oN',
)  # fmt: skip
"""Statements that give `$W`, which is there, what `$V` says; `N` is a number."""
SINKS = (
    "S: @SEND (x=$V)",
    'S: @SEND (x="see ${str($V)}")',
    '?IF ("x" in str($V)) {\nS: @SEND (x=1)\n}',
    "?FOREACH ($z IN list(str($V))) {\nS: @SEND (x=1)\n}",
    '?FOREACH ($z IN ["x", "7", "a"]) IN ORDER {\n?IF ($z in str($V)) {\nBREAK\n}\nS: @SEND (x=1)\n}',
    'REQUIRE ("x" in str($V))\nS: @SEND (x=1)',
    'LET $z = 1 / str($V).count("x")\nS: @SEND (x=1)',
    'TRY {\nLET $z = int(str($V))\n} ON_FAIL {\nS: @SEND (x=1)\n}',
    '?IF (len(str($V)) > 2) {\n@RESPOND (1)\n}\nS: @SEND (x=1)',
    "C: CALL sends (t=$V)",
    'C: CALL checks (t=str($V)) > $z\nS: @SEND (x=1)',
    'COMPUTE (reads=[$V]) > $z """\nassert "x" in str(V)\nz = 1\n"""\nS: @SEND (x=1)',
    'LET $nN = 0\n?REPEAT (max=9) {\nS: @SEND (x=1)\nSET $nN = $nN + 1\n} UNTIL ($nN > len(str($V)))',
)  # fmt: skip
"""Statements that show `$V` outside."""
_PLANS = """PLAN same ($t: json) {
RETURN ($t)
}
PLAN early ($t: json) {
?IF ("x" in $t) {
RETURN ("1")
}
RETURN ("0")
}
PLAN looks ($t: json) {
LET $f = "0"
?FOREACH ($w IN ["x", "7"]) IN ORDER {
?IF ($w in $t) {
RETURN ($w)
}
}
RETURN ($f)
}
PLAN checks ($t: json) {
REQUIRE ("x" in $t)
RETURN (1)
}
PLAN typed ($t: "x" | "a") {
RETURN (1)
}
PLAN tells ($t: json) {
REQUIRE (1 == 2) "got ${t}"
RETURN (1)
}
PLAN waits ($t: json) {
LET $s = now()
WAIT (len($t))
RETURN (now() - $s)
}
PLAN sends ($t: json) {
S9: @SEND (x=$t)
}
"""
_AROUND = (
    "?IF (1 == 1) {\nB\n}",
    '?IF (1 == 2) {\nNOTE ("x")\n} ELSE {\nB\n}',
    'TRY {\nB\n} ON_FAIL {\nNOTE ("x")\n}',
    'TRY {\nB\n} FINALLY {\nNOTE ("x")\n}',
    "?FOREACH ($fN IN [1]) IN ORDER {\nB\n}",
    "?REPEAT (max=2) {\nB\n} UNTIL (1 == 1)",
)
WORLDS = ("x", "ab", "7", "", "xyz")
"""What the value is in each world."""


def chain(seed: int) -> str:
    """The text of a plan that carries what @SOURCE gives to @SEND."""
    dice = Random(seed)
    lines = [_PLANS + "X: @SOURCE () > $v0"]
    length = dice.randrange(1, 4)
    lines += [f'LET $v{number} = "0"' for number in range(1, length + 1)]
    for number in range(1, length + 1):
        way = f"SET $W = {dice.choice(VALUES)}" if dice.random() < 0.25 else dice.choice(WAYS)
        for level in range(dice.randrange(3)):
            around = _named(dice.choice(_AROUND), f"{number}{level}")
            way = around.replace("\nB\n", f"\n{way}\n")
        lines.append(_filled(way, f"v{number - 1}", f"v{number}", str(number)))
    lines.append(_filled(dice.choice(SINKS), f"v{length}", "v0", "9"))
    return "\n".join(lines)


def _named(way: str, number: str) -> str:
    return re.sub(r"\b((?!I)[a-zA-Z]\d?)N\b", rf"\g<1>{number}", way)


def _filled(way: str, value: str, into: str, number: str) -> str:
    way = re.sub(r"\$W\b", f"${into}", way)
    return _named(re.sub(r"\bV\b", value, way), number)


class _Observed(Interpreter):
    """A run with a clock of its own, and with casts."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        super().__init__(*given, now=lambda: self.time, **named)

    async def say(self, one: tree.Say, scope: Scope) -> None:
        if one.word is not tree.Word.WAIT:
            return await super().say(one, scope)
        seconds = self.value(one.values[0], scope)
        if seconds < 0:
            raise Failed("TYPE", "less than no time")
        self.time += timedelta(seconds=seconds)

    async def once(self, one: tree.Statement, scope: Scope) -> None:
        if isinstance(one, tree.Let) and one.type is not None and one.type is not Basic.JSON:
            value, wrong = conformed(self.value(one.value, scope), one.type, {})
            if wrong:
                raise Failed("CAST", wrong)
            return scope.make(one.name, value)
        await super().once(one, scope)

    async def invoke(self, one: tree.Invoke, scope: Scope) -> None:
        plan = self.tree.plan(one.plan)
        assert plan is not None
        for declared in plan.inputs:
            _, wrong = conformed(self.value(dict(one.named)[declared.name], scope), declared.type, {})
            if wrong:
                raise Failed("CAST", wrong)
        await super().invoke(one, scope)


def seen(text: str, value: str) -> list[Any]:
    """The calls of @SEND that a run makes in the world in which the source gives this value."""
    calls: list[Any] = []

    async def source(_given: Any, _named: Mapping[str, Any]) -> Any:
        return value

    async def same(_given: Any, named: Mapping[str, Any]) -> Any:
        return named["x"]

    async def send(_given: Any, named: Mapping[str, Any]) -> Any:
        calls.append(repr(named["x"]))
        return "sent"

    run = _Observed(plan_of(text), {"SOURCE": source, "OPEN": same, "SEND": send})
    with suppress(Failed):
        asyncio.run(run.run({}))
    return calls
