# ruff: noqa: E501 - a case is a line
"""The flow of programs: what an input leads to is never missed, and what does not depend on it is not blamed."""

from __future__ import annotations

import pytest

from callsheet.policy.program_flow import program_flow

_LEADING = {
    'nested alias': 'b = []\nd = {"k": b}\ne = d\ne["k"].append(a)',
    'function mutates arg': 'b = []\ndef f(x):\n    x.append(a)\nf(b)',
    'function mutates arg2': 'b = []\ndef f(x, y):\n    x.append(y)\nf(b, a)',
    'map append': 'b = []\nlist(map(b.append, a.split()))',
    'objects shared again': "b, d = [], []\n[b, d] = relinked(links, 'b', b, 'd', d)\nx = d\nx.append(a)",
    'which objects are shared': "b, d = [], []\nd = b if a else []\nb = links_among('b', b, 'd', d)",
    'bound method': 'b = []\nf = b.append\nf(a)',
    'unbound': 'b = []\nlist.append(b, a)',
    'heapq': 'import heapq\nb = []\nheapq.heappush(b, a)',
    'operator': 'import operator\nb = {}\noperator.setitem(b, "k", a)',
    'setattr': 'class O:\n    pass\no = O()\nsetattr(o, "x", a)\nb = o.x',
    'attr': 'class O:\n    pass\no = O()\no.x = a\nb = o.x',
    'compr append': 'b = []\n[b.append(w) for w in a.split()]',
    'compr append cond': 'b = []\n[b.append(1) for w in a.split() if w == "x"]',
    'compr append src': 'b = []\n[b.append(1) for w in a.split()]',
    'and append': 'b = []\n"x" in a and b.append(1)',
    'ifexp append': 'b = []\nb.append(1) if "x" in a else 0',
    'walrus': 'b = 0\n"x" in a and (b := 1)',
    'while break': 'b = 0\nwhile True:\n    b += 1\n    if b > len(a):\n        break',
    'for break': 'b = 0\nfor i in range(100):\n    b += 1\n    if b > len(a):\n        break',
    'for break 2': 'b = 0\nfor i in range(100):\n    if i > len(a):\n        break\nb = i',
    'for continue': 'b = 0\nfor i in range(100):\n    if i > len(a):\n        continue\n    b += 1',
    'for else': 'b = 0\nfor w in ["x"]:\n    if w in a:\n        break\nelse:\n    b = 1',
    'while else': 'b = 0\ni = 0\nwhile i < 3:\n    i += 1\n    if str(i) in a:\n        break\nelse:\n    b = 1',
    'try': 'b = 0\ntry:\n    int(a)\n    b = 1\nexcept ValueError:\n    pass',
    'try else': 'b = 0\ntry:\n    int(a)\nexcept ValueError:\n    pass\nelse:\n    b = 1',
    'try in for': 'b = 0\nfor i in range(3):\n    try:\n        int(a)\n    except ValueError:\n        break\n    b += 1',
    'try in while': 'b = 0\nwhile b < 10:\n    b += 1\n    try:\n        int(a)\n    except ValueError:\n        break',
    'for break in match': 'b = 0\nfor i in range(3):\n    b += 1\n    match a:\n        case "x":\n            break',
    'match': 'b = 0\nmatch a:\n    case "x":\n        b = 1',
    'match2': 'match a:\n    case "x":\n        b = 1\n    case _:\n        b = 2',
    'match capture': 'match a:\n    case b:\n        pass',
    'return early': 'def f(x):\n    for i in range(100):\n        if i == len(x):\n            return i\nb = f(a)',
    'global': 'b = 0\ndef f():\n    global b\n    b = a\nf()',
    'nonlocal': 'def g():\n    c = 0\n    def f():\n        nonlocal c\n        c = a\n    f()\n    return c\nb = g()',
    'closure list': 'b = []\ndef f():\n    b.append(a)\nf()',
    'closure default': 'def f(x=a):\n    return x\nb = f()',
    'lambda': 'f = lambda: a\nb = f()',
    'lambda default': 'f = lambda x=a: x\nb = f()',
    'generator': 'def g():\n    yield a\nb = next(g())',
    'decorator': 'def d(f):\n    return lambda: a\n@d\ndef g():\n    return 1\nb = g()',
    'class body': 'class C:\n    x = a\nb = C.x',
    'class method': 'class C:\n    def __init__(self):\n        self.x = a\nb = C().x',
    'class state': 'class C:\n    l = []\ndef f():\n    C.l.append(a)\nf()\nb = C.l',
    'exception': 'try:\n    raise ValueError(a)\nexcept ValueError as e:\n    b = str(e)',
    'exception key': 'try:\n    {}[a]\nexcept KeyError as e:\n    b = str(e)',
    'nested exc': 'def f():\n    raise ValueError(a)\ntry:\n    f()\nexcept ValueError as e:\n    b = str(e)',
    'nested exc 2': 'def f():\n    if "x" in a:\n        raise ValueError("q")\nb = 0\ntry:\n    f()\n    b = 1\nexcept ValueError as e:\n    pass',
    'with': 'import contextlib\nb = 0\nwith contextlib.suppress(ValueError):\n    int(a)\n    b = 1',
    'del': 'b = {"x": 1}\nif "x" in a:\n    del b["x"]',
    'del2': 'b = {"x": 1}\ndel b[a]',
    'aug': 'b = ""\nb += a',
    'aug sub': 'b = {}\nb["x"] = 0\nb["x"] += len(a)',
    'aug index': 'b = [0,0]\nb[len(a)%2] = 1',
    'unpack': 'b, *r = a',
    'unpack2': '(c, b) = (1, a)',
    'star': 'b = [*a]',
    'fstring': 'b = f"{a}"',
    'format spec': 'b = f"{1:>{len(a)}}"',
    'sorted key': 'b = sorted(["x","y"], key=lambda w: a.find(w))',
    'sort method key': 'b = ["x","y"]\nb.sort(key=lambda w: a.find(w))',
    'sort by func': 'def k(w):\n    return a.find(w)\nb = ["x","y"]\nb.sort(key=k)',
    'reverse cond': 'b = [1,2]\nif "x" in a:\n    b.reverse()',
    'pop cond': 'b = [1,2]\nif "x" in a:\n    b.pop()',
    'pop ifexp': 'b = [1,2]\nc = b.pop() if "x" in a else 0',
    'pop via compr': 'b = [1,2]\nc = [b.pop() for w in a.split()]',
    'iter consumption': 'i = iter([1,2,3])\nfor w in a.split():\n    next(i)\nb = list(i)',
    'iter consumption2': 'i = iter([1,2,3])\n[next(i) for w in a.split()]\nb = list(i)',
    'iter cond': 'i = iter([1,2,3])\n"x" in a and next(i)\nb = list(i)',
    'counter': 'from collections import Counter\nb = Counter()\nb.update(a)',
    'defaultdict': 'from collections import defaultdict\nb = defaultdict(int)\nb[a] += 1',
    'deflt touch': 'from collections import defaultdict\nb = defaultdict(int)\nb[a]',
    'setdefault': 'b = {}\nb.setdefault(a, 1)',
    'partial': 'from functools import partial\nb = []\nf = partial(b.append, a)\nf()',
    'reduce': 'from functools import reduce\nb = reduce(lambda x, y: x + y, a)',
    'dataclass': 'from dataclasses import dataclass\n@dataclass\nclass C:\n    x: str\nc = C("q")\nc.x = a\nb = c.x',
    'comprehension shadow': 'b = [x for x in a]',
    'dict compr': 'b = {w: 1 for w in a}',
    'chained cmp': 'b = 1 < len(a) < 3',
    'ifexp': 'b = 1 if "x" in a else 2',
    'two names': 'b = c = a',
    'alias then mutate': 'b = []\nc = b\nd = c\nd.append(a)',
    'alias via tuple': 'b = []\nt = (b, 1)\nt[0].append(a)',
    'alias via function': 'def f(x):\n    return x\nb = []\nc = f(b)\nc.append(a)',
    'alias via dict': 'b = []\nd = {}\nd["k"] = b\nfor v in d.values():\n    v.append(a)',
    'alias via loop': 'b = [[]]\nfor x in b:\n    x.append(a)',
    'alias via closure': 'def mk():\n    l = []\n    def add(x):\n        l.append(x)\n    return l, add\nb, add = mk()\nadd(a)',
    'method obj': 'class S:\n    def __init__(self):\n        self.v = []\n    def add(self, x):\n        self.v.append(x)\ns = S()\ns.add(a)\nb = s.v',
    'method obj alias': 'class S:\n    def __init__(self, l):\n        self.v = l\n    def add(self, x):\n        self.v.append(x)\nb = []\ns = S(b)\ns.add(a)',
    'obj returned': 'class S:\n    def __init__(self, l):\n        self.v = l\n    def get(self):\n        return self.v\nb = []\nS(b).get().append(a)',
    'subscr call': 'fs = [print, len]\nb = []\nfs2 = {"x": b.append}\nfs2["x"](a)',
}  # fmt: skip
"""Programs in which the value of `b` tells of `a`."""
_TESTING = {
    'unpack': 'v, = [w for w in a.split() if w == "x"]',
    'first of filter': 'v = [w for w in ["a"] if w in a][0]',
    'first of filter 2': 'l = [w for w in ["a"] if w in a]\nv = l[0]',
    'type by content': 'v = 1 + (1 if "x" in a else "s")',
    'type by content if': 'c = 1\nif "x" in a:\n    c = "s"\nv = c + 1',
    'none by content': 'c = None\nif "x" in a:\n    c = {"k": 1}\nv = c["k"]',
    'attr by content': 'c = None\nif "x" in a:\n    c = "s"\nv = c.upper()',
    'get': 'v = {"x": "s"}.get(a).upper()',
    'key by content': 'c = {}\nif "x" in a:\n    c["k"] = 1\nv = c["k"]',
    'key deleted': 'c = {"k": 1}\nif "x" in a:\n    del c["k"]\nv = c["k"]',
    'key by data': 'c = {a: 1}\nv = c["x"]',
    'key by data 2': 'c = {w: 1 for w in a.split()}\nv = c["x"]',
    'key by data 3': 'c = {}\nc[a] = 1\nv = c["x"]',
    'index by split': 'v = a.split("x")[1]',
    'sqrt': 'import math\nv = math.sqrt(len(a) - 3)',
    'log': 'import math\nv = math.log(len(a))',
    'reduce': 'from functools import reduce\nv = reduce(max, [w for w in ["x"] if w in a])',
    'recursion': 'def f(n):\n    return f(n - 1) if n else 0\nv = f(len(a) * 1000)',
    'unbound name': 'if "x" in a:\n    q = 1\nv = q',
    'mean': 'import statistics\nv = statistics.mean([1 for w in ["x"] if w in a])',
    'decimal': 'from decimal import Decimal\nv = str(Decimal(a))',
    'datetime': 'from datetime import datetime\nv = str(datetime(2020, len(a), 1))',
    'date': 'from datetime import date\nv = str(date(2020, len(a), 1))',
    'json': 'import json\nv = json.loads(a)',
    'func name': 'f = int\nv = f(a)',
    'map int': 'v = list(map(int, a.split()))',
    'getattr': 'v = getattr("x", "upper" if "x" in a else "nope")',
    'call by dict': 'fs = {"x": 1}\nv = fs.get(a)()',
    'sys.exit': 'import sys\nv = 1\nif "x" in a:\n    sys.exit()',
    'huge': 'v = len("x" * (10 ** len(a)))',
    'shift': 'v = 1 << len(a)',
    'set remove': 's = {"x"}\ns.remove(a)\nv = 1',
    're compile': 'import re\nv = bool(re.match(a, "x"))',
    'match None': 'import re\nv = re.match("x", a).group()',
    'strict zip': 'v = list(zip([1], a.split(), strict=True))',
    'iter none': 'v = [x for x in ([1] if "x" in a else None)]',
    'for none': 'v = 0\nfor x in ([1] if "x" in a else None):\n    v = 1',
    'starred': 'v = [*([1] if "x" in a else None)]',
    'fmt': 'v = f"{a:{a}}"',
    'pct': 'v = "%d" % (1 if "x" in a else "s")',
    'in none': 'v = "x" in ("x" if "x" in a else None)',
    'compare': 'v = 1 < (1 if "x" in a else "s")',
    'neg': 'v = -(1 if "x" in a else "s")',
    'enum': 'from enum import Enum\nclass E(Enum):\n    X = "x"\nv = E(a).value',
    'next default': 'v = next((w for w in ["x"] if w in a))',
    'next alias': 'n = next\nv = n(w for w in ["x"] if w in a)',
    'assert in function': 'def f(x):\n    assert "x" in x\n    return 1\nv = f(a)',
    'division in lambda': 'f = lambda: 1 / len(a)\nv = f()',
}  # fmt: skip
"""Programs that fail, or not, by what `a` is."""
_APART = {
    "a sum beside it": "n = 0\nfor r in a:\n    n += r['amount']\nb = c[:20]",
    "a helper that fills a list of its own": "def f(rows):\n    out = []\n    for r in rows:\n        out.append(r)\n    return out\nx = f(a)\nb = f(c)",
    "a helper with the name of an input": "def f(a):\n    return a + 1\nb = f(c)",
    "a list of another name": "x = []\nfor r in a:\n    x.append(r)\nb = []\nfor r2 in c:\n    b.append(r2)",
    "a key of another list": "x = sorted(a, key=lambda r: r['k'])\nb = sorted(c)",
    "a condition elsewhere": "x = 0\nif 'x' in a:\n    x = 1\nb = len(c)",
}  # fmt: skip
"""Programs in which the value of `b` tells nothing of `a`."""
_FORMS = {
    "a sum": "v = sum(r['amount'] for r in a)",
    "records": "v = []\nfor r in a:\n    v.append({'n': r['name'].upper(), 'd': r['day'][:10]})",
    "groups": "from collections import defaultdict\nv = defaultdict(list)\nfor r in a:\n    v[r['k']].append(r['n'])\nv = {k: len(x) for k, x in v.items()}",
    "a table": "v = '\\n'.join(f\"{r['a']}: {r['b']:.2f}\" for r in a)",
}  # fmt: skip
"""Programs that fail only if `a` has another form than they expect."""


@pytest.mark.parametrize("source", _LEADING.values(), ids=_LEADING)
def test_what_an_input_leads_to_is_never_missed(source: str) -> None:
    assert program_flow(source).inputs_of("b", ("a",)) == {"a"}


@pytest.mark.parametrize("source", _TESTING.values(), ids=_TESTING)
def test_failures_that_test_content_are_known(source: str) -> None:
    flow = program_flow(source)
    assert flow.tests_content
    assert flow.tested(("a",)) == {"a"}


@pytest.mark.parametrize("source", _APART.values(), ids=_APART)
def test_what_does_not_depend_on_an_input_is_not_blamed(source: str) -> None:
    assert program_flow(source).inputs_of("b", ("a", "c")) == {"c"}


@pytest.mark.parametrize("source", _FORMS.values(), ids=_FORMS)
def test_failures_of_form_are_no_tests_of_content(source: str) -> None:
    assert program_flow(source).tested(("a",)) == frozenset()


def test_prints_and_the_clock_are_known() -> None:
    assert program_flow("print(a)").prints
    assert program_flow("from datetime import datetime\nb = datetime.now()").reads_clock
