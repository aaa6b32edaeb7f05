"""An operator's tool with the name of a built-in one is judged by what its own arguments hold."""

from __future__ import annotations

from pathlib import Path

import pytest

import callsheet
from callsheet.api.policies import load_policy
from callsheet.api.proving import prove
from callsheet.frontends.ltp import parse
from callsheet.ports.python_tools.declare import tool_of
from callsheet.ports.tools import Registry


@callsheet.tool(effect="read")
def read_file(file_path: str) -> str:
    return Path(file_path).read_text(encoding="utf-8")


@callsheet.tool(effect="idempotent")
def write_file(filename: str, content: str) -> str:
    return filename


@callsheet.tool(effect="read")
def fetch_page(link: str) -> str:
    return link


@callsheet.tool(effect="read")
def host_file_read(number: int) -> str:
    return str(number)


def there() -> Registry:
    return Registry(map(tool_of, (read_file, write_file, fetch_page, host_file_read)))


READ = 'S1: @READ_FILE (file_path="notes.txt") > $a\n'


@pytest.mark.parametrize(
    ("plan", "codes"),
    [
        (f"{READ}S2: @RESPOND ($a)", []),
        ('S1: @READ_FILE ("notes.txt") > $a\nS2: @RESPOND ($a)', []),
        (f'{READ}S2: @WRITE_FILE ("out.md", $a)', []),
        (f'{READ}S2: @WRITE_FILE (".bashrc", $a)', ["POL107"]),
        (f'{READ}S2: @WRITE_FILE ($a, "x")', ["POL104"]),
        ('S1: @WRITE_FILE (filename="../x.md", content="x")', ["POL106"]),
        ('S1: @READ_FILE (file_path="/etc/passwd") > $a', ["POL106"]),
        (f"{READ}S2: @FETCH_PAGE (link=$a)", ["POL103"]),
        ('S1: @FETCH_PAGE (link="http://169.254.169.254/")', ["POL105"]),
        ('S1: @READ_FILE (file_path=".env") > $a\nS2: @RESPOND ($a)', ["POL103"]),
        ("S1: @HOST_FILE_READ (number=3)", ["POL106"]),
        ('S1: @READ_FILE (path="notes.txt") > $a', ["POL106"]),
    ],
)
def test_path_and_address_are_found_under_their_own_names(plan: str, codes: list[str]) -> None:
    proof = prove(parse(f"PLAN_START\n{plan}\nPLAN_END").require(), load_policy("workspace"), there())
    assert [d.code for d in proof.diagnostics if d.is_error] == codes


def test_label_of_what_such_a_tool_writes_is_known_when_it_is_read() -> None:
    plan = (
        'S1: @FETCH_PAGE (link="https://c.example/") > $p\nS2: @WRITE_FILE ("docs/a.md", $p)\n'
        'S3: @READ_FILE ("docs/a.md") > $b\nS4: @EXEC_CODE (code=$b)'
    )
    proof = prove(parse(f"PLAN_START\n{plan}\nPLAN_END").require(), load_policy("workspace"), there())
    assert "POL104" in [d.code for d in proof.diagnostics]
