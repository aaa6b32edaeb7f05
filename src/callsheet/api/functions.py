"""`@plan`: an async function of a user's module as a plan, and the names that such functions use.

In: the function. Out: a `PlanFunction`, whose source is read when a plan is made of it; neither it nor its
module is executed for that. The other names have types for editors, and raise if they are called outside of a
plan. Importing this costs next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import date, datetime
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
)

if TYPE_CHECKING:
    from asyncio import gather as gather  # noqa: PLC0414 - one of the names that plans use
    from contextlib import AbstractAsyncContextManager
    from types import FunctionType

    from callsheet.api.plan import Plan

P = ParamSpec("P")
R = TypeVar("R")

_COROUTINE = 0x80
"""The flag of code that is an async function's."""
_GENERATOR = 0x200
_TOOL = "__callsheet_tool__"
_STUB = "only_in_plans"
"""What each module of stubs has."""


class PlanFunction(Generic[P, R]):
    """An async function that is a plan: `Runtime.run(function, name=value)` runs it, `plan` is the plan."""

    def __init__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> None:
        code = getattr(function, "__code__", None)
        if code is None or not code.co_flags & (_COROUTINE | _GENERATOR):
            raise TypeError("@plan stands before an async function: async def name(…): …")
        if code.co_flags & _GENERATOR:
            raise TypeError(f"{function.__name__} yields; a plan returns its result")
        if "." in function.__qualname__.rpartition("<locals>.")[2]:
            raise TypeError(
                f"{function.__qualname__} is a method, and a plan has no object: write it as a function, and"
                " give what it needs of the object as arguments"
            )
        self.__wrapped__ = function
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self._plan: Plan | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Raises: a plan is run by a runtime, which checks, guards and records it."""
        raise RuntimeError(
            f"{self.__name__} is a plan, and is not called as a function: await Runtime(…).run("
            f"{self.__name__}, {self._example()}), or run_sync(…) without an event loop; another plan of the"
            f" same module may await {self.__name__}(…)"
        )

    def _example(self) -> str:
        return ", ".join(f"{name}=…" for name in self.parameters) or "…"

    def __repr__(self) -> str:
        return f"<plan {self.__module__}.{self.__qualname__}>"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters, which are the inputs of the plan."""
        code = cast("FunctionType", self.__wrapped__).__code__
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @property
    def plan(self) -> Plan:
        """The plan, read from the function's source. Raises PlanError with what a plan cannot say."""
        if self._plan is None:
            self._plan = self._read()
        return self._plan

    def _read(self) -> Plan:
        import linecache  # noqa: PLC0415 - `from callsheet import plan` costs nothing

        from callsheet.api.findings import PlanError  # noqa: PLC0415 - as above
        from callsheet.api.plan import Plan  # noqa: PLC0415 - as above
        from callsheet.diagnostics import CallsheetError  # noqa: PLC0415 - as above
        from callsheet.frontends.python import Within, read_python  # noqa: PLC0415 - as above

        function = cast("FunctionType", self.__wrapped__)
        code = function.__code__
        if code.co_freevars:
            names = ", ".join(code.co_freevars)
            raise PlanError.of(
                CallsheetError.single(
                    "PYT027",
                    f"{self.__name__} uses {names} of the function around it, so its text is not all",
                    help=f"give what it needs as arguments: async def {self.__name__}({names}); what it calls"
                    " is written or imported at the top of the module",
                )
            )
        file = code.co_filename
        linecache.checkcache(file)
        text = "".join(linecache.getlines(file, function.__globals__))
        if not text:
            raise PlanError.of(
                CallsheetError.single(
                    "PYT027",
                    f"the source of {self.__name__} cannot be read from {file}, and a plan is read from its"
                    " source",
                    help="write it into a file, or give the text: Plan.parse(text, language='python')",
                )
            )
        known = function.__globals__
        within = Within(self.__name__, code.co_firstlineno, known, frozenset(filter(_is_tool(known), known)))
        name = os.path.relpath(file) if os.path.isabs(file) and file.startswith(os.getcwd()) else file
        return Plan.of_reading(read_python(text, name, within=within))


