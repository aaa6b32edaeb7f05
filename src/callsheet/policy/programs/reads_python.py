"""Finds the files that a Python program may read: all that its calls name, except for known non-readers."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias, cast

from callsheet.policy.programs.file_names import NOT_KNOWN, may_name_files, names_in
from callsheet.policy.programs.python import STARTING, called_name, texts_in

Opened: TypeAlias = "Callable[[str, str | None, int], tuple[str, ...]]"
"""The paths that a program in some language opens, at a nesting depth."""

_OPENS = frozenset({"open", "fdopen"})
_LOADS = frozenset(
    {"read_csv", "read_json", "read_table", "read_excel", "read_parquet", "read_fwf", "read_xml", "read_html",
     "read_text", "read_bytes", "loadtxt", "genfromtxt", "fromfile", "imread", "copy", "copy2", "copyfile",
     "copytree", "move", "getline", "getlines", "scan_csv", "BZ2File", "FileIO", "GzipFile", "LZMAFile",
     "Maildir", "ZipFile", "get_data", "hardlink_to", "mbox", "memmap", "open_code",
     "read_pickle", "run_path", "symlink", "symlink_to"}
)  # fmt: skip
_OF_ITSELF = frozenset({"read_text", "read_bytes", "open"})
"""Methods of a path that read the file."""
_MOVES_ITSELF = frozenset({"rename", "replace", "copy", "copy_into", "move", "move_into"})
_WRITES_ITSELF = frozenset({"write_text", "write_bytes"})
_PATHS = frozenset({"Path", "PosixPath", "WindowsPath"})
_EVALUATES = frozenset({"exec", "eval"})
_ONLY_NAMES = re.compile(
    r"print|pprint|l?exists|access|is_?\w*|mk\w*|rm\w*|remove\w*|unlink|touch|l?stat|chmod|get|getsize|setdefault|pop"
    r"|append|extend|add|add_argument|ArgumentParser|insert|index|count|find|len|sorted|set|frozenset|list|tuple|dict"
    r"|str|repr|enumerate|range|join|joinpath|split\w*|basename|dirname|abspath|realpath|normpath|relpath|expanduser"
    r"|with_\w+|(?:Pure)?(?:Posix|Windows)?Path|startswith|endswith|removesuffix|removeprefix|strip|format|match"
    r"|fullmatch|search|sub|compile|fnmatch\w*|guess_\w+|log|debug|info|warning|error|exception|basicConfig"
    r"|\w*(?:Error|Exception|Handler)|\w*[wW]rit\w*|save\w*|to_\w+|\w*dumps?|export\w*|urlparse|exit|upper|lower|title|encode"
)
"""Functions that take a file name without returning the file's content."""
_STILL_NAMES = frozenset(
    {"Path", "PosixPath", "WindowsPath", "str", "fspath", "join", "joinpath", "abspath", "realpath",
     "expanduser", "resolve", "absolute", "with_name", "with_suffix"}
)  # fmt: skip
"""Functions that return the file name they are given."""
_PASSING = frozenset(
    {"NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "mkstemp",
     "mkdtemp", "StringIO", "BytesIO"}
)  # fmt: skip
"""Functions that create a new file or folder."""
_PATH_KEYWORDS = frozenset(
    {"file", "path", "filepath_or_buffer", "path_or_buf", "filename", "fname", "src", "io"}
)
_BRANCHES = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.ExceptHandler, ast.match_case,
    ast.IfExp, ast.BoolOp, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda,
)  # fmt: skip
"""Nodes whose content may be skipped."""
_ASKS = re.compile(r"sql|query|execute\w*|from_query")
"""Functions whose query text may name files to read."""
_DATABASES = frozenset({"sqlite3", "duckdb"})
"""Modules whose connections are to files."""
_LONG = 16
_DATABASE = re.compile(r"\.(?:db3?|sqlite3?|duckdb)\b|^file:", re.IGNORECASE)
_MAY_OPEN = re.compile(
    r"\b(?:open|fdopen|read_\w+|\w*txt|fromfile|imread|copy\w*|move|rename|getlines?|scan_csv|load_dotenv"
    r"|\w*File|FileIO|Maildir|mbox|memmap|get_data|\w*link(?:_to)?|open_code|run_path|file"
    r"|connect|system|popen|Popen|run|call|check_\w+|getoutput|spawn\w*|exec\w*|eval|create_subprocess_\w+)\b"
)
_WRITES_ONLY = re.compile(r"(?=.*[wax])[^+]*")
_MODE = re.compile(r"[rwaxbt+U]{1,4}")


