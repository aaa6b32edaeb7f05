"""`callsheet new`: begins a plan from a template, together with its test cases."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import is_terminal, print_json, writing
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup


@dataclass(frozen=True, slots=True)
class Template:
    """A plan to begin with, and the cases that test it; both use built-in tools only."""

    about: str
    suffix: str
    plan: str
    cases: str


TEMPLATES = {
    "steps": Template(
        "steps one after the other, with a condition and a failure that is handled",
        ".ltp",
        """# ltp: 2
# goal: Greet with the text of a file
INPUT $path: str
S1: @READ_FILE (path=$path) > $text ON_FAIL {
  TERMINATE ("The file cannot be read: ${error.message}")
}
?IF ($text == "") THEN @RESPOND ("The file is empty.")
S2: @RESPOND ("The file says: ${text}")
""",
        """[[cases]]
name = "the text is told"
inputs = { path = "a.txt" }
fakes = [{ tool = "read_file", answer = "hello" }]
calls = [{ tool = "read_file", args = { path = "a.txt" } }]
answer = "The file says: hello"

[[cases]]
name = "an empty file"
inputs = { path = "a.txt" }
fakes = [{ tool = "read_file", answer = "" }]
answer = "The file is empty."

[[cases]]
name = "a file that cannot be read"
inputs = { path = "a.txt" }
fakes = [{ tool = "read_file", fails = "there is no a.txt" }]
message = "The file cannot be read"
""",
    ),
    "blocks": Template(
        "typed inputs, a loop, conditions and failures as blocks",
        ".ltp",
        """# ltp: 2
# goal: Save each page, and say which could not be read
INPUT $urls: list[str]
LET $missing = []
?FOREACH ($url IN $urls) IN ORDER {
  LET $name = $url.partition("://")[2].replace("/", "_")
  TRY {
    S1: @FETCH_PAGE (url=$url) > $page
    S2: @WRITE_FILE (path="pages/${name}.md", content=$page)
  } ON_FAIL {
    SET $missing = $missing + [$url]
  }
}
?IF ($missing) {
  @RESPOND ($missing)
} ELSE {
  @RESPOND ("all pages are saved")
}
""",
        """[[fakes]]
tool = "write_file"
answer = "written"

[[cases]]
name = "all pages are saved"
inputs = { urls = ["https://a.example/x", "https://b.example/"] }
fakes = [{ tool = "fetch_page", answer = "text" }]
order = "some"
calls = [
  { tool = "write_file", args = { path = "pages/a.example_x.md", content = "text" } },
  { tool = "write_file", args = { path = "pages/b.example_.md", content = "text" } },
]
answer = "all pages are saved"

[[cases]]
name = "a page that cannot be read is named"
inputs = { urls = ["https://a.example/"] }
fakes = [{ tool = "fetch_page", fails = "no answer" }]
answer = ["https://a.example/"]

[[cases]]
name = "no pages"
inputs = { urls = [] }
calls = []
answer = "all pages are saved"
""",
    ),
    "approval": Template(
        "a question to a person, and a call that somebody has to approve",
        ".ltp",
        """# ltp: 2
# goal: Write a note that a person has chosen
# Run it with: --approve WRITE_FILE
INPUT $who: str
S1: @ASK_HUMAN ("Which note to ${who}?", options=["hello", "farewell"], timeout="1d", default="hello") > $kind
S2: @WRITE_FILE (path="note.txt", content="${kind}, ${who}") ON_FAIL DENIED {
  TERMINATE ("Not written: ${error.message}")
}
S3: @RESPOND ("Written: ${kind}")
""",
        """approve = ["write_file"]
fakes = [{ tool = "write_file", answer = "written" }]

[[cases]]
name = "the note that was chosen is written"
inputs = { who = "Ada" }
replies = [{ to = "Which note", answer = "farewell" }, { to = "write_file", approve = true }]
calls = [{ tool = "write_file", args = { path = "note.txt", content = "farewell, Ada" } }]
answer = "Written: farewell"

[[cases]]
name = "what nobody approves is not written"
inputs = { who = "Ada" }
replies = [{ to = "Which note", nobody = true }, { to = "write_file", approve = false }]
calls = []
message = "Not written"
""",
    ),
    "python": Template(
        "a plan in Python: an async function whose awaited calls are tools",
        ".py",
        '''async def main(folder: str, pattern: str) -> list[str]:
    """Names the files in which a pattern occurs."""
    found = await search_files(pattern=pattern, path=folder)
    return sorted({hit["path"] for hit in found})
''',
        """[[cases]]
name = "each file is named once"
inputs = { folder = "src", pattern = "TODO" }
fakes = [
  { tool = "search_files", answer = [
    { path = "b.py", line = 1, text = "TODO" },
    { path = "a.py", line = 2, text = "TODO" },
    { path = "a.py", line = 9, text = "TODO" },
  ] },
]
calls = [{ tool = "search_files", args = { pattern = "TODO", path = "src" } }]
answer = ["a.py", "b.py"]
""",
    ),
}


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--template",
    "name",
    type=click.Choice([*TEMPLATES]),
    help="What to begin with; default: python for a .py file, else blocks. See --list.",
)
@click.option("--goal", metavar="GOAL", help="Have a model write the plan, as `callsheet compile` does.")
@click.option("--list", "lists", is_flag=True, help="List the templates.")
@options.planning_tools
@options.policy_if_any
@options.as_json
def new(
    file: Path | None,
    name: str | None,
    goal: str | None,
    lists: bool,
    setup: Setup,
    policy: str,
    as_json: bool,
) -> int:
    """Begin a plan in FILE from a template, with test cases beside it, or from a goal.

    On a terminal it asks for what is missing. No file is overwritten. A plan from a goal is checked against
    the tools, and proved if there is a policy; an answer that is no plan is left in FILE.rejected.

    \b
    Examples:
      callsheet new greet.ltp
      callsheet new plans/report.ltp --template approval
      callsheet new notes.py --goal "Summarize the notes of today"
    """
    if goal is not None:
        if name is not None or lists:
            raise click.UsageError("--goal cannot be combined with --template and --list")
        return _from_goal(file, goal, setup, policy, as_json=as_json)
    if lists:
        return _list(as_json=as_json)
    if file is None:
        if as_json or not is_terminal(sys.stdin):
            raise click.UsageError("missing argument FILE: the plan to write, such as greet.ltp")
        if name is None:
            for key, one in TEMPLATES.items():
                click.echo(f"{key:10} {one.about}")
            name = str(click.prompt("template", type=click.Choice([*TEMPLATES]), default="blocks"))
        file = Path(str(click.prompt("file", default=f"plan{TEMPLATES[name].suffix}")))
    name = name or ("python" if file.suffix == ".py" else "blocks")
    template = TEMPLATES[name]
    if file.suffix != template.suffix:
        help_ = f"its name ends in {template.suffix}; `callsheet new --list` lists the templates"
        raise CallsheetError.single("CFG014", f"{file} is no file for the template {name}", help=help_)
    cases = file.with_name(f"{file.stem}.test.toml")
    for path in (file, cases):
        if path.exists():
            raise CallsheetError.single("CFG014", f"{path} exists already", help="name another file")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(template.plan, "utf-8")
        cases.write_text(template.cases, "utf-8")
    if as_json:
        print_json({"version": 1, "plan": str(file), "cases": str(cases), "template": name})
    else:
        click.echo(f"wrote {file} and its test cases, {cases}")
        click.echo(f"next: callsheet check {file}; callsheet test {cases}; callsheet graph {file}")
    return Exit.OK


def _list(*, as_json: bool) -> int:
    """Print the templates."""
    if as_json:
        print_json({"version": 1, "templates": {key: one.about for key, one in TEMPLATES.items()}})
    else:
        for key, one in TEMPLATES.items():
            click.echo(f"{key:10} {one.about}")
    return Exit.OK


_FORMS = {".py": "python", ".ltp": "ltp", ".micro": "micro"}


def _from_goal(file: Path | None, goal: str, setup: Setup, policy: str, *, as_json: bool) -> int:
    """Compile a goal into a new file, in the form that its name says."""
    from callsheet.apps.cli.compile import compile_and_print  # noqa: PLC0415 - only for a goal

    if file is None:
        raise click.UsageError("missing argument FILE: the plan to write, such as notes.py")
    if file.suffix not in _FORMS:
        help_ = f"its name ends in {', '.join(_FORMS)}"
        raise CallsheetError.single("CFG014", f"{file} is no file for a plan", help=help_)
    if file.exists():
        raise CallsheetError.single("CFG014", f"{file} exists already", help="name another file")
    file.parent.mkdir(parents=True, exist_ok=True)
    form = _FORMS[file.suffix]
    status = compile_and_print(
        goal=goal, setup=setup, out=file, form=form, no_library=True, policy=policy, as_json=as_json
    )
    if status == Exit.OK and not as_json:
        click.echo(f"next: callsheet check {file}; callsheet dry-run {file}; callsheet run {file}")
    return status
