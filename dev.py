#!/usr/bin/env python3
"""The commands of this repository. Each needs only Python and pip, and creates the environment it needs.

python3 dev.py demo     run the demonstration on real MCP servers
python3 dev.py test     check the code and run all tests
python3 dev.py check    only formatting, lint, types and layers
python3 dev.py bench    run the benchmarks (`python3 dev.py bench --help`)
python3 dev.py docs     build the documentation as a site, in build/site
python3 dev.py wheel    build a wheel with a compiled inner loop, in build/wheel (needs a C compiler);
                        `wheel test …` runs the tests on it
python3 dev.py release  make all that a release publishes, in build/release, and try it (`--compiled`: with
                        the compiled wheel of this platform)
python3 dev.py run …    run the callsheet command of this checkout
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = Path(os.environ.get("CALLSHEET_VENV", ROOT / ".venv"))
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
QUICK_CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("lint-imports",),
)
TYPES = ("pyright",)
WORKERS = (os.cpu_count() or 2) * 3 // 2  # tests wait a fifth of the time
TESTS = ("pytest", "-n", str(WORKERS), "--dist", "worksteal", "--hypothesis-profile", "ci")
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
COMPILED = ROOT / "build" / "compiled"
FEW = 3  # at most so many failed tests are run again; if more fail, something is broken


def prepare(*, dev: bool) -> None:
    """Create the environment, or update it to pyproject.toml."""
    stamp, with_tools = (ENVIRONMENT / f"installed-{what}" for what in ("dev" if dev else "core", "dev"))
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if any(each.exists() and each.read_text() == wanted for each in (stamp, with_tools)):
        return
    if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
        print(f"creating an environment in {ENVIRONMENT}", file=sys.stderr)
        venv.create(ENVIRONMENT, with_pip=True)
        pip("install", "--upgrade", "pip>=25.1")
    print("installing callsheet" + (" and its development tools" if dev else ""), file=sys.stderr)
    pip("install", "--editable", str(ROOT), *(("--group", f"{ROOT / 'pyproject.toml'}:dev") if dev else ()))
    stamp.write_text(wanted)


def pip(*arguments: str) -> None:
    """Run pip in the environment; its output is shown only if it fails. What is imported compiles itself."""
    verb, *more = arguments
    options = ("--disable-pip-version-check", "--quiet")
    command = [str(BIN / "python"), "-m", "pip", *options, verb, "--no-compile", *more]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        sys.exit(f"dev.py: pip {' '.join(arguments[:1])} failed (see above)")


def started(*command: str, output: int | None = None) -> subprocess.Popen[str]:
    """Start a command of the environment; `output` is the `stdout` argument of `subprocess.Popen`."""
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(ENVIRONMENT)}
    return subprocess.Popen(
        [str(BIN / command[0]), *command[1:]], cwd=ROOT, env=env, stdout=output, text=True
    )


def tool(*command: str) -> int:
    """Run a command of the environment and return its exit code."""
    return started(*command).wait()


def checked(*commands: tuple[str, ...]) -> int:
    """Run all checks, even if one fails, so that one run shows every problem."""
    failed = [command[0] for command in commands if tool(*command)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def demo(arguments: list[str]) -> int:
    """Run the demonstration."""
    prepare(dev=False)
    return tool("callsheet", "demo", *arguments)


def run(arguments: list[str]) -> int:
    """Run the callsheet command in the current directory."""
    prepare(dev=False)
    return subprocess.run([str(BIN / "callsheet"), *arguments], check=False).returncode


def browser() -> None:
    """In CI (CI=true), install a browser for the tests of the viewer.

    Elsewhere nothing is installed: without a browser those tests are skipped, with the reason.
    """
    there = any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    if there or not os.environ.get("CI") or shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    print("installing chromium for the tests of the viewer", file=sys.stderr)
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    for command in (["apt-get", "update", "-q"], install):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"chromium could not be installed: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return


def again(failed: int) -> int:
    """Run a few failed tests once more, without others beside them, and return the final exit code.

    With real browsers, processes and models on a busy machine a test can fail by chance. A test that fails
    twice is broken. One that passes alone is reported, since it shows a race in the product or the test.
    """
    names = sorted(json.loads(FAILED.read_text())) if failed == 1 and FAILED.exists() else []
    if not 0 < len(names) <= FEW:
        return failed
    print("running again, alone:", *names, sep="\n  ", flush=True)
    failed = tool("pytest", "--hypothesis-profile", "ci", *names)
    if not failed:
        print("flaky (passed when run alone); find the race:", *names, sep="\n  ", flush=True)
    return failed


def test(arguments: list[str]) -> int:
    """Check the code and run all tests; with arguments, run only the tests that they select."""
    installs = threading.Thread(target=browser)
    installs.start()
    prepare(dev=True)
    if arguments:
        installs.join()
        return tool(*TESTS, *arguments)
    types = started(*TYPES, output=subprocess.PIPE)  # concurrently: nothing else keeps all cores busy
    wrong = checked(*QUICK_CHECKS)
    installs.join()
    FAILED.unlink(missing_ok=True)  # left by earlier runs
    failed = again(tool(*TESTS))
    print(types.communicate()[0], end="")
    return failed or wrong or types.returncode


def check(arguments: list[str]) -> int:
    """Check the code."""
    prepare(dev=True)
    return checked(*QUICK_CHECKS, TYPES)


def bench(arguments: list[str]) -> int:
    """Run the benchmarks."""
    prepare(dev=True)
    return tool("python", "benchmarks/run.py", *arguments)


def docs(arguments: list[str]) -> int:
    """Generate pages and build the site; `serve` serves it and follows changes."""
    prepare(dev=True)
    failed = tool("python", "-m", "scripts.reference")
    failed = failed or tool("zensical", *(arguments or ("build", "--clean", "--strict")))
    return failed or (0 if arguments else tool("python", "-m", "scripts.reference.search_index"))


def wheel(arguments: list[str]) -> int:
    """Build a wheel with a compiled inner loop; with `test`, run tests on the wheel that was built last."""
    if not arguments:
        prepare(dev=False)
        return tool("python", "-m", "scripts.wheel")
    if arguments[0] != "test":
        sys.exit(f"dev.py: wheel takes no argument, or `test` and arguments of pytest, not {arguments[0]}")
    prepare(dev=True)
    if not COMPILED.exists():
        sys.exit("dev.py: there is no wheel yet; build it with `python3 dev.py wheel`")
    os.environ["PYTHONPATH"] = str(COMPILED)
    return tool(*TESTS, *arguments[1:])


def release(arguments: list[str]) -> int:
    """Make what a release publishes, and try each part as its users will."""
    prepare(dev=False)
    return tool("python", "-m", "scripts.release", *arguments)


COMMANDS = {
    "demo": demo,
    "test": test,
    "check": check,
    "bench": bench,
    "docs": docs,
    "wheel": wheel,
    "release": release,
    "run": run,
}


def main(arguments: list[str]) -> int:
    """Run a command of this file and return its exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a clear message on an older Python
        sys.exit("callsheet needs Python 3.11 or newer")
    if arguments[:1] in (["-h"], ["--help"], ["help"]):
        print(__doc__)
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        if arguments:
            print(f"dev.py: there is no command {arguments[0]}", file=sys.stderr)
        return 2
    return COMMANDS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
