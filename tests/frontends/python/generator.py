"""Random programs of the subset that Python plans are written in; each ends, and most reach their end."""

from __future__ import annotations

from random import Random


class Generator:
    """Writes one program; all choices are those of `pick`."""

    def __init__(self, pick: Random) -> None:
        self.pick = pick
        self.lines: list[str] = []
        self.numbers = ["n0"]
        self.lists: list[str] = []
        self.dicts: list[str] = []
        self.texts: list[str] = []
        self.count = 0
        self.left = 28
        self.in_try = 0

    def program(self) -> str:
        """The text of a program."""
        head = [
            "import asyncio",
            "class Odd(ValueError):",
            "    pass",
            "def half(x):",
            "    if x % 2:",
            "        raise Odd(f'odd {x}')",
            "    return x // 2",
            "async def helper(a, b=1):",
            "    if a > 4:",
            "        return a",
            "    got = await score(a % 3)",
            "    return got + b",
            "async def main():",
            "    n0 = 2",
        ]
        self.block(1, self.pick.randint(3, 7), in_loop=False)
        known = ", ".join([*self.numbers[:4], *self.lists[:3], *self.dicts[:2], *self.texts[:2]])
        return "\n".join([*head, *self.lines, f"    return ({known},)"]) + "\n"

    # ------------------------------------------------------------ expressions

    def number(self, depth: int = 0) -> str:  # noqa: PLR0911
        """An expression of a small integer."""
        roll = self.pick.randint(0, 13 if depth < 2 else 4)
        if roll <= 1:
            return str(self.pick.randint(0, 6))
        if roll <= 4:
            return self.pick.choice(self.numbers)
        if roll == 5:
            return f"({self.number(depth + 1)} + {self.number(depth + 1)})"
        if roll == 6:
            return f"({self.number(depth + 1)} % 5)"
        if roll == 7 and self.lists:
            return f"len({self.pick.choice(self.lists)})"
        if roll == 8:
            return f"(await score({self.number(depth + 1)} % 3))"
        if roll == 9:
            return f"({self.number(depth + 1)} if {self.condition(depth + 1)} else {self.number(depth + 1)})"
        if roll == 10:
            return f"(await helper({self.number(depth + 1)} % 5))"
        if roll == 11 and self.lists:
            return f"sum({self.pick.choice(self.lists)})"
        if roll == 12 and self.dicts:
            return f"{self.pick.choice(self.dicts)}.get({self.key()}, 0)"
        return f"max({self.number(depth + 1)}, {self.number(depth + 1)})"

    def condition(self, depth: int = 0) -> str:
        """A condition, which may await."""
        roll = self.pick.randint(0, 8 if depth < 2 else 3)
        left, right = self.number(depth + 1), self.number(depth + 1)
        if roll <= 3:
            return f"{left} {self.pick.choice(['<', '>', '==', '!=', '<='])} {right}"
        if roll == 4:
            return f"({self.condition(depth + 1)} and {self.condition(depth + 1)})"
        if roll == 5:
            return f"({self.condition(depth + 1)} or {self.condition(depth + 1)})"
        if roll == 6:
            return f"not {self.condition(depth + 1)}"
        if roll == 7 and self.lists:
            return f"{left} in {self.pick.choice(self.lists)}"
        return f"{left} < {right} < {self.number(depth + 1)}"

    def key(self) -> str:
        return self.pick.choice(["'a'", "'b'", "'c'"])

    def listed(self) -> str:
        """An expression of a new list of numbers."""
        roll = self.pick.randint(0, 8)
        if roll == 0:
            return f"[{self.number()}, {self.number()}]"
        if roll == 1:
            return f"[x * 2 for x in range({self.pick.randint(0, 3)})]"
        if roll == 2:
            return f"[await score(x) for x in range({self.pick.randint(0, 3)})]"
        if roll == 3:
            return f"[x for x in range(4) if await score(x % 3) > {self.number(1)}]"
        if roll == 4 and self.lists:
            return f"sorted({self.pick.choice(self.lists)})"
        if roll == 5 and self.lists:
            return f"[x + 1 for x in {self.pick.choice(self.lists)} if x < {self.pick.choice(self.numbers)}]"
        if roll == 6 and self.lists:
            return f"await asyncio.gather(*[helper(x % 7) for x in {self.pick.choice(self.lists)}])"
        if roll == 7:
            return f"list(await asyncio.gather(score({self.pick.randint(0, 2)}), helper({self.number(2)})))"
        return "(await page(1))['rows']"

    # ------------------------------------------------------------ statements

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def block(self, indent: int, size: int, *, in_loop: bool) -> None:
        """Some statements; names that they make are forgotten after an inner block."""
        before = list(self.numbers), list(self.lists), list(self.dicts), list(self.texts)
        for _ in range(size):
            if self.left > 0:
                self.left -= 1
                self.statement(indent, in_loop=in_loop)
        self.emit(indent, "pass")
        if indent > 1:
            self.numbers, self.lists, self.dicts, self.texts = before

    def statement(self, indent: int, *, in_loop: bool) -> None:  # noqa: PLR0912, PLR0915
        """One statement."""
        deep = indent > 3
        match self.pick.randint(0, 12 if deep else 21):
            case 0 | 1:
                value, name = self.number(), self.fresh("n")
                self.emit(indent, f"{name} = {value}")
                self.numbers.append(name)
            case 2:
                self.emit(indent, f"{self.pick.choice(self.numbers)} += {self.number()} % 7")
            case 3 | 4:
                value, name = self.listed(), self.fresh("xs")
                self.emit(indent, f"{name} = {value}")
                self.lists.append(name)
            case 5 if self.lists:
                self.emit(indent, f"{self.pick.choice(self.lists)}.append({self.number()})")
            case 6:
                name = self.fresh("d")
                self.emit(indent, f"{name} = {{'a': {self.number()}, 'b': {self.number()}}}")
                self.dicts.append(name)
            case 7 if self.dicts:
                name = self.pick.choice(self.dicts)
                self.emit(indent, f"{name}[{self.key()}] = {self.number()}")
            case 8 if self.dicts:
                self.emit(indent, f"{self.pick.choice(self.dicts)}['a'] += {self.number()} % 3")
            case 9:
                self.emit(indent, f"await put({self.key()}, {self.number()})")
            case 10:
                name = self.fresh("t")
                self.emit(
                    indent,
                    f"{name} = f'{{{self.pick.choice(self.numbers)}}} {{{self.condition(1)}}}'".replace(
                        "await ", "await "
                    ),
                )
                self.texts.append(name)
            case 11:
                self.emit(
                    indent,
                    f"n0 = half({self.number()})" if self.in_try else f"await note_it(str({self.number()}))",
                )
            case 12 if in_loop:
                self.emit(indent, f"if {self.condition()}:")
                self.emit(indent + 1, self.pick.choice(["break", "continue"]))
            case 13 | 14:
                self.emit(indent, f"if {self.condition()}:")
                self.block(indent + 1, self.pick.randint(1, 3), in_loop=in_loop)
                if self.pick.random() < 0.5:
                    self.emit(indent, self.pick.choice(["else:", f"elif {self.condition()}:"]))
                    self.block(indent + 1, self.pick.randint(1, 2), in_loop=in_loop)
            case 15 | 16:
                name = self.fresh("i")
                source = self.pick.choice([*self.lists, "range(3)", "[1, 2]", "(await page(2))['rows']"])
                self.emit(
                    indent,
                    f"for {name} in {source if source in ('range(3)', '[1, 2]') else f'list({source})'}:",
                )
                self.numbers.append(name)
                self.block(indent + 1, self.pick.randint(1, 4), in_loop=True)
                self.numbers.remove(name)
                if self.pick.random() < 0.25:
                    self.emit(indent, "else:")
                    self.block(indent + 1, 1, in_loop=in_loop)
            case 17:
                name = self.fresh("w")
                self.emit(indent, f"{name} = 0")
                self.emit(indent, f"while {name} < {self.pick.randint(1, 3)}:")
                self.emit(indent + 1, f"{name} += 1")
                self.numbers.append(name)
                self.block(indent + 1, self.pick.randint(1, 3), in_loop=True)
            case 18 | 19:
                self.attempt(indent, in_loop=in_loop)
            case 20:
                self.emit(indent, f"if {self.condition()}:")
                self.emit(indent + 1, f"return {self.number()}")
            case _:
                self.emit(indent, f"raise_at = {self.number()}")
                self.emit(indent, "if raise_at > 40:")
                self.emit(indent + 1, "raise Odd('large')")

    def attempt(self, indent: int, *, in_loop: bool) -> None:
        """A try statement."""
        self.emit(indent, "try:")
        self.in_try += 1
        self.block(indent + 1, self.pick.randint(1, 3), in_loop=in_loop)
        self.emit(indent + 1, self.pick.choice([
            f"await score({self.pick.choice([1, 3])})", f"n0 = half({self.number()})", "await "
            "put('forbidden', 1)",
            f"n0 = [1, 2][{self.number()}]", f"n0 = {self.number()} // {self.number()}",
        ]))  # fmt: skip
        self.in_try -= 1
        kind = self.pick.choice(
            ["ToolError", "ValueError", "Exception", "(IndexError, ToolError)", "LookupError"]
        )
        if self.pick.random() < 0.85:
            self.emit(indent, f"except {kind} as error:")
            self.emit(indent + 1, self.pick.choice(["await note_it(type(error).__name__)", "n0 += 1"]))
            self.block(indent + 1, 1, in_loop=in_loop)
            if self.pick.random() < 0.15:
                self.emit(indent + 1, "raise")
            if self.pick.random() < 0.3:
                self.emit(indent, "else:")
                self.block(indent + 1, 1, in_loop=in_loop)
            if self.pick.random() < 0.7:
                return
        self.emit(indent, "finally:")
        self.emit(indent + 1, f"await note_it('f{self.count}')")


