"""Whether a shell script runs a file: as a command, by an interpreter, from a pipe or a substitution."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from callsheet.policy.running.collecting import collects
from callsheet.policy.running.named import Named, Runs

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "csh", "tcsh", "busybox", "pwsh"})
"""Shells by their names."""
_INTERPRETER = re.compile(
    r"(?:python|pypy|ruby|perl|php|lua|node|tclsh|wish|guile)[\d.]*"
    r"|nodejs|deno|bun|tsx|ts-node|rscript|julia|ipython3?|uv|pipx|java|dotnet|mono|wine|elixir|escript|osascript"
)
_OBEYING = frozenset(
    {"make", "gmake", "ninja", "ansible-playbook", "kubectl", "docker", "docker-compose", "podman",
     "terraform", "crontab", "at", "batch", "psql", "mysql", "sqlite3", "gdb", "ed", "ex", "vim", "vi",
     "emacs", "expect", "nomad", "systemctl", "npm", "npx", "yarn", "pnpm", "pip", "pip3", "cargo",
     "gcc", "cc", "g++", "go", "rustc"}
)  # fmt: skip
"""Programs that do what a file says which they are given, or build and install it."""
_ASKING = frozenset({"awk", "gawk", "mawk", "sed", "jq", "bc"})
"""Programs that do what a file says after `-f`, and read others as data."""
_BEFORE = frozenset(
    {"sudo", "doas", "env", "nohup", "nice", "ionice", "time", "timeout", "exec", "command", "builtin",
     "setsid", "stdbuf", "xargs", "unshare", "chroot", "watch", "then", "do", "else", "if", "while",
     "until", "!", "{"}
)  # fmt: skip
"""Words before the one that is run."""
_ASSIGNED_OR_OPTION = re.compile(r"[A-Za-z_]\w*=.*|-\S*|\d+[smhd]?", re.DOTALL)
_JOINTS = frozenset({";", "|", "|&", "&&", "||", "&", "(", ")", ";;"})
_GIVES_CODE = frozenset({"-c", "-e", "--eval", "-exec", "-command", "-p", "--print"})
_NAMES_CODE = frozenset({"-f", "--file", "-r", "--require", "--import", "--rcfile", "--init-file", "-m"})
_DOES_NOT_RUN = frozenset({"-n", "--syntax-only", "--version", "--help", "-V"})
_STANDARD_INPUT = frozenset({"-", "-s", "/dev/stdin"})
_MAKES_EXECUTABLE = re.compile(r"[ugoa]*[+=][rwst]*x\S*|[0-7]*[1357][0-7]*")
_SUBCOMMANDS = frozenset({"run", "exec", "x", "sh"})
_HAVE_SUBCOMMANDS = frozenset({"uv", "deno", "bun", "pipx", "dotnet", "busybox"})


def shell_runs(program: str, file: Named, runs: Runs) -> bool:
    """Whether it does; `runs` is asked of code in another language that it gives an interpreter."""
    is_fed, is_put_in = False, False
    for words, joint in _commands(program):
        mentioned = any(file.is_in(word) for word in words)
        if (is_put_in and mentioned) or _command_runs(words, file, runs, is_fed=is_fed):
            return True
        is_fed = joint in ("|", "|&") and (mentioned or is_fed)
        is_put_in = joint == "(" and _runs_what_is_put_in(words)
    return False


def _commands(program: str) -> Iterator[tuple[list[str], str]]:
    """The simple commands of a script, with what joins each to the next one."""
    lexer = shlex.shlex(program.replace("\n", " ; "), posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in lexer:
            if token in _JOINTS or token == "<(":
                yield ([*words, "$"], "(") if token == "<(" else (words, token)
                words = []
            else:
                words.append(token)
    except ValueError:  # a quote that is not closed: what follows it may be anything
        yield ["eval", program], ""
    yield words, ""


def _without_prefix(words: Sequence[str]) -> Sequence[str]:
    """A command from the word on that is run: behind assignments, wrappers and their options."""
    at = 0
    while at < len(words) and (words[at] in _BEFORE or _ASSIGNED_OR_OPTION.fullmatch(words[at])):
        at += 1
    return words[at:]


def _verb(word: str) -> str:
    return PurePosixPath(word).name.casefold() or word


def _is_interpreter(verb: str) -> bool:
    return verb in SHELLS or _INTERPRETER.fullmatch(verb) is not None


def _runs_what_is_put_in(words: Sequence[str]) -> bool:
    """Whether a command that goes on with `$(…)` or `<(…)` runs what that gives."""
    rest = _without_prefix(words)
    if not rest or not rest[-1].endswith("$"):
        return False
    verb, operands = _verb(rest[0]), [word for word in rest[1:-1] if not word.startswith("-")]
    gives_code = not operands or not _GIVES_CODE.isdisjoint(rest)
    return len(rest) == 1 or verb in ("eval", ".", "source") or (_is_interpreter(verb) and gives_code)


def _command_runs(words: Sequence[str], file: Named, runs: Runs, *, is_fed: bool) -> bool:
    rest = _without_prefix(words)
    if not rest:
        return False
    verb, operands = _verb(rest[0]), rest[1:]
    if file.is_named(rest[0]) or collects(rest, file):
        return True
    if _is_interpreter(verb):
        return _interpreter_runs(verb, operands, file, runs, is_fed=is_fed)
    if verb in (".", "source"):
        return any(file.is_named(word) for word in operands[:1])
    if verb in _ASKING:
        return any(_after(operands, file))
    if not (is_fed or any(file.is_in(word) for word in rest)):
        return False
    if verb in _OBEYING or verb in ("eval", "trap") or "$(" in rest[0] or "`" in rest[0]:
        return True
    if verb == "chmod":
        return any(_MAKES_EXECUTABLE.fullmatch(word) for word in operands)
    return verb in ("find", "parallel") and any(_is_interpreter(word.casefold()) for word in operands)


def _after(operands: Sequence[str], file: Named) -> Iterator[bool]:
    """For each option that names code whether it is given the file, by its path or as a module."""
    for option, given in pairwise(operands):
        if option in _NAMES_CODE:
            yield file.is_named(given) or given.rpartition(".")[2].casefold() == file.stem
    for word in operands:
        option, equals, given = word.partition("=")
        if equals and option in _NAMES_CODE:
            yield file.is_named(given)


def _interpreter_runs(verb: str, operands: Sequence[str], file: Named, runs: Runs, *, is_fed: bool) -> bool:
    """Whether an interpreter is given the file: as its script, as code or a module, on its standard input."""
    if any(_after(operands, file)):
        return True
    if any(option == "<" and file.is_named(given) for option, given in pairwise(operands)):
        is_fed = True
    at = 0
    while at < len(operands):
        word = operands[at]
        if word in _DOES_NOT_RUN or word == "-m":
            return False
        if word in _GIVES_CODE or (verb in SHELLS and re.fullmatch(r"-[a-z]*c", word)):
            return _code_runs(verb, "".join(operands[at + 1 : at + 2]), file, runs)
        if word in _STANDARD_INPUT:
            break
        if not word.startswith(("-", "<", ">")):
            return _is_script(verb, operands[at:], file)
        at += 2 if word in ("<", ">", ">>") else 1
    return is_fed


def _code_runs(verb: str, code: str, file: Named, runs: Runs) -> bool:
    """Whether code on the command line of an interpreter runs the file, which may be put into it."""
    if ("$(" in code or "`" in code) and file.is_in(code):
        return True
    language = "python" if verb.startswith(("python", "pypy", "ipython")) else verb
    return runs(code, language, file)


def _is_script(verb: str, operands: Sequence[str], file: Named) -> bool:
    """Whether the script among operands is the file; some verbs have a word of their own before it."""
    first = operands[0]
    if verb in _HAVE_SUBCOMMANDS and first in _SUBCOMMANDS:
        return any(file.is_named(word) for word in operands[1:2])
    is_substituted = "$(" in first or first.startswith(("`", "$"))
    return file.is_named(first) or (is_substituted and file.is_in(first))
