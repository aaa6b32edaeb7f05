"""Lines about a run word its plan in the language in which it was written."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys

import pytest
from hypothesis import given
from tests.structured_plans import trees

from callsheet.frontends.python.printing.lines_printer import LinesPrinter
from callsheet.frontends.python.reader import read_python
from callsheet.ir import Plan
from callsheet.ir.tree import all_statements
from callsheet.store.journal_paths import place_of
from callsheet.views.describe import ActionTexts, wording_of

TEXT = '''
from callsheet import plan, tool, gather, note, ToolError

@tool(effect="read")
async def fetch(name: str) -> dict:
    """A page."""
    return {"name": name, "size": 3}

@plan
async def report(names: list[str], limit: int = 2) -> str:
    rows = []
    for name in names:
        page = await fetch(name)
        if page["size"] > limit:
            rows.append(f"{page['name']}: {page['size']:>3}")
    total = len(rows)
    pages = await gather(*[fetch(name=name) for name in names])
    try:
        await fetch(str(total) + " rows")
    except ToolError as error:
        raise ValueError(f"no: {error}")
    while total < 3:
        total += 1
        await fetch(str(total))
    return f"{total} of {len(pages)}"
'''
LTP = re.compile(r"\$\w|pystr|@[A-Z]|\bLET |\?FOREACH|\?IF|COMPUTE|ON_FAIL|@RESPOND|\?REPEAT|\bTRY\b")
"""What only LTP has."""


@pytest.fixture(scope="module")
def lines() -> dict[str, str]:
    read = read_python(TEXT).require()
    assert read.tree is not None
    texts = ActionTexts(read)
    return {one.id: texts.of(one.id) for one in all_statements(read.tree)}


def test_statements_of_a_python_plan_are_python(lines: dict[str, str]) -> None:
    assert not [line for line in lines.values() if LTP.search(line)]
    said = set(lines.values())
    for line in (
        "for name in names:",
        "page = await fetch(name)",
        "while total < 3:",
        "try:",
        "await fetch(str(total) + ' rows')",
        "raise ValueError(f'no: {error}')",
        "pages = await gather(*[… for item in names])",
        "return f'{total} of {len(pages)}'",
    ):
        assert line in said, said


def test_expressions_variables_and_parts_of_a_python_plan_are_python() -> None:
    words = wording_of(read_python(TEXT).require())
    assert words.expression('not ($page["size"] > $limit)') == "not page['size'] > limit"
    assert words.expression("FETCH result") == "fetch result"
    assert words.expression("item of FETCH result") == "item of fetch result"
    assert words.expression("item of $page['rows']") == "item of page['rows']"
    assert words.expression("no expression (") == "no expression ("
    assert words.expression("$error_1") == words.variable("error_1") == "error"
    assert words.variable("rows", (0, "a.b")) == "rows[0]['a.b']"
    assert words.part("ON_FAIL TOOL") == "except ToolError:"
    assert words.tool("FETCH") == "fetch"


@given(trees())
def test_any_plan_has_words(plan: Plan) -> None:
    words = LinesPrinter(plan)
    assert plan.tree is not None
    for one in all_statements(plan.tree):
        line = words.line(one)
        assert line is None or line


def test_run_show_why_and_dry_run_of_a_python_plan_speak_python(machine) -> None:
    plan = f"{machine.write('report.py', TEXT)}:report"
    inputs = ("--names", '["a", "b"]')
    run = machine("run", plan, *inputs, "--tools", "report.py", "--run-id", "r", "--progress", "plain")
    assert run.exit_code == 0, run.stderr
    dry = machine("dry-run", plan, *inputs, "--tools", "report.py").stdout
    shown = machine("show", "r").stdout + machine("show", "r", "--timeline").stdout
    why = machine("why", "r", "total").stdout
    other = (plan, "--names", '["c"]', "--tools", "report.py", "--run-id")
    assert machine("run", *other, "s").exit_code == 0
    assert machine("run", *other, "f", "--max-calls", "1").exit_code == 1
    parted = machine("diff", "r", "s").stdout
    at = machine("at", "r", "3").stdout.replace(
        "tool call @", ""
    )  # calls are named by their tools everywhere
    moments = (at, machine("playback", "r").stdout)
    for text in (run.stderr, dry, shown, why, parted, machine("blame", "f").stdout, *moments):
        assert not LTP.search(text), text
    assert "if total < 3: total = 2" in why
    page = machine("why", "r", 'page["size"]').stdout
    assert page.startswith("page['size'] = 3")
    wrong = [
        machine("why", "r", "pags").stderr,
        machine("why", "r", "page.siz").stderr,
        machine("run", plan, "--tools", "report.py").stderr,
        machine("run", plan, "--names", "a", "--tools", "report.py").stderr,
        machine("run", plan, *inputs, "--var", "limt=3", "--tools", "report.py").stderr,
        machine("fork", "r", "--at", "2", "--set", "xyz=3").stderr,
    ]
    said = (
        "mean pages or page?",
        "page has no siz",
        "input names",
        """'["a""",
        "limt",
        "it has error, limit, names",
    )
    for text, part in zip(wrong, said, strict=True):
        assert part in text
        assert not LTP.search(text), text