def _is_tool(known: Mapping[str, object]) -> Callable[[str], bool]:
    def told(name: str) -> bool:
        value = known[name]
        return hasattr(value, _TOOL) or _STUB in (getattr(value, "__globals__", None) or ())

    return told


def plan(function: Callable[P, Coroutine[Any, Any, R]]) -> PlanFunction[P, R]:
    """Make a plan of an async function, whose awaits are calls of tools; it is read, and never executed.

    Its parameters are the inputs of the plan. Pure and async functions, classes and constants of its module
    that it uses belong to it. Raises TypeError for what is no async function.

    >>> @plan
    ... async def greet(name: str) -> str:
    ...     return f"Hello {name}"
    >>> greet.parameters
    ('name',)
    """
    return PlanFunction(function)


# ------------------------------------------------------------ names that plans use


class ToolError(Exception):
    """In a plan: a step that failed; also one that took too long, or gave a result of a wrong form."""


class BudgetSpent(ToolError):
    """In a plan: an agent has spent what its step allows it. That the run has spent all is no exception."""


class Denied(BaseException):
    """In a plan: a person denied a call. Only `except Denied` catches it."""


def only_in_plans(name: str) -> NoReturn:
    """Raises RuntimeError: this name is one of plans."""
    raise RuntimeError(
        f"{name} is a name of plans: an async function with @plan may use it, which a Runtime runs"
    )


if not TYPE_CHECKING:

    def gather(*calls: Any, return_exceptions: bool = False) -> NoReturn:
        """In a plan: `asyncio.gather`, calls side by side."""
        only_in_plans("gather")


Secret: TypeAlias = Annotated[R, "secret"]
"""In a plan: the type of a parameter whose value is never shown, `token: Secret[str]`."""


def note(*values: object) -> None:
    """In a plan: a remark in the journal of the run."""
    only_in_plans("note")


def undo(**inverses: str) -> AbstractAsyncContextManager[None]:
    """In a plan: a block that takes back what it has done if it fails, and then fails.

    Each argument is a tool with the call that takes a call of it back, as in
    `create_event="delete_event(id=result.id)"`; without any, the inverses are those that the tools declare.
    """
    only_in_plans("undo")


async def replan(reason: str = "") -> NoReturn:
    """In a plan, as `return await replan("why")`: another plan takes the place of this one."""
    only_in_plans("replan")


def now() -> datetime:
    """In a plan: the time, with its offset. It is recorded, so that a resumed run reads the same."""
    only_in_plans("now")


def today() -> date:
    """In a plan: the day. It is recorded, so that a resumed run reads the same."""
    only_in_plans("today")


async def llm(prompt: str, data: object = None) -> str:
    """In a plan: what the language model answers."""
    only_in_plans("llm")


async def llm_extract(prompt: str, data: object, schema: object = None) -> Any:
    """In a plan: data that the language model takes out of a text."""
    only_in_plans("llm_extract")


async def llm_classify(text: object, categories: Sequence[str]) -> str:
    """In a plan: the category that the language model puts a text in."""
    only_in_plans("llm_classify")


async def llm_summarize(text: object, format: str = "") -> str:  # noqa: A002 - as plans call it
    """In a plan: the language model's summary of a text."""
    only_in_plans("llm_summarize")


async def ask_human(
    prompt: str,
    options: Sequence[str] | None = None,
    default: object = None,
    timeout: str | float | None = None,  # noqa: ASYNC109 - as plans call it
) -> Any:
    """In a plan: what a person answers; the run may wait for days."""
    only_in_plans("ask_human")


async def agent(
    goal: str,
    tools: Sequence[object] | Literal["all"] | None = None,
    max_turns: int | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
) -> Any:
    """In a plan: what an agent answers that uses tools on its own.

    Raises BudgetSpent, a ToolError, if it needs more than `max_tokens` or `max_cost`.
    """
    only_in_plans("agent")