_SHARED_HEAD = """\
import copy
def grow(x):
    x.append(9)
    return x
def wrap(x):
    return {"w": x}
def hold(box, x):
    box["h"] = x
async def keep(box, x):
    box["k"] = x
    await score(1)
async def part(box):
    box["n"] = await score(1)
    return box["p"]
async def pair(x, y):
    x.append(len(y))
    await put("y", copy.deepcopy(y))
async def send(x):
    await put("k", copy.deepcopy(x))
    return x
async def extended(x):
    x.append(await score(2))
async def boxed(x):
    return {"w": x, "n": [await score(1)]}
async def both():
    x = await list_items(limit=2)
    return [x, x[0]["tags"], await score(1)]
async def main():
    a = [1, [2]]
    b = {"p": [3], "q": {"z": [4]}}
    c = await list_items(limit=2)
    d = []
    e = None
"""
_PLACES = ("a", "a[1]", 'b["p"]', 'b["q"]["z"]', "c", 'c[0]["tags"]', 'c[1]["tags"]', "d")


class SharingGenerator:
    """Writes programs whose variables share lists, change them, and await in between."""

    def __init__(self, pick: Random) -> None:
        self.pick = pick
        self.lines: list[str] = []

    def program(self) -> str:
        """The text of a program."""
        for _ in range(self.pick.randint(3, 7)):
            self.statement(1)
        return _SHARED_HEAD + "\n".join(self.lines) + "\n    return a, b, c, d, e\n"

    def place(self) -> str:
        """An expression of a list."""
        return self.pick.choice(_PLACES)

    def statement(self, indent: int) -> None:
        """One statement."""
        forms = (
            "d = {0}", "d.append({0})", "{0}.append(5)", 'b["p"] = {0}', "a[1] = {0}",
            "await note_it(str(len({0})))",
            'await put("x", {0})', "e = grow({0})", "e = wrap({0})", "d = list({0})", "d = [{0}, {1}]",
            "d += {0}",
            'b["q"] = {{"z": {0}}}', 'c[0]["tags"] = {0}', "await send({0})", "await extended({0})",
            "e = await send({0})", "e = await boxed({0})", 'd = e["n"] if e else d', "d = await both()",
            "hold(b, {0})", "await keep(b, {0})", "d = await part(b)", "await pair({0}, {1})",
            "for i in (1, 2):\n{2}    d.append({0})\n{2}    await score(i)", "x = [grow(i) for i in [{0}]]",
            "x = {0}\n{2}x.append(6)", "for i in list({0}):", "for i in c:",
        )  # fmt: skip
        blank = "    " * indent
        form = self.pick.choice(forms if indent < 3 else forms[:-2])
        self.lines.append(blank + form.format(self.place(), self.place(), blank))
        if form.startswith("for i in c"):  # nothing else in it, as a list that grows meanwhile has no end
            self.lines.append(f'{blank}    i["n"] = {self.pick.choice(["1", "len(d)", "await score(1)"])}')
        elif form.startswith("for"):
            self.statement(indent + 1)


