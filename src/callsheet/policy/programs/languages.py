"""Decides whether a program may execute a file, dispatching on the program's language.

In: the text of a program, its language, a file. Out: whether the file's content may be executed; reading,
counting or passing it on as data does not count. Only literal names are seen: a program that computes names
can run anything, which the sandbox has to contain.
"""

from __future__ import annotations

import re
from enum import Enum

from callsheet.policy.programs.commands import SHELLS
from callsheet.policy.programs.discovered_files import finders_of
from callsheet.policy.programs.file_matching import MOST_DEPTH, Named
from callsheet.policy.programs.python import python_runs
from callsheet.policy.programs.shell import shell_runs

_PYTHON = frozenset({"python", "py", "python3"})
_SCRIPT = frozenset({"javascript", "js", "node", "nodejs", "typescript", "ts", "deno", "bun"})
_SHELL = SHELLS | {"shell", "cmd", "powershell"}
_MODULE_ENDS = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".node", ".wasm", ""})
_SCRIPT_EVALUATES = re.compile(
    r"(?<![\w.])(?:eval|exec\w*|spawn\w*|fork)\b"
    r"|\b(?:Function|vm|child_process|importScripts|Worker|dlopen|createRequire|execSync|spawnSync|Deno|Bun)\b"
)
_OBEYS = (
    r"\b(?:eval|exec\w*|system|popen|spawn\w*|instance_eval|class_eval|loadstring|qx|shell_exec|passthru)\b|`"
)
_EVALUATES = re.compile(
    _OBEYS + r"|\b(?:load|loadfile|dofile|source|require|require_relative|include\w*|do)\b"
)
_OBEYS_INPUT = re.compile(_OBEYS)


class Kind(Enum):
    """How a program is analysed."""

    SHELL = "shell"
    PYTHON = "python"
    SCRIPT = "script"
    OTHER = "other"


def kind_of(language: str | None) -> Kind:
    """How a program in this language is analysed; None is a command line.

    >>> kind_of(None), kind_of(" Bash"), kind_of("ruby")
    (<Kind.SHELL: 'shell'>, <Kind.SHELL: 'shell'>, <Kind.OTHER: 'other'>)
    """
    word = None if language is None else language.strip().casefold()
    if word is None or word in _SHELL:
        return Kind.SHELL
    if word in _PYTHON:
        return Kind.PYTHON
    return Kind.SCRIPT if word in _SCRIPT else Kind.OTHER


def runs_file(program: str, language: str | None, file: Named, depth: int = 0) -> bool:
    """Whether a program may execute the content of a file.

    `language` is the program's language, None for a command line; `depth` is how deeply it is nested in other
    programs.

    >>> tool = Named.of("lib/tool.py")
    >>> runs_file("python3 lib/tool.py -v", None, tool), runs_file("wc -l tool.py", None, tool)
    (True, False)
    >>> runs_file("import tool", "python", tool), runs_file("open('tool.py')", "python", tool)
    (True, False)
    """
    if not file.name:
        return False
    if depth > MOST_DEPTH:
        return file.is_input or file.is_in(program) or _names_finder(program, file)
    kind = kind_of(language)
    if kind is Kind.SHELL:
        return shell_runs(program, file, runs_file, depth)
    if kind is Kind.PYTHON:
        return python_runs(program, file, runs_file, depth)
    if kind is Kind.SCRIPT and _loads(program, file):
        return True
    if file.is_input:
        evaluates = _SCRIPT_EVALUATES if kind is Kind.SCRIPT else _OBEYS_INPUT
        return evaluates.search(program) is not None
    evaluates = _SCRIPT_EVALUATES if kind is Kind.SCRIPT else _EVALUATES
    return (file.is_in(program) or _names_finder(program, file)) and evaluates.search(program) is not None


def _names_finder(program: str, file: Named) -> bool:
    """Whether a program names a tool that finds the file by itself."""
    finders = finders_of(file)
    return bool(finders) and not finders.isdisjoint(re.findall(r"[\w.-]+", program.casefold()))


def _loads(program: str, file: Named) -> bool:
    """Whether a JavaScript program loads the file as a module."""
    names = "|".join(re.escape(name) for name in sorted(file.modules))
    loads = rf"(?:\brequire|\bimport|\bfrom)\s*\(?\s*['\"`][^'\"`]*(?<![\w-])(?:{names})(?:\.\w+)?/?['\"`]"
    is_here = file.stands_for_its_folder and re.search(
        r"(?:\brequire|\bfrom|\bimport)\s*\(?\s*['\"`]\.{1,2}/?['\"`]", program
    )
    return file.end in _MODULE_ENDS and (
        re.search(loads, program, re.IGNORECASE) is not None or bool(is_here)
    )
