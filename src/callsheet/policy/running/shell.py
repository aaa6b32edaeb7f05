"""Whether a shell script runs a file: as a command, by an interpreter, from a pipe or a substitution."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from callsheet.policy.running.commands import (
    MOST_PLACES,
    does_not_run,
    gives_code,
    is_interpreter,
    places,
    simple_commands,
    verb_of,
)
from callsheet.policy.running.finding import finds
from callsheet.policy.running.named import Named, Runs

_OBEYING = frozenset(
    {"make", "gmake", "ninja", "ansible-playbook", "kubectl", "docker", "docker-compose", "podman",
     "terraform", "crontab", "at", "batch", "psql", "mysql", "sqlite3", "gdb", "ed", "ex", "vim", "vi",
     "emacs", "expect", "nomad", "systemctl", "npm", "npx", "yarn", "pnpm", "pip", "pip3", "cargo",
     "gcc", "cc", "g++", "go", "rustc", "clang", "javac", "kotlinc", "tsc", "nvim", "lldb", "nginx",
     "vagrant"}
)  # fmt: skip
"""Programs that do what a file says which they are given, or build and install it."""
_ASKING = frozenset({"awk", "gawk", "mawk", "sed", "jq", "bc"})
"""Programs that do what a file says after `-f`, and read others as data."""
_SERVING = frozenset(
    {"uvicorn", "gunicorn", "hypercorn", "daphne", "celery", "flask", "locust", "dramatiq", "rq",
     "waitress-serve", "fastapi", "streamlit", "alembic", "scrapy"}
)  # fmt: skip
"""Programs that import the modules which they are given."""
_OBEYS_A_WORD = frozenset(
    {"su", "watch", "script", "parallel", "flock", "ssh", "tmux", "screen", "hyperfine", "env", "trap"}
)
"""Programs that take a command line as one word."""
_NAMES_CODE = frozenset({"-f", "--file", "-r", "--require", "--import", "--rcfile", "--init-file", "-m"})
_STANDARD_INPUT = frozenset({"-", "-s", "/dev/stdin"})
_MAKES_EXECUTABLE = re.compile(r"[ugoa]*[+=][rwst]*x\S*|[0-7]*[1357][0-7]*")


def shell_runs(program: str, file: Named, runs: Runs) -> bool:
    """Whether it does; `runs` is asked of code in another language that it gives an interpreter."""
    is_fed, is_put_in = False, False
    is_anywhere = file.is_in(program)
    for words, joint in simple_commands(program):
        mentioned = any(file.is_in(word) for word in words)
        if (is_put_in and mentioned) or _command_runs(
            words, file, runs, is_fed=is_fed, is_anywhere=is_anywhere
        ):
            return True
        is_fed = joint in ("|", "|&") and (mentioned or is_fed)
        is_put_in = joint == "(" and _runs_what_is_put_in(words)
    return False


def _runs_what_is_put_in(words: Sequence[str]) -> bool:
    """Whether a command that goes on with `$(…)` or `<(…)` runs what that gives."""
    starts = places(words)
    if not starts or not words[-1].endswith("$"):
        return False
    if len(starts) > MOST_PLACES:
        return True
    return any(_obeys_what_is_put_in(words[at:]) for at in starts)


def _obeys_what_is_put_in(command: Sequence[str]) -> bool:
    verb, operands = verb_of(command[0]), [word for word in command[1:-1] if not word.startswith("-")]
    is_code = not operands or any(gives_code(verb, word) for word in command)
    return len(command) == 1 or verb in ("eval", ".", "source") or (is_interpreter(verb) and is_code)


def _command_runs(words: Sequence[str], file: Named, runs: Runs, *, is_fed: bool, is_anywhere: bool) -> bool:
    starts = places(words)
    if len(starts) > MOST_PLACES:
        return is_anywhere or is_fed
    commands = [words[at:] for at in starts]
    if any(verb_of(word) in _OBEYS_A_WORD for word in words) and any(
        " " in word and runs(word, None, file) for word in words
    ):
        return True
    return any(_runs_it(command, file, runs, is_fed=is_fed, is_anywhere=is_anywhere) for command in commands)


def _runs_it(command: Sequence[str], file: Named, runs: Runs, *, is_fed: bool, is_anywhere: bool) -> bool:
    """Whether a command does, from the word on that is run."""
    verb, operands = verb_of(command[0]), command[1:]
    if file.is_named(command[0]) or finds(command, file):
        return True
    if is_anywhere and command[0].startswith("$") and "(" not in command[0]:
        return True
    if is_interpreter(verb):
        return _interpreter_runs(verb, operands, file, runs, is_fed=is_fed, is_anywhere=is_anywhere)
    if verb in (".", "source"):
        return any(_is_script(word, file, is_anywhere=is_anywhere) for word in operands[:1])
    if verb in _ASKING:
        return any(_after(operands, file))
    if verb in _SERVING and any(not file.modules.isdisjoint(_parts(word)) for word in operands):
        return True
    if not (is_fed or any(file.is_in(word) for word in command)):
        return False
    if (
        verb in _OBEYING
        or verb in _SERVING
        or verb in ("eval", "trap")
        or "$(" in command[0]
        or "`" in command[0]
    ):
        return True
    if verb == "chmod":
        return any(_MAKES_EXECUTABLE.fullmatch(word) for word in operands)
    return verb in ("find", "parallel") and any(is_interpreter(word.casefold()) for word in operands)


def _parts(word: str) -> list[str]:
    """The names in a word such as `app.main:app`."""
    return re.findall(r"[\w-]+", word.casefold())


def _after(operands: Sequence[str], file: Named) -> Iterator[bool]:
    """For each option that names code whether it is given the file, by its path or as a module."""
    for option, given in pairwise(operands):
        if option in _NAMES_CODE:
            yield file.is_named(given) or not file.modules.isdisjoint(given.casefold().split("."))
    for word in operands:
        option, equals, given = word.partition("=")
        if equals and option in _NAMES_CODE:
            yield file.is_named(given)


def _interpreter_runs(
    verb: str, operands: Sequence[str], file: Named, runs: Runs, *, is_fed: bool, is_anywhere: bool
) -> bool:
    """Whether an interpreter is given the file: as its script, as code or a module, on its standard input."""
    if any(_after(operands, file)):
        return True
    if any(option == "<" and file.is_named(given) for option, given in pairwise(operands)):
        is_fed = True
    at = 0
    while at < len(operands):
        word = operands[at]
        if does_not_run(verb, word) or word == "-m":
            return False
        if gives_code(verb, word):
            return _code_runs(verb, "".join(operands[at + 1 : at + 2]), file, runs)
        if word in _STANDARD_INPUT:
            break
        if not word.startswith(("-", "<", ">")):
            return _is_script(word, file, is_anywhere=is_anywhere)
        at += 2 if word in ("<", ">", ">>", "<<<") else 1
    return is_fed


def _code_runs(verb: str, code: str, file: Named, runs: Runs) -> bool:
    """Whether code on the command line of an interpreter runs the file, which may be put into it."""
    if ("$(" in code or "`" in code) and file.is_in(code):
        return True
    language = "python" if verb.startswith(("python", "pypy", "ipython")) else verb
    return runs(code, language, file)


def _is_script(word: str, file: Named, *, is_anywhere: bool) -> bool:
    """Whether what an interpreter is given is the file, or is made up of what the script has elsewhere."""
    if "$(" in word or word.startswith("`"):
        return file.is_in(word)
    return is_anywhere if word.startswith("$") else file.is_started_by(word)
