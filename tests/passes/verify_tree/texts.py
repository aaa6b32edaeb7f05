"""Reads trees from lines, one statement a line and blocks in braces, for tests of the proof."""

from __future__ import annotations

import re
from dataclasses import replace

from callsheet.frontends.expressions import read_expression
from callsheet.ir import Plan
from callsheet.ir.expression import Expression
from callsheet.ir.tree import (
    Act,
    Again,
    Assign,
    Block,
    Branch,
    Compute,
    Foreach,
    GoOn,
    Handler,
    If,
    Input,
    Into,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    SubPlan,
    Tree,
    Try,
    Use,
    Word,
    plan_of_tree,
    with_ids,
)
from callsheet.ir.types import Basic

_ID = re.compile(r"([A-Za-z]\w*): ")
_INTO = re.compile(r"\s*>\s*\$(\w+)(?::\w+)?")
_WORDS = {word.value: word for word in Word}


def plan_of(text: str) -> Plan:
    """The plan that lines of version 2 say."""
    return plan_of_tree(with_ids(_Lines(text).tree()), goal="a test")


def expression(text: str) -> Expression:
    """One expression."""
    return read_expression(text).expression


class _Lines:
    def __init__(self, text: str) -> None:
        self._lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
        self._at = 0
        self._goes_on = False
        """Whether more follows the brace that closes the last block."""

    def tree(self) -> Tree:
        inputs: list[Input] = []
        plans: list[SubPlan] = []
        body: list[Statement] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if found := re.fullmatch(r"INPUT \$(\w+): secret", line):
                inputs.append(Input(found[1], Basic.STR, is_secret=True))
                self._at += 1
            elif found := re.fullmatch(r"INPUT \$(\w+): \w+", line):
                inputs.append(Input(found[1], Basic.STR))
                self._at += 1
            elif found := re.fullmatch(r"PLAN (\w+) \(([^)]*)\) \{", line):
                self._at += 1
                names = re.findall(r"\$(\w+)", found[2])
                plans.append(
                    SubPlan(found[1], tuple(Input(name, Basic.JSON) for name in names), self._block())
                )
            else:
                body.append(self._statement())
        return Tree(tuple(body), tuple(inputs), plans=tuple(plans))

    def _block(self) -> Block:
        """The statements up to a closing brace, whose line is left to be read."""
        made: list[Statement] = []
        while not self._lines[self._at].startswith("}"):
            made.append(self._statement())
        self._goes_on = self._lines[self._at] != "}"
        self._at += not self._goes_on
        return tuple(made)

    def _closing(self) -> str:
        """The closing line of the block just read, if more follows the brace; else nothing."""
        if not self._goes_on:
            return ""
        self._goes_on = False
        self._at += 1
        return self._lines[self._at - 1][1:].strip()

    def _statement(self) -> Statement:
        line = self._lines[self._at]
        self._at += 1
        named = _ID.match(line)
        own = "" if named is None else named[1]
        return replace(self._read(line[named.end() :] if named else line), id=own)

    def _read(self, line: str) -> Statement:  # noqa: PLR0911 - a case for each statement
        if line.startswith(("LET ", "SET ")):
            found = re.match(r"(LET|SET) \$(\w+) = ", line)
            assert found, line
            value = read_expression(line, found.end()).expression
            return Let("", found[2], value) if found[1] == "LET" else Assign("", found[2], value)
        if line.startswith("REQUIRE ("):
            condition, rest = self._in_parentheses(line, len("REQUIRE "))
            return Require("", condition[0][1], expression(rest) if rest else None)
        if line.startswith("?IF ("):
            return self._if(line)
        if line.startswith("?FOREACH ("):
            return self._foreach(line)
        if line.startswith("?REPEAT ("):
            return self._repeat(line)
        if line == "TRY {":
            body = self._block()
            return Try("", body, self._recovery(self._closing()) or Recovery())
        if line == "@PARALLEL {":
            members = self._block()
            return Parallel("", members, self._recovery(self._closing()))
        if line.startswith("COMPUTE "):
            found = re.fullmatch(r'COMPUTE \(reads=\[([^\]]*)\]\) > ([^"]*) """(.*)"""(.*)', line)
            assert found, line
            return Compute(
                "", found[3].replace("\\n", "\n"), tuple(re.findall(r"\$(\w+)", found[1])),
                tuple(re.findall(r"\$(\w+)", found[2])), self._recovery(found[4].strip()),
            )  # fmt: skip
        if line.startswith("CALL "):
            found = re.match(r"CALL (\w+) ", line)
            assert found
            named, rest = self._in_parentheses(line, found.end())
            into, rest = self._into(rest)
            return Invoke("", found[1], tuple((n, v) for n, v in named if n), into, self._recovery(rest))
        word = re.match(r"(@RESPOND|TERMINATE|RETURN|YIELD|NOTE|FAIL|BREAK|CONTINUE|WAIT|RE-PLAN)\b", line)
        if word:
            values = self._in_parentheses(line, word.end() + 1)[0] if "(" in line else []
            return Say("", _WORDS[word[1]], tuple(value for _, value in values))
        found = re.match(r"@(\w+) ?", line)
        assert found, line
        named, rest = self._in_parentheses(line, found.end()) if "(" in line else ([], line[found.end() :])
        into, rest = self._into(rest)
        return Act(
            "", found[1], tuple(v for n, v in named if not n), tuple((n, v) for n, v in named if n), into,
            self._recovery(rest),
        )  # fmt: skip

    def _in_parentheses(self, line: str, start: int) -> tuple[list[tuple[str, Expression]], str]:
        """The values in parentheses, with their names, and what follows."""
        assert line[start] == "(", line
        at, found = start + 1, list[tuple[str, Expression]]()
        while True:
            while line[at] in " ,":
                at += 1
            if line[at] == ")":
                return found, line[at + 1 :].strip()
            name = re.compile(r"([A-Za-z_]\w*)=(?!=)").match(line, at)
            at = name.end() if name else at
            reading = read_expression(line, at, is_whole=False)
            found.append((name[1] if name else "", reading.expression))
            at = reading.end

    def _into(self, rest: str) -> tuple[Into | None, str]:
        found = _INTO.match(rest)
        return (Into(found[1]), rest[found.end() :].strip()) if found else (None, rest)

    def _recovery(self, rest: str) -> Recovery | None:
        recovery = Recovery()
        while rest:
            if found := re.match(r"ON_FAIL @RETRY\((\d+)\)", rest):
                recovery = replace(recovery, again=Again(int(found[1])))
            elif found := re.match(r"ON_FAIL CONTINUE", rest):
                recovery = replace(recovery, remedy=GoOn())
            elif found := re.match(r"ON_FAIL SKIP", rest):
                recovery = replace(recovery, remedy=Skip())
            elif re.match(r"ON_FAIL (USE|TERMINATE) \(", rest):
                values, after = self._in_parentheses(rest, rest.index("("))
                each = tuple(value for _, value in values)
                remedy = Use(each[0]) if rest.startswith("ON_FAIL USE") else Leave(each)
                recovery = replace(recovery, remedy=remedy)
                rest = after
                continue
            elif found := re.match(r"ON_FAIL ([A-Z, ]*)\{$", rest):
                kinds = tuple(re.findall(r"[A-Z]+", found[1]))
                body = self._block()
                recovery = replace(recovery, handlers=(*recovery.handlers, Handler(kinds, body)))
                rest = self._closing()
                continue
            elif rest == "FINALLY {":
                recovery = replace(recovery, final=self._block())
                rest = self._closing()
                continue
            else:
                raise AssertionError(rest)
            rest = rest[found.end() :].strip()
        return None if recovery == Recovery() else recovery

    def _if(self, line: str) -> If:
        condition = self._in_parentheses(line, 4)[0][0][1]
        branches = [Branch(condition, self._block())]
        rest = self._closing()
        while rest.startswith("ELSE IF ("):
            condition = self._in_parentheses(rest, len("ELSE IF "))[0][0][1]
            branches.append(Branch(condition, self._block()))
            rest = self._closing()
        otherwise = self._block() if rest == "ELSE {" else None
        return If("", tuple(branches), otherwise)

    def _foreach(self, line: str) -> Foreach:
        found = re.match(r"\?FOREACH \(\$(\w+) IN ", line)
        assert found, line
        reading = read_expression(line, found.end(), is_whole=False)
        rest = line[reading.end :].strip()
        assert rest.startswith(")"), line
        limit = None
        if "LIMIT" in rest:
            at = line.index("LIMIT", reading.end) + len("LIMIT ")
            limit = read_expression(line, at, is_whole=False).expression
        body = self._block()
        into, after = self._into(self._closing())
        return Foreach(
            "", found[1], reading.expression, body, limit, "IN ORDER" in rest, "TOGETHER" in rest, None, into,
            self._recovery(after),
        )  # fmt: skip

    def _repeat(self, line: str) -> Repeat:
        named, rest = self._in_parentheses(line, len("?REPEAT "))
        known = dict(named)
        while_ = self._in_parentheses(rest, len("WHILE "))[0][0][1] if rest.startswith("WHILE") else None
        body = self._block()
        until = None
        after = self._closing()
        if after.startswith("UNTIL"):
            values, after = self._in_parentheses(after, len("UNTIL "))
            until = values[0][1]
        return Repeat("", known["max"], body, known.get("every"), until, while_, self._recovery(after))
