"""Decides whether a Python program imports, evaluates, unpickles or starts a file."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from callsheet.policy.programs.discovered_files import finders_of, finds
from callsheet.policy.programs.file_matching import Named, Runs

_EVALUATING = frozenset(
    {"exec", "eval", "compile", "execfile", "run_path", "run_module", "import_module", "__import__",
     "spec_from_file_location", "load_source", "SourceFileLoader", "runfile", "addsitedir", "CDLL",
     "LoadLibrary", "Template", "from_string", "read_pickle", "load_model", "unsafe_load", "full_load",
     "zipimporter", "testfile", "timeit", "interact", "runsource", "executescript", "sympify", "parse_expr",
     "runctx", "run_cell", "fileConfig", "dictConfig", "resolve_name"}
)  # fmt: skip
STARTS = frozenset({"system", "popen", "Popen", "run", "call", "check_call", "check_output", "getoutput"})
"""Functions that start the command line given by their literal arguments."""
STARTING = STARTS | frozenset(
    {"getstatusoutput", "spawn", "spawnl", "spawnv", "execl", "execlp", "execv", "execve", "execvp",
     "startfile", "create_subprocess_exec", "create_subprocess_shell", "posix_spawn", "posix_spawnp",
     "spawnvp", "execvpe", "execle", "execlpe", "spawnle", "spawnlp", "spawnve"}
)  # fmt: skip
_DEBUGGERS = frozenset({"cProfile", "profile", "pdb", "bdb", "trace", "Trace"})
"""Modules and classes whose `run` evaluates a string."""
_COMMON = frozenset({"run", "call", "spawn"})
_RUN_OTHERS = frozenset({"asyncio", "anyio", "trio", "self", "cls", "app", "loop"})
_PROCESSES = re.compile(r"\b(?:subprocess|pty|pexpect|invoke|fabric|os)\b")
_TESTING = frozenset({"main", "discover", "console_main", "cmdline_main", "loadTestsFromName", "run_tests"})
"""Entry points of test libraries."""
_TEST_LIBRARIES = frozenset({"pytest", "unittest", "nose2", "behave", "trial", "green"})
_UNPACKING = re.compile(
    r"\b(?:pickle|cPickle|dill|cloudpickle|joblib|shelve|marshal|torch|jsonpickle|allow_pickle|UnsafeLoader"
    r"|extractall|unpack_archive)\b"
    r"|Loader\s*=\s*(?:yaml\.)?Loader\b"
)
"""Libraries that execute code in the data they load, or extract files of arbitrary names."""
_COMMANDING = frozenset({"sh", "plumbum", "pexpect", "fabric", "zipimport", "doctest", "code", "codeop"})
"""Libraries that start programs or evaluate strings under names of their own."""
_OWNERS = frozenset({"os", "subprocess", "builtins", "importlib", "runpy", "pty", "asyncio"})
_BUILT_IN = frozenset({"exec", "eval", "compile", "__import__", "system", "popen", "Popen", "check_output"})
_MODULE_ENDS = frozenset({".py", ".pyw", ".pyc", ".so", ".pth", ""})
_EXPRESSIONS = frozenset({"re", "regex", "re2"})
_NOT_WRITTEN = "unknown"


def python_runs(program: str, file: Named, runs: Runs, depth: int = 0) -> bool:
    """Whether the program may run the file; `runs` is asked about nested programs.

    A program with a syntax error is judged by whether it contains a word that could.
    """
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return any(re.search(rf"\b{word}\b", program) for word in sorted(_EVALUATING | STARTING | {"import"}))
    finders = finders_of(file) & frozenset(re.findall(r"[\w.-]+", program.casefold()))
    has_processes = _PROCESSES.search(program) is not None
    reader = _Reader(file, runs, finders, _is_mentioned(program, file), has_processes, depth + 1)
    if reader.is_mentioned and _UNPACKING.search(program):
        return True
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return any(_node_runs(node, reader, is_called=id(node) in called) for node in ast.walk(tree))


class _Reader(NamedTuple):
    """The file that is looked for, and what is known about the program."""

    file: Named
    runs: Runs
    finders: frozenset[str]
    is_mentioned: bool
    has_processes: bool
    depth: int


def _is_mentioned(program: str, file: Named) -> bool:
    if file.is_input or file.is_in(program):
        return True
    names = "|".join(re.escape(name) for name in sorted(file.modules))
    return re.search(rf"['\"](?:[\w.]*\.)?(?:{names})(?:[.:][\w.:]*)?['\"]", program, re.I) is not None


def _node_runs(node: ast.AST, reader: _Reader, *, is_called: bool) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        file, names = reader.file, list(_imported(node))
        if file.end in _MODULE_ENDS and not file.is_input and not file.modules.isdisjoint(names):
            return True
        return reader.is_mentioned and (not _COMMANDING.isdisjoint(names) or _renames(node))
    if isinstance(node, ast.Call):
        return _call_runs(node, reader)
    if any(reader.runs(line, None, reader.file, reader.depth) for line in _set_by(node)):
        return True
    return reader.is_mentioned and not is_called and _is_handed_on(node)


def _set_by(node: ast.AST) -> Iterator[str]:
    """Environment variables that a node sets, as equivalent shell assignments."""
    pairs: list[tuple[ast.expr | None, ast.expr]] = []
    if isinstance(node, ast.keyword) and node.arg == "env" and isinstance(node.value, ast.Dict):
        pairs += zip(node.value.keys, node.value.values, strict=True)
    elif isinstance(node, ast.Assign):
        targets = [target for target in node.targets if isinstance(target, ast.Subscript)]
        pairs += ((target.slice, node.value) for target in targets if _is_environment(target.value))
    for key, value in pairs:
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
            yield f"{key.value}={shlex.quote(str(value.value))} true"


def _is_environment(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("environ", "env")


def _renames(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether a function that starts or evaluates is imported under another name."""
    return any(alias.name in STARTING | _EVALUATING and alias.asname is not None for alias in node.names)