def opened_by_python(program: str, opened: Opened, depth: int) -> Iterator[str]:
    """The paths that a program opens; `opened` is asked about nested programs."""
    if _MAY_OPEN.search(program) is None and not may_name_files(program):
        return
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    nodes = list(ast.walk(tree))
    known = _Known(nodes, _Branches(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from known.opened(node, opened, depth)
        elif id(node) not in called and _is_handed_on(node):
            yield NOT_KNOWN


def _is_handed_on(node: ast.AST) -> bool:
    """Whether a node passes on a function that opens files, as in `map(open, names)`."""
    if isinstance(node, ast.Attribute):
        return node.attr in _OF_ITSELF - _OPENS
    return isinstance(node, ast.Name) and node.id == "open" and isinstance(node.ctx, ast.Load)


def _may_be_left_out(node: ast.AST) -> bool:
    """Whether the content of a node may be skipped: in a branch, or if an exception is suppressed."""
    if isinstance(node, ast.With):
        calls = [item.context_expr for item in node.items]
        return not all(isinstance(c, ast.Call) and called_name(c) in _OPENS | _PASSING for c in calls)
    return isinstance(node, _BRANCHES)


class _Branches:
    """The innermost skippable block that contains each node of a program."""

    def __init__(self, tree: ast.AST) -> None:
        self._above: dict[int, int] = {0: 0}
        self._of: dict[int, int] = {}
        waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
        while waiting:
            node, branch = waiting.pop()
            self._of[id(node)] = branch
            for field, value in ast.iter_fields(node):
                inner = branch
                if _may_be_left_out(node) and field not in ("test", "iter", "subject", "items"):
                    inner = len(self._above)
                    self._above[inner] = branch
                parts = cast("list[object]", value) if isinstance(value, list) else (value,)
                waiting += ((part, inner) for part in parts if isinstance(part, ast.AST))

    def is_behind(self, later: ast.AST, earlier: ast.AST) -> bool:
        """Whether the later node is reached only after the earlier one."""
        wanted, branch = self._of[id(earlier)], self._of[id(later)]
        while branch and branch != wanted:
            branch = self._above[branch]
        return branch == wanted


class _Known:
    """What a program says about its paths: constants bound to names, and where it writes files.

    A file that it has certainly written before holds only what it put there.
    """

    def __init__(self, nodes: Iterable[ast.AST], branches: _Branches) -> None:
        self._branches = branches
        self._texts: dict[str, list[str]] = {}
        self._written: dict[str, ast.expr] = {}
        self._yielded, self._named_once = set[str](), set[str]()
        passing: set[str] = set()
        for node in nodes:
            for target, value in _bound(node):
                names = [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]
                if isinstance(value, ast.Call) and called_name(value) in _PASSING:
                    passing.update(names)
                    continue
                texts = list(_texts_of(value))
                for name in names:
                    self._texts.setdefault(name, []).extend(texts)
            place = _written_by(node) if isinstance(node, ast.Call) else None
            if place is not None:
                self._written.setdefault(_key(place), place)
        self._passing = passing - self._texts.keys()

    def opened(self, node: ast.Call, opened: Opened, depth: int) -> Iterator[str]:
        """The files that a call may read."""
        called, owner = called_name(node), _owner_of(node)
        if called in STARTING:
            yield from _by_line(texts_in(node), opened, depth)
        elif called in _EVALUATES:
            for text in texts_in(node):
                yield from opened(text, "python", depth)
        elif called in _OPENS or called in _LOADS:
            if not _is_for_writing(node):
                yield from self._by_reader(node, called, owner)
        elif called == "connect" and node.args:
            is_of_files = getattr(owner, "id", "") in _DATABASES
            texts = _texts_of(node.args[0])
            yield from (text for text in texts if text[:1] != ":" and (is_of_files or _DATABASE.search(text)))
        elif called == "chdir" and node.args:
            yield from self._paths(node.args[0], is_surely=True)
        elif called == "load_dotenv":
            yield from self._named(node) if node.args or node.keywords else (".env",)
        elif _ONLY_NAMES.fullmatch(called) is None and not _is_for_writing(node):
            yield from self._named(node)
        if called in _MOVES_ITSELF and isinstance(owner, ast.Call) and called_name(owner) in _PATHS:
            yield from self._paths(owner, is_surely=True)

    def _by_reader(self, node: ast.Call, called: str, owner: ast.expr | None) -> Iterator[str]:
        """The files of a call that is known to read some."""
        for keyword in node.keywords:
            if keyword.arg in _PATH_KEYWORDS:
                yield from self._paths(keyword.value, is_surely=False)
        if node.args and (owner is None or not _is_mode(node.args[0])):
            yield from self._paths(node.args[0], is_surely=called in _OPENS)
        elif owner is not None and called in _OF_ITSELF:
            yield from self._paths(owner, is_surely=True)

    def _named(self, node: ast.Call) -> Iterator[str]:
        """The file names among the arguments of a call."""
        for given in (*node.args, *(keyword.value for keyword in node.keywords)):
            is_result = isinstance(given, ast.Call) and called_name(given) not in _STILL_NAMES
            if is_result or self._is_written(given):
                continue
            texts = [*_texts_of(given)]
            if isinstance(given, ast.Name) and given.id not in self._named_once:
                self._named_once.add(given.id)
                texts += self._texts.get(given.id, ())
            is_told = _ASKS.fullmatch(called_name(node)) is not None
            yield from (
                name for text in texts if is_told or len(text.split()) == 1 for name in names_in(text)
            )

    def _is_written(self, given: ast.expr) -> bool:
        """Whether the program has certainly written the file of an expression before."""
        place = self._written.get(_key(given)) if self._written else None
        return place is not None and place.lineno < given.lineno and self._branches.is_behind(given, place)

    def _paths(self, given: ast.expr, *, is_surely: bool) -> Iterator[str]:
        """The paths that an expression may denote; NOT_KNOWN if it is `is_surely` a path of unknown text."""
        if isinstance(given, ast.Constant) and not isinstance(given.value, str | bytes):
            return
        if self._is_written(given):
            return
        names = [part.id for part in ast.walk(given) if isinstance(part, ast.Name)]
        if not self._passing.isdisjoint(names):
            return
        own = [text for _, text in sorted(_places_of(given))]
        if own:
            is_one_text = isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add)
            yield ("" if is_one_text or isinstance(given, ast.JoinedStr) else "/").join(own)
        known_names = [name for name in names if self._texts.get(name)]
        for name in known_names:
            if name not in self._yielded:  # once for all calls
                self._yielded.add(name)
                yield from self._texts[name]
        if not own and not known_names and is_surely:
            yield NOT_KNOWN


def _by_line(given: list[str], opened: Opened, depth: int) -> Iterator[str]:
    """The files opened by a command line given as one text or as one text per word."""
    if given:
        yield from opened(shlex.join(given), None, depth)
    for text in given:
        if len(text.split()) > 1:
            yield from opened(text, None, depth)


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets that a node assigns, with the assigned values."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _written_by(node: ast.Call) -> ast.expr | None:
    """The path of the file that a call only writes."""
    called, owner = called_name(node), _owner_of(node)
    if owner is not None and called in _WRITES_ITSELF:
        return owner
    if called in _OPENS and _is_for_writing(node):
        is_its_own = owner is not None and (not node.args or _is_mode(node.args[0]))
        return owner if is_its_own else node.args[0] if node.args else None
    return None


def _key(node: ast.expr) -> str:
    """A key for an expression: its structure, or for a long one its position, which is unique."""
    if sum(1 for _ in islice(ast.walk(node), _LONG)) == _LONG:
        return f"{node.lineno} {node.col_offset} {node.end_lineno} {node.end_col_offset}"
    return ast.dump(node)


def _owner_of(node: ast.Call) -> ast.expr | None:
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _texts_of(node: ast.AST) -> Iterator[str]:
    return (text for _, text in _places_of(node))


def _places_of(node: ast.AST) -> Iterator[tuple[tuple[int, int], str]]:
    """The literals of texts and bytes in a node with their positions."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
            text = part.value if isinstance(part.value, str) else part.value.decode(errors="replace")
            yield (part.lineno, part.col_offset), text


def _is_mode(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_mode_text(node.value)


def _is_mode_text(text: str) -> bool:
    return _MODE.fullmatch(text) is not None


def _is_for_writing(node: ast.Call) -> bool:
    """Whether a call opens a file only for writing."""
    given = node.args[:2] if _owner_of(node) is not None else node.args[1:2]
    modes = [*given, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    texts = [text for mode in modes if isinstance(mode, ast.Constant) for text in _texts_of(mode)]
    return any(_is_mode_text(text) and _WRITES_ONLY.fullmatch(text) for text in texts)