SKIPPING = """# ltp: 2
?FOREACH ($x IN [1, 0]) {
  YIELD (2 // $x)
} > $halves ON_FAIL SKIP
?FOREACH ($x IN []) {
  YIELD ($x)
} > $none
@RESPOND ("$halves $none")
"""


def test_items_that_are_left_out_are_told_where_the_run_is_watched_and_shown(machine) -> None:
    run = machine("run", machine.write("skip.ltp", SKIPPING), "--run-id", "r", "--progress", "plain")
    assert "foreach1 warning  1 of 2 items failed: [1] integer division or modulo by zero" in run.stderr
    assert "> $none, 0 items" in run.stderr
    assert "warning: foreach1: 1 of 2 items failed" in machine("show", "r").stdout


SAME = """# ltp: 2
?FOREACH ($x IN [1, "01"]) {
  @PUT ($x)
}
"""
PUT = 'from callsheet import tool\n@tool(resource="x")\ndef put(x: int) -> None: ...\n'


def test_loop_that_runs_in_order_as_its_items_may_touch_the_same_says_so_where_the_run_is_shown(
    machine,
) -> None:
    machine("run", machine.write("same.ltp", SAME), "--tools", machine.write("put.py", PUT), "--run-id", "r")
    said = "[its items run one after another, as they are not known to differ in x]"
    assert said in machine("show", "r").stdout


VIEWS = (
    ("graph", "PLAN"),
    ("graph", "PLAN", "--format", "mermaid"),
    ("graph", "PLAN", "--format", "graph"),
    ("plan", "diff", "PLAN", "other.py"),
    ("plan", "diff", "PLAN", "other.py", "--json"),
    ("dry-run", "PLAN", "--names", '["a"]', "--tools", "report.py", "--json"),
    ("at", "r", "9"),
    ("diff", "r", "s"),
    ("diff", "r", "s", "--json"),
    ("why", "r", "page", "--forward"),
    ("blame", "failed"),
)


KINDS = re.compile(r'"(kind|action|tool|block)": "[^"]*"|"within": \[[^]]*\]')
"""What data calls alike for plans in all languages."""


