"""Whether a program runs a file, by its language.

In: the text of a program, its language, the path of a file. Out: whether what stands in it may be executed.
What is only read, counted or handed on as data is not. By the text alone: a program that makes up names as it
goes can run anything, which a sandbox has to bear.
"""

from __future__ import annotations

import re

from callsheet.policy.running.collecting import collectors_of
from callsheet.policy.running.named import Named
from callsheet.policy.running.python import python_runs
from callsheet.policy.running.shell import SHELLS, shell_runs

_PYTHON = frozenset({"python", "py", "python3"})
_SCRIPT = frozenset({"javascript", "js", "node", "nodejs", "typescript", "ts", "deno", "bun"})
_SHELL = SHELLS | {"shell", "cmd", "powershell"}
_MODULE_ENDS = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".node", ".wasm", ""})
_SCRIPT_EVALUATES = re.compile(
    r"\b(?:eval|Function|vm|child_process|exec\w*|spawn\w*|importScripts|Worker)\b"
)
_EVALUATES = re.compile(
    r"\b(?:eval|exec\w*|system|popen|spawn\w*|instance_eval|class_eval|load|loadfile|dofile|source|require"
    r"|require_relative|include\w*|do)\b|`"
)


def runs_file(program: str, language: str | None, path: str) -> bool:
    """Whether a program may execute what stands in the file of that path.

    `language` is that of the code, None for a command line.

    >>> runs_file("python3 tools/tool.py -v", None, "tool.py"), runs_file("wc -l tool.py", None, "tool.py")
    (True, False)
    >>> runs_file("import tool", "python", "lib/tool.py"), runs_file("open('t.csv')", "python", "t.csv")
    (True, False)
    """
    return _runs(program, language, Named.of(path))


def _runs(program: str, language: str | None, file: Named) -> bool:
    plain = program.casefold()
    if not file.name or not any(word in plain for word in (file.stem, *collectors_of(file.name))):
        return False
    word = None if language is None else language.strip().casefold()
    if word is None or word in _SHELL:
        return shell_runs(program, file, _runs)
    if word in _PYTHON:
        return python_runs(program, file, _runs)
    if word in _SCRIPT:
        return _script_runs(program, file)
    return file.is_in(program) and _EVALUATES.search(program) is not None


def _script_runs(program: str, file: Named) -> bool:
    """Whether a JavaScript program loads the file as a module, evaluates it, or starts it."""
    stem = re.escape(file.stem)
    loads = rf"(?:\brequire|\bimport|\bfrom)\s*\(?\s*['\"`][^'\"`]*(?<![\w-]){stem}(?:\.\w+)?['\"`]"
    if file.end in _MODULE_ENDS and re.search(loads, program, re.IGNORECASE):
        return True
    return file.is_in(program) and _SCRIPT_EVALUATES.search(program) is not None
