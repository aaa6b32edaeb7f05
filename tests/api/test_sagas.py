"""ON_FAIL UNDO: a block that fails takes back what it has done, newest first, also after a kill."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import CallsheetError, Plan, Runtime, TookPlace, tool
from callsheet.ir import JSON
from callsheet.ir.labels import read_label
from callsheet.policy.model import Policy, ToolRule

ALL_KINDS = """# ltp: 2
INPUT $ops: list[json]
INPUT $ends: bool
PLAN remove ($id: int) -> json {
  @REMOVE (id=$id) > $gone
  RETURN ($gone)
}
TRY {
  TRY {
    @ADD (value=100)
    S1: ?FOREACH ($op IN $ops) TOGETHER MAX 3 {
      ?IF ($op.kind == "add") {
        @ADD (value=$op.value)
      } ELSE IF ($op.kind == "put") {
        @PUT (id=$op.id, value=$op.value)
      } ELSE {
        CALL remove (id=$op.id)
      }
    }
    @PARALLEL {
      @ADD (value=200)
      TRY {
        @ADD (value=300)
      } FINALLY {
        NOTE ("added")
      }
    }
  } ON_FAIL UNDO
  @ADD (value=400)
  REQUIRE ($ends) "not yet"
} ON_FAIL UNDO ON_FAIL {
  @RESPOND ($error.kind)
}
"""


class World:
    """Values by numbers; a call whose number is in `failing` fails; `at` hears of each point of a call."""

    def __init__(self, values: dict[int, int], failing: frozenset[int] = frozenset()) -> None:
        self.values, self.failing, self.calls = dict(values), failing, 0
        self.undone: list[str] = []
        self.sent = 0
        self.at: Callable[[JSON], None] = lambda gave: None

    def _call(self) -> None:
        self.at(None)
        self.calls += 1
        if self.calls in self.failing:
            raise RuntimeError("the store is away")

    def _given(self, result: Any) -> Any:
        self.at(result)
        return result

    def tools(self) -> list[Any]:
        @tool(effect="unsafe", undo="restore(id=result.id, value=None)")
        async def add(value: int) -> dict[str, int]:
            self._call()
            number = max(self.values, default=0) + 1
            self.values[number] = value
            return self._given({"id": number})

        @tool(effect="unsafe", undo="restore(id=call.id, value=result.old)")
        async def put(id: int, value: int) -> dict[str, int]:  # noqa: A002 - the name of an argument
            self._call()
            old, self.values[id] = self.values[id], value
            return self._given({"old": old})

        @tool(effect="unsafe", undo="restore(id=call.id, value=result.value)")
        async def remove(id: int) -> dict[str, int]:  # noqa: A002
            self._call()
            value = self.values.pop(id)
            return self._given({"value": value})

        @tool(effect="idempotent")
        async def restore(id: int, value: int | None) -> str:  # noqa: A002
            self._call()
            if value is None:
                self.values.pop(id, None)
            else:
                self.values[id] = value
            self.undone.append(f"{id}={value}")
            return self._given("restored")

        @tool(effect="unsafe")
        async def send(text: str) -> str:
            self.sent += 1
            return "sent"

        return [add, put, remove, restore, send]


_OP = st.one_of(
    st.builds(lambda v: {"kind": "add", "value": v}, st.integers(0, 9)),
    st.builds(lambda i, v: {"kind": "put", "id": i, "value": v}, st.integers(1, 5), st.integers(0, 9)),
    st.builds(lambda i: {"kind": "remove", "id": i}, st.integers(1, 5)),
)
_BEFORE = {1: 5, 2: 6, 3: 7}


@given(ops=st.lists(_OP, max_size=5), failing=st.integers(1, 12), ends=st.booleans())
def test_the_world_is_as_before_a_block_that_failed_anywhere(
    ops: list[dict[str, Any]], failing: int, ends: bool
) -> None:
    world = World(_BEFORE, frozenset({failing}))
    result = Runtime(tools=world.tools()).run_sync(ALL_KINDS, {"ops": ops, "ends": ends})
    if result.answer is None:  # nothing failed
        assert world.values.items() >= {**_BEFORE}.items() or ops
    elif result.answer == "NOT_UNDONE":
        assert world.calls >= failing
    else:
        assert world.values == _BEFORE


def test_a_kill_at_any_point_of_the_block_or_its_undo_leaves_the_world_as_before(tmp_path: Path) -> None:
    ops = [{"kind": "add", "value": 1}, {"kind": "put", "id": 2, "value": 0}, {"kind": "remove", "id": 3}]
    inputs = {"ops": ops, "ends": False}
    # one call at a time: a person decides about all calls in doubt alike
    plan = ALL_KINDS.replace("TOGETHER MAX 3", "IN ORDER").replace("@PARALLEL", "?IF (1 == 1)")
    world, left = World(_BEFORE), list[tuple[dict[int, int], JSON]]()

    def copy(gave: JSON) -> None:
        shutil.copytree(tmp_path / "whole", tmp_path / f"left{len(left)}")
        left.append((dict(world.values), gave))

    (tmp_path / "whole").mkdir()
    world.at = copy
    runtime = Runtime(tools=world.tools(), journal=tmp_path / "whole" / "j.db")
    assert runtime.run_sync(plan, inputs, run_id="r").answer == "REQUIRE"
    assert (world.values, len(world.undone), len(left)) == (_BEFORE, 7, 28)
    for number, (values, gave) in enumerate(left):
        again = World(values)
        resumed = Runtime(tools=again.tools(), journal=tmp_path / f"left{number}" / "j.db")
        took_place = "retry" if gave is None else TookPlace(gave)
        assert resumed.resume_sync("r", in_doubt=took_place).answer == "REQUIRE", number
        assert again.values == _BEFORE, number


def _lines(text: str) -> str:
    return f"# ltp: 2\n{text}"


def test_what_cannot_be_undone_is_named_and_warned_of(tmp_path: Path) -> None:
    world = World({})
    runtime = Runtime(tools=world.tools(), journal=tmp_path / "j.db")
    plan = _lines('S1: TRY {\n  S2: @ADD (value=1)\n  S3: @SEND (text="x")\n  FAIL ("no")\n} ON_FAIL UNDO\n')
    assert [d.code for d in runtime.check_sync(plan).warnings] == ["CHK113"]
    result = runtime.run_sync(plan, run_id="r")
    assert result.error == "FAIL: no; not undone: S3 @SEND (no inverse of @SEND is declared)"
    with pytest.raises(CallsheetError, match="nothing more of run r can be undone"):
        runtime.undo_sync("r", effects=True)
    assert world.undone == ["1=None"]


def test_a_block_in_which_nothing_can_be_undone_is_refused_before_the_run() -> None:
    with pytest.raises(CallsheetError, match="CHK112"):
        Runtime(tools=World({}).tools()).run_sync(_lines('TRY {\n  @SEND (text="x")\n} ON_FAIL UNDO\n'))


def test_a_plan_may_name_the_inverses_itself_and_its_failed_undo_is_a_failure_of_its_own() -> None:
    world = World({}, frozenset({2}))
    plan = _lines(
        'TRY {\n  @ADD (value=1)\n  FAIL ("no", kind="own")\n} '
        'ON_FAIL UNDO (add="restore(id=result.id, value=7)") ON_FAIL @RETRY(3) ON_FAIL NOT_UNDONE {\n'
        "  @RESPOND ($error.error)\n}\n"
    )
    result = Runtime(tools=world.tools()).run_sync(plan)
    assert result.answer == "no; the undo stopped: 1 of 1 item failed: [0] RuntimeError: the store is away"
    assert world.calls == 2  # there is no other attempt over what is not undone
    assert Plan.parse(plan).to_ltp() == plan


def test_a_retry_begins_from_where_the_block_began() -> None:
    world = World({}, frozenset({2}))
    plan = _lines(
        "TRY {\n  @ADD (value=1)\n  @ADD (value=2)\n} ON_FAIL UNDO ON_FAIL @RETRY(1)\n@RESPOND (1)\n"
    )
    assert Runtime(tools=world.tools()).run_sync(plan).answer == 1
    assert world.values == {1: 1, 2: 2}
    assert world.undone == ["1=None"]


def test_a_run_that_follows_keeps_nothing_of_what_was_undone(tmp_path: Path) -> None:
    world = World({})
    runtime = Runtime(tools=world.tools(), journal=tmp_path / "j.db")
    plan = 'S1: TRY {\n  @ADD (value=1)\n  S3: @SEND (text="x")\n  FAIL ("no")\n} ON_FAIL UNDO\n'
    runtime.run_sync(_lines(plan), run_id="r")
    result = runtime.rerun_sync("r", plan=_lines(plan.replace('FAIL ("no")', "@RESPOND (7)")), effects=True)
    assert (result.answer, world.values, world.sent) == (7, {1: 1}, 1)


def test_a_policy_refuses_an_undo_before_the_run() -> None:
    world = World({})
    plan = _lines('TRY {\n  @ADD (value=1)\n  FAIL ("no")\n} ON_FAIL UNDO\n')
    policy = Policy(denied_tools=frozenset({"RESTORE"}))
    with pytest.raises(CallsheetError, match="RESTORE"):
        Runtime(tools=world.tools(), policy=policy).run_sync(plan)
    assert world.calls == 0


def _policy(returns: str) -> Policy:
    quiet = ToolRule(egress=False, destructive=False, returns=read_label("T/priv"))
    adds = replace(quiet, returns=read_label(returns))
    return Policy(
        tools={"ADD": adds, "RESTORE": replace(quiet, control=("id",)), "SEND": replace(quiet, egress=True)}
    )


def test_the_inverse_calls_have_the_labels_of_what_they_take_back(tmp_path: Path) -> None:
    plan = _lines('TRY {\n  @ADD (value=1)\n  @ADD (value=2)\n  FAIL ("no")\n} ON_FAIL UNDO\n')
    world = World({})
    runtime = Runtime(tools=world.tools(), policy=_policy("T/priv"), journal=tmp_path / "j.db")
    assert runtime.run_sync(plan).error == "FAIL: no"
    assert world.undone == ["2=None", "1=None"]
    with pytest.raises(CallsheetError, match="untrusted"):
        Runtime(tools=world.tools(), policy=_policy("U/priv")).run_sync(plan)


def test_a_no_undoes_the_block_and_stays_a_no() -> None:
    plan = _lines(
        'TRY {\n  @ADD (value=1)\n  @SEND (text="x")\n} ON_FAIL UNDO ON_FAIL DENIED {\n  @RESPOND (0)\n}\n'
    )
    world = World({})
    runtime = Runtime(tools=world.tools(), approve=["send"], on_approval=lambda _: False)
    assert runtime.run_sync(plan).answer == 0
    assert world.values == {}


def _no_to(*tools: str) -> dict[str, Any]:
    return {"approve": ["send", "restore"], "on_approval": lambda asked: asked.tool.lower() not in tools}


@pytest.mark.parametrize(("no_to", "kind"), [("send", "DENIED"), ("restore", "DENIED"), ("", "NOT_UNDONE")])
def test_an_undo_that_stops_is_told_and_stays_a_no(no_to: str, kind: str) -> None:
    plan = _lines(
        'TRY {\n  @ADD (value=1)\n  @SEND (text="x")\n  FAIL ("no")\n} ON_FAIL UNDO '
        "ON_FAIL DENIED, NOT_UNDONE {\n  @RESPOND ([$error.kind, $error.error])\n}\n"
    )
    world = World({}, frozenset({2}))
    given, said = Runtime(tools=world.tools(), **_no_to(no_to)).run_sync(plan).answer  # type: ignore[misc]
    assert given == kind
    assert "; the undo stopped: 1 of 1 item failed: [0] " in said
    assert world.values == {1: 1}
