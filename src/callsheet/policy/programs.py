"""What programs in calls see of the workspace: what they declare, nothing, or all of it.

In: a call of a tool that runs code. Out: its `View`. The proof labels results by it, and the sandbox mounts
exactly that, so nothing depends on what the text of a program seems to do. The programs that are known to
need no file run where there is none, so a mistake here breaks the program and reveals nothing; the list is
not meant to grow, any other program says with `reads` what it needs. Names of files in texts are hints.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from callsheet.frontends.pure_code import is_pure
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.paths import PathRefused, is_pattern, workspace_path

_PYTHON = frozenset({"python", "py", "python3"})
_SHELL = frozenset({"shell", "sh", "bash"})


@lru_cache(maxsize=1_024)
def needs_no_file(program: str, language: str) -> bool:
    """Whether a program is on the short list.

    >>> needs_no_file("import json, sys; print(len(json.load(sys.stdin)))", "python")
    True
    >>> needs_no_file("cut -d, -f2 | sort -u | wc -l", "shell"), needs_no_file("wc -l a.txt", "shell")
    (True, False)
    """
    name = language.strip().casefold()
    if name in _PYTHON:
        return _is_plain_python(program) or is_pure(program)
    return name in _SHELL and _is_plain_shell(program)


# ------------------------------------------------------------------ Python


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTIONS = _words(
    "abs all any bin bool bytes chr dict divmod enumerate exit filter float format frozenset hex int input"
    " isinstance iter len list map max min next oct ord pow print range repr reversed round set slice sorted"
    " str sum tuple zip Exception IndexError KeyError SystemExit TypeError ValueError ZeroDivisionError"
)
_MODULES: Mapping[str, frozenset[str]] = {
    module: _words(names)
    for module, names in {
        "base64": "b64decode b64encode urlsafe_b64decode urlsafe_b64encode",
        "collections": "Counter defaultdict deque",
        "csv": "DictReader DictWriter reader writer",
        "datetime": "UTC date datetime time timedelta timezone",
        "decimal": "Decimal",
        "fractions": "Fraction",
        "hashlib": "md5 sha1 sha256 sha512",
        "html": "escape unescape",
        "itertools": "accumulate chain combinations count groupby islice pairwise permutations product",
        "json": "dumps load loads",
        "math": "ceil comb cos dist e exp fabs factorial floor fsum gcd hypot isclose isnan isqrt lcm log"
        " log10 log2 perm pi pow prod sin sqrt tan tau",
        "numpy": "",
        "pandas": "",
        "random": "choice choices randint random randrange sample seed shuffle uniform",
        "re": "DOTALL I IGNORECASE M MULTILINE compile findall finditer fullmatch match search split sub",
        "secrets": "token_hex token_urlsafe",
        "statistics": "fmean mean median mode pstdev pvariance quantiles stdev variance",
        "string": "ascii_letters ascii_lowercase ascii_uppercase digits punctuation",
        "sys": "argv exit stderr stdin stdout version",
        "textwrap": "dedent fill indent shorten wrap",
        "time": "monotonic perf_counter sleep strftime time",
        "unicodedata": "category name normalize",
        "urllib.parse": "parse_qs quote quote_plus unquote urlencode urljoin urlparse urlsplit",
        "uuid": "uuid4 uuid5",
    }.items()
}
"""The modules that may be imported and what may be used of them; a module also leads to those it imports."""
_NODES = (
    ast.Module, ast.Expr, ast.expr_context, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For,
    ast.While, ast.If, ast.Try, ast.ExceptHandler, ast.Raise, ast.Assert, ast.Pass, ast.Break,
    ast.Continue, ast.Import, ast.ImportFrom, ast.alias, ast.FunctionDef, ast.Return, ast.Lambda,
    ast.arguments, ast.arg, ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Call,
    ast.keyword, ast.Starred, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.NamedExpr,
    ast.operator, ast.boolop, ast.unaryop, ast.cmpop, ast.List, ast.Tuple, ast.Set, ast.Dict,
    ast.JoinedStr, ast.FormattedValue, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    ast.comprehension,
)  # fmt: skip
"""The syntax that may be used: no classes, decorators, context managers, coroutines or patterns."""


_EXECUTES = _words(
    "__builtins__ __import__ __loader__ breakpoint compile eval exec execfile getattr globals locals vars"
)
_EXECUTES_BY = _words(
    "__builtins__ __globals__ __getattribute__ __subclasses__ eval modules query read_pickle"
)
"""Attributes with which the listed modules execute text or bytes."""


_ENCODED = re.compile(r"[ \t\f]*#.*?coding[:=]")


@lru_cache(maxsize=1_024)
def executes_nothing(program: str, language: str) -> bool:
    """Whether a program treats all that it reads as data: Python with the modules above, and nothing of the
    language that executes a text.

    >>> executes_nothing("import pandas, sys; print(pandas.read_csv(sys.stdin))", "python")
    True
    >>> executes_nothing("exec(input())", "python"), executes_nothing("import tool", "python")
    (False, False)
    """
    nodes = _nodes_of(program) if language.strip().casefold() in _PYTHON else None
    if nodes is None:
        return False
    for node in nodes:
        match node:
            case ast.Import(names=names) if not all(alias.name in _MODULES for alias in names):
                return False
            case ast.ImportFrom(module=module, names=names, level=level):
                if level or module not in _MODULES or any(alias.name in _EXECUTES_BY for alias in names):
                    return False
            case ast.Name(id=name) if name in _EXECUTES:
                return False
            case ast.Attribute(attr=name) if name in _EXECUTES_BY:
                return False
            case _:
                pass
    return True


def _nodes_of(program: str) -> list[ast.AST] | None:
    """All nodes of a Python program, None if it cannot be parsed or is read in another encoding."""
    if any(_ENCODED.match(line) for line in program.split("\n", 2)[:2]):
        return None
    try:
        return list(ast.walk(ast.parse(program)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_plain_python(program: str) -> bool:
    """Whether a Python program uses only the syntax, functions and modules listed above."""
    nodes = _nodes_of(program)
    if nodes is None or not all(isinstance(node, _NODES) for node in nodes):
        return False
    modules, bound = dict[str, str](), set[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level or not all(_offers(node.module or "", alias.name) for alias in node.names):
                return False
            bound.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef) and node.decorator_list:
            return False
        else:
            bound.update(_bound_by(node))
    roots = {name.partition(".")[0] for name in modules}
    if not _MODULES.keys() >= set(modules.values()) or not roots.isdisjoint(bound):
        return False
    return _uses_what_is_listed(nodes, modules, roots, bound)


def _uses_what_is_listed(
    nodes: Sequence[ast.AST], modules: Mapping[str, str], roots: Set[str], bound: Set[str]
) -> bool:
    """Whether all names in a program, and the attributes of its modules, are listed or its own."""
    used = set[int]()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value) if _is_dotted(node.value) else ""
            if node.attr.startswith("_") or (owner in modules and not _offers(modules[owner], node.attr)):
                return False
            used.update(id(part) for part in ast.walk(node.value) if owner in modules)
    return all(
        id(node) in used if node.id in roots else node.id in bound or node.id in _FUNCTIONS
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def _offers(module: str, name: str) -> bool:
    return module in _MODULES and name in _MODULES[module]


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node of a program binds."""
    if isinstance(node, ast.FunctionDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.ExceptHandler) and node.name is not None:
        yield node.name
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id


