"""Programs that run a file, and programs that read it."""

from __future__ import annotations

import pytest
from tests.growth import seconds

from callsheet.policy.running import runs_file

RUN = [
    ("python3 tool.py", None, "tool.py"),
    ("sh run.txt", "shell", "run.txt"),
    ("./tool", None, "bin2/tool"),
    ("cat run.txt | sh", "shell", "run.txt"),
    ("bash < run.txt", None, "run.txt"),
    ('sh -c "$(cat run.txt)"', None, "run.txt"),
    ("source env.txt", "bash", "env.txt"),
    (". ./env.txt", "sh", "env.txt"),
    ("chmod +x tool.txt && ./tool.txt", None, "tool.txt"),
    ("chmod 755 x.bin", "sh", "x.bin"),
    ('eval "$(cat run.txt)"', "sh", "run.txt"),
    ("sudo -E env A=1 python3 -u out/tool.py", "sh", "out/tool.py"),
    ("python3 -m tool", "sh", "tool.py"),
    ("python3 -c 'import tool'", "sh", "tool.py"),
    ("cd out; python tool.py", "sh", "out/tool.py"),
    ("xargs sh < run.txt", "sh", "run.txt"),
    ("awk -f prog.txt data.csv", "sh", "prog.txt"),
    ("pytest -q", "sh", "tests/test_a.py"),
    ("pytest --tb=short > out.txt", "sh", "tests/test_a.py"),
    ("cd x && uv run pytest tests", None, "tests/test_a.py"),
    ("python3 -m unittest", "sh", "test_a.py"),
    ("npx jest", "sh", "src/a.test.ts"),
    ("pytest checks.py", "sh", "checks.py"),
    ("import subprocess; subprocess.run(['pytest', 'test_a.py'])", "python", "test_a.py"),
    ("make -f rules.txt", "sh", "rules.txt"),
    ("perl x.txt", "sh", "x.txt"),
    ("node -r ./x.js y.js", "sh", "x.js"),
    ("$(cat run.txt)", "sh", "run.txt"),
    ("`cat run.txt`", "sh", "run.txt"),
    ("bash tool.txt", None, "tool.txt"),
    ("timeout 5 bash tool.txt", None, "tool.txt"),
    ("pip install -r reqs.txt", "sh", "reqs.txt"),
    ("PYTHONPATH=. python3 tool.py", "sh", "tool.py"),
    ("python3 < tool.txt", "sh", "tool.txt"),
    ("cat a.txt run.txt | tee x | bash -s -- 1", "sh", "run.txt"),
    ("import tool", "python", "tool.py"),
    ("from out.tool import x", "python", "out/tool.py"),
    ("exec(open('tool.txt').read())", "python", "tool.txt"),
    ("import runpy; runpy.run_path('t.txt')", "python", "t.txt"),
    ("import os; os.system('sh run.txt')", "python", "run.txt"),
    ("import subprocess; subprocess.run(['python3', 'tool.py'])", "python", "tool.py"),
    ("import subprocess; subprocess.run(['bash', '-c', 'sh run.txt'])", "python", "run.txt"),
    ("import pickle; pickle.load(open('m.pkl','rb'))", "python", "m.pkl"),
    ("__import__('tool')", "python", "tool.py"),
    ("import importlib; importlib.import_module('tool')", "python", "tool.py"),
    ("require('./tool')", "javascript", "tool.js"),
    ("eval(require('fs').readFileSync('x.txt','utf8'))", "javascript", "x.txt"),
    ("import t from './tool.mjs'", "js", "tool.mjs"),
    ("load 'x.rb'", "ruby", "x.rb"),
    ("if true; then sh run.txt; fi", "sh", "run.txt"),
    ("docker run -v x:/y img sh run.txt", "sh", "run.txt"),
    ("nohup sh ./run.txt &", "sh", "run.txt"),
    ("exec /bin/sh run.txt", "sh", "run.txt"),
    ("from tool import *", "python", "TOOL.py"),
    ("open('x')\nimport subprocess\nsubprocess.Popen('bash tool.txt', shell=True)", "python", "tool.txt"),
    ("bash <(cat run.txt)", "sh", "run.txt"),
    ("bash -c $(cat run.txt)", "sh", "run.txt"),
    ("eval $(cat run.txt)", "sh", "run.txt"),
    ("X=1 $(cat run.txt)", "sh", "run.txt"),
    ("echo 'x\nsh run.txt", "sh", "run.txt"),
    ("import tool (", "python", "tool.py"),
    ("find . -name run.txt -exec sh {} ';'", "sh", "run.txt"),
]
READ = [
    ("pytest test_b.py", "sh", "test_a.py"),
    ("pytest -q", "sh", "out/data.json"),
    ("pip install pytest", "sh", "test_a.py"),
    ("echo pytest", "sh", "test_a.py"),
    ("wc -l run.txt", "sh", "run.txt"),
    ("python3 -m json.tool data.json", "sh", "data.json"),
    ("python3 -m json.tool < data.json", "sh", "data.json"),
    ("python3 count.py page.txt", "sh", "page.txt"),
    ("cat page.txt | python3 count.py", "sh", "page.txt"),
    ("python3 count.py < page.txt", "sh", "page.txt"),
    ("grep x page.txt | sort | uniq -c", "sh", "page.txt"),
    ("cat run.txt", "sh", "run.txt"),
    ("import json; print(json.load(open('data.json')))", "python", "data.json"),
    ("print(open('page.txt').read())", "python", "page.txt"),
    ("import re; print(re.compile('x').findall(open('p.txt').read()))", "python", "p.txt"),
    ("import subprocess; subprocess.run(['wc','-l','page.txt'])", "python", "page.txt"),
    ("awk '{print $1}' page.txt", "sh", "page.txt"),
    ("jq . data.json", "sh", "data.json"),
    ("sed -n 1p page.txt", "sh", "page.txt"),
    ("require('./data.json')", "js", "data.json"),
    ("import data", "python", "data.json"),
    ("chmod 644 page.txt", "sh", "page.txt"),
    ("chmod -x a.txt", "sh", "a.txt"),
    ("python3 -c 'import json;print(json.load(open(\"data.json\")))'", "sh", "data.json"),
    ("import csv; rows=list(csv.reader(open('data.csv')))", "python", "data.csv"),
    ("python3 -m py_compile tool.py", "sh", "other.py"),
    ("bash build.sh > page.txt", "sh", "page.txt"),
    ("cat page.txt | sh build.sh", "sh", "page.txt"),
    ("head page.txt; python3 x.py", "sh", "page.txt"),
    ("bash -n run.txt", "sh", "run.txt"),
    ("print('run.txt')", "python", "run.txt"),
    ("import notes_tool", "python", "tool.py"),
    ("python3 build.py --input page.txt", "sh", "page.txt"),
    ("n=$(wc -l < page.txt); echo $n", "sh", "page.txt"),
    ("echo $(cat page.txt)", "sh", "page.txt"),
    ("python3 count.py $(wc -l page.txt)", "sh", "page.txt"),
    ("python3 count.py <(cat page.txt)", "sh", "page.txt"),
    ("for f in page.txt; do wc $f; done", "sh", "page.txt"),
    ("if [ -s page.txt ]; then echo yes; fi", "sh", "page.txt"),
    ("test -f page.txt && echo ok", "sh", "page.txt"),
    ("find . -name page.txt -delete", "sh", "page.txt"),
]


@pytest.mark.parametrize(("program", "language", "path"), RUN)
def test_what_runs_a_file_is_seen(program: str, language: str | None, path: str) -> None:
    assert runs_file(program, language, path)


@pytest.mark.parametrize(("program", "language", "path"), READ)
def test_what_reads_a_file_does_not_run_it(program: str, language: str | None, path: str) -> None:
    assert not runs_file(program, language, path)


@pytest.mark.parametrize("language", ["sh", "python", "js", "ruby"])
@pytest.mark.parametrize("piece", ["(", "a|", "sh ", "'", "`", "-c ", "bash -c ", "- ", "$(", "<("])
def test_long_programs_take_no_longer_than_they_are_long(piece: str, language: str) -> None:
    assert seconds(lambda: runs_file(piece * 100_000 + "run.txt", language, "run.txt")) < 10
