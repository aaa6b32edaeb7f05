"""Pure code in the interpreter: values keep their types, errors places, limits hold, workers may die."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.pure_code import CodeRefused, Fragment, Place
from callsheet.ports.python_code import (
    CodeLimits,
    LimitReached,
    NotUnderstood,
    Outputs,
    PythonCode,
    Raised,
    WorkerDied,
    interpreter_version,
)
from callsheet.ports.python_code.interpreter import Limit


@pytest.fixture(scope="module")
def code() -> Iterator[PythonCode]:
    with PythonCode(CodeLimits(memory=64 << 20, seconds=0.3, printed=1000)) as opened:
        yield opened


def outputs(code: PythonCode, source: str, /, now: datetime | None = None, **inputs: Any) -> dict[str, Any]:
    result = code.compute(source, inputs, ["r", "s"], now=now)
    assert isinstance(result, Outputs), result
    return dict(result.values)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, 2**80, 1.0, -0.0, float("inf"), "é\x00\U0001f600", b"\xff", (), (1, [2, (3,)]),
        {1, "a"},
        frozenset({1}), {1: "a", (1, 2): {"b": None}}, date(2026, 3, 2), datetime(2026, 3, 2, 9, 30),
        datetime(2026, 3, 2, tzinfo=timezone(timedelta(hours=2))), timedelta(days=-1, microseconds=3),
        Decimal("1.10"), [{"a": [1.5, {"b": (date(2026, 1, 1),)}]}],
    ],
)  # fmt: skip
def test_values_go_in_and_out_with_their_types(code: PythonCode, value: Any) -> None:
    out = outputs(code, "r = x\ns = [x, (x,)]", x=value)
    assert repr(out) == repr({"r": value, "s": [value, (value,)]})


def test_a_name_without_a_value_is_not_among_the_outputs(code: PythonCode) -> None:
    assert outputs(code, "if x:\n    r = 1\ns = 2", x=0) == {"s": 2}


def test_objects_that_two_names_share_are_one_object(code: PythonCode) -> None:
    shared: list[int] = []
    assert outputs(code, "a.append(1)\nr = b\ns = a is b", a=shared, b=shared) == {"r": [1], "s": True}
    assert shared == []


def test_pieces_do_not_see_each_other(code: PythonCode) -> None:
    outputs(code, "left = 1")
    result = code.compute("r = left", {}, ["r"])
    assert isinstance(result, Raised)
    assert result.kind == "NameError"


def test_an_error_has_its_place_in_the_file(code: PythonCode) -> None:
    result = code.compute(Fragment("y = 0\nr = [1,\n     x / y]", line=10, column=4), {"x": 1}, ["r"])
    assert isinstance(result, Raised)
    assert (result.kind, result.place) == ("ZeroDivisionError", Place(12, 10))
    assert result.bases == ("ZeroDivisionError", "ArithmeticError", "Exception", "BaseException")


def test_an_error_in_a_function_of_another_fragment_has_the_place_of_the_function(code: PythonCode) -> None:
    parts = [Fragment("def share(a, b):\n    return a / b", 3), Fragment("r = share(1, 0)", 40, 8)]
    result = code.compute(parts, {}, ["r"])
    assert isinstance(result, Raised)
    assert result.place == Place(4, 12)


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("x = [0] * 10**9", Limit.MEMORY),
        ("try:\n    x = [0] * 10**9\nexcept MemoryError:\n    pass", Limit.MEMORY),
        ("try:\n    while True: pass\nexcept BaseException:\n    pass", Limit.TIME),
        ("def f(x): return f(x)\nf(1)", Limit.DEPTH),
        ("for i in range(100000): print('a' * 100)", Limit.PRINTED),
    ],
)
def test_limits_stop_code_that_cannot_catch_them(code: PythonCode, source: str, limit: Limit) -> None:
    result = code.compute(source, {}, [])
    assert isinstance(result, LimitReached), result
    assert result.limit is limit


@pytest.mark.parametrize(
    "source",
    [
        "r = open('/etc/passwd').read()", "import os\nr = os.environ['HOME']", "import time\ntime.sleep(9)",
        "import random\nr = random.random()", "from datetime import datetime\nr = datetime.now()",
        "import subprocess", "import socket", "r = __import__('os').listdir('/')",
    ],
)  # fmt: skip
def test_code_reaches_no_file_clock_process_or_network(code: PythonCode, source: str) -> None:
    try:
        result = code.compute(source, {}, ["r"])
    except CodeRefused:
        return
    assert isinstance(result, (Raised, NotUnderstood)), result


def test_code_sees_the_moment_that_it_is_given(code: PythonCode) -> None:
    now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    source = "from datetime import datetime, date\nr = datetime.now()\ns = date.today()"
    assert outputs(code, source, now=now) == {"r": datetime(2026, 3, 2, 9), "s": date(2026, 3, 2)}


def test_sets_are_iterated_in_sorted_order(code: PythonCode) -> None:
    source = """