def _is_dotted(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_dotted(node.value))


# ------------------------------------------------------------------ the shell


class _Usage(NamedTuple):
    """How a command may be called: its flags, its flags with a value, and how many words may follow them."""

    flags: str = ""
    valued: str = ""
    words: int = 0


_COMMANDS: Mapping[str, _Usage] = {
    "cat": _Usage(),
    "cut": _Usage("s", "bcdf"),
    "date": _Usage("u", "", 1),
    "echo": _Usage("ne", "", 100),
    "false": _Usage(),
    "grep": _Usage("ivwxcnoqE", "m", 1),
    "head": _Usage("", "nc"),
    "rev": _Usage(),
    "seq": _Usage("w", "s", 3),
    "sort": _Usage("nrufV", "kt"),
    "tail": _Usage("", "nc"),
    "tr": _Usage("cds", "", 2),
    "true": _Usage(),
    "uname": _Usage("asnrm"),
    "uniq": _Usage("cdui"),
    "wc": _Usage("lwcm"),
}
"""Commands that open no file when they are called in these ways."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
_SIGNS = re.compile(r"[\\`$<>()&{}*?\[\]~!#'\"\n\r\t]")
"""Signs outside of quotes that do more than part words and pass on output."""


def _is_plain_shell(script: str) -> bool:
    """Whether a shell script is a pipeline of the commands above, with literal arguments."""
    bare = _QUOTED.sub("q", script).replace("&&", ";")
    if not script.isprintable() or _SIGNS.search(bare):
        return False
    lexer = shlex.shlex(script, posix=True, punctuation_chars="|;&")
    lexer.whitespace_split, lexer.commenters = True, ""
    command: list[str] = []
    commands = [command]
    for word in lexer:
        if word in ("|", ";", "&&"):
            command = []
            commands.append(command)
        else:
            command.append(word)
    return all(map(_is_filter, commands))


def _is_filter(words: Sequence[str]) -> bool:
    usage = _COMMANDS.get(words[0]) if words else None
    if usage is None:
        return False
    operands, is_value = list[str](), False
    for word in words[1:]:
        if is_value:
            is_value = False
        elif len(word) < 2 or word[0] != "-":
            operands.append(word)
        else:
            unread = word[1:].lstrip(usage.flags)
            if unread and unread[0] in usage.valued:
                is_value = len(unread) == 1
            elif unread:
                return False
    if words[0] == "date" and not all(word.startswith("+") for word in operands):
        return False
    return not is_value and len(operands) <= usage.words


_LOOKS = re.compile(
    r"(?:docker (?:ps|stats|images)|systemctl status|df|uptime|free|whoami|uname|nproc)(?= |\Z)"
)
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9@%:,{}.' -]*")


@lru_cache(maxsize=1_024)
def only_looks(command: str) -> bool:
    """Whether a command of the host is one of a few that show its state, without a file in their words.

    >>> only_looks("docker ps --format '{{.Names}}'"), only_looks("cat notes.txt"), only_looks("df -h > x")
    (True, False, False)
    """
    found = _LOOKS.match(command)
    return found is not None and _PLAIN_WORDS.fullmatch(command, found.end()) is not None


READS = "reads"
"""The argument of a call that declares what its program reads."""
PROGRAM = ("code", "language", READS)
"""The arguments of code tools that determine what their program sees."""
_SANDBOXED = frozenset({"EXEC_CODE", "SHELL_EXEC"})
_APART = re.compile(r"[\s'\"`;,()<>|&=@${}:]+")
_LONGEST = 300
_ENDINGS = (
    "txt md mdx rst org tex bib log csv tsv psv json jsonl ndjson geojson yaml yml toml ini cfg conf"
    " cnf properties xml html htm xhtml svg pdf rtf docx? xlsx? xlsm pptx? od[tsp] pages numbers epub"
    " eml mbox msg ics vcf po sql db db3 sqlite3? duckdb mdb parquet avro arrow feather orc np[yz] h5"
    " hdf5? nc mat rds rda pkl pickle joblib zip tar t?gz tgz bz2 xz zst 7z rar jar png jpe?g gif webp"
    " bmp tiff? heic ico wav mp3 mp4 m4a flac ogg mov avi mkv srt pem key crt cer p12 pfx jks keystore"
    " ppk kdbx gpg asc env tf tfvars tfstate dat bak old orig diff patch lock pyi? ipynb jsx? mjs cjs"
    " tsx? rb php pl lua r go rs c h cc cpp hpp java kt scala cs swift sh bash zsh ps1 bat css scss vue"
)
_NAMED = re.compile(rf"[^/]*[^/.][^/]*\.(?:{'|'.join(_ENDINGS.split())})(?:\.\w+)?", re.IGNORECASE)
_HIDDEN = re.compile(
    r"\.(?:env(?:\..+)?|[a-z]{2,}rc|ssh|aws|gnupg|kube|azure|pgpass|htpasswd|git-credentials|vault-token)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)"
)
"""Names without an extension of files with known content."""
_NO_WORD = re.compile(r"[\s<>|'\"`(){}\[\]\\]")


class View(NamedTuple):
    """What a program sees of the workspace.

    `paths` are normal paths of files and folders, or globs; "" is the workspace itself. None stands for the
    whole workspace, because nothing was promised about the program.
    """

    paths: tuple[str, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing limits what the program reads."""
        return self.paths is None


