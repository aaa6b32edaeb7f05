"""Programs that open no file, and programs that may."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from callsheet.policy.programs import only_modules
from callsheet.policy.programs.harmless_python import MODULES

CONFINED = [
    ("print(6*7)", "python"),
    ("import sys; print(len(sys.stdin.read()))", "python"),
    ("import datetime; print(datetime.date.today().isoformat())", "python"),
    ("from datetime import datetime as d; print(d.now().time())", "python"),
    ("import csv, json, sys\nprint(json.dumps(list(csv.DictReader(sys.stdin))))", "python"),
    ("import urllib.parse as u, sys; print(u.quote(sys.stdin.read()))", "python"),
    ("import urllib.parse; print(urllib.parse.quote('x'))", "python"),
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
    ("printf '%s\\n' a b | sort -r", "shell"),
    ("uname -a; whoami 2>/dev/null", "shell"),
    ("head -n 5 | tail -n 1", "shell"),
    ("echo '$5'", "shell"),
    ("grep -E '[0-9]+' - | wc -l", "shell"),
    ("wc -l >&2 2>&1  # what it has", "shell"),
    ("cut -d, \\\n  -f2", "shell"),
    ("printf '100%% done\\n'", "shell"),
    ("echo \\'quoted\\'", "shell"),
    ("from __future__ import annotations\nprint(1)", "python"),
    ("from urllib import parse\nprint(parse.quote('a b'))", "python"),
    ("import collections.abc\nprint(isinstance([], collections.abc.Sequence))", "python"),
    ("from collections import Counter\nprint(Counter(input()).most_common(3))", "python"),
    ("print('{:>8.2f} {name}'.format(1.5, name='x'))", "python"),
    ("import uuid, hmac, time\nprint(uuid.uuid4(), time.time())", "python"),
    ("import operator\nprint(sorted({'a': 2, 'b': 1}.items(), key=operator.itemgetter(1)))", "python"),
    (
        "import re, sys\nfrom collections import defaultdict\n"
        "by = defaultdict(list)\n"
        "def add(line: str) -> None:\n"
        "    global by\n"
        "    if m := re.match(r'(\\w+)=(\\d+)', line):\n"
        "        by[m.group(1)].append(int(m.group(2)))\n"
        "for line in sys.stdin:\n    add(line.strip())\n"
        "for name, (first, *rest) in sorted(by.items()):\n"
        "    print(f'{name:<10}{first + sum(rest):>5}')",
        "python",
    ),
    (
        "from functools import lru_cache\n@lru_cache\ndef fib(n):\n"
        "    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(20))",
        "python",
    ),
    (
        "import io, csv\n"
        "out = io.StringIO()\nwith out as o:\n    csv.writer(o).writerow([1, 2])\n    print(o.getvalue())",
        "python",
    ),
    (
        "match [1, {'a': 2}]:\n    case [x, {'a': y, **rest}]:\n        print(x, y, rest)",
        "python",
    ),
    ("import sys; print(sys.version_info.major, sys.stdin.buffer.read())", "python"),
    ("def gen():\n    yield from range(3)\nprint([*gen()], {**{'a': 1}})", "python"),
]
NOT_CONFINED = [
    ("class A:\n    def __init__(self):\n        super().__init__()\nprint(A())", "python"),
    ("import sys, io\nsys.stdout = io.StringIO()", "python"),
    ("import operator; operator.attrgetter('__class__')", "python"),
    ("from operator import methodcaller", "python"),
    ("type(1)", "python"),
    ("unknown(1)", "python"),
    ("async def f(): pass", "python"),
    ("def f(type): pass\ntype(1)", "python"),
    ("x = 1\nx.anything", "python"),
    ("from collections import Counter\nCounter.copy(str)('X', (), {})", "python"),
    ("import collections\nd = {}\nd.copy()", "python"),
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
    ("import functools; functools.singledispatch", "python"),
    ("import typing; typing.get_type_hints", "python"),
    ("import functools; functools.update_wrapper(W(), f, assigned=('__globals__',))", "python"),
    ("from functools import wraps", "python"),
    ("import enum; enum.bltns.eval('1')", "python"),
    ("from enum import bltns", "python"),
    ("import dataclasses", "python"),
    ("import json; m = json; m.decoder", "python"),
    ("import json; json.scanner", "python"),
    ("import uuid; uuid.os", "python"),
    ("import urllib.parse; urllib.parse.sys", "python"),
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
    ("import uuid as __builtins__\ndef f():\n    os.system('id')\nf()", "python"),
    ("def __builtins__(): pass", "python"),
    ("class __builtins__: pass", "python"),
    ("try: 1/0\nexcept ValueError as __builtins__: pass", "python"),
    ("match {}:\n    case {**__builtins__}: pass", "python"),
    ("match 1:\n    case __builtins__: pass", "python"),
    ("def f():\n    global __builtins__", "python"),
    ("import sys\ndef super(x): return x\nsuper(sys.stdin.buffer).__init__('notes.txt')", "python"),
    ("(lambda super: super().__init__('notes.txt'))(lambda: 1)", "python"),
    ("super(list, []).__init__()", "python"),
    ("import sys; f = sys.stdin.buffer.raw", "python"),
    ("import sys; f = sys.stdin.buffer.detach()", "python"),
    ("import typing; typing.get_args(typing.Optional['1'])[0]", "python"),
    ("x.evaluate()", "python"),
    ("class A:\n    import io as i\nA.i.FileIO('notes.txt')", "python"),
    ("class A(metaclass=lambda n, b, d: d):\n    pass", "python"),
    ("class A(**{'metaclass': print}):\n    pass", "python"),
    ("import io\ndel io.StringIO", "python"),
    ("import json\njson.dumps = print", "python"),
    ("try: x\nexcept AttributeError as e: e.obj.FileIO('notes.txt')", "python"),
    ("import uuid\nclass X(uuid.Enum): A = 'notes.txt'", "python"),
    ("from uuid import Enum", "python"),
    ("import uuid; uuid.uuid1()", "python"),
    ("int.mro()", "python"),
    ("class A:\n    def __subclasshook__(cls, C): pass", "python"),
    ("class A:\n    def __new__(cls): pass", "python"),
    ("class A:\n    class __subclasshook__: pass", "python"),
    ("class A:\n    def __getattr__(self, name): pass", "python"),
    ("class A:\n    def __reduce_ex__(self, n): pass", "python"),
    ("import collections; collections.UserString.lower(1)", "python"),
    ("from collections import Counter; Counter.copy(str)", "python"),
    ("'{0.__class__}'.format(1)", "python"),
    ("'{0[a].x}'.format_map({})", "python"),
    ("f = '{0.' + 'x}'; f.format(1)", "python"),
    ("str.format('{0.x}', 1)", "python"),
    ("f'{().__class__}'", "python"),
    ("\uff45xec('1')", "python"),
    ("().__cl\uff41ss__", "python"),
    ("import urllib.parse; p = urllib.parse", "python"),
    ("from urllib import parse; p = parse", "python"),
    ("from urllib import request", "python"),
    ("raise SyntaxError('invalid syntax', ('notes.txt', 1, 1, None))", "python"),
    ("class E(TabError):\n    _metadata = (1, 0, None)", "python"),
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
    ("printf -v x '%s' 'BEGIN {getline}'; awk \"$x\"", "shell"),
    ("printf -v PATH .; wc", "shell"),
    ('awk "$x"', "shell"),
    ("wc >& out.txt", "shell"),
    ("wc &> out.txt", "shell"),
    ("wc 2> out.txt", "shell"),
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
    ("python3 -c 'print(1)'", "shell"),  # it imports from the current folder
    ("ipython -c 'get_ipython().system(1)'", "shell"),
    ("echo >(cat notes.txt)", "shell"),
    ("echo -rhe. # '\ngrep $_ # '", "shell"),
    ("grep {-rh,.} # '", "shell"),
    ("echo \\' * \\'", "shell"),
    ("echo a\r#;cat notes.txt", "shell"),
    ("echo a\u00a0#;cat notes.txt", "shell"),
    ("echo a\f#;cat notes.txt", "shell"),
    ("printf ''\\\n-v PATH .;wc", "shell"),
    ('printf "\\\n-v" PATH .;wc', "shell"),
    ("printf 'abc%n' PATH;wc", "shell"),
    ("printf '%5ln' PATH;wc", "shell"),
    ("echo x > 1", "shell"),
    ("echo x > '&1'", "shell"),
    ("echo x 2>2", "shell"),
    ('awk \'BEGIN {SYMTAB["A" "RGV"][1] = "notes.txt"} {print}\'', "shell"),
    ("echo 'a & type notes.txt'", "cmd"),
    ("echo =notes", "zsh"),
    ("python x.py", "shell"),
    ("wc 'a", "shell"),
]


@pytest.mark.parametrize(("program", "language"), CONFINED)
def test_confined_program_opens_only_its_modules(program: str, language: str | None) -> None:
    assert only_modules(program, language) is not None


@pytest.mark.parametrize(("program", "language"), NOT_CONFINED)
def test_any_other_program_may_open_files(program: str, language: str | None) -> None:
    assert only_modules(program, language) is None


PYTHON = [program for program, language in CONFINED if language == "python"]
AUDITED = """
import sys

seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)))
try:
    exec(compile(PROGRAM, "program", "exec"), {"__name__": "__main__"})
except SystemExit:
    pass
known = sys.prefix, sys.base_prefix, "/usr/share/zoneinfo/"
for event, args in seen.copy():
    is_known = bool(args) and (args[0] in (0, "/dev/stdin") or str(args[0]).startswith(known))
    if event in EVENTS and not (is_known and event in ("open", "os.listdir")):
        sys.exit(f"{event} {args}")
"""
EVENTS = ("open", "os.exec", "os.listdir", "os.posix_spawn", "os.scandir", "os.system", "socket.__new__")
"""Events of the interpreter for what a confined program must not do."""
SINCE_LATER_VERSIONS = {"batched", "sumprod"}


@pytest.mark.parametrize("program", PYTHON)
def test_confined_python_program_opens_only_files_of_its_modules_when_it_runs(program: str) -> None:
    code = f"EVENTS = {EVENTS!r}\nPROGRAM = {program!r}\n{AUDITED}"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input="7\na=1\na=2\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ran.stderr, ran.stderr


@pytest.mark.parametrize("program", ["open('notes.txt', 'w')", "import os; os.system('true')"])
def test_audit_notices_program_that_is_not_confined(program: str, tmp_path: Path) -> None:
    code = f"EVENTS = {EVENTS!r}\nPROGRAM = {program!r}\n{AUDITED}"
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, cwd=tmp_path, check=False)
    assert ran.returncode == 1


def test_listed_names_exist_in_their_modules_and_are_no_modules() -> None:
    for module, names in MODULES.items():
        loaded = importlib.import_module(module)
        missing = {name for name in names if not hasattr(loaded, name)}
        assert missing <= SINCE_LATER_VERSIONS, (module, missing)
        assert not [name for name in names if isinstance(getattr(loaded, name, None), ModuleType)], module


def test_long_program_is_read_in_linear_time() -> None:
    assert only_modules("print(1)\n" * 100_000, "python") is None
    assert only_modules("date; " * 20_000, "shell") == ()
