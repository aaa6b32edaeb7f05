"""The cost of starting the command line, as the modules that it loads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

HEAVY = {"mcp", "asyncio", "sqlite3", "httpx2", "pydantic", "rich", "bs4", "ssl", "anyio", "yaml"}
LAYERS = (
    "callsheet.api",
    "callsheet.diagnostics",
    "callsheet.frontends",
    "callsheet.ir",
    "callsheet.machine",
    "callsheet.passes",
    "callsheet.ports",
    "callsheet.runtime",
    "callsheet.store",
    "callsheet.views",
)
REPORT = """
import atexit, sys
atexit.register(lambda: print('MODULES', *sys.modules, file=sys.__stderr__))
"""


def loaded(machine, *line, stdin=None):
    done = machine.shell(*line, prefix=REPORT)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split("MODULES", 1)[1].split())


def test_help_loads_only_click_and_applications(machine):
    modules = loaded(machine, "--help")
    assert not HEAVY & modules
    assert not [m for m in modules if m.startswith(LAYERS)]


@pytest.mark.parametrize(
    "line",
    [
        ("check", "p.ltp"),
        ("check", "--json", "p.ltp"),
        ("fmt", "--check", "p.ltp"),
        ("fmt", "--diff", "p.ltp"),
        ("graph", "p.ltp"),
        ("graph", "--format", "mermaid", "p.ltp"),
        ("explain", "CFG011"),
        ("run", "--help"),
        ("resume", "--help"),
    ],
)
def test_plan_commands_import_no_heavy_modules(machine, line):
    machine.plan('S1: @READ_FILE (path="a") > $a', "S2: @RESPOND ($a)", name="p.ltp")
    assert not HEAVY & loaded(machine, *line)


def test_run_with_local_tools_loads_no_server_client(machine):
    plan = machine.plan('S1: @RESPOND ("x")')
    assert not {"mcp", "httpx2", "pydantic", "rich"} & loaded(
        machine, "run", plan, "--tools", "tools.py", "--progress", "none"
    )


def test_ctrl_c_during_import_prints_nothing(tmp_path):
    (tmp_path / "click.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "callsheet", "runs"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