class FailingGenerator:
    """Writes programs whose pieces change containers and then fail, with handlers that go on after that."""

    def __init__(self, pick: Random) -> None:
        self.pick = pick
        self.lines: list[str] = []
        self.left = 22
        self.names = 0

    def program(self) -> str:
        """The text of a program."""
        head = [
            "class Odd(ValueError):",
            "    pass",
            "class Box:",
            "    def __init__(self):",
            "        self.items = []",
            "        self.count = 0",
            "    def put(self, x):",
            "        self.items.append(x)",
            "        if x % 3 == 1:",
            "            raise Odd(f'odd {x}')",
            "        self.count += 1",
            "def move(a, b):",
            "    x = a.pop(0)",
            "    b.append(10 // x)",
            "    return x",
            "def parts(texts):",
            "    for t in texts:",
            "        yield int(t)",
            "async def fill(a, n):",
            "    a.append(n)",
            "    a.append(await score(n))",
            "    a.append(6 // (n - 2))",
            "    return n + 1",
            "async def count(d, key):",
            "    d[key] = d.get(key, 0) + 1",
            "    await note_it(key)",
            "    d[key] += len(d['q'])",
            "async def main():",
            "    xs, q, s, d, box = [1, 2], [3, 0, 2, 1], {1}, {'a': 1}, Box()",
            "    texts, n, m = ['1', '2', 'x', '3'], 1, 0",
            "    await note_it('start')",
        ]
        while self.left > 0:
            self.block(1, 2)
        return "\n".join([*head, *self.lines, "    return [xs, q, sorted(s), d, box.items, box.count, n, m]"])

    def line(self, depth: int, text: str) -> None:
        """Write a line."""
        self.left -= 1
        self.lines.append("    " * depth + text)

    def value(self) -> str:
        """A number, or what fails."""
        return self.pick.choice(
            ["n", "m", "2", "3", "len(xs)", "int(xs[0])", "int(q[-1])", "int(xs[n])", "6 // m",
             "int(texts[n])", "int(d['a'])", "int(d['b'])", "int(q.pop())", "int(q.pop(0))",
             "int(d.pop('a'))", "int(box.count)", "int(move(q, xs))", "int(xs.pop())"]
        )  # fmt: skip

    def change(self) -> str:
        """A statement that changes something, and may fail before, within or after that."""
        v, w = self.value(), self.value()
        return self.pick.choice(
            [f"xs.append({v})", f"d['k'] = {v}", f"d[str({v})] = {w}", f"s.add({v})", f"n = {v}", f"m = {v}",
             f"xs.append({v} + {w})", f"n, m = {v}, {w}", f"xs.extend([{v}, {w}])", f"box.put({v})",
             "xs.extend(int(t) for t in texts)", "xs.extend(parts(texts))", "s.update(map(int, texts))",
             "xs += (int(t) for t in texts)", "n += 1", "m += n", f"xs[{v}] = {w}", f"d['a'] += {v}",
             "move(q, xs)", "n = int(move(q, xs))", "del d['a']", "del xs[0], xs[5]", f"del xs[{v}]",
             "xs.sort()", f"d.update(a={v}, b={w})", f"box.items.append({v})", "box.count += 1",
             f"xs.insert(0, {v})", f"n, (m, k) = {v}, ({w}, {v})", "texts.pop()",
             "q.remove(n)", f"assert {v} > 1",
             "raise Odd(f'n {n}')", f"if {v} > 1: xs.append({w})", f"n = (m := {v}) + {w}",
             "for t in texts: xs.append(int(t))", "for x in q: box.put(x)", "xs.append(n)", "s.discard(n)"]
        )  # fmt: skip

    def call(self) -> str:
        """A statement that awaits."""
        v = self.value()
        return self.pick.choice(
            ["await note_it(str(xs))", f"n = await score({v})", f"xs.append(await score({v}))",
             "await fill(xs, n)", f"n = int(await fill(q, {v}))", "await count(d, 'a')",
             "await count(d, 'q')", f"if await score({v}) > 3: xs.append({v})", f"await note_it(str({v}))"]
        )  # fmt: skip

    def block(self, depth: int, most: int) -> None:
        """Some statements."""
        for _ in range(self.pick.randint(1, most)):
            roll = self.pick.randint(0, 9)
            if roll <= 4 or depth > 4 or self.left < 0:
                self.line(depth, self.change())
            elif roll <= 6:
                self.line(depth, self.call())
            elif roll == 7:
                self.names += 1
                self.line(depth, f"for i{self.names} in [2, 0, 1]:")
                self.block(depth + 1, 2)
            else:
                self.attempt(depth)

    def attempt(self, depth: int) -> None:
        """A try with handlers, and a `finally` at times."""
        self.line(depth, "try:")
        self.block(depth + 1, 4)
        has_handler = False
        for kinds in self.pick.choice(
            [["Exception"], ["ToolError", "(ValueError, KeyError)"], ["LookupError", "Exception"], ["Odd"],
             ["ZeroDivisionError", "TypeError", "IndexError"], []]
        ):  # fmt: skip
            self.line(depth, f"except {kinds}:")
            self.line(
                depth + 1, self.pick.choice(["xs.append(-1)", "await note_it(str(xs))", "m += 1", "pass"])
            )
            has_handler = True
        if not has_handler or self.pick.randint(0, 2) == 0:
            self.line(depth, "finally:")
            self.line(depth + 1, self.pick.choice(["n += 1", "await note_it(f'{xs} {q}')", "xs.append(-2)"]))
