"""What the release workflows do is what this repository has: its commands, its files, its tag."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import dev
import pytest
import yaml
from scripts import wheel

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    """The steps of all jobs of a workflow."""
    read = yaml.safe_load(workflow.read_text("utf-8"))
    return [step for job in read["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_of_workflow_exist(workflow: Path) -> None:
    run = "\n".join(step.get("run", "") for step in steps_of(workflow))
    commands = re.findall(r"dev\.py (\w+)", run)
    scripts = re.findall(r"-m ((?:scripts|benchmarks)\.\w+)|(\.ci/run)", run)
    assert commands or scripts
    assert set(commands) <= set(dev.COMMANDS)
    for module, file in scripts:
        place = ROOT / (file or module.replace(".", "/"))
        assert any(one.is_file() for one in (place, place.with_suffix(".py"), place / "__main__.py"))


def test_every_supported_python_is_tested_and_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    supported = {one.rpartition(" ")[2] for one in project["classifiers"] if ":: 3." in one}
    test, release = (ROOT / ".github" / "workflows" / f"{name}.yml" for name in ("test", "release"))
    assert supported <= set(re.findall(r'"(3\.\d+)"', test.read_text("utf-8")))
    built = re.findall(r"cp3(\d+)-\*", release.read_text("utf-8"))
    assert {f"3.{minor}" for minor in built} == supported


def test_sources_of_compiled_wheel_have_what_the_package_has(tmp_path: Path) -> None:
    wheel.lay_out(tmp_path)
    laid_out = tmp_path / "src" / "callsheet"
    files = {file.relative_to(wheel.PACKAGE) for file in wheel.PACKAGE.rglob("*") if file.suffix != ".pyc"}
    assert {file.relative_to(laid_out) for file in laid_out.rglob("*")} == {
        file for file in files if "__pycache__" not in file.parts
    }
    described = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))
    assert described["build-system"]["build-backend"] == "setuptools.build_meta"
    compile((tmp_path / "use.py").read_text("utf-8"), "use.py", "exec")
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert "CIBW_TEST_COMMAND: python {package}/use.py\n" in release  # {project} would be the checkout
