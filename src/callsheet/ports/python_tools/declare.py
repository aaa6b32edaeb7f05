"""The decorator that declares a function as a tool, and the tool of a function.

A decorated function stays what it was: it can be called, tested and imported as before.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from callsheet.diagnostics import did_you_mean
from callsheet.ir import JSON, CallKind, Effect, call_kind, canonical_tool_name
from callsheet.ir.canon import canonical_bytes
from callsheet.ir.operations import CONTROL_WORDS
from callsheet.ports.python_tools.results import to_json
from callsheet.ports.python_tools.signature import Signature, cannot, read_signature
from callsheet.ports.tools import CallContext, Handler, Tool, ToolFailed, ToolSpec

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__callsheet_tool__"
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the decorator was told; None where it was not."""

    effect: Effect = Effect.UNSAFE
    name: str | None = None
    description: str | None = None
    timeout: float | None = None
    inline: bool = False


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    effect: Effect | str = Effect.UNSAFE,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    inline: bool = False,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    effect: Effect | str = Effect.UNSAFE,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    inline: bool = False,
) -> F | Callable[[F], F]:
    """Declare a function as a tool that plans can call.

    `effect` says what a call may do to the world (`unsafe` unless declared: it is then never
    repeated without asking). `name` is the tool's name, else the function's; `description` what
    models and people read, else the docstring's first paragraph. `timeout` is in seconds. A
    function that is not `async` runs in a thread; `inline=True` calls it on the event loop, for
    functions that never wait. A parameter annotated `CallContext` is given the call's
    idempotency key and takes no argument. Raises CallsheetError (CFG105) for an unknown effect.

    >>> @tool(effect="pure", inline=True)
    ... def add(a: int, b: int = 1) -> int:
    ...     "The sum of two numbers."
    ...     return a + b
    >>> tool_of(add).spec.name, tool_of(add).spec.parameter_names
    ('ADD', ('a', 'b'))
    """

    def declare(target: F) -> F:
        declared = Declaration(_effect(target, effect), name, description, timeout, inline)
        try:
            setattr(target, _ATTRIBUTE, declared)
        except AttributeError:
            raise cannot(target, "nothing can be noted on it", "wrap it in a function") from None
        return target

    return declare if function is None else declare(function)


def is_tool(value: object) -> bool:
    """Whether a value is a function that was declared as a tool."""
    return isinstance(getattr(value, _ATTRIBUTE, None), Declaration)


def tool_of(function: Callable[..., Any], *, origin: str | None = None) -> Tool:
    """The tool of a function; one that was not declared has the decorator's defaults.

    `origin` is where the tool is said to come from, `python:MODULE` if not given. Raises
    CallsheetError (CFG105) if a plan cannot call the function.
    """
    declared = cast("Declaration", getattr(function, _ATTRIBUTE, Declaration()))
    given = declared.name or getattr(function, "__name__", "")
    name = _canonical(function, given)
    signature = read_signature(function)
    description = declared.description or _first_paragraph(function)
    pin = canonical_bytes(
        {"name": given, "description": description, "parameters": signature.schema, "effect": declared.effect}
    )
    spec = ToolSpec(
        name=name,
        executor=given,
        description=description,
        parameters=signature.schema,
        effect=declared.effect,
        origin=origin or f"python:{function.__module__}",
        timeout=declared.timeout,
        pin=f"sha256:{hashlib.sha256(pin).hexdigest()}",
    )
    return Tool(spec, _handler(function, signature, declared))


def _effect(function: Callable[..., Any], effect: Effect | str) -> Effect:
    try:
        return Effect(effect)
    except ValueError:
        known = [str(e) for e in Effect]
        near = did_you_mean(str(effect), known)
        way_out = f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}"
        raise cannot(function, f"there is no effect {effect!r}", way_out) from None


def _canonical(function: Callable[..., Any], given: str) -> str:
    name = canonical_tool_name(given)
    if not given.isascii() or not _NAME.fullmatch(name):
        raise cannot(
            function, f"{given!r} is not a name that a plan can write", "give it one: @tool(name=...)"
        )
    if name in CONTROL_WORDS or call_kind(name) is not CallKind.TOOL:
        raise cannot(function, f"@{name} is a word of the language", "give it another name: @tool(name=...)")
    return name


def _first_paragraph(function: Callable[..., Any]) -> str:
    doc = inspect.getdoc(function) or ""
    return " ".join(doc.partition("\n\n")[0].split())


def _failure(error: BaseException) -> ToolFailed:
    """What a plan sees of an exception: its class and its text."""
    text = str(error)
    return ToolFailed(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _handler(function: Callable[..., Any], signature: Signature, declared: Declaration) -> Handler:
    """The handler of a function: bind, call, convert."""
    bind, context_name = signature.bind, signature.context

    def arguments(args: dict[str, Any], context: CallContext) -> dict[str, Any]:
        bound = bind(args)
        if context_name is not None:
            bound[context_name] = context
        return bound

    def call(bound: dict[str, Any]) -> JSON:
        # In a thread: StopIteration must not reach the event loop's future, nor SystemExit the loop.
        try:
            return to_json(function(**bound))
        except ToolFailed:
            raise
        except (Exception, SystemExit) as error:
            raise _failure(error) from error

    async def run_async(args: dict[str, Any], context: CallContext) -> JSON:
        bound = arguments(args, context)
        try:
            return to_json(await function(**bound))
        except ToolFailed:
            raise
        except (Exception, SystemExit) as error:
            raise _failure(error) from error

    async def run_inline(args: dict[str, Any], context: CallContext) -> JSON:
        return call(arguments(args, context))

    async def run_in_thread(args: dict[str, Any], context: CallContext) -> JSON:
        return await asyncio.to_thread(call, arguments(args, context))

    if inspect.iscoroutinefunction(function):
        handler: Handler = run_async
    else:
        handler = run_inline if declared.inline else run_in_thread
    return handler if declared.timeout is None else _within(handler, declared.timeout)


def _within(handler: Handler, seconds: float) -> Handler:
    """The handler with a limit of time; a thread that is late goes on, its answer is dropped."""

    async def limited(args: dict[str, Any], context: CallContext) -> JSON:
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                return await handler(args, context)
        except TimeoutError:
            if scope.expired():
                raise ToolFailed(f"no answer within {seconds:g} s", in_doubt=True) from None
            raise

    return limited
