"""Whether a Python program imports a file, evaluates it, unpacks objects from it, or starts it."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

from callsheet.policy.running.finding import finders_of, finds
from callsheet.policy.running.named import Named, Runs

_EVALUATING = frozenset(
    {"exec", "eval", "compile", "execfile", "run_path", "run_module", "import_module", "__import__",
     "spec_from_file_location", "load_source", "SourceFileLoader", "runfile", "addsitedir", "CDLL",
     "LoadLibrary"}
)  # fmt: skip
_STARTING = frozenset(
    {"system", "popen", "Popen", "run", "call", "check_call", "check_output", "getoutput",
     "getstatusoutput", "spawn", "spawnl", "spawnv", "execl", "execlp", "execv", "execve", "execvp",
     "startfile", "create_subprocess_exec", "create_subprocess_shell"}
)  # fmt: skip
_TESTING = frozenset({"main", "discover", "console_main", "cmdline_main", "loadTestsFromName", "run_tests"})
"""What the libraries that run tests are called by."""
_TEST_LIBRARIES = frozenset({"pytest", "unittest", "nose2", "behave", "trial", "green"})
_UNPACKING = re.compile(r"\b(?:pickle|cPickle|dill|cloudpickle|joblib|shelve|marshal|torch|jsonpickle)\b")
"""Libraries that run what stands in the data that they load."""
_MODULE_ENDS = frozenset({".py", ".pyw", ".pyc", ".so", ".pth", ""})
_EXPRESSIONS = frozenset({"re", "regex", "re2"})
_NOT_WRITTEN = "unknown"


def python_runs(program: str, file: Named, runs: Runs) -> bool:
    """Whether it does; a program with a mistake in it, if it has a word for that. `runs` is for shells."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return any(
            re.search(rf"\b{word}\b", program) for word in sorted(_EVALUATING | _STARTING | {"import"})
        )
    is_mentioned = file.is_in(program) or any(
        re.search(rf"['\"]{re.escape(name)}['\"]", program, re.I) is not None for name in file.modules
    )
    if is_mentioned and _UNPACKING.search(program):
        return True
    finders = finders_of(file) & frozenset(re.findall(r"[\w.-]+", program.casefold()))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if file.end in _MODULE_ENDS and not file.modules.isdisjoint(_imported(node)):
                return True
        elif isinstance(node, ast.Call) and _call_runs(node, file, runs, finders, is_mentioned=is_mentioned):
            return True
    return False


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The names of all that may be a module, in lower case."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        names.append(node.module)
    return (part.casefold() for name in names for part in name.split("."))


def _call_runs(
    node: ast.Call, file: Named, runs: Runs, finders: frozenset[str], *, is_mentioned: bool
) -> bool:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in _STARTING:
        return _starts(node, file, runs, is_mentioned=is_mentioned or bool(finders))
    if called in _EVALUATING:
        return is_mentioned and not _is_of_expressions(node)
    if called not in _TESTING or (
        called == "main" and not node.args and not node.keywords and "pytest" not in finders
    ):
        return False
    return any(finds([library, *texts_in(node)], file) for library in sorted(finders & _TEST_LIBRARIES))


def _is_of_expressions(node: ast.Call) -> bool:
    """`re.compile`, which evaluates nothing."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in _EXPRESSIONS


def texts_in(node: ast.Call) -> list[str]:
    """The texts that stand in the arguments of a call."""
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    inner = (part for argument in given for part in ast.walk(argument))
    return [part.value for part in inner if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _starts(node: ast.Call, file: Named, runs: Runs, *, is_mentioned: bool) -> bool:
    """Whether a call starts a program that runs the file; where it is not written what it starts, it may."""
    given = (
        node.args[0]
        if node.args
        else next((word.value for word in node.keywords if word.arg == "args"), None)
    )
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        words = [
            arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        return runs(given.value, None, file) or runs(shlex.join(words), None, file)
    if isinstance(given, ast.List | ast.Tuple):
        return runs(
            shlex.join(_word(item, file, is_mentioned=is_mentioned) for item in given.elts), None, file
        )
    return is_mentioned and isinstance(given, ast.JoinedStr | ast.BinOp | ast.Name | ast.Call)


def _word(item: ast.expr, file: Named, *, is_mentioned: bool) -> str:
    """A word of a command line; one that is not written may be the file, if the program knows of it."""
    if isinstance(item, ast.Constant):
        return str(item.value)
    if isinstance(item, ast.Attribute) and item.attr == "executable":
        return "python3"
    return file.path if is_mentioned else _NOT_WRITTEN
