"""Words single statements and expressions of a plan in Python, each on one line: for lines about a run.

A line has no block below it, and says nothing of what the file has on other lines: handlers, `finally`. What
Python has no words for is None.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from callsheet.frontends.expressions import NotAnExpression, read_expression
from callsheet.frontends.python.exceptions import Exceptions, exception_name
from callsheet.frontends.python.printing.code_printer import RenamedCode, kept_in_code, unparsed
from callsheet.frontends.python.printing.printer import ProgramPrinter
from callsheet.frontends.python.printing.statements_printer import StatementsPrinter
from callsheet.frontends.python.printing.values_printer import NotPython
from callsheet.frontends.python.syntax import MARK
from callsheet.ir import tree
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression
from callsheet.ir.plan import Plan

_RESULT: Final = " result"
"""What a forecast calls the result of a tool ends so."""
_WORDS: Final = {
    tree.Word.RESPOND: "return",
    tree.Word.TERMINATE: "exit",
    tree.Word.RETURN: "return",
    tree.Word.YIELD: "result",
    tree.Word.NOTE: "print",
    tree.Word.FAIL: "raise",
    tree.Word.BREAK: "break",
    tree.Word.CONTINUE: "continue",
    tree.Word.WAIT: "sleep",
    tree.Word.REPLAN: "replan",
}
_TOOL: Final = re.compile(r"(?<![\w.])@([A-Z][A-Z0-9_]*)\b")
"""A tool in a sentence."""
_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)\b(?!@)")
"""A variable in one."""
_DEFINITIONS: Final = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINES: Final = ("import ", "from ", "class ", "def ", "async def ", "@")
"""How code begins that may begin with definitions."""
_ITEM: Final = "item of "
"""What it calls any item of a list begins so."""


class LinesPrinter(StatementsPrinter):
    """Words what is in one plan, which has a tree."""

    def __init__(self, plan: Plan) -> None:
        assert plan.tree is not None
        super().__init__(ProgramPrinter(plan, plan.tree), is_main=True)
        self._tools = {act.tool for act in tree.acts(plan.tree)}
        self.values.failures |= {
            handler.binds
            for one in tree.all_statements(plan.tree)
            for handler in getattr(tree.recovery_of(one), "handlers", ())
        }

    def line(self, one: tree.Statement) -> str | None:
        """A statement without the blocks inside it.

        >>> from callsheet.frontends.python.reader import read_python
        >>> text = "async def main(n):\\n    while n < 3:\\n        n = await score(n=str(n))\\n    return n"
        >>> plan = read_python(text).require()
        >>> [LinesPrinter(plan).line(one) for one in tree.all_statements(plan.tree)]
        ['while n < 3:', 'n = await score(n=str(n))', 'return n']
        """
        return _said(lambda: self._line(one))

    def expression(self, text: str) -> str | None:
        """An expression that is given as a text of the plan language."""
        if text.startswith(_ITEM):
            source = self.expression(text.removeprefix(_ITEM))
            return None if source is None else f"{_ITEM}{source}"
        if text.endswith(_RESULT) and text.removesuffix(_RESULT).isidentifier():
            return f"{self.tool(text.removesuffix(_RESULT))}{_RESULT}"
        if text.startswith("$") and text[1:] in self.names:  # a caught error is no value in other expressions
            return self.names[text[1:]]
        return _said(lambda: self.text(read_expression(text).expression))

    def test(self, node: Expression) -> str | None:
        """A condition."""
        return _said(lambda: self.text(node))

    def part(self, name: str) -> str:
        """A part of a statement, given as the plan language calls it.

        >>> from callsheet.frontends.python.reader import read_python
        >>> of = LinesPrinter(read_python("async def main(): return 1").require())
        >>> of.part("ELSE"), of.part("ON_FAIL TOOL, VALUE"), of.part("ON_FAIL")
        ('else:', 'except (ToolError, ValueError):', 'except Exception:')
        >>> of.part("ON_FAIL TOOL, TIMEOUT, SCHEMA")
        'except ToolError:'
        """
        word, _, kinds = name.partition(" ")
        if word != "ON_FAIL":
            return f"{name.lower()}:"
        own, names = Exceptions(dict.fromkeys(self.of.own_errors, "Exception")), list[str]()
        for kind in filter(None, kinds.split(", ")):
            if kind not in own.caught(names):
                names.append(exception_name(kind))
        caught = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"except {caught if names else 'Exception'}:"

    def variable(self, name: str, path: tuple[str | int, ...]) -> str | None:
        """A variable, or a part of its value."""
        written = self.names.get(name)
        return None if written is None else written + "".join(f"[{part!r}]" for part in path)

    def result(self, name: str) -> str:
        """What has a value and is no variable, given as the plan language calls it: `YIELD`, `RETURN`."""
        return _WORDS[tree.Word[name]] if name in tree.Word.__members__ else name

    def code(self, source: str) -> str:
        """The code between two calls."""
        return _as_written(source) if MARK in source else source

    def sentence(self, text: str) -> str:
        """A sentence that names variables and tools of the plan as LTP does; data in it stays as it is.

        >>> from callsheet.frontends.python.reader import read_python
        >>> plan = read_python("async def main(mail): return await send(to=mail)").require()
        >>> LinesPrinter(plan).sentence("@SEND gives $mail to $ann@x.org and @ANN")
        'send gives mail to $ann@x.org and @ANN'
        """
        text = _TOOL.sub(lambda found: self.tool(found[1]) if found[1] in self._tools else found[0], text)
        return _VARIABLE.sub(lambda found: self.names.get(found[1], found[0]), text)

    def tool(self, name: str) -> str:
        """A tool by its name in plans."""
        return unparsed(self.call(tree.Act("", name)).func)

    def word(self, one: tree.Statement) -> str:  # noqa: PLR0911 - a case for each statement
        """What a statement is, in a word: the function that it calls, or a word of Python.

        >>> from callsheet.frontends.python.reader import read_python
        >>> text = "async def main(n):\\n    while n < 3:\\n        n = await score(n=str(n))\\n    return n"
        >>> plan = read_python(text).require()
        >>> [LinesPrinter(plan).word(one) for one in tree.all_statements(plan.tree)]
        ['while', 'score', 'return']
        """
        match one:
            case tree.Act(tool=tool):
                return self.tool(tool)
            case tree.Invoke(plan=plan):
                return plan
            case tree.If():
                return "if"
            case tree.Foreach(together=together):
                return "gather" if together else "for"
            case tree.Repeat():
                return "while"
            case tree.Try(within=within):
                return "try" if within is None else "timeout"
            case tree.Parallel(stops=stops):
                return "TaskGroup" if stops else "gather"
            case tree.Compute():
                return "code"
            case tree.Let() | tree.Assign():
                return "="
            case tree.Require():
                return "assert"
            case tree.Say(word=word):
                return _WORDS[word]

    def _line(self, one: tree.Statement) -> str:
        match one:
            case tree.If(branches=branches):
                return f"if {self.text(branches[0].condition)}:"
            case tree.Foreach():
                return self._loop(one)
            case tree.Repeat(while_=while_, until=until):
                test = "True" if while_ is None else self.text(while_)
                return f"while {test}:" + ("" if until is None else f"  # until {self.text(until)}")
            case tree.Try(within=within) if within is not None:
                limit = "None" if within == Literal(None) else self._seconds(within)
                return f"async with asyncio.timeout({limit}):"
            case tree.Try(recovery=recovery):
                return "try:" if recovery.undo is None else "async with undo():"
            case tree.Parallel(stops=stops):
                return "async with asyncio.TaskGroup():" if stops else "await gather(…)"
            case tree.Compute(source=source):
                lines = [line for line in _without_definitions(self.code(source)).split("\n") if line.strip()]
                first, *others = lines or ["pass"]
                return first + (" …" if others else "")
            case tree.Say(word=tree.Word.YIELD, values=(value,)):
                return self.text(value)
            case tree.Let() | tree.Assign() | tree.Require() | tree.Say():
                return next(self._statement(one, (), ""))
            case tree.Act() | tree.Invoke():
                return next(self._statement(replace(one, recovery=None), (), ""))

    def _loop(self, one: tree.Foreach) -> str:
        each = f"for {self.names[one.var]} in {unparsed(self.values.source(one.source))}"
        into = "" if one.into is None else f"{self.names[one.into.name]} = "
        match one.ends:
            case tree.Ends.FIRST:
                return f"{into}await asyncio.wait([… {each}], return_when=asyncio.FIRST_COMPLETED)"
            case tree.Ends.FAILED:
                return f"async with asyncio.TaskGroup():  # … {each}"
            case tree.Ends.ALL if one.as_done:
                return f"{into}asyncio.as_completed([… {each}])"
            case tree.Ends.ALL if one.together:
                return f"{into}await gather(*[… {each}])"
            case tree.Ends.ALL:
                return f"{into}[… {each}]" if into else f"{each}:"


def _without_definitions(source: str) -> str:
    """What code does, behind the imports, classes and functions of the file that it begins with."""
    source = source.strip()
    if not source.startswith(_DEFINES):
        return source
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return source
    own = next((one for one in body if not isinstance(one, _DEFINITIONS)), None)
    return source if own is None else "\n".join(source.split("\n")[own.lineno - 1 :])


class _Unmarked(RenamedCode):
    """Code as a program has it, without what the front end adds for values that may be kept errors."""

    def __init__(self) -> None:
        super().__init__({}, set(), set())

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """A conditional expression."""
        asks = kept_in_code(node.test) is not None
        return self.visit(node.orelse) if asks else self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """A hole of a text."""
        match node.value:
            case ast.IfExp(test=test, orelse=ast.Call(func=ast.Name(id=how), args=[value])) if (
                how in {"str", "repr"} and kept_in_code(test) is not None
            ):
                conversion = ord("r") if how == "repr" else -1 if node.format_spec is None else ord("s")
                return ast.FormattedValue(self.visit(value), conversion, node.format_spec)
            case _:
                return self.generic_visit(node)


def _as_written(source: str) -> str:
    try:
        module = ast.parse(source)
    except SyntaxError:
        return source
    return unparsed(ast.fix_missing_locations(_Unmarked().visit(module)))


def _said(words: Callable[[], str]) -> str | None:
    try:
        return words()
    except (NotAnExpression, NotPython, KeyError):
        return None
