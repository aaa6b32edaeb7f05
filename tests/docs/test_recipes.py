"""The recipes are covered by their cases, mean the same in both spellings, and work on real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest
from scripts import recipes
from tests.docs.console import File, parts_of

from callsheet import Answer, PendingAsk, Plan, Runtime
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import DeclaredTools
from callsheet.ports.tools import ToolSpec
from callsheet.testing.case import read_cases
from callsheet.testing.suite import run_file

ROOT = Path(__file__).parents[2]
EVERYDAY = ROOT / "examples" / "everyday"
PLANS = sorted(EVERYDAY.glob("*.ltp"))
COOKBOOK = EVERYDAY.with_name("cookbook")
TECHNIQUES = sorted(path for path in COOKBOOK.glob("*.*") if path.with_suffix(".test.toml").exists())
SETUP = Setup(
    workspace=EVERYDAY,
    data=EVERYDAY,
    mcp_configs=(EVERYDAY / "mcp.json",),
    discovers=False,
    lock=EVERYDAY / "callsheet.lock",
)


@pytest.fixture(scope="module")
def declared() -> Callable[[Plan], Sequence[ToolSpec]]:
    """What the lock file says of the tools that a plan calls, and the built-in tools."""
    tools = DeclaredTools(SETUP)

    def of(plan: Plan) -> list[ToolSpec]:
        registry, diagnostics, _ = tools.tools_for(plan.ir, asks_servers=False)
        assert not diagnostics
        names = dict.fromkeys(step.call.tool for step in plan.steps if step.call is not None)
        return [replace(tool.spec, name=name) for name in names if (tool := registry.get(name)) is not None]

    return of


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_recipe_is_covered_and_means_the_same_in_both_spellings(
    path: Path, declared: Callable[[Plan], Sequence[ToolSpec]]
) -> None:
    text = path.read_text("utf-8")
    assert Plan.parse(text).to_ltp() == text
    assert 5 <= len(text.splitlines()) <= 30
    for_both_spellings(path, declared)


@pytest.mark.parametrize("path", TECHNIQUES, ids=lambda path: path.stem)
def test_a_technique_is_covered_and_means_the_same_in_both_spellings(path: Path) -> None:
    if path.suffix == ".ltp":
        text = path.read_text("utf-8")
        assert Plan.parse(text).to_ltp() == text
    for_both_spellings(path, lambda _: ())


def for_both_spellings(path: Path, declared: Callable[[Plan], Sequence[ToolSpec]]) -> None:
    """Run the cases of a plan with it and with its Python spelling; the plan is covered by them."""
    file = read_cases(path.with_suffix(".test.toml"))
    done = run_file(file, declared)
    assert not [(one.case.name, one.differences) for one in done.results if not one.passed]
    assert done.coverage.percent == 100, done.coverage.missed
    if path.suffix != ".ltp":
        return
    handled = {"done_with_failures": "done"}  # a Python plan that goes on has handled the failure itself
    cases = tuple(replace(case, outcome=handled.get(case.outcome, case.outcome)) for case in file.cases)
    done = run_file(replace(file, plan=path.parent / "python" / f"{path.stem}.py", cases=cases), declared)
    assert not [(one.case.name, one.differences) for one in done.results if not one.passed]


def test_the_cookbook_shows_the_files_that_are_tested() -> None:
    page = (EVERYDAY.parents[1] / "docs" / "cookbook.md").read_text("utf-8")
    shown = {part.name: part.text for part in parts_of(page) if isinstance(part, File)}
    kept = {path.name: path.read_text("utf-8") for path in COOKBOOK.glob("*.*")}
    assert shown == {name: text for name, text in kept.items() if not name.endswith(".test.toml")}


@pytest.mark.parametrize("path", sorted(EVERYDAY.parent.glob("*.ltp")), ids=lambda path: path.stem)
def test_an_example_is_covered_by_its_cases(path: Path) -> None:
    done = run_file(read_cases(path.with_suffix(".test.toml")))
    assert not [(one.case.name, one.differences) for one in done.results if not one.passed]
    assert done.coverage.percent == 100, done.coverage.missed


def test_the_page_of_everyday_plans_names_them_all() -> None:
    shown = [name for names in recipes.SECTIONS.values() for name in names]
    assert sorted(shown) == [path.stem for path in PLANS]
    kept = recipes.PAGE.read_text("utf-8")
    assert kept == recipes.page(kept), "run `python -m scripts.recipes`"


def python_example(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REAL = [
    ("photos-by-date", {}, "2 photos are in 2 folders."),
    ("tidy-downloads", {}, "1 of 2 files were moved."),
    ("changelog", {"since": "2026-01-01", "repository": "repo"}, "NEWS.md: 0 added, 1 mended."),
    ("stale-branches", {"repository": "repo", "age": 0}, "main, last commit on 2026-03-03"),
    ("meeting-times", {"time": "16:00", "offices": {"Rome": "Europe/Rome"}, "zone": "UTC"}, "Rome: "),
    ("ask-once", {"question": "Which city?"}, "Oslo"),
    ("ask-once", {"question": "Which city?"}, "Oslo"),
    ("link-check", {"file": "links.md"}, "1 of 2 links are broken."),
]
"""Plans that run on real servers one after another, in an office that they change."""
READING = {"stale-branches", "meeting-times"}
"""Those that change nothing run in both spellings."""


@pytest.mark.servers
def test_recipes_work_on_real_servers_as_the_lock_file_declares_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    demonstration_servers: dict[str, Path],
    fetch_server: Path,
    node_server: Callable[[str], tuple[str, str]],
) -> None:
    """A tool that its server declares otherwise than the lock file is not called."""
    monkeypatch.chdir(tmp_path)
    python_example(EVERYDAY / "office.py").make(tmp_path)
    servers = json.loads((EVERYDAY / "mcp.json").read_text("utf-8"))["mcpServers"]
    del servers["database"]  # its installation compiles for a minute, where there is a compiler
    for server in servers.values():
        package, *arguments = (each for each in server["args"] if each != "-y")
        if server["command"] == "npx":
            server["command"], script = node_server(package)
            server["args"] = [script, *arguments]
        else:
            server["command"] = str({**demonstration_servers, "mcp-server-fetch": fetch_server}[package])
            server["args"] = arguments
    servers["memory"]["env"]["MEMORY_FILE_PATH"] = str(tmp_path / "memory.jsonl")
    servers["fetch"]["args"] = ["--allow-private-ips", "--ignore-robots-txt"]
    asked: list[str] = []

    def answer(question: PendingAsk) -> Answer:
        asked.append(question.prompt)
        return Answer.of("Oslo")

    with serving(tmp_path) as address:
        (tmp_path / "links.md").write_text(f"{address}/people.csv and {address}/nothing", "utf-8")
        with Runtime(
            mcp={"mcpServers": servers}, lock=EVERYDAY / "callsheet.lock", builtins=True, workspace=tmp_path,
            on_approval=answer,
        ) as runtime:  # fmt: skip
            for name, inputs, expected in REAL:
                spellings = [f"{name}.ltp"] + [f"python/{name}.py"] * (name in READING)
                for spelling in spellings:
                    done = runtime.run_sync(Plan.load(EVERYDAY / spelling), inputs)
                    assert done.ok, (spelling, done.error)
                    assert str(done.answer).startswith(expected), spelling
    assert len(asked) == 1
    assert (tmp_path / "photos" / "2025-12" / "IMG_20251224_2.jpg").exists()
    assert (tmp_path / "NEWS.md").read_text("utf-8").splitlines()[-1] == "- the map was upside down"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A web server for a folder, at the address that is given."""
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass
