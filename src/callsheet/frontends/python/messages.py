"""What the checks and proofs of a plan say, in the words of Python: they are written for LTP text.

In: a finding about a plan that was read from Python. Out: the same with Python's names and ways out; a fix
that would write LTP is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from callsheet.diagnostics import Diagnostic, WordFix
from callsheet.frontends.python.program import BINDINGS
from callsheet.frontends.python.source import function_of

_OTHER: Final = r"(?P<path>\S+) \?\? (?P<other>\"none\"|\[\]|\{\}|0)"

_HELPS: Final[tuple[tuple[str, str], ...]] = (
    (r'a text with values in it is written "…\$\{(.+?)\}…"',
     r'a text with values in it is written f"…{\1}…"'),
    (r'"\$\{…\}"', 'f"{…}"'),
    (r"write \$(\{[\w.]+\}) for the value$", r'write f"…\1…" for the value'),
    (r"INPUT \$(\w+): … declares one", r"a parameter \1 of the function declares one"),
    (r"(?<=: )(\S*)\$\{(\w+)\}(\S+)$", r'f"\1{\2}\3"'),
    (r"test it first: \?IF \(FAILED\(.*\) \{ … \} ELSE \{ … \}; or give a value with ON_FAIL USE \(…\)",
     "test it first: isinstance(x, Exception)"),
    (r'give another value for null with \?\? \("none", 0, \[\]\), or test it first',
     'give another value for None: x if x is not None else "none"; or test it first'),
    (r"give another value for null with \?\?, or declare it with \? behind the type",
     "give another value for None, or declare it with | None"),
    (rf"write (\S+)\.(\w+)\? for null there, or {_OTHER} for another value",
     r'write \1.get("\2"), or \1.get("\2", \g<other>) for another value than None'),
    (rf"write (\S+)\? for null there, or {_OTHER} for another value",
     r"test first whether it is there: if … in …"),
    (r"write (\S+)\?\.(\w+), or test it first", r"write \1.\2 if \1 is not None else None, or test it first"),
    (r"; \[ \]\? gives null there", ""),
    (r"write \((\S+) \?\? \{\}\)\.(\w+), or test", r'write (\1 or {}).get("\2"), or test'),
    (rf"say what stands for it: {_OTHER}",
     r"say what stands for it: \g<path> if \g<path> is not None else \g<other>"),
    (r"set it before \(LET (\S+) = …\)", r"set it before (\1 = …)"),
    (r"go(es)? through it with \?FOREACH|\?FOREACH goes through it", r"go through it with a for loop"),
    (r"\?FOREACH goes through", "the loop goes through"),
    (r"LET (\S+) = … makes (it|one)", r"\1 = … makes \2"),
    (r"so \?\? always gives", "so the other branch always gives"),
    (r"if x\.name == …\]", 'if x["name"] == …]'),
)  # fmt: skip
"""What a way out says, and what it says in Python."""
_WORDS: Final[tuple[tuple[str, str], ...]] = (
    (r"\bpystr\(", "str("),
    (r"\bpyrepr\(", "repr("),
    (r"\$\{", "{"),
    (r"\$(?=[A-Za-z_]\w*(?![\w@]))", ""),
    (r"\bnull\b(?!@)", "None"),
    (r"@RESPOND\b", "the answer"),
)
_TOOL: Final = re.compile(r"(?<![\w.])@([A-Z][A-Z0-9_]*)\b")
"""A tool, as LTP text names it."""
_OPERATIONS: Final = {one.tool: name for name, one in BINDINGS.items()}
"""The names of callsheet's operations in Python."""


def in_python(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Findings about a Python plan, in the words of Python.

    >>> from callsheet.diagnostics import Severity
    >>> finding = Diagnostic("CHK122", Severity.WARNING, "$row.owner may be null, which has no field mail",
    ...                      None, 'say what stands for it: $row.owner ?? "none"')
    >>> (said,) = in_python([finding])
    >>> said.message
    'row.owner may be None, which has no field mail'
    >>> said.help
    'say what stands for it: row.owner if row.owner is not None else "none"'
    >>> [said.message for said in in_python([Diagnostic("RUN010", Severity.WARNING, "@AGENT_SOLVE needs …")])]
    ['agent needs …']
    >>> typo = Diagnostic("CHK040", Severity.ERROR, "no tool is called @SEND_MIAL",
    ...                   swap=WordFix("SEND_MIAL", ("SEND_MAIL",)))
    >>> text = Diagnostic("CHK034", Severity.WARNING, "{x} is literal text", None, "write ${x} for the value",
    ...                   swap=WordFix("{x}", ("${x}",)))
    >>> [(said.help, said.swap and said.swap.meant) for said in in_python([typo, text])]
    [(None, ('send_mail',)), ('write f"…{x}…" for the value', None)]
    """
    return tuple(map(_translated, found))


def _translated(one: Diagnostic) -> Diagnostic:
    message = _written(one.message)
    help_ = None if one.help is None else _written(one.help)
    fix = None if one.fix is not None and any("$" in edit.text for edit in one.fix.edits) else one.fix
    swap = one.swap
    if swap is not None and any("$" in word for word in swap.meant):
        swap = None
    elif swap is not None and f"@{swap.word}" in one.message:
        swap = WordFix(swap.word.lower(), tuple(map(function_of, swap.meant)))
    if (message, help_, fix, swap) == (one.message, one.help, one.fix, one.swap):
        return one
    return replace(one, message=message, help=help_, fix=fix, swap=swap)


def _written(text: str) -> str:
    """A sentence about a plan, with Python's names of its variables and tools.

    >>> _written("@SEND_MAIL sends private data of $mail.from")
    'send_mail sends private data of mail.from'
    >>> _written("$page would reach null@x.org, $ann@x.org")  # addresses are data
    'page would reach null@x.org, $ann@x.org'
    """
    for pattern, words in (*_HELPS, *_WORDS):
        text = re.sub(pattern, _filled(words), text)
    return _TOOL.sub(lambda match: _OPERATIONS.get(match[1]) or function_of(match[1]), text)


def _filled(words: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match.expand(words)
