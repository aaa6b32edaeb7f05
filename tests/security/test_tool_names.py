"""Tool names of servers: none can imitate another, take it over, or be ambiguous."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.api.requirements import local_registry, take_in, take_in_all
from callsheet.diagnostics import CallsheetError
from callsheet.ports.builtin import BuiltinSettings
from callsheet.ports.mcp import McpPool
from callsheet.ports.mcp.declarations import is_plain, no_two_alike, plan_name, qualified_name


def named(*names: str) -> list[dict[str, object]]:
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("look", "look"), "lists two tools called 'look'"),
        (("get-user", "get_user"), "lists both 'get-user' and 'get_user'"),
        (("look", "LOOK"), "lists both 'look' and 'LOOK'"),
        (("select", "hall__select"), "lists both 'select' and 'hall__select'"),
    ],
)
async def test_server_with_duplicate_tool_names_is_refused(changeling, names, said):
    changeling.declare(*named(*names))
    async with McpPool([changeling.config()]) as pool:
        with pytest.raises(CallsheetError, match="TOL016") as caught:
            await pool.connect()
    assert said in caught.value.diagnostics[0].message


LOOKALIKES = [
    "l\u043eok",
    "look\u200b",
    "\uff4cook",
    "lo\u00adok",
    "look\u202e",
    "\u0131ook",
    "look\n",
    "x" * 129,
    "",
    " look",
]


async def test_confusable_name_is_left_out_and_others_stay(changeling):
    changeling.declare(*named("look", *LOOKALIKES))
    async with McpPool([changeling.config()]) as pool:
        doubts = await pool.connect()
        assert [tool.spec.executor for tool, _ in pool.tools()] == ["look"]
    assert [d.code for d in doubts] == ["TOL017"] * len(LOOKALIKES)
    assert all(d.message.isascii() for d in doubts)


async def test_server_overrides_no_local_name_and_no_other_server(changeling, tmp_path):
    changeling.declare(*named("read_file", "calc", "llm_summarize", "respond", "note"))
    settings = BuiltinSettings(workspace=tmp_path, data=tmp_path)
    registry = local_registry([], settings)
    own = {name: registry.get(name) for name in ("READ_FILE", "CALC")}
    other = dataclasses.replace(changeling.config(), name="annexe")
    async with McpPool([changeling.config(), other]) as pool:
        await pool.connect()
        for tool, alias in pool.tools():
            take_in(registry, tool, alias)
    assert {name: registry.get(name) for name in own} == own
    assert registry.get("NOTE") is None
    origins = {
        name: registry.require(name).spec.origin for name in ("HALL__NOTE", "ANNEXE__NOTE", "HALL__CALC")
    }
    assert origins == {"HALL__NOTE": "mcp:hall", "ANNEXE__NOTE": "mcp:annexe", "HALL__CALC": "mcp:hall"}


async def test_qualified_name_of_other_server_cannot_be_claimed(changeling):
    registry = local_registry([], None)
    other = dataclasses.replace(changeling.config(), name="annexe")
    changeling.declare(*named("look"))
    async with McpPool([other]) as pool:
        await pool.connect()
        ((tool, alias),) = pool.tools()
        take_in(registry, tool, alias)
    changeling.declare(*named("annexe__look"))
    async with McpPool([changeling.config()]) as pool:
        await pool.connect()
        ((tool, alias),) = pool.tools()
        with pytest.raises(CallsheetError, match="TOL002"):
            take_in(registry, tool, alias)


async def test_such_a_tool_is_called_by_its_own_qualified_name_beside_others(changeling):
    other = dataclasses.replace(changeling.config(), name="annexe")
    changeling.declare(*named("look"))
    async with McpPool([other]) as pool:
        await pool.connect()
        (looks,) = pool.tools()
    changeling.declare(*named("annexe__look"))
    async with McpPool([changeling.config()]) as pool:
        await pool.connect()
        (claims,) = pool.tools()
    for tools, away in (([looks, claims], []), ([claims, looks], []), ([claims], [("LOOK", "ANNEXE__LOOK")])):
        registry = local_registry([], None)
        take_in_all(registry, tools, away)
        assert registry.require("HALL__ANNEXE__LOOK").spec.origin == "mcp:hall"
        found = registry.get("ANNEXE__LOOK")
        assert (found and found.spec.origin) == (None if away else "mcp:annexe")


@given(
    st.lists(
        st.text(max_size=6) | st.sampled_from(["look", "Look", "lo-ok", "s__look", "select"]), max_size=6
    )
)
def test_accepted_names_are_distinct_in_plans(names):
    """After the check no name by which a plan calls one tool is a name of another."""
    plain = [name for name in names if is_plain(name)]
    try:
        no_two_alike("s", names)
    except CallsheetError:
        return
    every = [own for name in plain for own in {plan_name("s", name), qualified_name("s", name)}]
    assert len(every) == len(set(every))
