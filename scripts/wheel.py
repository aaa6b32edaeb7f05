"""A wheel whose inner loop is compiled to machine code by mypyc: `python3 dev.py wheel`.

In: the sources as they are. Out: a wheel for this machine and this version of Python in `build/wheel`, and
the same unpacked in `build/compiled`, for tests and benchmarks. Everywhere else the same sources run
uncompiled; nothing in them asks which of both they are. It needs a C compiler, and some minutes.
"""

from __future__ import annotations

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
"""What a step of a run goes through, and what the proof of a plan does; all modules of these packages."""
MODULES = (
    "policy/judge",
    "policy/prepared",
    "ports/answers",
    "runtime/crew",
    "runtime/gateway",
    "runtime/guard",
    "views/describe",
    "views/mermaid",
)
"""Modules of other packages that they call for each step."""
APART = {
    "ir/control": "mypyc 2.4 cannot go over a bytearray with its numbers",
    "ir/strict_json": "set.add in a condition, which mypy refuses",
    "machine/limits": "the configuration asks its fields for their types, which mypyc does not keep",
    "machine/result": "it makes objects without their constructor",
    "machine/snapshots": "a call with * and a name, which mypy takes for one argument given twice",
}
"""Modules of these packages that stay as they are, and why."""
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
"""How mypy looks at the modules; whether a function gives what it says is pyright's to say."""
_SETUP = """from mypyc.build import mypycify
from setuptools import setup

setup(
    ext_modules=mypycify({arguments!r}, opt_level="3", debug_level="0", multi_file=True),
    package_data={{"callsheet": ["**/*"]}},
)
"""


def compiled() -> Iterator[str]:
    """The modules that are compiled, by their paths in the package, without an ending."""
    for package in PACKAGES:
        for file in sorted((PACKAGE / package).glob("*.py")):
            name = f"{package}/{file.stem}"
            if file.stem != "__init__" and name not in APART:
                yield name
    yield from MODULES


def lay_out(folder: Path) -> None:
    """Make a project of setuptools in a folder: the sources, their description, what is compiled."""
    shutil.copytree(PACKAGE, folder / "src" / "callsheet", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    described = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(_BUILD_SYSTEM + described[described.index("[project]") :])
    files = [f"src/callsheet/{module}.py" for module in compiled()]
    (folder / "setup.py").write_text(_SETUP.format(arguments=[*_CHECKED, *files]))


def main() -> int:
    """Make the wheel, in an environment of its own, and unpack it; gives the exit code."""
    compiler = str(sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        sys.exit(f"a wheel needs a C compiler, and {compiler} is not installed (on Debian: apt install gcc)")
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
