"""Python functions as tools: schemas, arguments, results, failures."""

import asyncio
import contextvars
import dataclasses
import enum
import math
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import ValidationError, validate
from mcp_types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field, RootModel, TypeAdapter, computed_field, field_serializer

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Effect
from callsheet.ports import threads
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_tools import to_json, tool, tool_of
from callsheet.ports.python_tools.docstrings import read_docstring
from callsheet.ports.python_tools.results import MISS, simple
from callsheet.ports.tools import Tool

CONTEXT = CallContext("run-1", "S1.0.1", "key-1")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Order(TypedDict):
    item: str
    count: int


class Model(BaseModel):
    name: str


class Ticket(TypedDict):
    order: Order
    points: list[Point]
    model: Model | None
    color: Color
    note: "NotRequired[str]"
    until: tuple[date, ...]


def call(function, **args):
    return asyncio.run(tool_of(function).handler(args, CONTEXT))


def failure(function, **args):
    with pytest.raises(ToolFailed) as caught:
        call(function, **args)
    return str(caught.value)


# ---------------------------------------------------------------- declaration


def test_undeclared_function_is_unsafe_and_named_after_itself():
    @tool
    def fetch_page(url: str) -> str:
        """Fetch a page,
        as text.

        More words.
        """
        return url

    spec = tool_of(fetch_page).spec
    assert (spec.name, spec.executor, spec.effect) == ("FETCH_PAGE", "fetch_page", Effect.UNSAFE)
    assert spec.description == "Fetch a page, as text."
    assert fetch_page("x") == "x"


def test_decorator_sets_effect_name_description_and_timeout():
    @tool(effect="read", name="page.of-wiki", description="One page.", timeout=3)
    async def page():
        return None

    spec = tool_of(page, origin="python:tools.py").spec
    assert (spec.name, spec.executor) == ("PAGE_OF_WIKI", "page.of-wiki")
    assert (spec.effect, spec.description, spec.timeout) == (Effect.READ, "One page.", 3)
    assert spec.origin == "python:tools.py"


def test_pin_changes_only_with_declaration():
    def make(kind, effect="read", doc="Look."):
        def look(a: kind) -> str:
            return ""

        look.__doc__ = doc
        return tool_of(tool(effect=effect)(look)).spec.pin

    assert make(int) == make(int) == make(int, doc="Look.\n\nArgs:\n    a: Where.\n\nReturns:\n    What.")
    assert len({make(int), make(str), make(int, "unsafe"), make(int, doc="See.")}) == 4


def test_schema_has_types_defaults_and_descriptions():
    @tool
    def order(
        item: Annotated[str, "what to buy"],
        size: Literal["s", "m"],
        color: Color | None = None,
        counts: list[int] = [1],  # noqa: B006
        prices: dict[str, float] = {},  # noqa: B006
        anything: Any = None,
    ):
        return None

    assert tool_of(order).spec.parameters == {
        "type": "object",
        "properties": {
            "item": {"type": "string", "description": "what to buy"},
            "size": {"type": "string", "enum": ["s", "m"]},
            "color": {
                "anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}],
                "default": None,
            },
            "counts": {"type": "array", "items": {"type": "integer"}, "default": [1]},
            "prices": {"type": "object", "additionalProperties": {"type": "number"}, "default": {}},
            "anything": {"default": None},
        },
        "required": ["item", "size"],
        "additionalProperties": False,
    }


def test_docstring_describes_arguments_and_result():
    @tool
    def order(item: Annotated[str, "what to buy"], day: str, other: int = 0):
        """Order something.

        Why this works: see the source.

        Args:
            item: not told, since the annotation says it
            day (str): When, as
                "YYYY-MM-DD".
            unknown: no argument

        Returns:
            The id of the order.
        """

    spec = tool_of(order).spec
    assert spec.description == "Order something. Returns: The id of the order."
    said = {name: one.get("description") for name, one in spec.parameters["properties"].items()}
    assert said == {"item": "what to buy", "day": 'When, as "YYYY-MM-DD".', "other": None}


@pytest.mark.parametrize(
    ("text", "description", "arguments"),
    [
        ("Modes:\n  a: one", "Modes: a: one", {}),
        ("Order these:\n- things\nArgs:\n    a: One.", "Order these: - things", {"a": "One."}),
        ("Tell.\n\nArgs:\n  a: One,\n    note: two.\n", "Tell.", {"a": "One, note: two."}),
        ("Tell.\n\nArgs:\n    a: One.\n\nProse behind it.", "Tell.", {"a": "One."}),
        ("Tell.\n\nReturns:\n    An id.\n\nProse.", "Tell. Returns: An id.", {}),
        ("Tell.\n\nParameters\n---\na : int\n    One: two.\nb, c\n    Both.", "Tell.", {"a": "One: two."}),
    ],
)
def test_lines_of_a_docstring_belong_to_what_they_stand_under(
    text: str, description: str, arguments: dict[str, str]
):
    said = read_docstring(text)
    assert (said.description, said.arguments) == (description, arguments)


