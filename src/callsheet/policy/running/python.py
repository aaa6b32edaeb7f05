"""Whether a Python program imports a file, evaluates it, unpacks objects from it, or starts it."""

from __future__ import annotations

import ast
import re
import shlex

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
_UNPACKING = re.compile(r"\b(?:pickle|cPickle|dill|cloudpickle|joblib|shelve|marshal|torch|jsonpickle)\b")
"""Libraries that run what stands in the data that they load."""
_MODULE_ENDS = frozenset({".py", ".pyw", ".pyc", ".so", ".pth", ""})
_EXPRESSIONS = frozenset({"re", "regex", "re2"})
_NOT_WRITTEN = "$unknown"


def python_runs(program: str, file: Named, runs: Runs) -> bool:
    """Whether it does; a program with a mistake in it, if it has a word for that. `runs` is for shells."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return any(
            re.search(rf"\b{word}\b", program) for word in sorted(_EVALUATING | _STARTING | {"import"})
        )
    is_mentioned = (
        file.is_in(program) or re.search(rf"['\"]{re.escape(file.stem)}['\"]", program, re.I) is not None
    )
    if is_mentioned and _UNPACKING.search(program):
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if file.end in _MODULE_ENDS and file.stem in _imported(node):
                return True
        elif is_mentioned and isinstance(node, ast.Call) and _call_runs(node, file, runs):
            return True
    return False


def _imported(node: ast.Import | ast.ImportFrom) -> frozenset[str]:
    """The names of all that may be a module, in lower case."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        names.append(node.module)
    return frozenset(part.casefold() for name in names for part in name.split("."))


def _call_runs(node: ast.Call, file: Named, runs: Runs) -> bool:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in _EVALUATING:
        return not _is_of_expressions(node)
    return called in _STARTING and _starts(node, file, runs)


def _is_of_expressions(node: ast.Call) -> bool:
    """`re.compile`, which evaluates nothing."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in _EXPRESSIONS


def _starts(node: ast.Call, file: Named, runs: Runs) -> bool:
    """Whether a call starts a program that runs the file; where it is not written what it starts, it may."""
    given = node.args[0] if node.args else None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        words = [
            arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        return runs(given.value, None, file) or runs(shlex.join(words), None, file)
    if isinstance(given, ast.List | ast.Tuple):
        parts = [str(item.value) if isinstance(item, ast.Constant) else _NOT_WRITTEN for item in given.elts]
        return runs(shlex.join(parts), None, file)
    return isinstance(given, ast.JoinedStr | ast.BinOp | ast.Name)
