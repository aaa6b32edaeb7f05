"""The registry: one tool per name, or a diagnostic that says what to write."""

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Registry, Tool, ToolSpec


async def _echo(args, context: CallContext):
    return [args, context.idempotency_key]


def _tool(name, origin="builtin"):
    return Tool(ToolSpec(name, name.lower(), origin=origin), _echo)


def test_tool_is_found_by_name_and_alias():
    registry = Registry()
    tool = _tool("SEARCH", "mcp:wiki")
    registry.add(tool, "WIKI__SEARCH")
    assert registry.get("SEARCH") is registry.get("WIKI__SEARCH") is tool
    assert registry.names() == ("SEARCH",)


def test_name_of_two_servers_needs_qualified_name():
    registry = Registry()
    first, second, third = (_tool("SEARCH", f"mcp:{s}") for s in ("wiki", "news", "mail"))
    registry.add(first, "WIKI__SEARCH")
    registry.add(second, "NEWS__SEARCH")
    registry.add(third, "MAIL__SEARCH")
    assert registry.get("SEARCH") is None
    assert registry.get("WIKI__SEARCH") is first
    assert registry.get("NEWS__SEARCH") is second
    assert registry.get("MAIL__SEARCH") is third
    with pytest.raises(CallsheetError) as caught:
        registry.require("SEARCH")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "TOL003"
    assert diagnostic.help == "write @WIKI__SEARCH or @NEWS__SEARCH or @MAIL__SEARCH"


def test_name_of_unavailable_server_needs_qualified_name():
    registry = Registry([_tool("FIND")])
    first = _tool("SEARCH", "mcp:wiki")
    registry.add(first, "WIKI__SEARCH")
    registry.reserve("SEARCH", "NEWS__SEARCH")
    registry.reserve("SEARCH", "NEWS__SEARCH")
    registry.reserve("READ", "NEWS__READ")
    assert registry.get("SEARCH") is None
    assert registry.get("WIKI__SEARCH") is first
    assert registry.names() == ("FIND", "WIKI__SEARCH")
    assert registry.missing("SEARCH").help == "write @WIKI__SEARCH or @NEWS__SEARCH"
    assert registry.missing("READ").code == "TOL001"


def test_two_tools_of_one_origin_without_aliases_are_refused():
    with pytest.raises(CallsheetError, match="TOL002"):
        Registry([_tool("SEARCH"), _tool("SEARCH")])


def test_tool_named_like_qualified_name_of_another_is_refused():
    registry = Registry()
    registry.add(_tool("SEARCH", "mcp:wiki"), "WIKI__SEARCH")
    with pytest.raises(CallsheetError, match="TOL002"):
        registry.add(_tool("WIKI__SEARCH"))
    with pytest.raises(CallsheetError, match="TOL002"):
        registry.add(_tool("FIND", "mcp:wiki"), "WIKI__SEARCH")
    assert registry.names() == ("SEARCH",)


def test_unknown_name_suggests_nearest():
    with pytest.raises(CallsheetError) as caught:
        Registry([_tool("READ_FILE")]).require("READ_FLIE")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.help) == ("TOL001", "did you mean @READ_FILE?")


def test_property_order_names_positional_arguments():
    spec = ToolSpec("A", "a", parameters={"properties": {"path": {}, "mode": {}}})
    assert spec.parameter_names == ("path", "mode")
    assert ToolSpec("A", "a").parameter_names == ()
