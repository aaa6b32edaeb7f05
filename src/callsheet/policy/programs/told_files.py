"""Finds the files that commands are told to read by an option or at a fixed place, whatever their names.

In: the name of a program and the words after it. Out: the paths of files that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

_OF_ANY = frozenset(
    {"--arg-file", "--body-file", "--constraint", "--env-file", "--files0-from", "--from-file", "--post-file",
     "--requirement", "--requirements", "--upload-file", "--with-requirements"}
)  # fmt: skip
"""Options that take a file in every program that has them."""
_OF: Mapping[str, frozenset[str]] = {
    verb: frozenset(options.split())
    for verbs, options in (
        ("pip pip3 uv", "-r -c"),
        ("curl", "-T -K --config"),
        ("grep egrep fgrep rg awk gawk mawk sed jq yq psql mysql date file", "-f --file"),
        ("mail mailx mutt", "-a -A"),
        ("openssl", "-in -inkey"),
    )
    for verb in verbs.split()
}
_SENDS = re.compile(
    r"-[fgGikLNsSv#]*[dFH]|--(?:data(?:-ascii|-binary|-urlencode)?|form|header|json|url-query)"
)
"""Options of `curl` with data, which may be `@` and a file."""
_UPLOADS = re.compile(r"-[fgGikLNsSv#]+[TK]")
_SENT = re.compile(r"@(.+)", re.DOTALL)
_SENT_IN_FORM = re.compile(r"[^=]*=[@<]([^;]+).*", re.DOTALL)
_SENT_ENCODED = re.compile(r"[^=@]*@(.+)", re.DOTALL)
_DATABASES = frozenset({"sqlite3", "duckdb"})
_LONG, _SHORT = 2, 2
"""The number of hyphens before a long option, and the length of a short one with its hyphen."""


def files_told(verb: str, words: Sequence[str]) -> Iterator[str]:
    """The files that a command reads because its words say so.

    >>> list(files_told("pip", ["install", "-r", "list", "--constraint=other"]))
    ['other', 'list']
    >>> list(files_told("curl", ["-sd", "@notes", "-Fa=@b", "-F", "mail=x@c.example", "-Tc"]))
    ['b', 'c', 'notes']
    >>> list(files_told("dd", ["if=a", "of=b"])), list(files_told("scp", ["-r", "a", "b", "host:c"]))
    (['a'], ['a', 'b'])
    """
    if verb == "dd":
        yield from (word.removeprefix("if=") for word in words if word.startswith("if="))
    operands = [word for word in words if not word.startswith("-")]
    if verb == "scp":
        yield from (word for word in operands[:-1] if ":" not in word)
    elif verb in _DATABASES:
        yield from (word for word in operands[:1] if not word.startswith(":"))
    yield from _named_by_options(verb, words)


def _named_by_options(verb: str, words: Sequence[str]) -> Iterator[str]:
    options = _OF.get(verb, frozenset[str]()) | _OF_ANY
    for word in words:
        option, value = _parted(word)
        if value and option in options:
            yield value
        elif value and verb == "curl" and _SENDS.fullmatch(option):
            yield from _sent(option, value)
    for option, word in pairwise(words):
        if option in options or (verb == "curl" and _UPLOADS.fullmatch(option)):
            yield word
        elif verb == "curl" and _SENDS.fullmatch(option):
            yield from _sent(option, word)


def _parted(word: str) -> tuple[str, str]:
    """An option and the value in the same word."""
    if word.startswith("-" * _LONG):
        option, _, value = word.partition("=")
        return option, value
    return word[:_SHORT], word[_SHORT:]


def _sent(option: str, value: str) -> Iterator[str]:
    """The file in data that is sent."""
    is_form = option == "--form" or (option[1] != "-" and option.endswith("F"))
    pattern = _SENT_IN_FORM if is_form else _SENT_ENCODED if option == "--data-urlencode" else _SENT
    found = pattern.fullmatch(value)
    if found is not None:
        yield found[1]
