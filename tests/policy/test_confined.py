"""Programs that open no file, and programs that may."""

from __future__ import annotations

import pytest

from callsheet.policy.programs import only_modules

CONFINED = [
    ("print(6*7)", "python"),
    ("import sys; print(len(sys.stdin.read()))", "python"),
    ("import datetime; print(datetime.date.today().isoformat())", "python"),
    ("from datetime import datetime as d; print(d.now().time())", "python"),
    ("import csv, json, sys\nprint(json.dumps(list(csv.DictReader(sys.stdin))))", "python"),
    ("import urllib.parse as u, sys; print(u.quote(sys.stdin.read()))", "python"),
    ("import urllib.parse; print(urllib.parse.quote('x'))", "python"),
    ("class A:\n    def __init__(self):\n        super().__init__()\nprint(A())", "python"),
    ("try:\n    x = int(input())\nexcept ValueError as e:\n    print(e)", "python"),
    ("d = {}; e = d.copy(); print(e)", "python"),
    ("import random; random.seed(1); print(random.random())", "python"),
    ("import re\nfor l in open(0): print(re.sub('a', 'b', l))", "python"),
    ("print(open('/dev/stdin').read())", "python"),
    ("if __name__ == '__main__':\n    print(1)", "python"),
    ("raise SystemExit(1)", "python"),
    ("import io, csv, sys; print(list(csv.reader(io.StringIO(sys.stdin.read()))))", "python"),
    ("date +%F", "shell"),
    ("wc -l", None),
    ("jq -r '.a[]' | sort -u | head -20", "bash"),
    ("cut -d, -f2 | sort -nr | uniq -c", "shell"),
    ("echo hello; pwd", "shell"),
    ("awk -F, '{s+=$2} END {print s}'", "shell"),
    ("sed 's/a/b/g' | tr a-z A-Z", "shell"),
    ("python3 -c 'print(1)'", "shell"),
    ("printf '%s\\n' a b | sort -r", "shell"),
    ("uname -a; whoami 2>/dev/null", "shell"),
    ("head -n 5 | tail -n 1", "shell"),
    ("echo '$5'", "shell"),
    ("grep -E '[0-9]+' - | wc -l", "shell"),
]
NOT_CONFINED = [
    ("import os; print(os.getcwd())", "python"),
    ("print(open('a').read())", "python"),
    ("print(open(0, closefd=False).read())", "python"),
    ("o = open; o('x')", "python"),
    ("print(list(map(open, ['a'])))", "python"),
    ("def f(open): pass\nprint(open('x').read())", "python"),
    ("import sys; print(sys.modules['os'])", "python"),
    ("import sys as s; m = s; m.path", "python"),
    ("import sys; f = lambda m: m.path; f(sys)", "python"),
    ("import sys; sys.settrace(print)", "python"),
    ("import sys; sys.stdin.buffer.raw.__init__('notes.txt')", "python"),
    ("import sys; type(sys.stdin.buffer.raw)('notes.txt')", "python"),
    ("getattr(1, 'x')", "python"),
    ("().__class__", "python"),
    ("print.__self__", "python"),
    ("object.__subclasses__()", "python"),
    ("(x for x in []).gi_frame.f_builtins", "python"),
    ("match 1:\n    case object(__class__=c): pass", "python"),
    ("import json; json.codecs.open('x')", "python"),
    ("from json import codecs", "python"),
    ("import random; random._os", "python"),
    ("import string; string.Formatter().get_field('0.__class__', (1,), {})", "python"),
    ("import operator", "python"),
    ("import functools; functools.singledispatch", "python"),
    ("import typing; typing.get_type_hints", "python"),
    ("import base64; base64.main()", "python"),
    ("import io; io.open('x')", "python"),
    ("from io import FileIO", "python"),
    ("from math import *", "python"),
    ("from . import x", "python"),
    ("import numpy", "python"),
    ("import urllib.request", "python"),
    ("import urllib.parse; urllib.request", "python"),
    ("__import__('os')", "python"),
    ("exec('1')", "python"),
    ("globals()['x']", "python"),
    ("__builtins__", "python"),
    ("# coding: raw_unicode_escape\nprint(1)", "python"),
    ("#!/usr/bin/python\n# -*- coding: utf-7 -*-\nprint(1)", "python"),
    ("print(1", "python"),
    ("puts 1", "ruby"),
    ("wc -l notes.txt", "shell"),
    ("wc < notes.txt", "shell"),
    ("cat notes.txt", "shell"),
    ("cat ~/x", "shell"),
    ("sort -o out.txt", "shell"),
    ("sort --files0-from=x", "shell"),
    ("uniq a b", "shell"),
    ("grep -r x", "shell"),
    ("grep x *", "shell"),
    ("grep -f x", "shell"),
    ("grep -e x notes.txt", "shell"),
    ("grep $p", "shell"),
    ("echo *", "shell"),
    ("echo x > f", "shell"),
    ("echo $(cat x)", "shell"),
    ("echo `cat x`", "shell"),
    ("cat <<EOF\nx\nEOF", "shell"),
    ("awk '{print > \"f\"}'", "shell"),
    ("awk 'BEGIN {ARGV[1] = \"notes.txt\"; ARGC = 2} {print}'", "shell"),
    ("awk -f x", "shell"),
    ("jq . a.json", "shell"),
    ("jq -n 'import \"x\" as $a; $a'", "shell"),
    ("sed 'w out'", "shell"),
    ("sed -n '1r x'", "shell"),
    ("sed 's/a/b/w out'", "shell"),
    ("sed 's/a/cat x/e'", "shell"),
    ("date -f x", "shell"),
    ("wc() { cat notes.txt; }; wc", "shell"),
    ("alias wc=cat", "shell"),
    ("PATH=. wc", "shell"),
    ("./wc", "shell"),
    ("env", "shell"),
    ("xargs cat", "shell"),
    ("python3 -c 'print(open(1))'", "shell"),
    ("./python3 -c 'print(1)'", "shell"),
    ("python x.py", "shell"),
    ("wc 'a", "shell"),
]


@pytest.mark.parametrize(("program", "language"), CONFINED)
def test_confined_program_opens_only_its_modules(program: str, language: str | None) -> None:
    assert only_modules(program, language) is not None


@pytest.mark.parametrize(("program", "language"), NOT_CONFINED)
def test_any_other_program_may_open_files(program: str, language: str | None) -> None:
    assert only_modules(program, language) is None


def test_long_program_is_read_in_linear_time() -> None:
    assert only_modules("print(1)\n" * 100_000, "python") is None
    assert only_modules("date; " * 20_000, "shell") == ()
