"""The host tools: only available on request; and the declarations of all built-in tools."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from callsheet.ir import Effect
from callsheet.machine import Cut
from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, builtin_tools
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Registry

CONTEXT = CallContext("run", "S1", "key")
HOST = {"HOST_EXEC", "HOST_FILE_READ", "HOST_FILE_LIST"}


async def call(place: Path, tool: str, **arguments: Any) -> Any:
    execution = ExecutionSettings(timeout=1, output_bytes=100)
    settings = BuiltinSettings(workspace=place, data=place, host=True, execution=execution)
    return await Registry(builtin_tools(settings)).require(tool).handler(arguments, CONTEXT)


def test_host_tools_exist_only_on_request(tmp_path):
    without = {tool.spec.name for tool in builtin_tools(BuiltinSettings(workspace=tmp_path, data=tmp_path))}
    with_host = {
        tool.spec.name
        for tool in builtin_tools(BuiltinSettings(workspace=tmp_path, data=tmp_path, host=True))
    }
    assert not without & HOST
    assert with_host == without | HOST


def test_declarations_name_arguments_in_order_and_effect(tmp_path):
    tools = {
        t.spec.name: t.spec
        for t in builtin_tools(BuiltinSettings(workspace=tmp_path, data=tmp_path, host=True))
    }
    assert {name: (spec.executor, spec.parameter_names, spec.effect) for name, spec in tools.items()} == {
        "WEB_SEARCH": ("web_search", ("query",), Effect.READ),
        "FETCH_PAGE": ("fetch_page", ("url",), Effect.READ),
        "EXEC_CODE": ("execute_code", ("code", "language", "stdin", "reads"), Effect.UNSAFE),
        "SHELL_EXEC": ("execute_code", ("code", "stdin", "reads"), Effect.UNSAFE),
        "INSTALL_PKG": ("install_package", ("language", "packages"), Effect.IDEMPOTENT),
        "READ_FILE": ("read_file", ("path",), Effect.READ),
        "WRITE_FILE": ("write_file", ("path", "content"), Effect.IDEMPOTENT),
        "EDIT_FILE": ("edit_file", ("path", "old", "new"), Effect.UNSAFE),
        "SEARCH_FILES": ("search_files", ("pattern", "path", "glob"), Effect.READ),
        "QUERY_MEMORY": ("query_memory", ("query",), Effect.READ),
        "STORE_FACT": ("store_fact", ("content", "importance"), Effect.KEYED),
        "SET_WM": ("set_wm", ("key", "value"), Effect.IDEMPOTENT),
        "GET_WM": ("get_wm", ("key",), Effect.READ),
        "HOST_EXEC": ("host_exec", ("command",), Effect.UNSAFE),
        "HOST_FILE_READ": ("host_file_read", ("path",), Effect.READ),
        "HOST_FILE_LIST": ("host_file_list", ("path",), Effect.READ),
    }
    for spec in tools.values():
        assert set(spec.parameters["required"]) <= set(spec.parameter_names)
        assert spec.description


def test_declaring_tools_imports_no_http_or_html_library(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from callsheet.ports.builtin import BuiltinSettings, builtin_tools\n"
        "builtin_tools(BuiltinSettings(workspace=pathlib.Path('.'), data=pathlib.Path('x')))\n"
        "heavy = {'asyncio', 'httpx2', 'bs4', 'markdownify', 'sqlite3', 'ssl', 'mcp'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "[]\n"


async def test_command_runs_on_host(tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_HOST", "seen")
    value = await call(
        tmp_path, "HOST_EXEC", command=f"cd {tmp_path} && echo $OF_THE_HOST > made && cat made"
    )
    assert value == {"stdout": "seen\n", "stderr": "", "exit_code": 0}
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [("echo out; echo err >&2; exit 3", r"out\nerr\n.*exit code 3"), ("sleep 30", r"longer than 1 seconds")],
)
async def test_failing_command_is_failure(tmp_path, command, message):
    with pytest.raises(ToolFailed, match=message):
        await call(tmp_path, "HOST_EXEC", command=command)


async def test_host_files_are_read_and_listed(tmp_path):
    (tmp_path / "a.txt").write_text("abc")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a.txt")
    os.mkfifo(tmp_path / "pipe")
    assert await call(tmp_path, "HOST_FILE_READ", path=str(tmp_path / "a.txt")) == "abc"
    rows = await call(tmp_path, "HOST_FILE_LIST", path=str(tmp_path))
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("a.txt", "file"),
        ("folder", "folder"),
        ("link", "link"),
        ("pipe", "other"),
    ]
    for path in (tmp_path / "pipe", tmp_path / "folder", tmp_path / "none", "\0"):
        with pytest.raises(ToolFailed):
            await call(tmp_path, "HOST_FILE_READ", path=str(path))
    with pytest.raises(ToolFailed):
        await call(tmp_path, "HOST_FILE_LIST", path=str(tmp_path / "none"))


async def test_long_folder_listing_is_truncated_with_row_and_remark(tmp_path, monkeypatch):
    host = import_module("callsheet.ports.builtin.host")
    monkeypatch.setattr(host, "_MAX_ENTRIES", 2)
    for name in "abc":
        (tmp_path / name).touch()
    context = CallContext("run", "S1")
    settings = BuiltinSettings(workspace=tmp_path, data=tmp_path, host=True)
    handler = Registry(builtin_tools(settings)).require("HOST_FILE_LIST").handler
    rows: Any = await handler({"path": str(tmp_path)}, context)
    assert [row["name"] for row in rows] == ["a", "b", ""]
    assert context.remarks == (Cut("entries", 2, 3, "rows"),)
