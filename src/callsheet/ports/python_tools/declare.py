"""The `tool` decorator, and the construction of a `Tool` from a function.

A decorated function itself is unchanged: it can be called, tested and imported as before.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.diagnostics.wrong_type import wanted, wanted_list
from callsheet.ir import JSON, CallKind, Effect, OnInDoubt, ToolClass, call_kind, canonical_tool_name
from callsheet.ir.canon import canonical_bytes
from callsheet.ir.operations import CONTROL_WORDS, ORDERED, Independence
from callsheet.lazy import dataclass
from callsheet.ports.answers import Probed, Prober, probed
from callsheet.ports.calls import CallContext, ToolFailed, ToolRaised
from callsheet.ports.python_tools.results import annotated_result, value_returned
from callsheet.ports.python_tools.signature import Signature, cannot, read_signature
from callsheet.ports.threads import Threaded, stop_sharing
from callsheet.ports.tools import Handler, Tool, ToolSpec

if TYPE_CHECKING:
    from callsheet.ir.inverse import Inverse
    from callsheet.ports.reconcilers import Reconciler

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__callsheet_tool__"
_NAME = lazy.pattern(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """The arguments of the decorator; None for those that were not given."""

    effect: Effect | None = None
    name: str | None = None
    description: str | None = None
    timeout: float | None = None
    inline: bool = False
    key_argument: str | None = None
    probe: Callable[..., Any] | None = None
    reconciler: Reconciler | None = None
    on_in_doubt: OnInDoubt | None = None
    max_concurrent: int | None = None
    does: ToolClass | None = None
    to: str | None = None
    undo: Inverse | None = None
    independence: Independence = ORDERED


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    effect: Effect | str | None = None,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    inline: bool = False,
    key_argument: str | None = None,
    probe: Callable[..., Any] | str | None = None,
    happened: str | None = None,
    value: str | None = None,
    on_in_doubt: OnInDoubt | str | None = None,
    max_concurrent: int | None = None,
    does: ToolClass | str | None = None,
    to: str | None = None,
    undo: str | None = None,
    commutes: bool = False,
    resource: str | Sequence[str] = (),
) -> Callable[[F], F]: ...
def tool(  # noqa: PLR0913 - all that can be said of a tool
    function: F | None = None,
    /,
    *,
    effect: Effect | str | None = None,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    inline: bool = False,
    key_argument: str | None = None,
    probe: Callable[..., Any] | str | None = None,
    happened: str | None = None,
    value: str | None = None,
    on_in_doubt: OnInDoubt | str | None = None,
    max_concurrent: int | None = None,
    does: ToolClass | str | None = None,
    to: str | None = None,
    undo: str | None = None,
    commutes: bool = False,
    resource: str | Sequence[str] = (),
) -> F | Callable[[F], F]:
    """Declare a function as a tool that plans can call.

    `effect` says what a call may do to the world (`unsafe` unless declared: it is then never
    repeated without asking). `name` is the tool's name, else the function's; `description` what
    models and people read, else the docstring's first paragraph and what it says is returned; its
    sections of arguments describe these, where `Annotated` does not. `timeout` is in seconds. A
    function that is not `async` runs in a thread; `inline=True` calls it on the event loop, for
    functions that never wait. A parameter annotated `CallContext` is given the call's
    idempotency key and takes no argument.

    `key_argument` (with effect `keyed`) names the parameter that is given the idempotency key;
    plans do not see it. `probe` (with effect `probe`) is a function that tells whether a call took
    place: it is given those of the call's arguments that it has parameters for, a `CallContext`
    with the same idempotency key, and gives `TookPlace(value)`, False (it did not) or None
    (unknown). Or it is a text, and other tools tell: `probe="find_order(reference=key)"` calls one
    that reads, where `call` stands for the call's arguments and `key` for its idempotency key;
    `happened` is an expression over `$answer`, `$call` and `$key` that says whether the call took
    place, and `value` one for what it gave (by default the answer). Or the text is a plan, or the
    file of one beside the function's, that answers `{"happened": …, "value": …}`. `on_in_doubt` is
    `ask`, `fail` or `retry`: what becomes of a call that may have taken place.
    `max_concurrent` is how many calls may be under way at once, in whatever runs of an event loop;
    the others wait.

    `does` says what kind of thing a call does, for policies: `computes`, `reads`, `writes`, `sends`, `pays`,
    `deletes`, `runs` or `administers`; by default `computes` for the effect `pure` and `reads` for `read`.
    `to` is the parameter that names who is told or paid, if its name does not tell.

    `undo` is the call that takes back what a call did, for `callsheet undo`, such as
    `"delete_event(event_id=result.id, calendar=call.calendar)"`: `call` stands for the call's arguments,
    `result` for what it gave.

    `commutes` and `resource` say that the items of a loop may make calls side by side. `commutes=True`: it is
    all the same when a call is made among those of other items; neither sees what the other does. `resource`
    names the parameters that say which thing a call touches: it sees and changes nothing of another one.
    Where a run ends in the middle of such a loop, a later item may have made its calls, and an earlier one
    not.

    Raises CallsheetError (CFG105) for words or parameters that do not exist.

    >>> @tool(effect="pure", inline=True)
    ... def add(a: int, b: int = 1) -> int:
    ...     "The sum of two numbers."
    ...     return a + b
    >>> tool_of(add).spec.name, tool_of(add).spec.parameter_names
    ('ADD', ('a', 'b'))
    """

    def declare(target: F) -> F:
        declared = Declaration(
            None if effect is None else _word(target, Effect, "effect", effect),
            name,
            description,
            timeout,
            inline,
            key_argument,
            None if isinstance(probe, str) else probe,
            _reconciler(target, probe, happened, value),
            None if on_in_doubt is None else _word(target, OnInDoubt, "policy", on_in_doubt),
            max_concurrent,
            None if does is None else _word(target, ToolClass, "class", does),
            to,
            None if undo is None else _inverse(target, undo),
            _independence(target, commutes, resource),
        )
        _refuse_misfits(target, declared)
        try:
            setattr(target, _ATTRIBUTE, declared)
        except AttributeError:
            raise cannot(target, "no attribute can be set on it", "wrap it in a function") from None
        return target

    return declare if function is None else declare(function)


_CHANGES_NOTHING = frozenset({None, Effect.PURE, Effect.READ, Effect.LLM})


def is_tool(value: object) -> bool:
    """Whether a value is a function declared with the decorator."""
    return isinstance(getattr(value, _ATTRIBUTE, None), Declaration)


def tool_of(function: Callable[..., Any], *, origin: str | None = None) -> Tool:
    """The tool of a function; without a declaration the decorator's defaults apply.

    `origin` is the origin in the declaration, by default `python:MODULE`. Raises CallsheetError (CFG105) if a
    plan cannot call the function.
    """
    declared = cast("Declaration", getattr(function, _ATTRIBUTE, Declaration()))
    given = declared.name or getattr(function, "__name__", "")
    name = _canonical(function, given)
    signature = read_signature(function).without(function, declared.key_argument)
    effect = declared.effect or Effect.UNSAFE
    paragraph = _first_paragraph(function)
    described, said_of = _documentation(function, paragraph)
    said = {"does": declared.does, "to": declared.to}
    # what a docstring says of arguments is no part of it: it tells models more, and changes no call
    pin = canonical_bytes(
        {
            "name": given,
            "description": declared.description or paragraph,
            "parameters": signature.schema,
            "effect": effect,
        }
        | {name: str(word) for name, word in said.items() if word is not None}
    )
    if declared.to is not None and declared.to not in signature.parameters:
        raise cannot(
            function, f"it has no parameter {declared.to!r}, which `to` names", "name one that it has"
        )
    unknown = next(
        (name for name in declared.independence.resource if name not in signature.parameters), None
    )
    if unknown is not None:
        hint = "name one that it has"
        raise cannot(function, f"it has no parameter {unknown!r}, which `resource` names", hint)
    if declared.does in (ToolClass.READS, ToolClass.COMPUTES) and declared.effect not in _CHANGES_NOTHING:
        hint = f"declare effect={'pure' if declared.does is ToolClass.COMPUTES else 'read'!r}"
        raise cannot(
            function, f"does={declared.does!s} says that it changes nothing, its effect does not", hint
        )
    spec = ToolSpec(
        name=name,
        executor=given,
        description=declared.description or described,
        parameters=_with_descriptions(signature.schema, said_of),
        effect=effect,
        origin=origin or f"python:{function.__module__}",
        timeout=declared.timeout,
        pin=f"sha256:{hashlib.sha256(pin).hexdigest()}",
        is_declared=declared.effect is not None,
        does=declared.does,
        tells=declared.to,
        on_in_doubt=declared.on_in_doubt,
        result=signature.result,
        undo=declared.undo,
        independence=declared.independence,
    )
    probe = None if declared.probe is None else _prober(declared.probe, declared.key_argument)
    handler = _handler(name, function, signature, declared)
    if declared.max_concurrent is not None:
        from callsheet.ports.timeouts import Slots  # noqa: PLC0415 - brings asyncio

        handler = Slots(declared.max_concurrent).sharing(handler)
    return Tool(spec, handler, probe, declared.reconciler)


_Word = TypeVar("_Word", Effect, OnInDoubt, ToolClass)


def _word(function: Callable[..., Any], kind: type[_Word], what: str, given: str) -> _Word:
    try:
        return kind(given)
    except ValueError:
        known = [str(word) for word in kind]
        suggestions = did_you_mean(str(given), known)
        hint = f"did you mean {' or '.join(suggestions)}?" if suggestions else f"one of {', '.join(known)}"
        raise cannot(function, f"there is no {what} {given!r}", hint) from None


def _inverse(function: Callable[..., Any], text: str) -> Inverse:
    from callsheet.ir.inverse import NotAnInverse, read_inverse  # noqa: PLC0415 - few tools have one

    try:
        return read_inverse(wanted("undo", text, str, "a call as text, such as 'delete(id=result.id)'"))
    except NotAnInverse as error:
        raise cannot(function, "its `undo` cannot be read", str(error)) from None


def _independence(
    function: Callable[..., Any], commutes: bool, resource: str | Sequence[str]
) -> Independence:
    given = (resource,) if isinstance(resource, str) else wanted_list("resource", resource, "parameters")
    names = tuple(wanted("resource", name, str, "the names of parameters") for name in given)
    if wanted("commutes", commutes, bool, "True or False") and names:
        raise cannot(function, "it commutes, so that no resource sets its calls apart", "declare one of them")
    return Independence(commutes, names)


def _reconciler(
    function: Callable[..., Any],
    probe: Callable[..., Any] | str | None,
    happened: str | None,
    value: str | None,
) -> Reconciler | None:
    if not isinstance(probe, str):
        if happened is not None or value is not None:
            hint = 'write probe="find_order(reference=key)", happened="len($answer) > 0"'
            raise cannot(
                function, "`happened` and `value` judge the answer of a tool that `probe` names", hint
            )
        return None
    from callsheet.ports.reconcilers import PROBE_HINT, NotAReconciler, read_reconciler  # noqa: PLC0415 - few have one

    folder = Path(getattr(getattr(function, "__code__", None), "co_filename", "")).parent
    try:
        return read_reconciler(probe, happened, value, folder)
    except NotAReconciler as error:
        raise cannot(function, f"its `probe` cannot be used: {error}", PROBE_HINT) from None


def _refuse_misfits(function: Callable[..., Any], declared: Declaration) -> None:
    """Raise CFG105 for a key or probe that the effect does not use, or a missing probe."""
    if declared.key_argument is not None and declared.effect not in (Effect.KEYED, Effect.PROBE):
        raise cannot(function, "key_argument passes an idempotency key", "declare effect='keyed'")
    has_probe = declared.probe is not None or declared.reconciler is not None
    if has_probe != (declared.effect is Effect.PROBE):
        hint = "write @tool(effect='probe', probe=function)"
        raise cannot(function, "the effect probe and a probe belong together", hint)
    if declared.undo is not None and (declared.effect or Effect.UNSAFE).only_reads:
        raise cannot(function, "it changes nothing, so there is nothing to undo", "remove undo=...")
    most = declared.max_concurrent
    if most is not None and wanted("max_concurrent", most, int, "a whole number") < 1:
        raise cannot(function, f"max_concurrent is {most}", "allow at least one call at once")


def _canonical(function: Callable[..., Any], given: str) -> str:
    name = canonical_tool_name(given)
    if not given.isascii() or not _NAME.fullmatch(name):
        raise cannot(function, f"{given!r} is not a valid tool name", "give it one: @tool(name=...)")
    if name in CONTROL_WORDS or call_kind(name) is not CallKind.TOOL:
        raise cannot(
            function, f"@{name} is a keyword of the language", "give it another name: @tool(name=...)"
        )
    return name


def _first_paragraph(function: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _documentation(function: Callable[..., Any], paragraph: str) -> tuple[str, dict[str, str]]:
    """What the docstring says of the function, and of its arguments by name."""
    text = inspect.getdoc(function) or ""
    marks = (":", "Returns ")
    if not any(line.endswith((":", "---")) or line.startswith(marks) for line in text.split("\n")):
        return paragraph, {}
    from callsheet.ports.python_tools.docstrings import read_docstring  # noqa: PLC0415 - few have sections

    read = read_docstring(text)
    return read.description, read.arguments


def _with_descriptions(schema: dict[str, Any], said: Mapping[str, str]) -> dict[str, Any]:
    """A schema of arguments with what is said of those that it does not describe itself."""
    properties = {
        name: {"description": said[name], **one} if name in said else one
        for name, one in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _failure(error: BaseException) -> ToolFailed:
    """The failure that a plan sees for an exception: its class and text."""
    return ToolRaised(described(error))


def _closes_caller(error: BaseException) -> bool:
    """Whether an exception is that of Python for a coroutine that is closed at its `await`.

    It is raised in the frame of the `await`; one of the awaited function has frames of its own.
    """
    traceback = error.__traceback__
    return isinstance(error, GeneratorExit) and (traceback is None or traceback.tb_next is None)


def described(error: BaseException) -> str:
    """The class and text of an exception from user code, whose `__str__` may itself fail.

    >>> described(ValueError("no")), described(ValueError())
    ('ValueError: no', 'ValueError')
    """
    try:
        text = str(error)
    except Exception:  # `__str__`, or the `__repr__` of what it holds, fails
        text = "its text is not available"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _handler(name: str, function: Callable[..., Any], signature: Signature, declared: Declaration) -> Handler:
    """The handler of a function: binds the arguments, calls it, converts the result."""
    bind, context_name, key_name = signature.bind, signature.context, declared.key_argument
    only_reads = (declared.effect or Effect.UNSAFE).only_reads
    returned = annotated_result(name, signature.result, has_effect=not only_reads)

    def arguments(args: dict[str, Any], context: CallContext) -> dict[str, Any]:
        bound = bind(args)
        if context_name is not None:
            bound[context_name] = context
        if key_name is not None:
            bound[key_name] = context.idempotency_key
        return bound

    def call(bound: dict[str, Any]) -> JSON:
        # StopIteration must not reach the future of the event loop, nor SystemExit the loop itself.
        try:
            return value_returned(function(**bound), returned)
        except ToolFailed:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            raise _failure(error) from error

    async def run_async(args: dict[str, Any], context: CallContext) -> JSON:
        bound = arguments(args, context)
        stop_sharing()
        try:
            return value_returned(await function(**bound), returned)
        except ToolFailed:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            if _closes_caller(error):
                raise
            raise _failure(error) from error

    async def run_inline(args: dict[str, Any], context: CallContext) -> JSON:
        return call(arguments(args, context))

    threaded = Threaded(call)

    async def run_in_thread(args: dict[str, Any], context: CallContext) -> JSON:
        return await threaded(arguments(args, context), context)

    if inspect.iscoroutinefunction(function):
        handler: Handler = run_async
    else:
        handler = run_inline if declared.inline else run_in_thread
    return handler if declared.timeout is None else _limited(handler, declared.timeout)


def _prober(function: Callable[..., Any], key_argument: str | None) -> Prober:
    """The prober of a function, which gets the call's arguments that it has parameters for, and the key."""
    signature = read_signature(function)
    takes_key = key_argument in signature.parameters
    signature = signature.without(function, key_argument if takes_key else None)

    async def look(args: dict[str, Any], context: CallContext) -> Probed:
        taken = args if signature.extra else {n: v for n, v in args.items() if n in signature.parameters}
        bound = signature.bind(taken)
        if signature.context is not None:
            bound[signature.context] = context
        if takes_key and key_argument is not None:
            bound[key_argument] = context.idempotency_key
        if not inspect.iscoroutinefunction(function):
            import asyncio  # noqa: PLC0415 - not to declare tools

            return probed(await asyncio.to_thread(ask, bound))
        try:
            return probed(await function(**bound))
        except (SystemExit, GeneratorExit) as error:
            if _closes_caller(error):
                raise
            raise _failure(error) from error

    def ask(bound: dict[str, Any]) -> object:
        try:
            return function(**bound)
        except (StopIteration, SystemExit, GeneratorExit) as error:  # none of them may reach the event loop
            raise _failure(error) from error

    return look


def _limited(handler: Handler, seconds: float) -> Handler:
    """The handler with a timeout."""
    from callsheet.ports.timeouts import within  # noqa: PLC0415 - brings asyncio

    async def limited(args: dict[str, Any], context: CallContext) -> JSON:
        return await within(seconds, handler(args, context), context.came_late)

    return limited
