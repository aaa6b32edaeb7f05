"""Where in the words of a command what is run may begin.

Before it stand assignments, wrappers (`sudo`), launchers (`uv run`) and interpreters, with options of their
own that may take a word. Where that cannot be told each place counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "csh", "tcsh", "busybox", "pwsh"})
"""Shells by their names."""
MOST_PLACES = 16
"""A command with more places where what is run may begin is not looked through."""

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
"""Words before a command that are no command of their own."""
LAUNCHERS = frozenset(
    {"npx", "pnpx", "bunx", "npm", "yarn", "pnpm", "uv", "uvx", "poetry", "pipenv", "pipx", "hatch", "pdm",
     "rye", "pixi", "conda", "mamba", "micromamba", "bundle", "coverage", "kernprof", "ddtrace-run", "dotenv",
     "direnv", "busybox", "corepack"}
)  # fmt: skip
"""Programs that start another, with what belongs to it."""
_LAUNCH = frozenset({"run", "exec", "x", "dlx", "sh", "tool"})
"""What a launcher is told before what it launches."""
ELSEWHERE = frozenset(
    {"docker", "podman", "nerdctl", "docker-compose", "kubectl", "ssh", "vagrant", "nix", "nix-shell"}
)
"""Programs that start another one, with arguments of their own before it that are too many to tell apart."""
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
"""By the name of a program its options that take the word behind them."""
_GIVES_CODE = frozenset({"-c", "-e", "--eval", "-exec", "-command", "-p", "--print"})
_GIVES_LINES = (
    (re.compile(r"(?:perl|ruby)[\d.]*"), re.compile(r"-[lnpaswi0-9]*[eE]")),
    (re.compile(r"(?:python|pypy)[\d.]*"), re.compile(r"-[bBdEiIOqsSuvx]*c")),
    (re.compile(r"php[\d.]*"), re.compile(r"-[rBE]")),
)
_DOES_NOT_RUN = frozenset({"--syntax-only", "--version", "--help", "-V"})
_ASSIGNED_OR_OPTION = re.compile(r"[A-Za-z_]\w*=.*|-\S*|\d+[smhd]?", re.DOTALL)


class Place(NamedTuple):
    """Where what is run may begin, and the wrapper, launcher or interpreter that starts it; "" for none."""

    at: int
    starter: str


def places(words: Sequence[str]) -> list[Place]:
    """Where in a command what is run may begin; of those that start another the other as well.

    The last one is what is run in the end, unless it is the script of an interpreter.

    >>> [at for at, _ in places(["sudo", "-u", "bob", "uv", "run", "--with", "rich", "pytest"])]
    [2, 3, 6, 7]
    >>> places(["python3", "-u", "count.py", "page.txt"])
    [Place(at=0, starter=''), Place(at=2, starter='python3')]
    """
    if words and verb_of(words[0]) == "find":
        runs = (at + 1 for at, word in enumerate(words[:-1]) if word in _FIND_RUNS)
        return [Place(0, ""), *(Place(at, "find") for at in runs)]
    found: list[Place] = []
    starter = ""
    for at, word in enumerate(words):
        verb = verb_of(word)
        if word in WRAPPERS or _ASSIGNED_OR_OPTION.fullmatch(word):
            if _ends_an_interpreter(starter, word):
                break
            starter = verb if word in WRAPPERS else starter
        elif not (starter in LAUNCHERS or is_interpreter(starter)) or word not in _LAUNCH:
            found.append(Place(at, starter))
            if verb in LAUNCHERS or is_interpreter(verb) or verb in ELSEWHERE:
                starter = verb
            elif starter not in ELSEWHERE and not (at and _may_take(starter, words[at - 1], word)):
                break
        if len(found) > MOST_PLACES:
            break
    return found


def verb_of(word: str) -> str:
    """The name of the program that a word starts."""
    return (PurePosixPath(word).name.casefold() or word) if "/" in word else word.casefold()


def is_interpreter(verb: str) -> bool:
    """Whether a program runs others that are written in a language."""
    return verb in SHELLS or _INTERPRETER.fullmatch(verb) is not None


def language_of(verb: str) -> str:
    """The language of the programs that an interpreter runs."""
    return "python" if verb.startswith(("python", "pypy", "ipython")) else verb.rstrip("0123456789.")


def gives_code(verb: str, option: str) -> bool:
    """Whether code stands behind an option of an interpreter."""
    if verb in SHELLS:
        return option == "-command" or re.fullmatch(r"-[a-z]*c[a-z]*", option) is not None
    return option in _GIVES_CODE or any(
        verbs.fullmatch(verb) and options.fullmatch(option) for verbs, options in _GIVES_LINES
    )


def does_not_run(verb: str, option: str) -> bool:
    """Whether an interpreter runs nothing with an option."""
    return option in _DOES_NOT_RUN or (verb in SHELLS and option == "-n")


def _ends_an_interpreter(starter: str, option: str) -> bool:
    """Whether what stands behind an option is code, or what a program on the input is told, or is not run."""
    if not is_interpreter(starter) or starter in LAUNCHERS:
        return False
    return option == "-" or gives_code(starter, option) or does_not_run(starter, option)


def _may_take(starter: str, before: str, word: str) -> bool:
    """Whether a word belongs to what stands before it and what is run comes later.

    Of a long option that is not known every word without an ending may be the value.
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