def test_pydantic_types_share_definitions():
    @tool
    def place(a: Point, b: Point | None, order: Order, model: Model):
        return None

    schema = tool_of(place).spec.parameters
    assert set(schema["$defs"]) == {"Point", "Order", "Model"}
    assert schema["properties"]["a"] == {"$ref": "#/$defs/Point"}


def test_kwargs_allow_additional_names():
    @tool
    def log(text: str, **fields: int):
        return [text, fields]

    assert tool_of(log).spec.parameters["additionalProperties"] == {"type": "integer"}
    assert call(log, text="a", x=1, y="2") == ["a", {"x": 1, "y": 2}]
    assert failure(log, text="a", x="?").startswith("argument x: ")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(*names): ...", "its parameter names has no name"),
        ("def f(a, /): ...", "its parameter a has no name"),
        ("def f(): yield 1", "it yields values"),
        ("def respond(): ...", "@RESPOND is a keyword of the language"),
        ("def llm_extract(): ...", "@LLM_EXTRACT is a keyword of the language"),
        ("def ü(): ...", "is not a valid tool name"),
        ("def f(a: 'Missing'): ...", "its types cannot be read (NameError"),
        ("def f(a: threading.Thread): ...", "the type of its parameter a has no JSON form"),
    ],
)
def test_uncallable_function_is_refused(source, words):
    space = {"threading": threading, "__name__": __name__}
    exec(source, space)
    function = next(v for k, v in space.items() if callable(v) and k != "__builtins__")
    with pytest.raises(CallsheetError) as caught:
        tool_of(function)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "CFG105"
    assert words in diagnostic.message


def test_unknown_effect_suggests_nearest():
    with pytest.raises(CallsheetError) as caught:
        tool(effect="raed")(lambda: None)
    assert caught.value.diagnostics[0].help == "did you mean read?"


# ---------------------------------------------------------------- arguments


def test_arguments_are_converted_to_function_types():
    seen = {}

    @tool
    def take(a: Point, c: Color, when: date, where: Path, ratio: float, kinds: set[str] | None = None):
        seen.update(locals())

    call(take, a={"x": "3"}, c="red", when="2026-01-31", where="/x", ratio=1, kinds=["a", "a"])
    assert seen["a"] == Point(3)
    assert seen["c"] is Color.RED
    assert seen["when"] == date(2026, 1, 31)
    assert seen["where"] == Path("/x")
    assert (type(seen["ratio"]), seen["ratio"]) == (int, 1)  # as written, which float accepts
    assert seen["kinds"] == {"a"}


def test_argument_error_names_argument():
    @tool
    def take(count: int, points: list[Point] | None = None):
        return None

    assert failure(take, count="many").startswith("argument count: input should be a valid integer")
    assert failure(take, count=1, points=[{"x": "?"}]).startswith("argument points[0].x: input should be")
    assert failure(take) == "argument count: is missing"
    assert failure(take, count=1, cuont=2) == (
        "argument cuont: is not one of count, points; did you mean count?"
    )


def test_function_may_request_call_context():
    @tool
    def keyed(text: str, context: CallContext | None = None, **more: str):
        return [text, context.idempotency_key]

    assert tool_of(keyed).spec.parameter_names == ("text",)
    assert call(keyed, text="a") == ["a", "key-1"]
    assert "argument context: is not one of text" in failure(keyed, text="a", context="forged")


