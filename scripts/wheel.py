"""Builds a wheel whose inner loop is compiled to machine code by mypyc: `python3 dev.py wheel`.

In: the sources, unchanged. Out: a wheel for this machine and this version of Python in `build/wheel`, and its
content in `build/compiled`, for tests and benchmarks. With `--sources FOLDER`, only the sources for a builder
of other platforms, with the program `use.py` that tries a wheel. Everywhere else the sources run uncompiled;
nothing in them depends on that. It needs a C compiler and some minutes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "callsheet"
OUT = ROOT / "build" / "wheel"
UNPACKED = ROOT / "build" / "compiled"
PACKAGES = ("ir", "machine", "machine/agents", "machine/monitor", "passes", "passes/verify", "policy/rules")
"""Packages that execute a step or prove a plan; all their modules are compiled, except those in `APART`."""
MODULES = (
    "policy/judge",
    "policy/prepared",
    "ports/answers",
    "runtime/concurrent_calls",
    "runtime/gateway",
    "runtime/guard",
    "views/describe",
    "views/mermaid",
)
"""Modules of other packages that are called for each step."""
_CASES = "cases of a match share names, for which mypyc takes the type of the first case"
APART = {
    "ir/canon_reader": "its depth is bounded by Python's limit of calls, which compiled code ignores",
    "ir/control": "mypyc 2.4 cannot enumerate a bytearray",
    "ir/expr": "the codec of trees reads the types of its fields, which mypyc does not keep",
    "ir/expression": _CASES,
    "ir/inputs": _CASES,
    "ir/strict_json": (
        "it returns whole numbers as they are, which mypyc would convert to floats; "
        "it uses set.add in a condition, which mypy refuses"
    ),
    "ir/scopes": _CASES,
    "ir/tree": _CASES,
    "ir/tree_codec": _CASES,
    "ir/tree_flow": _CASES,
    "ir/types": _CASES,
    "machine/limits": "the configuration reads the types of its fields, which mypyc does not keep",
    "machine/result": "it creates objects without their constructor",
    "machine/snapshots": "it has a call with * and a keyword, which mypy takes for a duplicate argument",
}
"""Modules of these packages that are not compiled, and why."""
_BUILD_SYSTEM = """[build-system]
requires = ["setuptools>=80,<90", "mypy>=2.4,<3"]
build-backend = "setuptools.build_meta"

"""
_CHECKED = (
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--disable-error-code=return-value",
)
"""Options of mypy; pyright already checks what functions return."""
_SETUP = """from mypyc.build import mypycify
from setuptools import setup

setup(
    ext_modules=mypycify({arguments!r}, opt_level="3", debug_level="0", multi_file=True),
    package_data={{"callsheet": ["**/*"]}},
)
"""


_USED = """
from callsheet import Plan, Runtime
import callsheet.apps.cli.main, callsheet.machine.tree.monitored

plan = "# ltp: 2\\n?FOREACH ($x IN [1, 2]) {\\nYIELD ({'twice': $x * 2})\\n} > $all\\n@RESPOND ($all)\\n"
assert Plan.from_json(Plan.parse(plan).to_json()) == Plan.parse(plan)
with Runtime([]) as runtime:
    assert runtime.run_sync(plan).answer == [{"twice": 2}, {"twice": 4}]
"""
"""Runs a plan on what is compiled: mypyc accepts code that cannot be imported, or fails when it is used."""


def compiled() -> Iterator[str]:
    """The modules that are compiled, as paths in the package without a suffix."""
    for package in PACKAGES:
        for file in sorted((PACKAGE / package).glob("*.py")):
            name = f"{package}/{file.stem}"
            if file.stem != "__init__" and name not in APART:
                yield name
    yield from MODULES


def lay_out(folder: Path) -> None:
    """Create a setuptools project in a folder: the sources, the metadata, the list of compiled modules."""
    shutil.copytree(PACKAGE, folder / "src" / "callsheet", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    described = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(_BUILD_SYSTEM + described[described.index("[project]") :])
    files = [f"src/callsheet/{module}.py" for module in compiled()]
    (folder / "setup.py").write_text(_SETUP.format(arguments=[*_CHECKED, *files]))
    (folder / "use.py").write_text(_USED)


def build() -> int:
    """Build the wheel, in an isolated environment, and unpack it; returns the exit code."""
    compiler = str(sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        sys.exit(
            f"building a wheel needs a C compiler, but {compiler} is not installed (Debian: apt install gcc)"
        )
    shutil.rmtree(OUT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        lay_out(Path(place))
        make = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(OUT), place]
        failed = subprocess.run(make, check=False).returncode
    if failed:
        return failed
    (wheel,) = OUT.glob("*.whl")
    shutil.rmtree(UNPACKED, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(UNPACKED)
    print(wheel.relative_to(ROOT))
    return subprocess.run([sys.executable, "-c", _USED], check=False, cwd=UNPACKED).returncode


def main() -> int:
    """Build the wheel, or lay out its sources; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts.wheel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sources", type=Path, help="write the sources of the wheel into a new folder, only")
    folder: Path | None = parser.parse_args().sources
    if folder is None:
        return build()
    if folder.exists():
        sys.exit(f"{folder} exists; name a new folder")
    lay_out(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
