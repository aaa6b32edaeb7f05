"""Which files a program opens to read, as far as their names stand in it.

In: a program and its language. Out: the paths, without those that it writes itself. The same files that
`READ_FILE` would read: what the program prints, or puts into other files, may be what stands in them.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice, pairwise

from callsheet.policy.running.commands import (
    MOST_PLACES,
    gives_code,
    is_interpreter,
    language_of,
    places,
    verb_of,
)
from callsheet.policy.running.languages import Kind, kind_of
from callsheet.policy.running.named import MOST_DEPTH
from callsheet.policy.running.python import STARTS, called_name, texts_in
from callsheet.policy.running.script import Command, NotClosedError, commands_of, put_in

NOT_KNOWN = "*"
"""In the place of a path that is made as the program goes."""
_TAKES_FILES = frozenset(
    {"cat", "tac", "nl", "head", "tail", "less", "more", "bat", "base64", "base32", "xxd", "od", "hexdump",
     "strings", "sort", "uniq", "wc", "cut", "paste", "join", "comm", "diff", "cmp", "column", "fold", "fmt",
     "rev", "shuf", "split", "md5sum", "sha1sum", "sha256sum", "sha512sum", "gzip", "zcat", "bzip2", "xz",
     "cp", "mv", "ln", "install", "rsync", "link", "rename", "source", "."}
)  # fmt: skip
_TAKES_FILES_SECOND = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk", "jq", "yq"})
"""Those whose first operand is what they do with the files behind it."""
_ARCHIVES = frozenset({"tar", "zip", "7z"})
_OF_REPOSITORIES = frozenset({"blame", "cat-file", "diff", "grep", "log", "show"})
"""What git is told where it shows what stands in files, or stood in them."""
_INTO_LAST = frozenset({"cp", "mv", "ln", "install", "rsync", "link", "rename"})
_TAKING: Mapping[str, frozenset[str]] = {
    verb: frozenset(options.split())
    for verbs, options in (
        ("head tail", "-n -c"),
        ("cut paste", "-d -f -c -b"),
        ("sort", "-k -t -o -S -T"),
        ("base64 base32 fold fmt", "-w"),
        ("split", "-l -b -n"),
        ("od xxd hexdump strings", "-n -l -s -N -A -t -c"),
        ("join column", "-t -1 -2 -o -s"),
        ("shuf", "-n"),
        ("grep egrep fgrep rg ag", "-e -f -m -A -B -C"),
        ("sed", "-e -f"),
        ("awk gawk", "-f -F -v"),
        ("jq yq", "-f --arg --argjson"),
    )
    for verb in verbs.split()
}
"""By the name of a program its options that take the word behind them."""
_OPENS = frozenset({"open", "fdopen"})
_LOADS = frozenset(
    {"read_csv", "read_json", "read_table", "read_excel", "read_parquet", "read_fwf", "read_xml", "read_html",
     "read_text", "read_bytes", "loadtxt", "genfromtxt", "fromfile", "imread", "copy", "copy2", "copyfile",
     "copytree", "move", "getline", "getlines", "scan_csv"}
)  # fmt: skip
_OF_ITSELF = frozenset({"read_text", "read_bytes", "open"})
"""Methods of a path that read it."""
_WRITES_ITSELF = frozenset({"write_text", "write_bytes"})
_PASSING = frozenset(
    {"NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "mkstemp",
     "mkdtemp", "StringIO", "BytesIO"}
)  # fmt: skip
"""What makes a file or a folder that was not there before."""
_PATH_KEYWORDS = frozenset(
    {"file", "path", "filepath_or_buffer", "path_or_buf", "filename", "fname", "src", "io"}
)
_LONG = 16
_DATABASE = re.compile(r"\.(?:db3?|sqlite3?|duckdb)\b", re.IGNORECASE)
_MAY_OPEN = re.compile(
    r"\b(?:open|fdopen|read_\w+|\w*txt|fromfile|imread|copy\w*|move|getlines?|scan_csv"
    r"|connect|system|popen|Popen|run|call|check_\w+|getoutput)\b"
)
_WRITES_ONLY = re.compile(r"(?=.*[wax])[^+]*")
_MODE = re.compile(r"[rwaxbt+U]{1,4}")
_SCRIPT_READS = re.compile(
    r"\b(?:readFile|createReadStream|copyFile|rename|cp)(?:Sync)?\s*\(\s*(['\"`])([^'\"`\n]*)\1"
)
_NO_FILES = ("/dev/", "/tmp/", "-")


@lru_cache(maxsize=1_024)
def files_opened(program: str, language: str | None, depth: int = 0) -> tuple[str, ...]:
    """The paths that a program may read, each once; `language` is that of the code, None for a command line.

    >>> files_opened("sort a.txt | grep -i x b.txt > c.txt; cat c.txt", None)
    ('a.txt', 'b.txt')
    >>> files_opened("p = 'a.md'\\nprint(open(p).read(), open('b', 'w'), open(0).read())", "python")
    ('a.md',)
    """
    kind = kind_of(language)
    if depth > MOST_DEPTH:
        return ()
    found: Iterable[str] = ()
    if kind is Kind.SHELL:
        found = _by_shell(program, depth + 1)
    elif kind is Kind.PYTHON:
        found = _by_python(program, depth + 1)
    elif kind is Kind.SCRIPT:
        found = [match[2] for match in _SCRIPT_READS.finditer(program)]
    return tuple(dict.fromkeys(path for path in found if path and not path.startswith(_NO_FILES)))


def _by_shell(program: str, depth: int) -> Iterator[str]:
    try:
        commands = commands_of(program)
    except NotClosedError:
        return
    made = set[str]()
    for command in commands:
        yield from (path for path in _by_command(command, depth) if path not in made)
        made.update(command.writes, _made_by(command))


def _by_command(command: Command, depth: int) -> Iterator[str]:
    yield from command.reads
    words = command.words
    for word in words:
        if word.startswith("if="):
            yield word[3:]
        for inner in put_in(word):
            yield from files_opened(inner, None, depth)
    for at, starter in places(words)[:MOST_PLACES]:
        verb, behind = verb_of(words[at]), words[at + 1 :]
        if starter in ("xargs", "parallel") and (verb in _TAKES_FILES or verb in _TAKES_FILES_SECOND):
            yield NOT_KNOWN
        operands = list(_operands(verb, behind))
        if verb in _TAKES_FILES:
            yield from operands[:-1] if verb in _INTO_LAST else operands
        elif verb in _TAKES_FILES_SECOND:
            has_its_own = "-e" in behind or "-f" in behind
            yield from operands[0 if has_its_own else 1 :]
        elif verb in _ARCHIVES:
            yield from operands[1:]
        elif verb == "git" and not _OF_REPOSITORIES.isdisjoint(operands[:1]):
            yield NOT_KNOWN
        elif is_interpreter(verb):
            given = [code for option, code in pairwise(behind) if gives_code(verb, option)]
            for code in (*given, *command.said):
                yield from files_opened(code, language_of(verb), depth)


def _made_by(command: Command) -> list[str]:
    """The files that a command makes by its words, from what it is given or from others that it reads."""
    words = command.words
    for at, _ in places(words)[:MOST_PLACES]:
        verb = verb_of(words[at])
        operands = list(_operands(verb, words[at + 1 :]))
        if verb in ("tee", "sponge"):
            return operands
        if verb in _INTO_LAST:
            return operands[-1:]
    return []


def _operands(verb: str, words: Iterable[str]) -> Iterator[str]:
    """What a command names beside its options; what is put together as it goes may be any file."""
    taking, before = _TAKING.get(verb, frozenset[str]()), ""
    for word in words:
        if not word.startswith("-") and before not in taking:
            yield NOT_KNOWN if "$" in word else word
        before = word


def _by_python(program: str, depth: int) -> Iterator[str]:
    if _MAY_OPEN.search(program) is None:
        return
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    nodes = list(ast.walk(tree))
    known = _Known.of(nodes)
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from known.opened(node, depth)


class _Known:
    """What a program says of its paths: the texts that its names stand for, and where it writes a file.

    A file that it wrote in a line above holds what it has put there.
    """

    def __init__(
        self, texts: Mapping[str, list[str]], written: Mapping[str, int], passing: frozenset[str]
    ) -> None:
        self._texts = texts
        self._passing = passing
        self._told = set[str]()
        self._written = written

    @classmethod
    def of(cls, nodes: Iterable[ast.AST]) -> _Known:
        """What these nodes of a program say."""
        texts: dict[str, list[str]] = {}
        written: dict[str, int] = {}
        passing: set[str] = set()
        for node in nodes:
            for target, value in _bound(node):
                if isinstance(value, ast.Call) and called_name(value) in _PASSING:
                    passing.update(part.id for part in ast.walk(target) if isinstance(part, ast.Name))
                elif isinstance(target, ast.Name):
                    texts.setdefault(target.id, []).extend(_texts_of(value))
            place = _written_by(node) if isinstance(node, ast.Call) else None
            if place is not None:
                written.setdefault(_key(place), place.lineno)
        return cls(texts, written, frozenset(passing - texts.keys()))

    def opened(self, node: ast.Call, depth: int) -> Iterator[str]:
        """The files that a call may read."""
        called = called_name(node)
        if called in STARTS:
            given = texts_in(node)
            line = given[0] if len(given) == 1 else shlex.join(given)
            yield from files_opened(line, None, depth) if given else ()
        elif (called in _OPENS or called in _LOADS) and not _is_for_writing(node):
            owner = _owner_of(node)
            for keyword in node.keywords:
                if keyword.arg in _PATH_KEYWORDS:
                    yield from self._paths(keyword.value, is_surely=False)
            if node.args and (owner is None or not _is_mode(node.args[0])):
                yield from self._paths(node.args[0], is_surely=called in _OPENS)
            elif owner is not None and called in _OF_ITSELF:
                yield from self._paths(owner, is_surely=True)
        elif called == "connect" and node.args:
            yield from (text for text in _texts_of(node.args[0]) if _DATABASE.search(text))

    def _paths(self, given: ast.expr, *, is_surely: bool) -> Iterator[str]:
        """The paths that an expression may stand for, if it surely is one even where nothing is known."""
        if isinstance(given, ast.Constant) and not isinstance(given.value, str):
            return
        line = self._written.get(_key(given)) if self._written else None
        if line is not None and line < given.lineno:
            return
        names = [part.id for part in ast.walk(given) if isinstance(part, ast.Name)]
        if not self._passing.isdisjoint(names):
            return
        own = [text for _, text in sorted(_places_of(given))]
        if own:
            is_one_text = isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add)
            yield ("" if is_one_text or isinstance(given, ast.JoinedStr) else "/").join(own)
        held = [name for name in names if self._texts.get(name)]
        for name in held:
            if name not in self._told:  # once for all calls
                self._told.add(name)
                yield from self._texts[name]
        if not own and not held and is_surely:
            yield NOT_KNOWN


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets that a node sets, and what to."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, ast.For):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _written_by(node: ast.Call) -> ast.expr | None:
    """The path of the file that a call does nothing with but write it."""
    called, owner = called_name(node), _owner_of(node)
    if owner is not None and called in _WRITES_ITSELF:
        return owner
    if called in _OPENS and _is_for_writing(node):
        is_its_own = owner is not None and (not node.args or _is_mode(node.args[0]))
        return owner if is_its_own else node.args[0] if node.args else None
    return None


def _key(node: ast.expr) -> str:
    """What a short expression says, to know it again; of a long one where it stands, which no other has."""
    if sum(1 for _ in islice(ast.walk(node), _LONG)) == _LONG:
        return f"{node.lineno} {node.col_offset} {node.end_lineno} {node.end_col_offset}"
    return ast.dump(node)


def _owner_of(node: ast.Call) -> ast.expr | None:
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _texts_of(node: ast.AST) -> Iterator[str]:
    return (text for _, text in _places_of(node))


def _places_of(node: ast.AST) -> Iterator[tuple[tuple[int, int], str]]:
    """The texts in a node, each with where it stands."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield (part.lineno, part.col_offset), part.value


def _is_mode(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_mode_text(node.value)


def _is_mode_text(text: str) -> bool:
    return _MODE.fullmatch(text) is not None


def _is_for_writing(node: ast.Call) -> bool:
    """Whether a call opens a file for nothing but writing it."""
    given = node.args[:2] if _owner_of(node) is not None else node.args[1:2]
    modes = [*given, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    texts = [text for mode in modes if isinstance(mode, ast.Constant) for text in _texts_of(mode)]
    return any(_is_mode_text(text) and _WRITES_ONLY.fullmatch(text) for text in texts)