ANNOTATIONS = [
    str,
    int,
    float,
    bool,
    None,
    Any,
    list,
    dict,
    list[int],
    dict[str, float],
    int | None,
    float | str,
]
ANNOTATIONS += [Literal["a", "b"], Literal[1, 2], Color, list[Color | None], dict[str, list[bool]]]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3) | st.sampled_from(["a", "red", 1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def same(quick: Any, slow: Any) -> bool:
    """Whether values and their types are equal; an int stays one where pydantic makes it a float."""
    if type(quick) is int and type(slow) is float:
        return float(quick) == slow
    if type(quick) is not type(slow):
        return False
    if isinstance(quick, list):
        return len(quick) == len(slow) and all(map(same, quick, slow))
    if isinstance(quick, dict):
        return quick.keys() == slow.keys() and all(same(quick[key], slow[key]) for key in quick)
    return quick == slow


@given(st.sampled_from(ANNOTATIONS), JSON_VALUES)
def test_fast_check_agrees_with_pydantic(annotation, value):
    known = simple(annotation)
    assert known is not None
    quick = known.check(value)
    if quick is not MISS:
        slow = TypeAdapter(annotation).validate_python(value)
        assert same(quick, slow)


@given(st.sampled_from([a for a in ANNOTATIONS if a not in (list, dict)]))
def test_schema_of_simple_type_equals_pydantic_except_titles(annotation):
    def plain(schema, definitions):
        if isinstance(schema, list):
            return [plain(s, definitions) for s in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return plain(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {k: plain(v, definitions) for k, v in schema.items() if k not in ("title", "$defs")}

    theirs = TypeAdapter(annotation).json_schema()
    assert simple(annotation).schema == plain(theirs, theirs.get("$defs", {}))


def test_simple_types_do_not_import_pydantic():
    code = (
        "import sys, asyncio\n"
        "from callsheet.ports.python_tools import tool, tool_of\n"
        "from callsheet.ports.calls import CallContext\n"
        "@tool\n"
        "async def f(a: str, b: int | None = None, c: list[float] = []): return [a, b, c]\n"
        "print(asyncio.run(tool_of(f).handler({'a': 'x', 'c': [1]}, CallContext('r', 'k', 'i'))))\n"
        "assert 'pydantic' not in sys.modules and 'mcp' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['x', None, [1]]\n", "")


# ---------------------------------------------------------------- calls


def test_function_runs_in_thread_unless_inline():
    @tool
    def here():
        return threading.get_ident()

    @tool(inline=True)
    def there():
        return threading.get_ident()

    assert call(here) != threading.get_ident()
    assert call(there) == threading.get_ident()


def test_slow_function_does_not_block_event_loop():
    is_released = threading.Event()

    @tool
    def wait():
        return is_released.wait(20)

    async def release():
        is_released.set()

    async def main():
        return await asyncio.gather(tool_of(wait).handler({}, CONTEXT), release())

    assert asyncio.run(main()) == [True, None]


def test_slow_calls_run_side_by_side():
    barrier = threading.Barrier(4)

    @tool
    def meet():
        return barrier.wait(20) >= 0

    async def main():
        return await asyncio.gather(*(tool_of(meet).handler({}, CONTEXT) for _ in range(4)))

    assert asyncio.run(main()) == [True] * 4


def test_functions_that_begin_together_share_a_hop_until_one_is_slow(monkeypatch):
    monkeypatch.setattr(threads, "_MOMENT", 0.1)
    all_slow, used = threading.Barrier(3), list[int]()

    @tool
    def work(n: int):
        used.append(threading.get_ident())
        return n if n < 4 else all_slow.wait(20) and n

    @tool
    async def around(n: int):
        return await tool_of(work).handler({"n": n}, CONTEXT)

    async def end(waiting):
        for call_, awaited in waiting:
            await asyncio.wait({awaited}, timeout=20)
            with pytest.raises(StopIteration):
                call_.send(None)

    async def main():
        ended = []
        waiting = threads.begin_together([tool_of(work).handler({"n": n}, CONTEXT) for n in range(7)], ended)
        assert (ended, len(set(used[:5]))) == ([0, 1, 2, 3], 1)
        await end(waiting)
        assert len(set(used)) == 3
        others = (tool_of(around).handler({"n": n}, CONTEXT) for n in range(4, 7))
        waiting = [threads.begin_together(others, []) for _ in range(3)]
        assert [*map(len, waiting)] == [1, 1, 1]  # what is awaited in a function stays in its task
        await end(one for (one,) in waiting)

    asyncio.run(main())


def test_quick_function_ends_before_event_loop_turns():
    handler = tool_of(tool(one)).handler

    async def main():
        for _ in range(300):
            call_ = handler({}, CONTEXT)
            try:
                call_.send(None)
            except StopIteration as end:
                return end.value
            finally:
                call_.close()
        return None

    assert asyncio.run(main()) == 1


def one() -> int:
    return 1


def test_functions_are_called_after_a_fork():
    code = (
        "import asyncio, os\n"
        "from callsheet.ports.python_tools import tool, tool_of\n"
        "from callsheet.ports.calls import CallContext\n"
        "@tool\n"
        "def f(): return os.getpid()\n"
        "handler = tool_of(f).handler\n"
        "call = lambda: asyncio.run(asyncio.wait_for(handler({}, CallContext('r', 'k', 'i')), 20))\n"
        "assert call() == os.getpid()\n"
        "child = os.fork()\n"
        "assert call() == os.getpid()\n"
        "if not child: os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    line = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_context_variables_reach_thread():
    variable = contextvars.ContextVar("variable", default="unset")

    @tool
    def look():
        return variable.get()

    async def main():
        variable.set("set")
        return await tool_of(look).handler({}, CONTEXT)

    assert asyncio.run(main()) == "set"


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError(), "KeyError"),
        (StopIteration("end"), "StopIteration: end"),
        (SystemExit(2), "SystemExit: 2"),
        (GeneratorExit("over"), "GeneratorExit: over"),
        (ToolFailed("no such page"), "no such page"),
        (TimeoutError("late"), "TimeoutError: late"),
    ],
)
def test_exception_is_failure_with_class_name(inline, error, text):
    @tool(inline=inline, timeout=5)
    def broken():
        raise error

    assert failure(broken) == text


@pytest.mark.parametrize("error", [SystemExit(2), GeneratorExit("over"), StopIteration("end")])
@pytest.mark.parametrize("waits", [False, True])
def test_exit_exceptions_fail_only_async_tool(error, waits):
    @tool
    async def broken():
        if waits:
            await asyncio.sleep(0)
        raise error

    # Python turns a StopIteration that leaves a coroutine into a RuntimeError.
    assert failure(broken).partition(":")[0] in (type(error).__name__, "RuntimeError")


@pytest.mark.parametrize("error", [SystemExit(2), GeneratorExit("over"), StopIteration("end")])
@pytest.mark.parametrize("is_async", [False, True])
def test_exit_exceptions_fail_only_probe(error, is_async):
    def broken():
        raise error

    async def broken_too():
        raise error

    @tool(effect="probe", probe=broken_too if is_async else broken)
    def pay():
        return 1

    probe = tool_of(pay).probe
    with pytest.raises((ToolFailed, RuntimeError), match=type(error).__name__):
        asyncio.run(asyncio.wait_for(probe({}, CONTEXT), 5))


def test_closing_async_call_is_not_failure():
    @tool
    async def wait():
        await asyncio.sleep(5)

    async def main():
        call = tool_of(wait).handler({}, CONTEXT)
        call.send(None)
        call.close()  # raises RuntimeError if the handler goes on

    asyncio.run(main())


def test_timeout_leaves_call_in_doubt():
    @tool(timeout=0.02)
    async def late():
        await asyncio.sleep(5)

    with pytest.raises(ToolFailed, match=r"no answer within 0\.02 s") as caught:
        call(late)
    assert caught.value.in_doubt


def test_cancelling_call_is_not_failure():
    @tool
    async def wait():
        await asyncio.sleep(5)

    async def main():
        task = asyncio.create_task(tool_of(wait).handler({}, CONTEXT))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


# ---------------------------------------------------------------- results

Pair = namedtuple("Pair", "left right")


def test_result_has_schema_of_what_it_becomes():
    def tickets() -> list[Ticket]: ...

    schema = tool_of(tickets).spec.result
    item = schema["items"]
    assert item["required"] == ["order", "points", "model", "color", "until"]
    assert item["properties"]["note"] == {"type": "string"}
    ticket = {
        "order": Order(item="a", count=1), "points": [Point(1)], "model": Model(name="m"), "color": Color.RED,
        "until": (date(2026, 1, 31),),
    }  # fmt: skip
    validate([to_json(ticket)], schema)
    with pytest.raises(ValidationError):
        validate([to_json(ticket | {"until": (1,)})], schema)


@pytest.mark.parametrize(
    ("value", "json"),
    [
        ({"a": (1, 2.5, None)}, {"a": [1, 2.5, None]}),
        (Point(1), {"x": 1, "y": 0.0}),
        ([Model(name="n")], [{"name": "n"}]),
        (Pair(1, Color.RED), {"left": 1, "right": "red"}),
        ({"b", "a"}, ["a", "b"]),
        ({(2, 1), (1, 3)}, [[1, 3], [2, 1]]),
        (b"\x00\xff", "AP8="),
        (datetime(2026, 1, 31, 12, tzinfo=timezone.utc), "2026-01-31T12:00:00+00:00"),  # noqa: UP017
        (date(2026, 1, 31), "2026-01-31"),
        (timedelta(minutes=1.5), 90.0),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/a/b"), "/a/b"),
        ({1: "a", False: "b", Color.BLUE: "c", 2.5: "d"}, {"1": "a", "false": "b", "blue": "c", "2.5": "d"}),
        (enum.IntEnum("Level", "LOW HIGH").HIGH, 2),
    ],
)
def test_result_becomes_json(value, json):
    out = to_json(value)
    assert (type(out), out) == (type(json), json)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "nan, which JSON cannot represent"),
        ([math.inf], "inf, which JSON cannot represent"),
        ({"a": object()}, "a value of type object"),
        ([threading.Thread()], "a value of type threading.Thread"),
        ({(1, 2): 3}, "a key of type tuple"),
        ({None: 3}, "a key of type NoneType"),
        (Point, "a value of type type"),
        ((n for n in ()), "a value of type generator"),
    ],
)
def test_non_json_result_is_failure_with_path(value, words):
    with pytest.raises(ToolFailed) as caught:
        to_json(value)
    assert words in str(caught.value)