WHOLE, NOTHING = View(), View(())


def program_view(tool: str, call: CallView, usual: tuple[str, ...] | None = None) -> View:
    """What the program of a call of a folded tool name sees.

    It is what the call declares with `reads`; else nothing for a one-liner that has no use for files; else
    what the policy declares for the tool (`usual`); else everything. A path that is not known, or leads out
    of the workspace, promises nothing.

    >>> program_view("SHELL_EXEC", CallView("S1", "SHELL_EXEC", (Argument("code", ("make",)),)))
    View(paths=None)
    >>> program_view("SHELL_EXEC", CallView("S1", "SHELL_EXEC", (Argument("code", ("date",)),)))
    View(paths=())
    >>> reads = Argument("reads", (), items=(Argument("reads", ("./src/",)), Argument("reads", ("*.md",))))
    >>> program_view("EXEC_CODE", CallView("S1", "EXEC_CODE", (Argument("code", ("f()",)), reads)))
    View(paths=('src', '*.md'))
    """
    if tool not in _SANDBOXED:
        return WHOLE
    declared = _of_name(call, READS)
    if declared is not None:
        return _declared(declared)
    code, language = program_of(tool, call)
    return undeclared_view(code, language, usual)


def undeclared_view(code: str | None, language: str | None, usual: tuple[str, ...] | None = None) -> View:
    """What a program sees that declares nothing; None is a program or a language that is not known."""
    if code is not None and language is not None and needs_no_file(code, language):
        return NOTHING
    return WHOLE if usual is None else View(usual)


