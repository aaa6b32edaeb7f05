# ruff: noqa: E501 - a case is a line
"""Programs that say what they read; and the harmless plans of the corpus whose programs have to say what they read, and what that is.

Without it they are refused: nothing is promised about a program, and it may read, write and execute every file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.passes.verify.corpus import NOTES, OK, OUT, PAGE, case

from callsheet.ir import Call, ListExpr, Literal, Plan, Step

NETWORK = {"exec": {"network": True}}
_KEPT = '@WRITE_FILE (path="docs/n.md", content=$a) > $w'
_PAGE_KEPT = '@WRITE_FILE (path="docs/p.md", content=$p) > $w'

HOSTILE_DECLARED = [
    *(
        case(
            f"declared: private files go out, {reads}",
            f'@SHELL_EXEC (code="./report", reads={reads}) > $a',
            OUT,
            OK,
        )
        for reads in (
            '["notes.txt"]',
            '["docs/a.md", "notes.txt"]',
            '["."]',
            '["*.txt"]',
            '["docs/../notes.txt"]',
            '["**/*.md"]',
            '"docs"',
            '["docs", 1.5]',
            '["/etc"]',
        )
    ),
    case(
        "declared: a one-liner that says it reads a private file",
        '@SHELL_EXEC (code="cat", reads=["notes.txt"]) > $a',
        OUT,
        OK,
    ),
    case(
        "declared: a page decides what is read", PAGE, '@SHELL_EXEC (code="./report", reads=["$p"]) > $a', OK
    ),
    case(
        "declared: a path that is not known",
        '@EXEC_CODE (code="print(1)") > $n',
        '@SHELL_EXEC (code="./report", reads=["docs/${n}.md"]) > $a',
        OUT,
        OK,
    ),
    case("declared: out of the workspace", '@SHELL_EXEC (code="./report", reads=["../docs"]) > $a', OK),
    *(
        case(
            f"declared: a secret, {reads}",
            f'@SHELL_EXEC (code="./report", reads={reads}) > $a',
            "@RESPOND ($a)",
        )
        for reads in ('["app/.env"]', '[".ssh"]', '["keys/*.pem"]', '["docs", ".env"]')
    ),
    case(
        "declared: what the plan has put into a public folder",
        NOTES,
        _KEPT,
        '@SHELL_EXEC (code="./report", reads=["docs"]) > $a',
        OUT,
        OK,
    ),
    case(
        "declared: what the plan has put into a file of a glob",
        NOTES,
        _KEPT,
        '@SHELL_EXEC (code="./report", reads=["docs/*.md"]) > $a',
        OUT,
        OK,
    ),
    case(
        "declared: private data on standard input",
        NOTES,
        '@SHELL_EXEC (code="./report", stdin=$a, reads=[]) > $a',
        OUT,
        OK,
    ),
    case(
        "declared: with a network, a private file",
        '@SHELL_EXEC (code="./send", reads=["notes.txt"]) > $a',
        OK,
        **NETWORK,
    ),
    case(
        "declared: with a network, what the plan has put there",
        '@QUERY_MEMORY (query="x") > $a',
        _KEPT,
        '@SHELL_EXEC (code="./send", reads=["docs"]) > $r',
        OK,
        memory_default="T/priv",
        **NETWORK,
    ),
    case(
        "declared: with a network, strangers' words on standard input",
        PAGE,
        '@SHELL_EXEC (code="sh", stdin=$p, reads=[]) > $r',
        OK,
        **NETWORK,
    ),
    case(
        "declared: with a network, a page that may be run",
        PAGE,
        _PAGE_KEPT,
        '@SHELL_EXEC (code="sh docs/p.md", reads=["docs/p.md"]) > $r',
        OK,
        **NETWORK,
    ),
    case(
        "declared: a page is copied to a hook by another tool",
        PAGE,
        _PAGE_KEPT,
        '@COPY (source="docs/p.md", destination="x.txt") > $m',
        '@COPY (source="x.txt", destination=".git/hooks/pre-push") > $m',
        OK,
        tools={"@COPY": {"control": ["source"]}},
    ),
]
HARMLESS_DECLARED = [
    case(
        "declared: a public file",
        '@SHELL_EXEC (code="./report docs/a.md", reads=["docs/a.md", "public/**"]) > $a',
        "@WEB_SEARCH (query=$a) > $r",
        "@RESPOND ($r)",
    ),
    case(
        "declared: nothing, beside private files",
        NOTES,
        '@WRITE_FILE (path="out/x.md", content=$a) > $w',
        '@EXEC_CODE (code="f()", reads=[]) > $d',
        '@WEB_SEARCH (query="$d") > $r',
        "@RESPOND ($r)",
    ),
    case(
        "declared: another file than the one of the plan",
        NOTES,
        _KEPT,
        '@SHELL_EXEC (code="./report", reads=["docs/a.md"]) > $d',
        '@WEB_SEARCH (query="$d") > $r',
        "@RESPOND ($r)",
    ),
    case(
        "declared: it writes nothing that stays",
        NOTES,
        '@EXEC_CODE (code="f()", stdin=$a, reads=[]) > $n',
        '@READ_FILE (path="docs/a.md") > $d',
        '@WEB_SEARCH (query="$d") > $r',
        "@RESPOND ($n, $r)",
    ),
    case(
        "declared: a folder with secrets in it, which are hidden",
        '@SHELL_EXEC (code="./report", reads=["app"]) > $a',
        "@RESPOND ($a)",
    ),
    case(
        "declared: with a network, another file than a page",
        PAGE,
        _PAGE_KEPT,
        '@SHELL_EXEC (code="./send", reads=["docs/a.md"]) > $r',
        OK,
        **NETWORK,
    ),
    case(
        "declared: a secret after a yes",
        '@SHELL_EXEC (code="./report", reads=["app/.env"]) > $a',
        "@RESPOND ($a)",
        approved=["S1"],
    ),
]

_PUBLIC = ("docs", "README.md")
_PAGE = ("data/page.py",)
_CASES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    _PUBLIC: (
        "a public file that a program copies",
        "a program before anything private is written",
        "with a network: written after it was sent",
        "opened: with a network, in public",
        "opened: nothing private, ",
        "named: @",
        "twins: a page is what a reader is given, ",
    ),
    _PAGE: ("named: read, ",),
    (): (
        "a program that names no secret, ls -a .env*",
        "a program with a network that only gets",
        "strangers' words that are read: @SHELL_EXEC (code=\"mkdir -p out",
        "failure of a program on public data decides about a search",
        "a page beside tests: uv add pytest",
        "an archive of strangers that is listed",
    ),
    ("src", "docs", "Makefile"): ("a page beside tests: make docs", "a page beside tests: pytest -q"),
    ("tests/test_b.py",): ("a page beside tests: pytest tests/test_b.py",),
    ("out/data.json",): ("a page in a file that is read: ",),
    ("page.txt", "b.txt", "count.py"): (
        "a copy of a page that is read",
        "a script of the plan that is run",
        "a page beside a script that a program makes",
    ),
    ("b.txt",): (
        "a file that is replaced and not read",
        "a copy that a program runs before it is made",
    ),
    (".git",): ("hooks in a folder beside a page",),
    ("data", "job.py"): ("an archive of a page is unpacked, and ",),
    ("tools",): ("an archive of a page is unpacked, and cd tools && make",),
    ("run.txt",): ("filing: a page beside a script",),
}


def reads_of(name: str) -> tuple[str, ...] | None:
    """What the programs of a harmless plan of this name read; None if the plan needs no declaration."""
    found = [(begin, reads) for reads, begins in _CASES.items() for begin in begins if name.startswith(begin)]
    return max(found, key=lambda pair: len(pair[0]))[1] if found else None


def declaring(plan: Plan, reads: tuple[str, ...]) -> Plan:
    """The plan with this declaration at each of its programs in the sandbox."""
    return replace(plan, steps=tuple(_declaring(step, reads) for step in plan.steps))


def _declaring(step: Step, reads: tuple[str, ...]) -> Step:
    call = step.action
    if not isinstance(call, Call) or call.tool not in ("EXEC_CODE", "SHELL_EXEC"):
        return step
    named = (*call.named, ("reads", ListExpr(tuple(map(Literal, reads)))))
    return replace(step, action=replace(call, named=named))