def test_self_containing_result_is_failure():
    loop: list = []
    loop.append(loop)
    with pytest.raises(ToolFailed, match="contains itself"):
        to_json(loop)


@given(JSON_VALUES)
def test_json_result_is_copied_unchanged(value):
    out = to_json(value)
    assert out == value
    assert not isinstance(value, list | dict) or out is not value


# ---------------------------------------------------------------- results


class Label(TypedDict):
    name: str
    color: NotRequired[Literal["red", "blue"]]


@dataclasses.dataclass
class Task:
    id: int
    labels: list[Label]
    due: date | None = None


def returning(annotation, value):
    def look():
        return value

    look.__annotations__["return"] = annotation
    return look


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "3", "the result of @LOOK should be integer: its return annotation says so"),
        (str, None, "the result of @LOOK should be string"),
        (list[int], [1, "2"], "the result[1] of @LOOK should be integer"),
        (dict[str, int], {"a": 1, "b": "2"}, "the result.b of @LOOK should be integer"),
        (Label, {"color": "red"}, "the result.name of @LOOK is missing"),
        (
            Label,
            {"name": "a", "color": "green"},
            "the result.color of @LOOK should be one of 'red', 'blue'",
        ),
        (Task, Task(1, [{"name": 3}]), "the result.labels[0].name of @LOOK should be string"),
        (Literal["a", 1, None], "b", "the result of @LOOK should be one of"),
        (tuple[date, ...], 3, "the result of @LOOK should be array"),
    ],
)
def test_a_result_that_does_not_fit_its_annotation_is_a_failure_with_its_place(annotation, value, message):
    with pytest.raises(ToolFailed) as caught:
        call(tool(effect="read")(returning(annotation, value)))
    assert str(caught.value).startswith(message)
    assert (caught.value.kind, caught.value.final, caught.value.in_doubt) == ("SCHEMA", False, False)
    with pytest.raises(ToolFailed) as caught:
        call(tool(returning(annotation, value)))
    assert caught.value.final  # it took place, and is not repeated


