"""Python that a plan cannot say is refused with a code, a place and a way out; nothing crashes."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import pytest
from tests.frontends.python.office import SIGNATURES, cpython, interpreted
from tests.frontends.python.test_programs import PROGRAMS, read_programs

import callsheet.frontends.python
from callsheet.api.findings import PlanError
from callsheet.api.plan import Plan
from callsheet.diagnostics import CODES, explain, render_all
from callsheet.frontends.pure_code.table import understood
from callsheet.frontends.python import Signature, read_python
from callsheet.frontends.python.imports import PURE_MODULES

PYT_CODES = [code for code in CODES if code.startswith("PYT")]
WITHOUT_BAD_EXAMPLE = {"PYT002", "PYT008", "PYT027", "PYT070", "PYT071"}
"""One needs half a megabyte, one a catalogue, one a module, two are given when a plan is written."""


def examples(code: str, kind: str) -> list[str]:
    return re.findall(rf"^```python {kind}\n(.*?)^```", explain(code) or "", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", PYT_CODES)
def test_bad_example_gives_code_and_good_example_nothing(code: str) -> None:
    for text in examples(code, "bad"):
        assert [one.code for one in read_python(text).diagnostics] == [code]
    for text in examples(code, "good"):
        result = read_python(text)
        assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert examples(code, "good")
    assert examples(code, "bad") or code in WITHOUT_BAD_EXAMPLE


def test_codes_of_front_end_and_pages_correspond() -> None:
    folder = Path(callsheet.frontends.python.__file__).parent
    modules = [*folder.rglob("*.py"), folder.parent / "spelling.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in modules)
    assert set(re.findall(r'"(PYT\d{3})"', text)) == set(PYT_CODES)


FIRST = (
    "import asyncio\nasync def main(n):\n    a = asyncio.create_task(score(n))\n"
    "    b = asyncio.create_task(score(n))\n"
    "    done, pending = await asyncio.wait([a, b], return_when=asyncio.FIRST_COMPLETED)\n"
)

BOTH = (
    "import asyncio, json\nasync def main():\n"
    "    both = await asyncio.gather(score(1), score(2), return_exceptions=True)\n    return "
)
"""What gather has given may hold errors."""

REFUSED = {
    **{
        BOTH + shown: ("PYT021", 4)
        for shown in (
            "str(both)",
            "f'{both}'",
            "'%s' % (both,)",
            "'{}'.format(both)",
            "json.dumps({'a': both})",
        )
    },
    "from datetime import datetime\nBEGUN = datetime.now()\nasync def main():\n    return str(BEGUN)": (
        "PYT015",
        2,
    ),
    "async def main():\n    try:\n        await score(1)\n    except* ToolError:\n        return 1": (
        "PYT001",
        5,
    ),
    "async def main():\n    try:\n        await score(1)\n    except* ToolError:\n        try:\n"
    "            raise\n        except ValueError:\n            pass": ("PYT021", 5),
    "async def main(n):\n    try:\n        await score(n)\n        raise ValueError(n)\n"
    "    except ValueError as error:\n        return repr(error)": ("PYT021", 6),
    "from collections import OrderedDict\nasync def main(n):\n    d = OrderedDict(n=await score(n))\n"
    "    return f'{[d]}'": ("PYT026", 4),
    "from collections import OrderedDict as Rows\nasync def main(n):\n    d = Rows(n=await score(n))\n"
    "    e = d.copy()\n    return str(e)": ("PYT026", 5),
    "known = []\ndef kept(f):\n    known.append(1)\n    return f\n@kept\ndef f(): return 1\n"
    "async def main():\n    return f(), known": ("PYT015", 5),
    "from functools import cache\n@cache\ndef rows(): return [1]\nasync def main():\n    rows().append(2)": (
        "PYT015",
        2,
    ),
    "class Bag:\n    def __iter__(self):\n        self.n = 1\n        yield 1\nasync def main():\n"
    "    return list(Bag())": ("PYT026", 2),
    "class A(B):\n    async def f(self):\n        await score(1)\nclass B(A):\n    async def g(self):\n"
    "        await score(2)\nasync def main():\n    return await A().f()": ("PYT026", 1),
    **{
        f"from enum import Enum\nclass C:\n    n = 1\n    d = {{'a': []}}\nclass E(Enum):\n    A = [1]\n"
        f"def pick(): return C\n{program}": ("PYT026", line)
        for line, program in (
            (line, f"async def main():\n    {held}\n    {changed}\n    await score(1)\n    return C.n")
            for line, held, changed in (
                (10, "k = C", "k.n = 4"),
                (10, "k = C", "k.n += 4"),
                (10, "k = 1", "pick().n = 4"),
                (10, "k = 1", "for k in (C, E): k.n = 4"),
                (10, "ks = {'c': C}", "ks['c'].n = 4"),
                (6, "m = E.A", "m.value[0] = 2"),
                (6, "m = 1", "E.A.value.append(2)"),
                (6, "v = E.A.value", "v += [2]"),
                (4, "v = C.d", "v['a'].append(1)"),
                (4, "v = 1", "C.d['a'].append(1)"),
            )
        )
    },
    "class C:\n    n = 1\nclass D:\n    def __init__(self, kind): self.kind = kind\nasync def main():\n"
    "    D(C).kind.n = await score(1)\n    return C.n": ("PYT026", 6),
    "class C:\n    n = 1\nasync def put(k, v):\n    k.n = await score(v)\nasync def main():\n"
    "    await put(C, 4)\n    return C.n": ("PYT026", 4),
    "SEEN = []\nclass A:\n    def mark(self): SEEN.append(1)\nasync def main():\n    A().mark()": (
        "PYT015",
        5,
    ),
    "import asyncio\nasync def main():\n    q = asyncio.Queue()\n    await score(await q.get())": (
        "PYT020",
        3,
    ),
    "import asyncio\nasync def main():\n    calls = {n: score(n) for n in [1, 2]}\n"
    "    return await asyncio.gather(*(calls[n] for n in sorted(calls)))": ("PYT020", 3),
    "async def main():\n    kept = []\n    for n in [1, 2]:\n        async def later():\n"
    "            return await score(n)\n        kept.append(later)\n    return [await f() for f in kept]": (
        "PYT019",
        4,
    ),
    "async def main(rows):\n    print(await score(1), file=rows[0])": ("PYT026", 2),
    "import io\nasync def main():\n    text = io.StringIO()\n    print(await score(1), **{'file': text})\n"
    "    return text.getvalue()": ("PYT026", 4),
    "class Log:\n    def write(self, text): pass\nasync def main():\n    log = Log()\n"
    "    print(await score(1), file=log)\n    return log": ("PYT026", 5),
    "import io\nasync def main():\n    with io.StringIO() as text:\n        text.write(await word('a'))\n"
    "    return text.getvalue()": ("PYT019", 3),
    **{
        f"import asyncio\nasync def main(n):\n    return await asyncio.gather(*["
        f"{call} for f, n in {rows}])": ("PYT011", 3)
        for call, rows in (
            ("f(n, n)", "[(page, made()), (score, made())]"),
            ("f(1)", "[(page, made()), (score, made())]"),
            ("f(sum(n for n in range(n)))", "[(page, 2), (score, 3)]"),
            ("f([n for n in range(n)])", "[(page, 2), (score, 3)]"),
        )
    },
    "import asyncio\nasync def pause():\n    score = asyncio.sleep\n    await score(0)\n"
    "async def main():\n    await pause()\n    return await score(1)": ("PYT010", 4),
    "async def main():\n    return await nothing(1)": ("PYT008", 2),
    "async def main():\n    return await score(m=1)": ("PYT009", 2),
    "async def main():\n    return await score()": ("PYT009", 2),
    "async def main():\n    return await score(1, 2)": ("PYT009", 2),
    "async def main():\n    return nothing": ("PYT008", 2),
    "def score(n):\n    return n\nasync def main():\n    return score(1)": ("PYT010", 1),
    "async def main():\n    async def score(n):\n        return n\n    return await score(1)": ("PYT010", 2),
    "async def main():\n    x = [score(n) for n in [1]]\n    return x": ("PYT007", 2),
    "TABLE = {'s': score}\nasync def main():\n    for k in TABLE:\n        f = TABLE[k]\n        f(1)": (
        "PYT007",
        5,
    ),
    "async def main():\n    f = 'a'\n    for f in await get('a'):\n        f.format(await get('b'))": (
        "PYT025",
        4,
    ),
    "async def main():\n    return __builtins__": ("PYT006", 2),
    "async def main():\n    return eval(await get('b'))": ("PYT006", 2),
    "async def main():\n    return open(await get('b'), 'r').read()": ("PYT006", 2),
    "async def main():\n    return [1, getattr(await get('b'), await get('c'))]": ("PYT006", 2),
    "async def main():\n    seen = [ValueError('a')]\n    seen.append(KeyError())\n    return f'{seen}'": (
        "PYT021",
        4,
    ),
    "async def main():\n    return (await get('b')).__reduce__()": ("PYT025", 2),
    "async def main():\n    return getattr(await get('a'), await get('b'))": ("PYT006", 2),
    "async def main():\n    return list(map(eval, await get('a')))": ("PYT006", 2),
    "import ctypes\nasync def main():\n    return await get('a')": ("PYT005", 1),
    "async def main(x):\n    return '{0.__class__}'.format(x)": ("PYT025", 2),
    "async def main():\n    t = {'a': '{}'}\n    t['b'] = await get('b')\n    return t['a'].format(1)": (
        "PYT025",
        4,
    ),
    "async def main(x):\n    a = ('{0' if x else '}') + '.__class__}'\n    return a.format(x)": ("PYT025", 3),
    "async def main(x):\n    a = x\n    t = a\n    def f():\n        a = 'b'\n        return a, t.format(x)\n"
    "    return f()": ("PYT025", 6),
    "async def main(x):\n    return '{xx.x_x_xa}'[::2].format(x)": ("PYT025", 2),
    f"{FIRST}    await get('b')\n    for t in pending:\n        t.cancel()": (
        "PYT026",
        5,
    ),
    f"{FIRST}    if a in done:\n        b.cancel()\n    await get('b')\n    return a in done": ("PYT026", 5),
    FIRST.replace("    b =", "    n = 2\n    b =") + "    b.cancel()\n    a.cancel()": ("PYT026", 6),
    "import asyncio\nasync def main():\n    a = asyncio.create_task(score(1))\n    await get('b')\n"
    "    a.cancel()": ("PYT026", 5),
    "async def f():\n    await score(1)\n    raise ValueError('a', 1)\nasync def main():\n    try:\n"
    "        await f()\n    except ValueError as e:\n        return e.args[0]": ("PYT021", 8),
    "async def main(x):\n    x and (q := 1)\n    await get('b')\n    return q": ("PYT016", 4),
    "async def main():\n    fs = []\n    def f():\n        return 1\n    fs.append(f)\n"
    "    await get('b')\n    return fs[0]()": ("PYT019", 5),
    "async def main():\n    fs = [lambda v: v, lambda v: -v]\n    f = fs[1]\n    n = await score(1)\n"
    "    return f(n)": ("PYT019", 3),
    "import asyncio\nasync def one(f):\n    return f(await score(1))\nasync def main():\n"
    "    task = asyncio.create_task(one(lambda v: v + 1))\n    return await task": ("PYT019", 5),
    "import secrets\nasync def main():\n    return secrets.token_hex(8)": ("PYT005", 1),
    "from time import sleep\nasync def main():\n    sleep(1)": ("PYT023", 3),
    "async def main():\n    def f():\n        return await score(1)\n    return f()": ("PYT013", 3),
    "async def main():\n    return sum(await score(n) for n in [1])": ("PYT013", 2),
    "async def main():\n    import os\n    return os": ("PYT005", 2),
    "async def f(xs):\n    for x in xs:\n        x['n'] = await score(1)\nasync def main():\n"
    "    rows = await list_items()\n    await f(rows[:1])\n    await f([rows[1]])\n    return rows": (
        "PYT015",
        7,
    ),
    "import asyncio\nasync def f(n, log):\n    log.append(n)\n    log.append(await score(n))\n"
    "async def main():\n    log = []\n    await asyncio.gather(f(1, log), f(2, log))\n    return log": (
        "PYT015",
        7,
    ),
    "async def main():\n    a = [1]\n    b = reversed(a)\n    await score(1)\n    a.append(1)\n"
    "    return list(b)": (
        "PYT015",
        5,
    ),
    "async def main():\n    a = [1]\n    b = (x for x in a)\n    await score(1)\n    a.append(1)\n"
    "    return list(b)": (
        "PYT015",
        5,
    ),
    "async def main():\n    n = 1\n    b = (x * n for x in [1])\n    await score(1)\n    n = 2\n"
    "    return list(b)": (
        "PYT015",
        3,
    ),
    "async def main():\n    n = 1\n    b, c = enumerate(map(lambda x: x * n, [1])), 2\n    await score(1)\n"
    "    n = 2\n    return list(b), c": (
        "PYT015",
        3,
    ),
    "async def f(xs):\n    ys = xs\n    xs.append(await score(2))\n    return ys\nasync def main():\n"
    "    xs = []\n    ys = await f(xs)\n    await score(1)\n    ys.append(1)\n    return xs, ys": (
        "PYT015",
        9,
    ),
    "async def main():\n    for f, n in [(lambda x: x, 1)]:\n        y = await score(n)\n"
    "        await score([f for f in [y]][0])": (
        "PYT019",
        2,
    ),
    "async def main():\n    xs = [1]\n    for x in xs:\n        await score(x)\n        xs.append(2)": (
        "PYT015",
        5,
    ),
    "async def f(a, b):\n    a.append(await score(1))\n    return b\nasync def main():\n    xs = []\n"
    "    await f(xs, xs)\n    return xs": ("PYT015", 6),
    "async def f(a, b):\n    a.append(b)\n    b.append(await score(1))\nasync def main():\n    log, x = [], "
    "[]\n    for n in (1, 2):\n        await f(log, x)\n    return log": ("PYT015", 7),
    "async def f(a, b):\n    return a is b, await score(1)\nasync def main():\n    xs = []\n"
    "    return await f(xs, xs)": ("PYT015", 2),
    "import asyncio\nasync def main():\n    xs = [1]\n    t = asyncio.create_task(put('k', xs))\n"
    "    xs.append(2)\n    await asyncio.sleep(1)\n    await t": ("PYT015", 5),
    "class Log:\n    lines = []\n    def add(self, x):\n        self.lines.append(x)\nasync def main():\n"
    "    log = Log()\n    log.add(await score(1))\n    return log.lines": ("PYT026", 2),
    "async def main():\n    e = 1\n    try:\n        await score(1)\n    except ToolError as e:\n"
    "        pass\n    return e": ("PYT016", 7),
    "async def main():\n    d = {'a': 1}\n    k = d.keys()\n    await score(1)\n    return list(k)": (
        "PYT015",
        3,
    ),
    "from itertools import chain\nasync def main():\n    it = iter([1, 2])\n    for x in chain([7], it):\n"
    "        await score(x)\n        break\n    return list(it)": ("PYT015", 4),
    "async def main():\n    n = await score(1)\n    while True:\n        n += 1": ("PYT012", 3),
    "async def main():\n    while True:\n        await score(1)": ("PYT012", 2),
    "import random\nasync def main():\n    return random.choice([await score(1)])": ("PYT026", 3),
    "import random\nasync def main():\n    return random.Random().random()": ("PYT026", 3),
    "import hashlib\nasync def main():\n    h = hashlib.md5()\n    h.update((await word('a')).encode())\n"
    "    return h.hexdigest()": ("PYT019", 3),
    "async def main(names=('a', 'b')):\n    return await score(1)": ("PYT019", 1),
    "async def a():\n    await b()\nasync def b():\n    await a()\nasync def main():\n    await a()": (
        "PYT014",
        1,
    ),
    "async def main():\n    score = 3\n    return await score(1)": ("PYT010", 3),
    "async def main(score):\n    return await score(1)": ("PYT010", 2),
}


@pytest.mark.parametrize("source", REFUSED)
def test_refusal_has_code_place_and_way_out(source: str) -> None:
    result = read_python(source, tools=SIGNATURES)
    assert result.plan is None
    (found,) = result.diagnostics
    assert found.span is not None
    assert (found.code, result.source.position(found.span.start).line) == REFUSED[source]
    assert found.message
    assert found.help


HOSTILE = read_programs("hostile.txt")


SHARED = {
    "an argument of dict": "a = []\nb = dict(k=a)\nX\na.append(1)\nX\nreturn b",
    "the larger list": "a = [1]\nb = max(a, [0])\nX\na.append(1)\nX\nreturn b",
    "an iterator": "a = [1]\nb = enumerate(a)\nX\na.append(1)\nX\nreturn list(b)",
    "what next gives at the end": "a = []\nb = next(iter([]), a)\nX\na.append(1)\nreturn b",
    "the start of a sum": "a = [1]\nb = sum([], a)\nX\na.append(1)\nX\nreturn b",
    "a list in a field, extended": "d = {'a': [1]}\nb = d['a']\nX\nd['a'] += [2]\nX\nreturn b",
    "a set that loses items": "a = {1, 2}\nb = a\nX\na -= {1}\nX\nreturn sorted(b)",
    "a method of the class": "a = [2, 1]\nb = a\nX\nlist.sort(a)\nX\nreturn b",
    "a default of a lambda": "a = [1]\nget = lambda v=a: v\nb = get()\nX\nb.append(2)\nX\nreturn a",
    "a default that is changed": "def f(x, xs=[]):\n    xs.append(x)\n    return xs\n"
    "a = f(1)\nX\nb = f(2)\nreturn [a, b]",
    "a function with the name of a built-in one": "def sorted(x):\n    return [x]\n"
    "a = [3]\nb = sorted(a)\nX\na.append(9)\nX\nreturn b",
    "a list that grows while a loop counts through it": "a = [1, 2]\nfor i, x in enumerate(a):\n    X\n"
    "    if i < 2:\n        a.append(x)\nreturn a",
    "a list of a pair of which a loop sets items": "a, b = [1, 2], [3, 4]\nfor x, y in zip(a, b):\n    X\n"
    "    a[1] = x + y\nreturn a",
    "what an async function returns twice": "async def load():\n    rows = await list_items()\n"
    "    return {'all': rows, 'first': rows[0]}\nd = await load()\nX\nd['first']['x'] = 1\nreturn d",
    "what an async function returns twice, under two names": "async def load():\n"
    "    rows = await list_items()\n    return rows, [one for one in rows if one['id'] > 1]\n"
    "a, b = await load()\nfor one in b:\n    X\n    one['x'] = 1\nreturn a",
    "a variable that is read before it is set": "def more():\n    nonlocal n\n    n = 5\n"
    "try:\n    x = n\nexcept Exception:\n    x = 'unset'\nn = 1\nmore()\nX\nreturn [x, n]",
    **{
        f"items that an async helper changes, {what}": "async def rate(row):\n"
        "    row['n'] = row.get('n', 0) + await score(1)\nrows = await list_items()\n" + text
        for what, text in {
            "of a second list": "other = list(rows)\nfor row in other:\n    await rate(row)\nreturn rows",
            "one of which has a name": "one = rows[0]\nfor row in rows:\n    await rate(row)\nreturn one",
            "the last again": "for row in rows:\n    await rate(row)\nawait rate(row)\nreturn rows",
            "twice in the list": "rows += rows\nfor row in rows:\n    await rate(row)\nreturn rows",
            "kept elsewhere": "seen = []\nfor row in rows:\n    seen.append(row)\n"
            "    await rate(row)\nreturn [seen, rows]",
            "in a loop inside": "for one in rows:\n    for row in rows:\n        await rate(row)\n"
            "    one['m'] = 1\nreturn rows",
            "of a list that is another one then": "for row in rows:\n    await rate(row)\n"
            "    rows = rows[:2]\nreturn rows",
            "of a pair": "pair = rows[0], rows[1]\nfor row in pair:\n    await rate(row)\nreturn pair",
            "in a field of the caller's": "async def rate_all(data):\n    for row in data['rows']:\n"
            "        await rate(row)\ndata = {'rows': rows}\nawait rate_all(data)\nreturn data",
        }.items()
    },
}
"""What CPython changes through two names; X is a call between."""


@pytest.mark.parametrize("name", SHARED)
def test_change_that_two_names_see_is_seen_or_refused(name: str) -> None:
    body = SHARED[name].replace("X", "await note_it('x')").replace("\n", "\n    ")
    source = f"async def main():\n    {body}"
    ended, calls = interpreted(source, {})
    assert ended[0] == "refused" or (ended, calls) == cpython(source, {})


def test_hostile_program_is_refused_in_each_disguise() -> None:
    for name, source in HOSTILE.items():
        result = read_python(source, tools=SIGNATURES)
        assert result.plan is None, name
        errors = [one for one in result.diagnostics if one.is_error]
        assert errors, name
        assert all(one.message and one.help and one.span is not None for one in errors), name


def test_no_text_crashes_compiler() -> None:
    words = ["await", "(", ")", ":", "\n", "    ", "[", "]", "=", "x", "for", "in", "if", "*",
             "lambda", "yield",
             "async ", "return", "raise", "try:", "1", '"', "f'{", "}", ".", ",", "del ", "match x:",
             "é"]  # fmt: skip
    pick = random.Random(7)
    for source in PROGRAMS.values():
        for _ in range(4):
            at = pick.randrange(len(source))
            cut = pick.choice((0, 0, 1, 5, 20))
            read_python(source[:at] + pick.choice(words) + source[at + cut :], tools=SIGNATURES)


def test_no_tree_crashes_compiler() -> None:
    """Programs with parts of other programs in the place of their own."""
    pick = random.Random(5)
    trees = [ast.parse(source) for source in PROGRAMS.values()]
    parts = [one for tree in trees for one in ast.walk(tree) if isinstance(one, ast.expr)]
    done = 0
    for source in PROGRAMS.values():
        for _ in range(4):
            tree = ast.parse(source)
            places = [
                (one, field)
                for one in ast.walk(tree)
                for field, held in ast.iter_fields(one)
                if isinstance(held, ast.expr)
            ]
            one, field = pick.choice(places)
            setattr(one, field, pick.choice(parts))
            try:
                text = ast.unparse(tree)
            except Exception:
                continue
            read_python(text, tools=SIGNATURES)
            done += 1
    assert done > 100


def test_unknown_tools_are_refused_only_with_a_catalogue() -> None:
    source = "async def main():\n    return await anything(x=1)"
    assert read_python(source).plan is not None
    assert read_python(source, tools={"something": Signature(("x",))}).plan is None


def test_tasks_that_run_in_their_turn_are_told() -> None:
    """A block of a TaskGroup that awaits between the starts of its tasks."""
    text = """