def _is_handed_on(node: ast.AST) -> bool:
    """Whether a node passes on a function that starts or evaluates, as in `map(eval, lines)`."""
    if isinstance(node, ast.Attribute):
        owner = getattr(node.value, "id", "")
        return owner in _OWNERS and node.attr in STARTING | _EVALUATING
    return isinstance(node, ast.Name) and (node.id in _BUILT_IN or node.id == "__builtins__")


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """All names in an import that may be a module, in lower case."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        names.append(node.module)
    return (part.casefold() for name in names for part in name.split("."))


def _call_runs(node: ast.Call, reader: _Reader) -> bool:
    called = called_name(node)
    if called == "run" and reader.is_mentioned and _is_of_debuggers(node):
        return _evaluates_it(node, reader)
    if called in STARTING:
        return _is_of_processes(node, called, reader) and _starts(node, reader)
    if called in _EVALUATING:
        return reader.is_mentioned and not _is_of_expressions(node) and _evaluates_it(node, reader)
    if reader.is_mentioned and called == "getattr":
        return not (STARTING | _EVALUATING).isdisjoint(texts_in(node))
    if called in ("insert", "append") and getattr(getattr(node.func, "value", None), "attr", "") == "path":
        return any(reader.file.is_named(text) for text in texts_in(node))
    is_own = called == "main" and not node.args and not node.keywords and "pytest" not in reader.finders
    if called not in _TESTING or is_own:
        return False
    if any(_stands_for(text, reader.file) for text in texts_in(node)):
        return True
    libraries = sorted(reader.finders & _TEST_LIBRARIES)
    return any(finds([library, *texts_in(node)], reader.file) for library in libraries)


def _is_of_processes(node: ast.Call, called: str, reader: _Reader) -> bool:
    """Whether a function with a common name belongs to a process library."""
    owner = getattr(getattr(node.func, "value", None), "id", "")
    return called not in _COMMON or (reader.has_processes and owner not in _RUN_OTHERS)


def _evaluates_it(node: ast.Call, reader: _Reader) -> bool:
    """Whether what a call evaluates or loads may be the file; a literal is analysed."""
    first = node.args[0] if node.args else None
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return True
    file = reader.file
    is_named = not file.is_input and any(_stands_for(text, file) for text in texts_in(node))
    return is_named or reader.runs(first.value, "python", file, reader.depth)


def _stands_for(text: str, file: Named) -> bool:
    """Whether a text is the path or the module name of a file."""
    return file.is_named(text) or not file.modules.isdisjoint(re.split(r"[.:]", text.casefold()))


def _is_of_debuggers(node: ast.Call) -> bool:
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    name = called_name(owner) if isinstance(owner, ast.Call) else getattr(owner, "id", "")
    return name in _DEBUGGERS


def _is_of_expressions(node: ast.Call) -> bool:
    """Whether this is `re.compile` or the like, which evaluates nothing."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in _EXPRESSIONS


def called_name(node: ast.Call) -> str:
    """The last component of the called name; empty if there is none."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def texts_in(node: ast.Call) -> list[str]:
    """The string literals in the arguments of a call."""
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    inner = (part for argument in given for part in ast.walk(argument))
    return [part.value for part in inner if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _starts(node: ast.Call, reader: _Reader) -> bool:
    """Whether a call starts a program that runs the file; a computed command may do so."""
    file, runs = reader.file, reader.runs
    given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "args"), None)
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        words = texts_in(node)
        return any(runs(line, None, file, reader.depth) for line in (given.value, shlex.join(words)))
    is_known = reader.is_mentioned or bool(reader.finders)
    if isinstance(given, ast.List | ast.Tuple):
        line = shlex.join(_word(item, file, is_known=is_known) for item in given.elts)
        return runs(line, None, file, reader.depth)
    return is_known and isinstance(given, ast.JoinedStr | ast.BinOp | ast.Name | ast.Call | ast.Subscript)


def _word(item: ast.expr, file: Named, *, is_known: bool) -> str:
    """A word of a command line; a computed one may be the file if the program mentions the file."""
    if isinstance(item, ast.Constant):
        return str(item.value)
    if isinstance(item, ast.Attribute) and item.attr == "executable":
        return "python3"
    return file.path if is_known else _NOT_WRITTEN
