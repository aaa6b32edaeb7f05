"""The tools of a Python file: in its order, or a diagnostic with a position in it."""

import os
import sys

import pytest

from callsheet.diagnostics import CallsheetError, render_all
from callsheet.ports.calls import CallContext
from callsheet.ports.python_tools import load_tools

HEAD = "from callsheet.ports.python_tools import tool\n"


def _error(path):
    with pytest.raises(CallsheetError) as caught:
        load_tools(path)
    return render_all(caught.value.diagnostics, caught.value.source)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "tools.py"
        path.write_text(text)
        return path

    return write


async def test_file_provides_tools_in_order_with_own_types(file, tmp_path):
    (tmp_path / "beside.py").write_text(HEAD + "@tool(inline=True)\ndef other() -> int:\n    return 3\n")
    path = file(
        "from __future__ import annotations\n" + HEAD + "import dataclasses\nfrom beside import other\n"
        "@tool(inline=True)\ndef zebra(box: Box) -> Box:\n    return box\n"
        "@dataclasses.dataclass\nclass Box:\n    size: int\n"
        "@tool(effect='read')\nasync def ant() -> None: ...\n"
        "def hidden(): ...\nsame = zebra\n"
    )
    tools = load_tools(path)
    assert [t.spec.name for t in tools] == ["OTHER", "ZEBRA", "ANT"]
    assert {t.spec.origin for t in tools} == {f"python:{path}"}
    assert await tools[1].handler({"box": {"size": "2"}}, CallContext("r", "k", "i")) == {"size": 2}


def test_missing_file_is_reported(tmp_path):
    assert _error(tmp_path / "none.py").startswith("error CFG100: the tools file")


def test_syntax_error_is_shown_at_position(file):
    path = file("x = 1\ndef f(:\n    pass\n")
    shown = _error(path)
    assert shown.startswith(f"{path}:2:7: error CFG101: ")
    assert shown.endswith("  2 | def f(:\n    |       ^")


def test_import_exception_is_shown_at_line_without_traceback(file):
    path = file("import json\n\ndef g():\n    json.loads('{')\n\ng()\n")
    shown = _error(path)
    assert shown.startswith(f"{path}:4:5: error CFG102: the tools file fails: JSONDecodeError: Expecting")
    assert "Traceback" not in shown


def test_exit_during_import_is_error_of_file(file):
    assert "SystemExit: 1" in _error(file("raise SystemExit(1)\n"))


@pytest.mark.parametrize("kind", ["BaseException", "GeneratorExit", "__import__('asyncio').CancelledError"])
def test_any_exception_during_import_is_error_of_file(file, kind):
    shown = _error(file(f"raise {kind}('no')\n"))
    assert f"CFG102: the tools file fails: {kind.rpartition('.')[2]}: no" in shown


def test_uncompilable_source_is_error_of_file(file):
    deep = file("- " * 50_000 + "1\n")
    assert _error(deep).startswith(f"error CFG101: {deep} is not Python (it is nested too deeply)")
    null = file("x = 1\0\n")
    assert _error(null).startswith(f"error CFG101: {null} is not Python (it holds null bytes)")


def test_exception_with_failing_str_is_named_by_class(file):
    path = file("class Odd:\n    def __repr__(self):\n        raise KeyError\n\nraise RuntimeError(Odd())\n")
    assert "the tools file fails: RuntimeError: its text is not available" in _error(path)


def test_file_without_tools_is_refused(file):
    assert _error(file("def f(): ...\n")).startswith("error CFG103: ")


def test_duplicate_tool_names_are_refused(file):
    path = file(HEAD + "@tool\ndef a(): ...\n@tool(name='A')\ndef b(): ...\n")
    assert "two tools called @A" in _error(path)


def test_invalid_declaration_is_shown_at_line(file):
    path = file(HEAD + "\n@tool(effect='raed')\ndef a(): ...\n")
    shown = _error(path)
    assert shown.startswith(f"{path}:3:1: error CFG105: ")
    assert "did you mean read?" in shown


def test_search_path_and_modules_are_restored(file):
    import sys

    before, modules = list(sys.path), set(sys.modules)
    _error(file("raise ValueError\n"))
    assert sys.path == before
    assert not {m for m in set(sys.modules) - modules if m.startswith("_callsheet")}


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_file_in_a_folder_whose_name_is_not_utf_8_provides_its_tools(tmp_path):
    folder = tmp_path / os.fsdecode(b"gr\xf6sse")
    folder.mkdir()
    path = folder / "tools.py"
    path.write_text(HEAD + "@tool(inline=True)\ndef one() -> int:\n    return 1\n")
    assert [t.spec.name for t in load_tools(path)] == ["ONE"]