import asyncio
async def main():
    async with asyncio.TaskGroup() as group:
        for word in ["tea", "milk"]:
            row = await first(word=word)
            group.create_task(search(query=row))
"""
    assert [one.code for one in read_python(text).diagnostics] == ["PYT102"]


def test_a_decorator_that_keeps_something_between_calls_is_refused() -> None:
    text = """
def remember(store):
    def decorate(function):
        async def inner(word):
            if word not in store:
                store[word] = await function(word)
            return store[word]
        return inner
    return decorate
@remember({})
async def look(word):
    return await search(query=word)
async def main():
    return [await look("tea"), await look("tea")]
"""
    assert any(one.is_error for one in read_python(text).diagnostics)


def test_python_is_a_syntax_of_plans(tmp_path: Path) -> None:
    source = "async def main():\n    return await score(1)\n"
    file = tmp_path / "plan.py"
    file.write_text(source, encoding="utf-8")
    plans = [Plan.parse(source), Plan.parse(source, syntax="python"), Plan.load(file)]
    assert [plan.ir.tree is not None for plan in plans] == [True] * 3
    assert plans[0] == plans[1] == plans[2]
    with pytest.raises(PlanError) as raised:
        Plan.parse("async def main():\n    return score(1)")
    assert [one.code for one in raised.value.diagnostics] == ["PYT007"]


TRANSLATED = {"asyncio", "dataclasses", "enum", "contextlib", "logging", "time", "abc", "__future__"}
"""Modules of which the front end itself understands what it can; `collections.abc` is for annotations."""


def test_modules_that_a_plan_may_import_are_those_that_pure_code_has() -> None:
    assert {*understood().modules, *TRANSLATED, "collections.abc"} == PURE_MODULES
    for module in ("zoneinfo", "urllib.request", "secrets", "json, zoneinfo"):
        done = read_python(f"import {module}\nasync def main():\n    return 1\n")
        assert [(one.code, bool(one.help)) for one in done.diagnostics] == [("PYT005", True)]


WRONG_VALUES = """
async def main(user: dict | None = None, tags: list[str] | None = None):
    n, nothing, d = 5, None, {"a": 1, "b": None}
    for tag in tags:
        await note_it(tag)
    assert n > "a", n
    await note_it(text=d["b"])
    print(nothing["name"].upper(), "total: " + 5, d["c"], len(5), user["name"], str(n) > 3)
    return "a" - 1