@pytest.fixture
def recorded(machine):
    """A run, one of other inputs, and one that failed."""
    machine.write("report.py", TEXT)
    machine.write(
        "other.py", TEXT.replace("total += 1", "total += 2").replace("ToolError as", "ValueError as")
    )
    machine.write(
        "failing.py",
        "async def main(n: int):\n    rows = await fetch(name=str(n))\n    raise ValueError(rows)\n",
    )
    for plan, inputs, run in (
        ("report.py:report", ("--names", '["a", "b"]'), "r"),
        ("report.py:report", ("--names", '["c"]'), "s"),
        ("failing.py", ("--n", "1"), "failed"),
    ):
        machine("run", plan, *inputs, "--tools", "report.py", "--run-id", run, "--progress", "none")
    return machine


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view[:1] + view[2:4]))
def test_each_view_of_a_python_plan_speaks_python(recorded, view: tuple[str, ...]) -> None:
    shown = recorded(*["report.py" if part == "PLAN" else part for part in view])
    assert "internal error" not in shown.stderr
    assert len(shown.stdout) > 40, shown.stderr
    said = KINDS.sub("", shown.stdout) if "--json" in view else shown.stdout
    assert not LTP.search(said), said


def test_a_report_of_a_python_plan_speaks_python(recorded) -> None:
    recorded("report", "r", "-o", "r.html")
    page = (recorded.folder / "r.html").read_text("utf-8")
    data = json.loads(re.search(r'id="callsheet-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    columns = data["plans"][0]["steps"]["columns"] if isinstance(data["plans"][0]["steps"], dict) else None
    rows = data["plans"][0]["steps"]["rows"] if columns else data["plans"][0]["steps"]
    for row in rows:
        said = row if columns is None else dict(zip(columns, row, strict=True))
        assert not LTP.search(json.dumps([said["tool"], said["action"], said["output"]])), said
    assert data["run"]["sigil"] == ""
    assert data["run"]["tools"]["FETCH"] == "fetch"


def test_a_question_about_a_call_of_a_python_plan_shows_its_lines_everywhere(machine) -> None:
    main = "async def main(n: int):\n    if n > 3:\n        await fetch(n=n)\n    return n\n"
    plan, tools = machine.write("p.py", main), machine.write("fetch.py", FETCH)
    run = machine("run", plan, "--n", "5", "--tools", tools, "--approve", "fetch", "--run-id", "r")
    lines = ["may fetch be called with exactly this?", "2|     if n > 3:", "3|         await fetch(n=n)"]
    for view in (run.stderr, machine("inbox").stdout, machine("show", "r").stdout):
        assert [line for line in lines if line in view] == lines, view
    (ask,) = json.loads(machine("inbox", "--json").stdout)
    assert ask["site"] == {
        "tool": "fetch",
        "lines": [{"line": 2, "text": "    if n > 3:"}, {"line": 3, "text": "        await fetch(n=n)"}],
    }


CLASSES = """
from dataclasses import dataclass

@dataclass
class Page:
    name: str
    size: int

async def load(name: str) -> Page:
    row = await fetch(name)
    return Page(row["name"], row["size"])

async def main(names: list[str], who: str) -> str:
    pages = [await load(name) for name in names]
    for page in pages:
        if page.size > 1:
            await fetch(page.name + who)
    return "done"
"""


def test_code_below_classes_is_told_by_what_it_does_and_objects_as_python_writes_them(machine) -> None:
    plan, tools = machine.write("classes.py", CLASSES), machine.write("report.py", TEXT)
    run = ("run", plan, "--names", '["a"]', "--who", "x", "--tools", tools, "--run-id", "r")
    assert machine(*run).exit_code == 0
    shown, why = machine("show", "r").stdout, machine("why", "r", "pages").stdout
    assert "= page.size > 1" in shown
    assert "Page(name='a', size=3)" in shown
    assert "Page(row['name'], row['size'])" in why
    assert not re.search(r"from dataclasses|Kept\(", shown + why + machine("graph", plan).stdout)


def test_what_was_edited_and_lies_ahead_of_a_python_plan_is_named_as_it_names_it(machine) -> None:
    before = (
        "async def main(n: int, old: str = '') -> int:\n    rows = []\n    await fetch(n=n)\n    return n\n"
    )
    after = (
        "async def main(n: int, new: str = ''):\n    total = [n]\n    await fetch(n=total[0])\n    return n\n"
    )
    plan, tools = machine.write("p.py", before), machine.write("fetch.py", FETCH.replace("read", "unsafe"))
    machine("run", plan, "--n", "5", "--tools", tools, "--approve", "fetch", "--run-id", "r")
    machine.write("old.py", before)
    machine.write("p.py", after)
    edited = machine("resume", "r").stderr
    assert "total = [n] (" in edited
    ahead = machine("resume", "r", "--plan", plan).stderr
    assert "main.fetch  fetch (unsafe)" in ahead
    changes = machine("plan", "diff", "old.py", plan).stdout
    assert "returns int" in changes
    assert re.search(r"= old renamed to new|- parameter old", changes), changes
    for text in (edited, ahead, changes):
        assert not re.search(f"{LTP.pattern}|a LET|RESULT", text), text


SENT = """
async def main(name: str):
    page = await fetch(name=name)
    who = page["name"] + "@x.org"
    await send_mail(to=who)
"""
DATA = """
async def main(name: str):
    page = await fetch(name=name)
    await send_mail(to="$ann@x.org", text=page["name"])
    await send_mail(to="null@x.org", text=page["name"])
"""
MAIL = """
from callsheet import tool
@tool(effect="read")
def fetch(name: str) -> dict: return {"name": name}
@tool
def send_mail(to: str, text: str = "") -> str: ...
"""
UNTRUSTED = """
schema = 1
extends = "workspace"
tools."@FETCH" = { egress = false, destructive = false, returns = "U/priv" }
[tools."@SEND_MAIL"]
audience_arg = "to"
control = ["to"]
destructive = false
returns = "T/pub"
approval = "if-untrusted-or-outside"
"""


def test_reasons_of_a_policy_name_tools_and_variables_as_the_plan_does_before_a_run_and_in_it(
    machine,
) -> None:
    plan, policy = machine.write("sent.py", SENT), machine.write("policy.toml", UNTRUSTED)
    options = ("--tools", machine.write("mail.py", MAIL), "--policy", policy)
    decides, flow = (
        "untrusted data decides 'to' of send_mail",
        "main.page page → let1 who → main.send_mail to",
    )
    for view in (("verify", plan), ("explain-policy", plan), ("dry-run", plan, "--name", "z")):
        said = machine(*view, *options).stdout
        assert decides in said
        assert flow in said or view[0] == "dry-run", said  # which cuts its lines
        assert not LTP.search(said), said
    asked = machine("run", plan, "--name", "z", *options).stderr
    assert f"because {decides}" in asked
    assert not LTP.search(asked), asked


def test_data_in_the_reasons_of_a_policy_is_shown_as_it_is(machine) -> None:
    plan = machine.write("sent.py", DATA)
    options = ("--tools", machine.write("mail.py", MAIL), "--policy", machine.write("policy.toml", UNTRUSTED))
    for view in (("verify", plan), ("explain-policy", plan), ("dry-run", plan, "--name", "z")):
        said = machine(*view, *options).stdout
        for recipient in ("$ann@x.org", "null@x.org"):
            assert f"send_mail sends private data to {recipient}" in said


AHEAD = """
async def main(names: list[str]):
    total = 0
    for name in names:
        total += await fetch(n=len(name))
    await fetch(n=total + 1)
"""


def test_what_a_question_does_not_know_yet_of_further_calls_is_told_in_python(machine) -> None:
    tools = machine.write("fetch.py", "from callsheet import tool\n@tool\ndef fetch(n: int) -> int: ...\n")
    plan = machine.write("p.py", AHEAD)
    run = machine("run", plan, "--names", '["a", "b"]', "--tools", tools, "--approve", "fetch").stderr
    listed = machine("inbox", "--json").stdout
    for text in (run, listed):
        assert "‹total + 1›" in text
        assert not LTP.search(text), text


KEPT = """
import asyncio
async def main(names: list[str]):
    pages = await asyncio.gather(*[fetch(name=name) for name in names], return_exceptions=True)
    good = [f"{page}: {page!r:>3} {names}" for page in pages if not isinstance(page, ToolError)]
    return "; ".join(sorted(good, key=lambda one: one[::-1]))
"""


def test_code_is_told_without_what_is_added_for_values_that_may_be_errors() -> None:
    read = read_python(KEPT).require()
    texts = ActionTexts(read, 100)
    assert read.tree is not None
    said = [texts.of(one.id) for one in all_statements(read.tree)]
    assert not [line for line in said if "__failure__" in line]
    code = "good = [f'{page}: {page!r:>3} {names}' for page in pages if not isinstance(page, (ToolError"
    assert any(line.startswith(code) for line in said)


LONG = """
async def main(n: int):
    rows = await fetch(n=n)
    for row in rows["more"]:
        await fetch(n=row)
    return [f"{row['name']:>10}" for row in rows["all"] if row["name"] != "nobody" and row["size"] > 10 - n]
"""
FETCH = "from callsheet import tool\n@tool(effect='read')\ndef fetch(n: int) -> dict[str, list]: ...\n"


def test_values_that_a_dry_run_does_not_know_are_told_in_python_whole_or_cut(machine) -> None:
    plan, tools = machine.write("long.py", LONG), machine.write("fetch.py", FETCH)
    dry = machine("dry-run", plan, "--n", "1", "--tools", tools).stdout
    assert "<[f\"{row['name']:>10}\" for row in rows['all'] if row['name']…>" in dry
    assert "<item of list(rows['more'])>" in dry
    assert not LTP.search(dry), dry


LATE = """
import asyncio
from callsheet import plan, tool

@tool(effect="read")
async def hold(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds

@plan
async def main(limit: float = 0.1):
    try:
        async with asyncio.timeout(limit):
            await hold(seconds=0.3)
    except TimeoutError as error:
        return str(error) or "over"
"""


def test_why_says_of_a_time_out_what_its_time_was(machine) -> None:
    plan = machine.write("late.py", LATE)
    assert machine("run", plan, "--tools", plan, "--run-id", "r").exit_code == 0
    why = machine("why", "r", "answer").stdout
    assert "time limit: limit = 0.1" in why
    assert "for each of" not in why
    assert "error = {" in why
    assert machine("why", "r", "error").stdout == machine("why", "r", "error_1").stdout != ""


def test_lines_about_a_plan_in_ltp_do_not_load_the_front_end_of_python(machine) -> None:
    plan = machine.write("p.ltp", "# ltp: 2\nLET $x = str(1)\n@RESPOND ($x)\n")
    program = (
        "import sys\nfrom callsheet.apps.cli.main import main\n"
        f"for line in (['run', {plan!r}, '--run-id', 'r'], ['show', 'r'], ['why', 'r', 'x']):\n"
        "    try:\n        main(line)\n    except SystemExit as ended:\n        assert not ended.code\n"
        "print([name for name in sys.modules if 'frontends.python.' in name], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def test_preview_of_an_edited_plan_says_that_the_run_is_under_way_elsewhere(machine) -> None:
    plan, tools = machine.write("p.ltp", "# ltp: 2\nS1: @FETCH (n=1)\n"), machine.write("fetch.py", FETCH)
    machine("run", plan, "--tools", tools, "--approve", "fetch", "--run-id", "r")
    machine.write("p.ltp", "# ltp: 2\nS1: @FETCH (n=2)\n")
    said = "run r is under way in another process"
    assert said not in machine("resume", "r", "--plan", plan).stderr
    place = place_of(machine.journal)
    place.run_locks.mkdir(exist_ok=True)
    with (place.run_locks / "r.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert said in machine("resume", "r", "--plan", plan).stderr
