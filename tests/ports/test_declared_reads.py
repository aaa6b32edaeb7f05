"""A program in a real sandbox sees the files that its call declares, and no others."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from callsheet.machine import Fact
from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, builtin_tools, isolation
from callsheet.ports.builtin.execute.jobs import Mounts, mounts_of
from callsheet.ports.calls import CallContext, FileGrant, ToolFailed
from callsheet.ports.tools import Registry

LOOK = "find . -type f | sort | tr '\\n' ' '; cat main.sh data/in.csv data/.env notes.txt 2>/dev/null; true"


def settings_in(place: Path, **execution: Any) -> BuiltinSettings:
    return BuiltinSettings(workspace=place, data=place / ".data", execution=ExecutionSettings(**execution))


with tempfile.TemporaryDirectory() as _place:
    ISOLATION = isolation(settings_in(Path(_place)))
sandboxed = pytest.mark.skipif(ISOLATION.kind != "namespaces", reason=f"here is {ISOLATION}")


class Granted(CallContext):
    """The context of a call under a policy."""

    __slots__ = ("grant",)

    @property
    def files(self) -> FileGrant | None:
        return self.grant


@pytest.fixture
def place() -> Any:
    """A workspace that everybody may read, as the program may be nobody."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = Path(folder)
        (root / "data").mkdir()
        for name in ("data/in.csv", "data/.env", "notes.txt", "main.sh", "json.py"):
            (root / name).write_text(f"<{name}>")
        os.symlink("/etc/passwd", root / "link")
        os.symlink("../notes.txt", root / "data" / "link")
        yield root


async def run(
    place: Path, code: str = LOOK, language: str = "shell", grant: FileGrant | None = None, **more: Any
) -> str:
    settings = settings_in(place, workspace=more.pop("workspace", "hidden"))
    context = Granted("run", "S1", "key")
    context.grant = grant
    tool = Registry(builtin_tools(settings)).require("EXEC_CODE")
    value: Any = await tool.handler({"code": code, "language": language, **more}, context)
    return value["stdout"]


def no_secret(path: str) -> bool:
    return path.endswith(".env")


@sandboxed
@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ({}, "./main.sh "),
        ({"reads": []}, "./main.sh "),
        ({"reads": ["data/in.csv"]}, "./data/in.csv <data/in.csv>"),
        ({"reads": ["./data/"]}, "./data/.env ./data/in.csv <data/in.csv><data/.env>"),
        ({"reads": ["data/*.csv", "main.sh"]}, "./data/in.csv ./main.sh <main.sh><data/in.csv>"),
        ({"reads": ["data", "data/in.csv"]}, "./data/.env ./data/in.csv <data/in.csv><data/.env>"),
        (
            {"reads": ["data"], "grant": FileGrant(None, no_secret)},
            "./data/.env ./data/in.csv <data/in.csv>",
        ),
        ({"grant": FileGrant(("data/in.csv",), None)}, "./data/in.csv <data/in.csv>"),
        (
            {"grant": FileGrant(None, no_secret), "workspace": "read"},
            "./data/.env ./data/in.csv ./json.py ./main.sh ./notes.txt <main.sh><data/in.csv><notes.txt>",
        ),
        ({"reads": ["notes.txt"], "workspace": "read"}, "./notes.txt <notes.txt>"),
    ],
)
async def test_program_sees_what_is_declared_and_not_hidden(
    place: Path, more: dict[str, Any], seen: str
) -> None:
    output = await run(place, **more)
    assert output.replace(LOOK, "") == seen  # without files it reads its own text, which is in its folder


@sandboxed
async def test_whole_workspace_can_be_declared(place: Path) -> None:
    files = await run(place, "find . -type f | sort", reads=["."])
    assert files.split() == ["./data/.env", "./data/in.csv", "./json.py", "./main.sh", "./notes.txt"]


@sandboxed
async def test_program_writes_beside_declared_files_and_nothing_stays(place: Path) -> None:
    code = "sort data/in.csv > data/out.csv; cat data/out.csv; echo x >> data/in.csv || rm data/in.csv; true"
    assert await run(place, code, reads=["data/in.csv"]) == "<data/in.csv>\n"
    assert sorted(os.listdir(place / "data")) == [".env", "in.csv", "link"]
    assert (place / "data/in.csv").read_text() == "<data/in.csv>"


@sandboxed
async def test_one_liner_sees_no_file_and_imports_none(place: Path) -> None:
    code = "import json; print(json.dumps(1))"
    assert await run(place, code, "python", workspace="read") == "1\n"
    assert await run(place, "cat notes.txt", workspace="read") == "<notes.txt>"


@pytest.mark.parametrize(
    ("reads", "why"),
    [
        ("data", "must be a list of paths"),
        ([1], "must be a list of paths"),
        (["../x"], "files of the workspace only"),
        (["/etc/passwd"], "files of the workspace only"),
        (["none.txt"], "none.txt, which is not in the workspace"),
        (["link"], "leads over a symbolic link"),
        (["data/link"], "leads over a symbolic link"),
        (["link/x"], "leads over a symbolic link"),
    ],
)
def test_declaration_of_anything_else_is_refused(place: Path, reads: Any, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        mounts_of(settings_in(place), "shell", "make", reads, None)


def test_glob_with_too_many_files_is_refused(place: Path) -> None:
    for number in range(1_001):
        (place / "data" / f"{number}.txt").touch()
    with pytest.raises(ToolFailed, match="more than 1,000 files: name a folder"):
        mounts_of(settings_in(place), "shell", "make", ["data/*.txt"], None)
    assert mounts_of(settings_in(place), "shell", "make", ["data"], None) == Mounts(("data",))


async def test_without_sandbox_it_is_said_that_nothing_is_hidden(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.ports.builtin.execute.process.sys.platform", "none")
    tools = Registry(builtin_tools(settings_in(place, require="best-effort")))
    context = CallContext("run", "S1", "key")
    arguments = {"code": "cat data/in.csv; ls notes.txt", "reads": ["data/in.csv"]}
    value: Any = await tools.require("SHELL_EXEC").handler(arguments, context)
    assert value["stdout"] == "<data/in.csv>notes.txt\n"
    (remark,) = context.remarks
    assert isinstance(remark, Fact)
    assert (remark.name, "not enforced" in remark.text) == ("reads", True)
