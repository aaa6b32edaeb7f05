"""`@plan`: functions of a user's module as plans, read from their source and never executed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import callsheet
from callsheet import Plan, PlanError, Runtime
from callsheet.views.stubs import stub_package

MODULE = '''
import os
from datetime import datetime

from callsheet import Runtime, ToolError, gather, note, now, plan, tool

LIMIT: int = 7
PLACES = {"octo": "Oslo"}
print("the module is executed by its user")
for _ in range(2):
    pass


@tool(effect="read")
def issues(repo: str) -> list:
    return [{"number": n, "at": f"20{20 + n}-01-01T00:00:00+00:00", "big": n % 2} for n in range(4)]


@tool(effect="idempotent")
def label(repo: str, number: int) -> str:
    if number == 3:
        raise OSError("no")
    return os.path.basename(repo)


@plan
async def triage(repo: str, at_least: int = 1, *, to: list[str] | None = None) -> str:
    """Label the issues."""
    found = await issues(repo)
    ages = [days(issue) for issue in found]
    for issue in found:
        try:
            note(await label(repo=repo, number=issue["number"]))
        except ToolError as error:
            note(f"{issue['number']}: {error}")
    done = await gather(count(found), count(ages))
    return f"{done} {LIMIT} {PLACES['octo']}"


async def count(rows: list[dict]) -> int:
    found = await issues("x")
    return len(rows) + len(found) * 0


def days(issue: dict) -> int:
    return (now() - datetime.fromisoformat(issue["at"])).days


@plan
async def other(repo: str) -> str:
    return await triage(repo)


def unrelated():
    return open("/etc/hosts").read()
'''
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(text: str) -> ModuleType:
        path = tmp_path / f"module_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


def test_function_runs_with_its_arguments_as_inputs(load: Load, tmp_path: Path) -> None:
    module = load(MODULE)
    with Runtime(tools=[module.issues, module.label], journal=tmp_path / "runs.db") as runtime:
        result = runtime.run_sync(module.triage, repo="octo/demo")
        assert result.response == "[4, 4] 7 Oslo"
        assert runtime.run_sync(module.triage, {"repo": "o"}, at_least=2).response == "[4, 4] 7 Oslo"
        assert runtime.run_sync(module.other, repo="o").response == "[4, 4] 7 Oslo"
        assert runtime.check_sync(module.triage, repo="o").ok
        assert runtime.dry_run_sync(module.triage, repo="o").calls[0].tool == "ISSUES"
    assert callsheet.verify(module.triage, "workspace").verdict is not None


def test_plan_has_types_goal_and_places_of_the_module(load: Load) -> None:
    module = load(MODULE)
    plan = Plan.of(module.triage)
    assert plan.ir.goal == "Label the issues."
    assert plan.ir.tree is not None
    kinds = [(one.name, str(one.type), one.is_required) for one in plan.ir.tree.inputs]
    assert [(name, needed) for name, _, needed in kinds] == [
        ("repo", True),
        ("at_least", False),
        ("to", False),
    ]
    assert plan.source is not None
    assert plan.source.text == MODULE
    spans = {step.id: step.span for step in plan.steps}
    span = spans["triage.found"]
    assert span is not None
    assert MODULE[span.start :].startswith("issues(repo)")


def test_text_is_parsed_as_python() -> None:
    text = "async def main(): return await search(query='tea')"
    assert Plan.parse(text, language="python") == Plan.parse(text, syntax="python") == Plan.parse(text)


HEAD = "from callsheet import plan\n"
USES = "@plan\nasync def f():\n    return await x(N)\n"
CLOSURE = (
    "def make(n):\n    @plan\n    async def f():\n        return await x(n)\n    return f\nf = make(1)\n"
)
HELPER = "@plan\nasync def f():\n    return h(await x())\ndef h(a):\n    return open(a)\n"
REFUSED = {
    "a closure": (HEAD + CLOSURE, "PYT027", "uses n of the function around it"),
    "a computed constant": (HEAD + "for N in range(3): pass\n" + USES, "PYT027", ":2:"),
    "a changed constant": (HEAD + "N = {}\nN['a'] = 1\n" + USES, "PYT027", "N has another value"),
    "a constant of a call": (HEAD + "N = {}\nN.update({})\n" + USES, "PYT027", ":3:"),
    "a constant set later": (
        HEAD + "N = 1\n" + USES + "def g():\n    global N\n",
        "PYT027",
        "set by a function",
    ),
    "the world": (HEAD + "import os\nN = os.getcwd()\n" + USES, "PYT005", ":2:"),
    "another module": (HEAD + "from zoneinfo import ZoneInfo as N\n" + USES, "PYT005", ":5:"),
    "an impure helper": (HEAD + HELPER, "PYT006", ":6:"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_text_does_not_say_is_refused_with_its_place(load: Load, name: str) -> None:
    text, code, said = REFUSED[name]
    module = load(text)
    with pytest.raises(PlanError) as caught:
        Plan.of(module.f)
    assert [one.code for one in caught.value.diagnostics] == [code]
    assert said in str(caught.value)


def test_value_that_the_program_changed_is_refused(load: Load) -> None:
    module = load("from callsheet import plan\nN = 1\n@plan\nasync def f():\n    return await x(N)\n")
    vars(module)["N"] = 2
    with pytest.raises(PlanError, match="another value in the running program"):
        Plan.of(module.f)


def test_edited_module_is_refused(load: Load) -> None:
    text = "from callsheet import plan\n@plan\nasync def f():\n    return await x(1)\n"
    module = load(text)
    path = Path(str(module.__file__))
    path.write_text("\n\n" + text)
    with pytest.raises(PlanError, match="edited after it was imported"):
        Plan.of(module.f)


def test_function_without_source_is_refused() -> None:
    names: dict[str, object] = {}
    exec("from callsheet import plan\n@plan\nasync def f():\n    return 1", names)
    with pytest.raises(PlanError, match="source of f cannot be read"):
        Plan.of(names["f"])  # type: ignore[arg-type]


def test_wrong_uses_say_what_to_write(load: Load) -> None:
    module = load(MODULE)
    with pytest.raises(RuntimeError, match=r"triage is a plan.*run\(triage, repo=…, at_least=…, to=…\)"):
        module.triage("o")
    with pytest.raises(TypeError, match="no argument rep: did you mean repo"):
        Runtime().run_sync(module.triage, rep="o")
    with pytest.raises(TypeError, match="given twice"):
        Runtime().run_sync(module.triage, {"repo": "o"}, repo="o")
    with pytest.raises(TypeError, match="only a function with @plan"):
        Runtime().run_sync("respond 1", repo="o")
    with pytest.raises(TypeError, match="count has none"):
        Runtime().run_sync(module.count)
    with pytest.raises(TypeError, match="async function"):
        callsheet.plan(lambda: 1)  # type: ignore[arg-type, return-value]
    with pytest.raises(RuntimeError, match="now is a name of plans"):
        callsheet.now()
    with pytest.raises(TypeError, match="is a method"):
        load("from callsheet import plan\nclass A:\n    @plan\n    async def f(self):\n        return 1\n")


def test_stubs_in_any_package_are_tools(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from callsheet.ports.python_tools import tool_of

    tools = load(
        "from callsheet import tool\n@tool(effect='read')\ndef score(n: int) -> int:\n    return n + 1\n"
    )
    folder = tmp_path / "own_stubs"
    folder.mkdir()
    for name, text in stub_package({"SCORE": tool_of(tools.score).spec}).items():
        (folder / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = load(
        "from callsheet import plan\nfrom own_stubs.local import score\n"
        "@plan\nasync def f(n: int) -> int:\n    return await score(n)\n"
    )
    assert Runtime([tools.score]).run_sync(module.f, n=1).answer == 2
    for name in ("own_stubs", "own_stubs.local"):
        del sys.modules[name]
