"""What programs see of the workspace, and the short list of those that have no use for it."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from callsheet.diagnostics import CallsheetError, Source
from callsheet.ir.labels import read_label
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.canon import policy_from_json, policy_to_json
from callsheet.policy.model import Policy, SourceRule, ToolRule
from callsheet.policy.policy_file import read_policy
from callsheet.policy.programs import (
    _MODULES,
    View,
    executes_nothing,
    needs_no_file,
    only_looks,
    program_view,
    words_of,
)
from callsheet.policy.rules.base import Setting
from callsheet.policy.rules.opened_files import hidden_from, opened_by, seen_by

ONE_LINERS = [
    ("print(6*7)", "python"),
    ("import sys; print(len(sys.stdin.read()))", "py"),
    ("import datetime; print(datetime.date.today().isoformat())", "python"),
    ("from datetime import datetime as d; print(d.now().time())", "Python3"),
    ("import csv, json, sys\nprint(json.dumps(list(csv.DictReader(sys.stdin))))", "python"),
    ("import urllib.parse as u, sys; print(u.quote(sys.stdin.read()))", "python"),
    ("import urllib.parse; print(urllib.parse.quote('notes.txt'))", "python"),
    ("try:\n    x = int(input())\nexcept ValueError as e:\n    print(e)", "python"),
    ("import numpy; print('ok')", "python"),
    ("def f(n: int) -> int:\n    return n * 2\nprint([f(x) for x in range(3)])", "python"),
    ("raise SystemExit(1)", "python"),
    ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nprint(A(1).__class__)", "python"),
    ("date +%F", "shell"),
    ("wc -l", "bash"),
    ("cut -d, -f2 | sort -nr | uniq -c | head -n 3", "sh"),
    ("grep -i 'a b' && echo \"done\"; tr a-z A-Z", "shell"),
]
OTHERS = [
    ("print(open('a').read())", "python"),
    ("o = open; o('x')", "python"),
    ("import os; print(os.getcwd())", "python"),
    ("import json; json.codecs.open('x')", "python"),
    ("import json; m = json; m.codecs", "python"),
    ("import json; print(json.text)", "python"),
    ("from json import codecs", "python"),
    ("from math import *", "python"),
    ("import urllib.request", "python"),
    ("import urllib.request as r; p = r", "python"),
    ("import numpy; print(numpy.load('x'))", "python"),
    ("import pandas; pandas.read_csv('x')", "python"),
    ("().__class__.__base__", "python"),
    ("def sys(): pass\nimport sys", "python"),
    ("class A(B): pass", "python"),
    ("with x: pass", "python"),
    ("@open\ndef f(): pass", "python"),
    ("unknown(1)", "python"),
    ("exec('1')", "python"),
    ("# -*- coding: utf-7 -*-\nprint(1)", "python"),
    ("print(1", "python"),
    ("puts 1", "ruby"),
    ("console.log(1)", "javascript"),
    *(
        (script, "shell")
        for script in (
            "wc -l notes.txt", "wc < notes.txt", "cat notes.txt", "sort -o out.txt",
            "sort --files0-from=x", "uniq a", "grep -r x", "grep x *", "grep -f x", "grep x notes.txt",
            "grep $p", "grep \"$p\"", "date -f x", "date x", "echo *", "echo x > f", "echo $(cat x)",
            "echo `cat x`", "cat <<EOF\nx\nEOF", "wc &", "cat ~/x", "./wc", "awk '{print > \"f\"}'",
            "sed 'w out'", "jq . a.json", "PATH=. wc", "wc 'a", "wc; make", "", "wc\nmake",
            "echo {a,b}", "head -n", "wc # x",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("program", "language"), ONE_LINERS)
def test_one_liner_needs_no_file(program: str, language: str) -> None:
    assert needs_no_file(program, language)


@pytest.mark.parametrize(("program", "language"), OTHERS)
def test_other_program_may_need_files(program: str, language: str) -> None:
    assert not needs_no_file(program, language)


def test_listed_names_exist_in_their_modules_and_are_no_modules() -> None:
    for module, names in _MODULES.items():
        loaded = importlib.import_module(module) if names else None
        for name in names:
            assert not isinstance(getattr(loaded, name), ModuleType), (module, name)


def test_long_program_is_read_in_linear_time() -> None:
    assert needs_no_file("date; " * 20_000 + "date", "shell")
    assert needs_no_file("print(1)\n" * 20_000, "python")


@pytest.mark.parametrize(
    ("program", "reads_only"),
    [
        ("import json; print(json.load(open('x'))['a'])", True),
        ("import sys, pandas; pandas.read_csv(sys.stdin).to_csv('out.csv')", True),
        ("check()", True),
        ("exec(input())", False),
        ("import tool", False),
        ("from pandas import read_pickle as f; f('x')", False),
        ("import pandas; pandas.read_pickle('x')", False),
        ("import sys; sys.modules['os'].system('sh')", False),
        ("e = __builtins__; e", False),
        ("# coding: utf-7\nprint(1)", False),
    ],
)
def test_program_that_executes_text_is_no_reader(program: str, reads_only: bool) -> None:
    assert executes_nothing(program, "python") is reads_only
    assert not executes_nothing(program, "shell")


@pytest.mark.parametrize(
    ("command", "looks"),
    [
        ("docker ps --format '{{.Names}}'", True),
        ("systemctl status web", True),
        ("df -h", True),
        ("docker ps > x", False),
        ("docker ps; sh x", False),
        ("docker ps\nsh x", False),
        ("df $(cat x)", False),
        ("dfx", False),
        ("cat notes.txt", False),
        ("docker cp a:/x y", False),
    ],
)
def test_few_commands_of_the_host_only_look(command: str, looks: bool) -> None:
    assert only_looks(command) is looks


def call(code: str, *reads: str, tool: str = "EXEC_CODE", says: bool = True) -> CallView:
    items = tuple(Argument("reads", (path,)) for path in reads)
    declared = (Argument("reads", () if items else ("",), items=items),) if says else ()
    return CallView("S1", tool, (Argument("code", (code,)), *declared))


def test_declaration_decides_what_is_seen() -> None:
    assert program_view("EXEC_CODE", call("f()", "./a//b", "*.md", ".")) == View(("a/b", "*.md", ""))
    assert program_view("EXEC_CODE", call("print(1)", "a")) == View(("a",))  # a one-liner too
    assert program_view("EXEC_CODE", call("f()")) == View(())
    assert program_view("EXEC_CODE", call("f()", "../a")).is_whole
    assert program_view("EXEC_CODE", call("f()", says=False)).is_whole
    assert program_view("EXEC_CODE", call("print(1)", says=False)) == View(())
    assert program_view("HOST_EXEC", call("f()", "a", tool="HOST_EXEC")).is_whole


def test_policy_declares_for_a_tool() -> None:
    setting = Setting(Policy(tools={"EXEC_CODE": ToolRule(egress=False, reads=("src",))}))
    assert seen_by(setting, "EXEC_CODE", call("f()", says=False)) == View(("src",))
    assert seen_by(setting, "EXEC_CODE", call("print(1)", says=False)) == View(())
    assert seen_by(setting, "EXEC_CODE", call("f()", "docs")) == View(("docs",))


@pytest.mark.parametrize("reads", [None, (), ("src", "")])
def test_declaration_of_a_policy_is_kept_in_the_journal(reads: tuple[str, ...] | None) -> None:
    policy = Policy(tools={"EXEC_CODE": ToolRule(reads=reads)})
    assert policy_from_json(policy_to_json(policy)) == policy
    assert ("reads" in str(policy_to_json(policy))) is (reads is not None)


def test_policy_declares_only_files_of_the_workspace() -> None:
    text = 'schema = 1\n[tools."@EXEC_CODE"]\nreads = ["./src", "**"]\n'
    assert read_policy(Source("p.toml", text)).tools["EXEC_CODE"].reads == ("src", "**")
    with pytest.raises(CallsheetError, match="paths inside the workspace: the path leads out"):
        read_policy(Source("p.toml", text.replace("./src", "../src")))


RULES = (
    SourceRule(kind="file", pattern="**/.env", label=read_label("U/secret")),
    SourceRule(kind="file", pattern="pay/**", label=read_label("U/user")),
    SourceRule(kind="file", pattern="docs/**", label=read_label("U/pub")),
)


@pytest.mark.parametrize(
    ("reads", "label", "hidden"),
    [
        (("docs",), "U/pub", {"docs/.env", "a.txt", "pay/a"}),
        (("docs/a.md",), "U/pub", {"docs/.env", "a.txt", "pay/a"}),
        (("a.txt",), "U/priv", {"docs/.env", "pay/a"}),
        ((".",), "U/user", {"docs/.env"}),
        (("*",), "U/user", {"docs/.env"}),
        (("docs/.env",), "U/secret", set()),
        ((), "T/pub", {"docs/.env", "a.txt", "pay/a", "docs/a.md"}),
    ],
)
def test_nothing_is_visible_that_the_label_does_not_cover(
    reads: tuple[str, ...], label: str, hidden: set[str]
) -> None:
    setting = Setting(Policy(sources=RULES))
    view = call("f()", *reads)
    assert opened_by(setting, "EXEC_CODE", view) == read_label(label)
    hides = hidden_from(setting, "EXEC_CODE", view)
    files = ("docs/.env", "docs/a.md", "a.txt", "pay/a")
    assert {name for name in files if hides is not None and hides(name)} == hidden


def test_undeclared_program_has_the_label_of_the_workspace_and_sees_no_secret() -> None:
    setting = Setting(Policy(sources=RULES))
    view = call("f()", says=False)
    assert opened_by(setting, "EXEC_CODE", view) == read_label("U/user")
    hides = hidden_from(setting, "EXEC_CODE", view)
    assert hides is not None
    assert hides("docs/.env")
    assert opened_by(setting, "EXEC_CODE", call("cat('x/.env')", says=False)).is_secret


def test_words_of_program_are_those_that_may_be_paths() -> None:
    assert words_of("curl -F f=@.env 'a/b.txt'>c") == ("curl", "-F", "f", ".env", "a/b.txt", "c")
