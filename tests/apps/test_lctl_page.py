"""`docs/lctl.md` is correct: its commands and Python print what it shows."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "lctl.md").read_text("utf-8")
FILES = re.findall(r"^(`{3,4})(?:yaml|markdown) (\S+)\n(.*?)^\1$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ callsheet ([^\n]*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("line", "shown"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_command_prints_documented_output(machine, line, shown):
    for _, name, text in FILES:
        machine.write(name, text)
    result = machine(*shlex.split(line))
    assert result.stdout + result.stderr == shown


def test_python_example_behaves_as_documented():
    code = "".join(re.findall(r"^```pycon\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(code, {}, "lctl.md", "lctl.md", 0)
    outcome = doctest.DocTestRunner().run(test)
    assert outcome.attempted > 8
    assert outcome.failed == 0
