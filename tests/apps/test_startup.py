"""The cost of starting the command line, as the modules that it loads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

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
    done = machine.shell(*line, prefix=REPORT, imports=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split("MODULES", 1)[1].split())


COUNTED = (
    """
import dataclasses, re._compiler as compiler, sys

compiled, count, made, make = compiler.compile, 0, 0, dataclasses.dataclass


def making(*arguments, **options):
    global made
    made += 1
    return make(*arguments, **options)


dataclasses.dataclass = making


def counting(*arguments):
    global count
    own = sys._getframe(1)
    while own.f_globals["__name__"].split(".")[0] in ("re", "functools"):
        own = own.f_back
    count += own.f_globals["__name__"].split(".")[0] == "callsheet"
    return compiled(*arguments)


compiler.compile = counting
"""
    + REPORT
    + "atexit.register(lambda: print('COUNTS', count, made, file=sys.__stderr__))\n"
)


def counts(report):
    """The own modules that a program has loaded, the patterns it compiled, the dataclasses it made."""
    counted, _, names = report.rpartition("COUNTS")[2].partition("MODULES")
    own = [name for name in names.split() if name.split(".")[0] == "callsheet"]
    return own, *map(int, counted.split())


@pytest.mark.parametrize(
    ("line", "modules", "patterns", "dataclasses"),
    [
        (("fmt", "--check", "p.ltp"), 57, 16, 4),
        (("graph", "p.ltp"), 61, 15, 4),
        (("check", "p.ltp", "--tools", "tools.py"), 136, 17, 13),
        (("runs",), 87, 3, 3),
        (("show", "last"), 136, 5, 4),
        (("run", "p.ltp", "--tools", "tools.py", "--progress", "none"), 224, 26, 24),
    ],
    ids=["fmt", "graph", "check", "runs", "show", "run"],
)
def test_small_plan_loads_few_own_modules_and_compiles_few_patterns(
    machine, line, modules, patterns, dataclasses
):
    text = "# ltp: 1\nPLAN_START\nS1: @ADD (a=1) > $sum\nS2: @RESPOND ($sum)\nPLAN_END\n"
    (machine.folder / "p.ltp").write_text(text, "utf-8")
    machine("run", "p.ltp", "--tools", "tools.py")
    done = machine.shell(*line, prefix=COUNTED, imports=True)
    assert done.returncode == 0, done.stderr
    own, compiled, made = counts(done.stderr)
    assert 0 < len(own) <= modules
    assert line[0] == "run" or " asyncio " not in done.stderr
    assert compiled <= patterns
    assert made <= dataclasses


@pytest.mark.parametrize("command", ["graph", "check"])
def test_plan_with_blocks_that_uses_no_other_loads_neither_the_library_nor_differences(machine, command):
    (machine.folder / "p.ltp").write_text("# ltp: 2\nLET $x = 1\n@RESPOND ($x)\n", "utf-8")
    unneeded = ("callsheet.store", "callsheet.ir.diff", "callsheet.api.plan")
    assert not [name for name in loaded(machine, command, "p.ltp") if name.startswith(unneeded)]


def test_runtime_is_imported_without_what_only_some_of_its_methods_need():
    program = f"{COUNTED}from callsheet import Runtime\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    own, compiled, made = counts(done.stderr)
    assert 0 < len(own) <= 194
    assert compiled <= 30
    assert made <= 3
    unneeded = (
        "authoring.compiler",
        "passes.verify",
        "runtime.forking",
        "runtime.reporting",
        "trace.lineage",
    )
    assert not [name for name in own if name.removeprefix("callsheet.").startswith(unneeded)]


def test_plan_without_policy_model_or_servers_loads_none_of_them(machine):
    machine.plan("S1: @ADD (a=1) > $sum", "S2: @RESPOND ($sum)", name="p.ltp")
    modules = loaded(machine, "run", "p.ltp", "--tools", "tools.py", "--progress", "none")
    unneeded = (
        "callsheet.authoring",
        "callsheet.machine.monitor.monitor",
        "callsheet.passes.verify",
        "callsheet.policy.rules",
        "callsheet.ports.mcp",
        "callsheet.ports.models.endpoint",
        "callsheet.runtime.telemetry.sending",
        "callsheet.trace.lctl",
        "callsheet.trace.lineage",
        "callsheet.trace.projection",
        "callsheet.frontends.dag",
    )
    assert not [name for name in modules if name.startswith(unneeded)]


@pytest.mark.parametrize("line", [("check", "--help"), ("check", "p.ltp", "--tools", "tools.py")])
def test_a_short_command_looks_for_no_cycles_among_what_it_loads(machine, line):
    machine.plan("S1: @ADD (a=1) > $sum", name="p.ltp")
    program = """
import atexit, gc
from callsheet.__main__ import main

begun = gc.get_stats()
atexit.register(lambda: print("FROZEN", gc.get_freeze_count(), gc.get_stats() == begun))
main()
"""
    start = [sys.executable, "-c", program, *line]
    done = subprocess.run(start, cwd=machine.folder, capture_output=True, text=True, check=True)
    frozen, is_quiet = done.stdout.rpartition("FROZEN")[2].split()
    assert int(frozen) > 10_000
    assert is_quiet == "True"


def test_a_command_that_goes_on_looks_for_cycles_as_usual():
    program = """
import gc, runpy, sys
from callsheet.apps.cli import main

usual = gc.get_threshold()

def serve():
    kept = [[] for _ in range(60_000)]
    print(gc.get_threshold() == usual, gc.callbacks)

main.main = serve
runpy.run_module("callsheet", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"


def test_what_a_tool_has_written_is_in_its_file_at_the_end(tmp_path: Path):
    (tmp_path / "tools.py").write_text("""
from callsheet import tool

class Log:
    def __init__(self):
        self.file = open("log.txt", "w")
        self.note = self.file.write
        self.itself = self

LOG = Log()

@tool(effect="read")
def look() -> int:
    return LOG.note("looked")
""")
    (tmp_path / "plan.ltp").write_text("# ltp: 2\nS1: @LOOK () > $n\nS2: @RESPOND ($n)\n")
    line = [sys.executable, "-m", "callsheet", "run", "plan.ltp", "--tools", "tools.py", "--no-journal"]
    subprocess.run(line, cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "log.txt").read_text() == "looked"


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