r = [", ".join({"b", "c", "a"}), [x for x in s], list(s), [*s], f"{s}", str([s]), list(enumerate(s)), s.pop()]
for x in s:
    r.append(x)
s = max({"bb", "aa", "c"}, key=len)
"""
    first = sorted(["k", "x", "y", "z"])
    assert outputs(code, source, s={"z", "x", "k", "y"}) == {
        "r": [
            "a, b, c", first, first, first, "{'k', 'x', 'y', 'z'}", "[{'k', 'x', 'y', 'z'}]",
            list(enumerate(first)), "k", "x", "y", "z",
        ],
        "s": "aa",
    }  # fmt: skip


def test_records_are_read_by_key_and_by_name(code: PythonCode) -> None:
    row = {"title": "a", "count": 2, "owner": {"name": "Ann"}, "items": [1], "year": 2026}
    source = """
r = [row.title, row["title"], row.count, row.owner.name.upper(), row["items"], len(row.items()), row.year]
try:
    row.nope
except AttributeError:
    s = [getattr(row, "nope", 5), hasattr(row, "title"), hasattr(row, "nope")]
s.append(sorted([row], key=lambda x: x.count))
"""
    assert outputs(code, source, row=row) == {
        "r": ["a", "a", 2, "ANN", [1], 5, 2026],
        "s": [5, True, False, [row]],
    }


def test_exception_of_the_programs_own_class_has_its_bases_and_fields(code: PythonCode) -> None:
    source = """\
class Rejected(ValueError):
    def __init__(self, row, why):
        super().__init__(f"{row}: {why}")
        self.row = row
def check(x):
    raise Rejected(x, "bad")
check(7)
"""
    result = code.compute(Fragment(source, line=20), {}, [])
    assert result == Raised(
        "Rejected",
        "7: bad",
        ("Rejected", "ValueError", "Exception", "BaseException"),
        Place(25, 5),
        {"row": 7},
    )


def test_what_is_printed_comes_with_the_outputs(code: PythonCode) -> None:
    assert code.compute("print('a', 1, sep='-')\nprint('b')", {}, []) == Outputs({}, "a-1\nb\n")


def test_a_function_cannot_leave_its_piece_of_code(code: PythonCode) -> None:
    result = code.compute("r = [lambda: 1]", {}, ["r"])
    assert isinstance(result, NotUnderstood)
    assert result.message == "r holds a function, which cannot leave the piece of code that made it"


def test_a_worker_that_is_killed_ends_one_piece_of_code(tmp_path: Any) -> None:
    with PythonCode(CodeLimits(seconds=30), workers=1) as code:
        assert isinstance(code.compute("r = 1", {}, ["r"]), Outputs)
        killer = threading.Thread(target=_kill_worker)
        killer.start()
        result = code.compute("while True: pass", {}, [])
        killer.join()
        assert isinstance(result, WorkerDied)
        assert code.compute("r = 2", {}, ["r"]) == Outputs({"r": 2})


def _kill_worker() -> None:
    time.sleep(0.1)
    listed = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        process, name = line.split(maxsplit=1)
        if name.startswith("monty"):
            os.kill(int(process), signal.SIGKILL)


async def test_several_pieces_run_beside_the_event_loop(code: PythonCode) -> None:
    results = await asyncio.gather(*(code.compute_async("r = x * 2", {"x": n}, ["r"]) for n in range(6)))
    assert list(results) == [Outputs({"r": n * 2}) for n in range(6)]


def test_a_closed_interpreter_says_so() -> None:
    code = PythonCode()
    code.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        code.compute("r = 1", {}, ["r"])


def test_the_interpreter_is_imported_with_the_first_piece_of_code() -> None:
    program = (
        "import sys; from callsheet.ports.python_code import PythonCode; c = PythonCode()\n"
        "print('pydantic_monty' in sys.modules); c.compute('r = 1', {}, ['r'])\n"
        "print('pydantic_monty' in sys.modules); c.close()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callsheet.ports.python_code.interpreter._PACKAGE", "no-such-package")
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with PythonCode() as code, pytest.raises(CallsheetError) as raised:
        code.compute("r = 1", {}, ["r"])
    assert raised.value.diagnostics[0].help == "pip install 'callsheet[python]'"


def test_the_version_is_the_one_that_the_extra_pins() -> None:
    from importlib.metadata import requires

    pinned = [line for line in requires("callsheet") or () if line.startswith("pydantic-monty")]
    number = interpreter_version().removeprefix("monty ")
    assert pinned == [f"pydantic-monty=={number} ; extra == 'python'"]