"""


def test_findings_of_checks_speak_python() -> None:
    plan = read_python(WRONG_VALUES, tools=SIGNATURES).plan
    assert plan is not None
    found = [one for one in Plan(plan).check().diagnostics if one.code != "TOL001"]
    said = [f"{one.message}; {one.help}" for one in found]
    assert len(said) >= 8
    for one in said:
        assert not re.search(r"\$|\?\?|\?FOREACH|\?IF|pystr|pyrepr|\bLET\b|\bnull\b|\]\?", one), one
    assert any('write (user or {}).get("name")' in one for one in said)
    assert any('f"…{5}…"' in one for one in said)


@pytest.mark.parametrize(("first", "otherwise", "warned"), [
    ("", "    else:\n        raise ValueError('no room')\n", []),
    ("", "", []),
    ("    room = None\n", "", ["CHK122"]),
])  # fmt: skip
def test_value_that_keeps_a_variables_place_is_no_value_of_it(
    first: str, otherwise: str, warned: list[str]
) -> None:
    loop = "    for n in [1, 2]:\n        room = await score(n)\n        if room['ok']:\n            break\n"
    text = f"async def main():\n{first}{loop}{otherwise}    return room['id']"
    plan = read_python(text, tools=SIGNATURES).plan
    assert plan is not None
    assert [one.code for one in Plan(plan).check().diagnostics if one.code != "TOL001"] == warned


def test_change_of_name_of_file_is_refused_with_dict_that_may_be_changed() -> None:
    program = (
        "{}\nasync def call(n):\n    {}\n    return await score(n)\n"
        "async def main():\n    return await call(1), await call(2), {}"
    )
    result = read_python(program.format("N = 0", "global N\n    N += 1", "N"))
    (refusal,) = result.diagnostics
    assert refusal.code == "PYT017"
    assert 'N = {"now": …}' in (refusal.help or "")
    repaired = program.format('N = {"now": 0}', 'N["now"] += 1', 'N["now"]')
    assert interpreted(repaired, {}) == cpython(repaired, {})