def program_of(tool: str, call: CallView) -> tuple[str | None, str | None]:
    """The program of a call and its language; None for one that is not known.

    >>> program_of("EXEC_CODE", CallView("S1", "EXEC_CODE", (Argument("code", ("f()",)),)))
    ('f()', 'python')
    """
    code, given = _of_name(call, "code"), _of_name(call, "language")
    language = "shell" if tool == "SHELL_EXEC" else "python" if given is None else given.text
    return (None if code is None else code.text), language


@lru_cache(maxsize=1_024)
def words_of(program: str) -> tuple[str, ...]:
    """The words of a program that may be paths, whatever it does with them.

    >>> words_of("f=.env; cat 'notes.txt' > $f --data=@a/b.json")
    ('f', '.env', 'cat', 'notes.txt', '--data', 'a/b.json')
    """
    words = (word for word in _APART.split(program) if word)
    return tuple(dict.fromkeys(word for word in words if len(word) <= _LONGEST))


def is_file_name(text: str) -> bool:
    """Whether a text is one word with a file extension, or a known file name without one.

    >>> [is_file_name(t) for t in ("a/notes.txt", "*.pem", ".env", "id_rsa", "c.example", ".md", "see a.md")]
    [True, True, True, True, False, False, False]
    """
    if len(text) > _LONGEST or "://" in text or _NO_WORD.search(text):
        return False
    name = text.rstrip("/").rpartition("/")[2]
    return _NAMED.fullmatch(name) is not None or _HIDDEN.fullmatch(name) is not None


def normal_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Declared paths in normal form, each once; raises PathRefused for one that leads out of the workspace.

    >>> normal_paths(("./src/", "data/**/*.csv", "."))
    ('src', 'data/**/*.csv', '')
    """
    return tuple(dict.fromkeys(map(workspace_path, paths)))


def _declared(argument: Argument) -> View:
    items = argument.items
    if not items and argument.text in ("", "[]"):  # an empty list
        return NOTHING
    texts = [item.text for item in items]
    if not texts or None in texts:
        return WHOLE
    try:
        return View(normal_paths(tuple(text for text in texts if text is not None)))
    except PathRefused:
        return WHOLE


def fixed_folder(path: str) -> str:
    """The folder below which everything is that a path or glob stands for.

    >>> fixed_folder("data/*/a.csv"), fixed_folder("src"), fixed_folder("*.md")
    ('data', 'src', '')
    """
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts) if is_pattern(part) or "{" in part), len(parts))
    return "/".join(parts[:at])


def _of_name(call: CallView, name: str) -> Argument | None:
    return next((a for a in call.arguments if a.name.casefold() == name), None)
