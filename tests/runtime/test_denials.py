"""A person's no is caught by its name alone: in every spelling, on each driver, and as the proof says.

Random programs put a call that somebody denies into blocks, handlers, loops, groups and sub-plans. Where a
handler around it names the denial, the innermost one handles it and the plan goes on; otherwise the run fails
as denied, and no handler for failures in general, and nothing behind it, makes a call.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet import Answer, PendingAsk, Plan, RunResult, RunStatus, Runtime, tool
from callsheet.frontends.spelling import Syntax, format_as, read_as
from callsheet.ir import Plan as Tree
from callsheet.ir.operations import Effect
from callsheet.machine import (
    Answered,
    Ask,
    CallTool,
    Command,
    Event,
    Limits,
    Machine,
    Succeeded,
    ToolFacts,
    Verdict,
    compile_plan,
)
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.runtime.simulated import Simulation

NAMES = ("WRITE", "AFTER", "NAMED", "FINAL", "BESIDE", "LATER", "READ")
LIMITS = Limits(retry_delay=0.0)

# ---------------------------------------------------------------- programs


@dataclass
class Program:
    """The text around a call that is denied; `plans` are the sub-plans or functions that it needs."""

    text: str
    plans: list[str] = field(default_factory=list[str])
    count: int = 0
    is_caught: bool = False

    def number(self) -> int:
        self.count += 1
        return self.count


def indented(text: str, by: str = "  ") -> str:
    return "\n".join(f"{by}{line}" for line in text.split("\n"))


def around(head: str, tail: str = "}") -> Callable[[Program], None]:
    """A block of LTP text: `#` is a number of its own."""

    def wrap(program: Program) -> None:
        number = str(program.number())
        first, last = head.replace("#", number), tail.replace("#", number)
        program.text = f"{first}\n{indented(program.text)}\n{last}"

    return wrap


def handler(kinds: str) -> Callable[[Program], None]:
    return around("TRY {", f"}} ON_FAIL{kinds} {{\n  A#: @AFTER (x=#)\n}}")


def named(program: Program) -> None:
    around("TRY {", "} ON_FAIL DENIED {\n  N#: @NAMED (x=#)\n}")(program)
    program.is_caught = True


def sub_plan(tail: str) -> Callable[[Program], None]:
    def wrap(program: Program) -> None:
        number = program.number()
        program.plans.append(f"PLAN p{number} () {{\n{indented(program.text)}\n  RETURN (1)\n}}")
        program.text = f"CALL p{number} () > $r{number}{tail.replace('#', str(number))}"

    return wrap


WRAPPERS: dict[str, Callable[[Program], None]] = {
    "general": handler(""),
    "kinds": handler(" TOOL, TIMEOUT, VALUE, CANCELLED"),
    "named": named,
    "retry": around("TRY {", "} ON_FAIL @RETRY(2)"),
    "finally": around("TRY {", "} FINALLY {\n  F#: @FINAL (x=#)\n}"),
    "within": around("TRY WITHIN (60) {", "} ON_FAIL TIMEOUT {\n  A#: @AFTER (x=#)\n}"),
    "if": around("?IF (True) {"),
    "loop": around("?FOREACH ($i# IN [1, 2]) IN ORDER {"),
    "skip": around("?FOREACH ($i# IN [1, 2]) {", "} > $l# ON_FAIL SKIP"),
    "together": around("?FOREACH ($i# IN [1, 2]) TOGETHER {", "} > $l# ON_FAIL CONTINUE"),
    "stop": around("?FOREACH ($i# IN [1, 2]) TOGETHER STOP {", "} > $l# ON_FAIL USE ([])"),
    "repeat": around("?REPEAT (max=2) {", "} UNTIL (True)"),
    "parallel": around("@PARALLEL {", "  B#: @BESIDE (x=#)\n} ON_FAIL {\n  A#: @AFTER (x=#)\n}"),
    "group": around("@PARALLEL STOP {", "  B#: @BESIDE (x=#)\n} ON_FAIL CANCELLED {\n  A#: @AFTER (x=#)\n}"),
    "plan": sub_plan(""),
    "plan continues": sub_plan(" ON_FAIL CONTINUE"),
    "plan uses": sub_plan(" ON_FAIL USE (0)"),
    "plan retries": sub_plan(" ON_FAIL @RETRY(2) CONTINUE"),
}
CALLS = (
    "",
    " ON_FAIL CONTINUE",
    " ON_FAIL USE (0)",
    " ON_FAIL @RETRY(3)",
    " ON_FAIL @RETRY(3) USE (0)",
    " ON_FAIL {\n  A: @AFTER (x=0)\n}",
    " ON_FAIL TOOL, REQUIRE {\n  A: @AFTER (x=0)\n}",
)


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, bool]:
    """A plan in LTP text, and whether a handler names the denial."""
    program = Program(f"W: @WRITE (x=0) > $w{draw(st.sampled_from(CALLS))}")
    for name in draw(st.lists(st.sampled_from(sorted(WRAPPERS)), max_size=4)):
        WRAPPERS[name](program)
    plans = "".join(f"{one}\n" for one in program.plans)
    return f'# ltp: 2\n{plans}{program.text}\nL: @LATER (x=0)\n@RESPOND ("end")\n', program.is_caught


# The same in Python: the body of `main`, with functions for what a block of its own needs.


def python_block(head: str, *tail: str) -> Callable[[Program], None]:
    def wrap(program: Program) -> None:
        number = str(program.number())
        lines = [head, indented(program.text, "    "), *tail]
        program.text = "\n".join(line.replace("#", number) for line in lines)

    return wrap


def python_named(kinds: str) -> Callable[[Program], None]:
    def wrap(program: Program) -> None:
        python_block("try:", f"except {kinds}:", "    await named(x=#)")(program)
        program.is_caught = True

    return wrap


def python_function(call: str, *tail: str) -> Callable[[Program], None]:
    def wrap(program: Program) -> None:
        number = str(program.number())
        program.plans.append(f"async def f{number}():\n{indented(program.text, '    ')}\n    return 1\n")
        program.text = "\n".join(line.replace("#", number) for line in (call, *tail))

    return wrap


IN_PYTHON: dict[str, Callable[[Program], None]] = {
    "general": python_block("try:", "except Exception:", "    await after(x=#)"),
    "bare": python_block("try:", "except:", "    await after(x=#)"),
    "all": python_block("try:", "except BaseException as error#:", "    await after(x=#)"),
    "kinds": python_block("try:", "except (ToolError, ValueError, TimeoutError):", "    await after(x=#)"),
    "named": python_named("Denied"),
    "either": python_named("(Exception, Denied)"),
    "finally": python_block("try:", "finally:", "    await final(x=#)"),
    "else": python_block(
        "try:", "except ToolError:", "    await after(x=#)", "else:", "    await later(x=#)"
    ),
    "suppress": python_block("with contextlib.suppress(Exception):"),
    "timeout": python_block("async with asyncio.timeout(60):"),
    "if": python_block("if True:"),
    "loop": python_block("for i# in [1, 2]:"),
    "again": python_block(
        "for i# in range(3):\n    try:", "    except Exception:", "        continue", "    break"
    ),
    "while": python_block("n# = 0\nwhile n# < 2:\n    n# += 1"),
    "function": python_function("await f#()"),
    "kept": python_function("r# = await asyncio.gather(f#(), return_exceptions=True)"),
    "gather": python_function("await asyncio.gather(f#(), beside(x=#))"),
    "group": python_function(
        "async with asyncio.TaskGroup() as g#:", "    g#.create_task(f#())", "    g#.create_task(beside(x=#))"
    ),
    "wait": python_function("await asyncio.wait_for(f#(), 60)"),
}


@st.composite
def python_programs(draw: st.DrawFn) -> tuple[str, bool]:
    """A plan in Python, and whether a handler names the denial."""
    program = Program("await write(x=0)")
    for name in draw(st.lists(st.sampled_from(sorted(IN_PYTHON)), max_size=4)):
        if name == "again":  # its body stands one deeper
            program.text = indented(program.text, "    ")
        IN_PYTHON[name](program)
    functions = "\n\n".join(program.plans)
    main = indented(program.text, "    ")
    return (
        "import asyncio\nimport contextlib\n\n\n"
        f"{functions}\n\nasync def main():\n{main}\n    await later(x=0)\n    return 'end'\n",
        program.is_caught,
    )


# ---------------------------------------------------------------- drivers


@dataclass
class End:
    """How a run ended: its answer, or the error, and the tools that it called in order."""

    answer: object
    error: str
    calls: list[str]


def simulated(plan: Tree) -> End:
    facts = {**{name: ToolFacts(Effect.UNSAFE, ("x",)) for name in NAMES}, **OWN_FACTS}
    machine = Machine(compile_plan(plan, facts), LIMITS, approve=["WRITE"])
    calls: list[str] = []

    def respond(command: Command) -> tuple[float, Event]:
        if isinstance(command, Ask):
            return 1.0, Answered(command.key, command.asked.digest, Verdict.DENY, by="ann")
        assert isinstance(command, CallTool), command
        calls.append(command.tool)
        return 1.0, Succeeded(command.key, 1)

    result = Simulation(machine, respond).run({})
    return End(result.answer, result.error or "", calls)


class Local:
    """A runtime whose person denies each call of WRITE."""

    def __init__(self, journal: Path | None = None) -> None:
        self.calls: list[str] = []

        def made(name: str) -> object:
            def call(x: int) -> int:
                self.calls.append(name)
                return 1

            call.__name__ = name.lower()
            return tool(effect="unsafe")(call) if name != "READ" else tool(effect="read")(call)

        def answer(ask: PendingAsk) -> Answer:
            return Answer.deny(by="ann")

        self.runtime = Runtime(
            [made(name) for name in NAMES],  # type: ignore[arg-type]
            approve=["write"],
            limits=LIMITS,
            journal=journal,
            on_approval=None if journal is not None else answer,
        )

    def run(self, text: str, language: str) -> RunResult:
        plan = Plan.parse(text, language=language)  # type: ignore[arg-type]
        result = self.runtime.run_sync(plan, run_id="r")
        while result.status is RunStatus.WAITING:
            for ask in result.waiting:
                self.runtime.answer_sync("r", ask.key, Answer.deny(by="ann"))
            result = self.runtime.resume_sync("r")
        return result

    def end(self, text: str, language: str) -> End:
        result = self.run(text, language)
        return End(result.answer, result.error or "", self.calls)


def ends(text: str, language: str) -> Iterator[End]:
    """The end of a program on each driver: in virtual time, at once, and with a journal and an inbox."""
    yield simulated(read_as(Syntax(language), text, "<plan>").require())
    yield Local().end(text, language)
    if "60" in text:  # a time limit goes on while a run waits for its inbox
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Local(Path(folder) / "runs.db").end(text, language)


def check(end: End, *, is_caught: bool) -> None:
    assert "WRITE" not in end.calls, "it was denied"
    assert "AFTER" not in end.calls, "a handler that does not name a denial has handled it"
    assert ("NAMED" in end.calls) is is_caught
    assert ("LATER" in end.calls) is is_caught, "what follows is reached only if it was handled"
    if is_caught:
        assert (end.answer, end.error) == ("end", "")
    else:
        assert "DENIED" in end.error or "denied by ann" in end.error, end


# ---------------------------------------------------------------- what holds


@given(programs())
@settings(max_examples=25, deadline=None)
def test_only_its_name_catches_a_denial_in_ltp(program: tuple[str, bool]) -> None:
    text, is_caught = program
    for end in ends(text, "ltp"):
        check(end, is_caught=is_caught)


@given(python_programs())
@settings(max_examples=25, deadline=None)
def test_only_its_name_catches_a_denial_in_python(program: tuple[str, bool]) -> None:
    text, is_caught = program
    for end in ends(text, "python"):
        check(end, is_caught=is_caught)


@given(programs())
@settings(max_examples=25, deadline=None)
def test_the_other_spellings_of_a_plan_are_the_same_plan(program: tuple[str, bool]) -> None:
    plan = read_as(Syntax.LTP, program[0], "<plan>").require()
    for syntax in (Syntax.MICRO, Syntax.DAG):
        assert read_as(syntax, format_as(syntax, plan), "<plan>").require() == plan