@pytest.mark.parametrize("annotation", [list[int], list[int] | dict[str, int], list[str] | list[float]])
def test_true_is_an_int_wherever_it_is_in_a_result(annotation):
    assert call(tool(effect="read")(returning(annotation, [True]))) == [True]


class Amount(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    value: int = Field(alias="Value")
    unit: str = Field(exclude=True, default="EUR")
    when: datetime = datetime(2026, 1, 1)

    @field_serializer("when")
    def _when(self, value):
        return value.year

    @computed_field
    def double(self) -> int:
        return 2 * self.value


class Numbers(RootModel[list[int]]):
    pass


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, 3),
        (int, True),
        (Task | None, None),
        (list[Task], (Task(1, [{"name": "a"}], date(2026, 1, 1)),)),
        (Label, {"name": "a", "more": 1}),
        (set[str], {"a"}),
        (Literal["a", 1], 1),
        (Color, Color.RED),
        (Amount, Amount(value=1)),
        (Numbers, Numbers([1])),
        (Mapping[str, Any], {"a": "b"}),
        (str, CallToolResult(content=[{"type": "text", "text": "a"}])),
    ],
)
def test_a_result_that_fits_its_annotation_is_kept(annotation, value):
    call(returning(annotation, value))


def test_a_tool_with_a_schema_gives_what_it_says():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    made = Tool.of("count", lambda n: {"n": n}, {"type": "object"}, effect="read", result=schema)
    assert asyncio.run(made.handler({"n": 1}, CONTEXT)) == {"n": 1}
    with pytest.raises(ToolFailed, match=r"the result\.n of @COUNT should be .*: its schema says so"):
        asyncio.run(made.handler({"n": 0}, CONTEXT))
