"""Finds where in a command's words the executed program may begin.

Assignments, wrappers (`sudo`), launchers (`uv run`) and interpreters precede it, with options that may take a
word. Where this is ambiguous, every possible position counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "csh", "tcsh", "busybox", "pwsh"})
"""Names of shells."""
MOST_PLACES = 16
"""A command with more possible positions is not analysed."""

_INTERPRETER = re.compile(
    r"(?:python|pypy|ruby|perl|php|lua|node|tclsh|wish|guile)[\d.]*"
    r"|nodejs|deno|bun|tsx|ts-node|rscript|julia|ipython3?|uv|pipx|java|dotnet|mono|wine|elixir|escript|osascript"
)
WRAPPERS = frozenset(
    {"sudo", "doas", "env", "nohup", "nice", "ionice", "time", "timeout", "exec", "command", "builtin",
     "setsid", "stdbuf", "xargs", "unshare", "chroot", "watch", "then", "do", "else", "if", "while", "until",
     "!", "{", "flock", "taskset", "strace", "ltrace", "xvfb-run", "caffeinate", "chrt", "parallel", "entr",
     "hyperfine", "tini", "dumb-init", "gosu", "su-exec", "coproc", "function", "unbuffer", "elif"}
)  # fmt: skip
"""Words before a command that are not a command themselves."""
LAUNCHERS = frozenset(
    {"npx", "pnpx", "bunx", "npm", "yarn", "pnpm", "uv", "uvx", "poetry", "pipenv", "pipx", "hatch", "pdm",
     "rye", "pixi", "conda", "mamba", "micromamba", "bundle", "coverage", "kernprof", "ddtrace-run", "dotenv",
     "direnv", "busybox", "corepack"}
)  # fmt: skip
"""Programs that start another one in an environment of its own."""
_LAUNCH = frozenset({"run", "exec", "x", "dlx", "sh", "tool"})
"""Subcommands of launchers that precede the launched program."""
ELSEWHERE = frozenset(
    {"docker", "podman", "nerdctl", "docker-compose", "kubectl", "ssh", "vagrant", "nix", "nix-shell"}
)
"""Programs that start another one after so many kinds of arguments that its position is ambiguous."""
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_TAKES_A_WORD = frozenset({"function", "chroot", "flock", "taskset", "gosu", "su-exec", "chrt"})
_TAKING: Mapping[str, frozenset[str]] = {
    verb: frozenset(options.split())
    for verbs, options in (
        ("sudo doas", "-u -g -h -p -C -r -t -U -D -T --user --group --host --prompt --chdir"),
        ("env", "-u -C --unset --chdir"),
        ("nice ionice", "-n -c -p"),
        ("time", "-o -f"),
        ("timeout", "-s -k --signal --kill-after"),
        ("stdbuf", "-i -o -e"),
        ("xargs parallel", "-n -P -I -L -d -E -s -a -j -N --max-args --max-procs --replace --arg-file"),
        ("watch hyperfine", "-n -d -w -r --interval"),
        ("exec", "-a"),
        ("uv uvx", "-p -w -C -f -i --with --python --from --with-requirements --with-editable --extra --group"
         " --index --env-file --directory --project --package --index-url --extra-index-url --cache-dir"),
        ("npx npm pnpm pnpx yarn bunx", "-p --package -w --workspace --prefix -C --dir --filter --cwd"),
        ("poetry pdm hatch pipx pixi rye",
         "-C -P -p -e --directory --project --env --spec --pip-args --environment"),
        ("conda mamba micromamba", "-n -p --name --prefix --cwd"),
        ("coverage", "--source --omit --include --rcfile --data-file --concurrency --context"),
        ("python ipython pypy", "-W -X --check-hash-based-pycs"),
        ("node nodejs tsx",
         "-C -r --require --import --loader --experimental-loader --conditions --env-file"),
        ("sh bash zsh dash ksh ash", "-o +o -O +O --rcfile --init-file"),
        ("ruby perl php lua", "-I -r -d -x"),
        ("java", "-cp -classpath --class-path --module-path"),
        ("deno bun", "-c --config --import-map --env-file --cwd -r --preload"),
        ("dotnet", "--project --framework -f --configuration"),
    )
    for verb in verbs.split()
}  # fmt: skip
"""For each program its options that take the following word."""
_GIVES_CODE = frozenset({"-c", "-e", "--eval", "-exec", "-command", "-p", "--print"})
_GIVES_LINES = (
    (re.compile(r"(?:perl|ruby)[\d.]*"), re.compile(r"-[lnpaswi0-9]*[eE]")),
    (re.compile(r"(?:python|pypy)[\d.]*"), re.compile(r"-[bBdEiIOqsSuvx]*c")),
    (re.compile(r"php[\d.]*"), re.compile(r"-[rBE]")),
)
_DOES_NOT_RUN = frozenset({"--syntax-only", "--version", "--help", "-V"})
_ASSIGNED_OR_OPTION = re.compile(r"[A-Za-z_]\w*=.*|-\S*|\d+[smhd]?", re.DOTALL)


class Place(NamedTuple):
    """A position where the executed program may begin, and the wrapper, launcher or interpreter that starts
    it.
    """

    at: int
    starter: str


def places(words: Sequence[str]) -> list[Place]:
    """The positions where executed programs may begin; a launcher and the program it starts both count.

    The last one is what is finally run, unless it is an interpreter's script.

    >>> [at for at, _ in places(["sudo", "-u", "bob", "uv", "run", "--with", "rich", "pytest"])]
    [2, 3, 6, 7]
    >>> places(["python3", "-u", "count.py", "page.txt"])
    [Place(at=0, starter=''), Place(at=2, starter='python3')]
    """
    if words and verb_of(words[0]) == "find":
        runs = (at + 1 for at, word in enumerate(words[:-1]) if word in _FIND_RUNS)
        return [Place(0, ""), *(Place(at, "find") for at in runs)]
    places_read: list[Place] = []
    starter = ""
    for at, word in enumerate(words):
        verb = verb_of(word)
        if word in WRAPPERS or _ASSIGNED_OR_OPTION.fullmatch(word):
            if _ends_an_interpreter(starter, word):
                break
            starter = verb if word in WRAPPERS else starter
        elif not (starter in LAUNCHERS or is_interpreter(starter)) or word not in _LAUNCH:
            places_read.append(Place(at, starter))
            if verb in LAUNCHERS or is_interpreter(verb) or verb in ELSEWHERE:
                starter = verb
            elif starter not in ELSEWHERE and not (at and _may_take(starter, words[at - 1], word)):
                break
        if len(places_read) > MOST_PLACES:
            break
    return places_read


def verb_of(word: str) -> str:
    """The name of the program that a word starts."""
    return (PurePosixPath(word).name.casefold() or word) if "/" in word else word.casefold()


def is_interpreter(verb: str) -> bool:
    """Whether a program runs programs in some language."""
    return verb in SHELLS or _INTERPRETER.fullmatch(verb) is not None


def language_of(verb: str) -> str:
    """The language of the programs that an interpreter runs."""
    return "python" if verb.startswith(("python", "pypy", "ipython")) else verb.rstrip("0123456789.")


def gives_code(verb: str, option: str) -> bool:
    """Whether this option of an interpreter is followed by code."""
    if verb in SHELLS:
        return option == "-command" or re.fullmatch(r"-[a-z]*c[a-z]*", option) is not None
    return option in _GIVES_CODE or any(
        verbs.fullmatch(verb) and options.fullmatch(option) for verbs, options in _GIVES_LINES
    )


def does_not_run(verb: str, option: str) -> bool:
    """Whether an interpreter runs nothing with this option."""
    return option in _DOES_NOT_RUN or (verb in SHELLS and option == "-n")


def _ends_an_interpreter(starter: str, option: str) -> bool:
    """Whether after this option of an interpreter come code or script arguments, or nothing is run."""
    if not is_interpreter(starter) or starter in LAUNCHERS:
        return False
    return option == "-" or gives_code(starter, option) or does_not_run(starter, option)


def _may_take(starter: str, before: str, word: str) -> bool:
    """Whether a word may be the value of the option before it, so that the program comes later.

    The value of an unknown long option may be any word without a file extension.
    """
    if before in _TAKES_A_WORD and before == starter:
        return True
    name = starter.rstrip("0123456789.")
    if before in _TAKING.get(name, ()) or (starter in SHELLS and re.fullmatch(r"-[a-z]*o", before)):
        return True
    if is_interpreter(starter) and starter not in LAUNCHERS:
        return False
    is_long = before.startswith("--") and before != "--" and "=" not in before
    return is_long and not PurePosixPath(word).suffix
