"""Finds texts that hardly mean what they say: a file extension that is read as a field (`"$title.md"`), and
a name in braces without a dollar sign (`"Hello {name}"`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from callsheet import lazy
from callsheet.diagnostics import Severity, WordFix
from callsheet.ir import Call, Cast, DictExpr, ListExpr, Literal, Ref, Step, Template, Value
from callsheet.passes.calls import CODE_ARGUMENTS
from callsheet.passes.finding import Finding, Subject, Suggestion

_ENDINGS = frozenset({
    "md", "txt", "csv", "tsv", "json", "jsonl", "yaml", "yml", "toml", "xml", "html", "htm", "pdf", "log",
    "docx", "xlsx", "pptx", "png", "jpg", "jpeg", "svg", "gif", "py", "js", "ts", "sh", "sql", "zip", "ltp",
})  # fmt: skip
_NAMES_A_FILE = ("path", "file", "dest")
"""An argument whose name contains one of these names a file."""
_BRACES = lazy.pattern(r"(?<![\w${])\{([A-Za-z_]\w*)((?:\.\w+)*)\}(?!\})")
OWN_BRACES = frozenset({"code", "command", "cmd", "script", "pattern", "regex", "template", "sql"})
"""Arguments in whose languages braces have a meaning of their own."""


def endings_read_as_fields(subject: Subject) -> Iterator[Finding]:
    """CHK033 for a file name that ends in a field access which looks like a file extension."""
    for number, step, call in subject.calls:
        loop = None if step.foreach is None else step.foreach.var
        for value in _files(subject, call):
            ref = _last(value)
            if ref is None or not ref.path or ref.path[-1] not in _ENDINGS:
                continue
            if ref.name == loop or not _has_fields(subject, ref.name):
                yield _finding(number, ref)


def _finding(step: int, ref: Ref) -> Finding:
    whole = ref.dotted
    before, _, ending = whole.rpartition(".")
    return Finding(
        "CHK033",
        Severity.HINT,
        f"${whole} is the field {ending} of ${before}; the name is empty if the value has no such field",
        step,
        ref.span,
        f"if .{ending} is the file extension, write ${{{before}}}.{ending}",
        (ref.name, ending),
    )


def _files(subject: Subject, call: Call) -> Iterator[Value]:
    """The arguments of a call that name a file."""
    signature = None if subject.tools is None else subject.tools.get(call.tool)
    names = ("path",) if signature is None and "FILE" in call.tool else ()
    positional = zip(names if signature is None else signature.parameters, call.positional, strict=False)
    for name, value in (*positional, *call.named):
        if _names_a_file(name):
            yield value


@lru_cache(maxsize=1_000)
def _names_a_file(name: str) -> bool:
    return any(word in name.lower() for word in _NAMES_A_FILE)


def _last(value: Value) -> Ref | None:
    """The reference at the end of a value, if it ends with one."""
    last = value.parts[-1] if isinstance(value, Template) else value
    return last if isinstance(last, Ref) else None


def _has_fields(subject: Subject, name: str) -> bool:
    """Whether some step casts the variable to JSON, so that it may really have fields."""
    outputs = (subject.plan.steps[d.step].output for d in subject.flow.definitions.get(name, ()))
    return any(output is not None and output.cast is Cast.JSON for output in outputs)


def names_in_braces(subject: Subject) -> Iterator[Finding]:
    """CHK034 for `{name}` in a text, if a variable has that name: it stays as it is."""
    known = subject.given.keys() | subject.flow.definitions.keys()
    for number, step in enumerate(subject.plan.steps):
        told: Value | None = None
        for value, text in _texts_with_braces(step):
            match = None if value is told else _BRACES.search(text)
            if match is None:
                continue
            if match[1] in known or (step.foreach is not None and match[1] == step.foreach.var):
                told = value
                yield _literal_braces(number, value, match)


def _texts_with_braces(step: Step) -> list[tuple[Value, str]]:
    """The literal texts of a step that have a brace, without code, each with the value that it is in."""
    call, found = step.call, list[tuple[Value, str]]()
    if call is None:
        for value in step.values():
            _find_braces(value, value, found)
        return found
    for value in call.positional[call.tool in CODE_ARGUMENTS :]:
        _find_braces(value, value, found)
    for name, value in call.named:
        if not isinstance(value, Ref) and name.lower() not in OWN_BRACES:
            _find_braces(value, value, found)
    return found


def _find_braces(value: Value, whole: Value, found: list[tuple[Value, str]]) -> None:
    """Add the texts of a value that have a brace to `found`."""
    match value:
        case Literal(value=text):
            if isinstance(text, str) and "{" in text:
                found.append((whole, text))
        case Template(parts=parts):
            found += [(whole, part) for part in parts if isinstance(part, str) and "{" in part]
        case ListExpr(items=items):
            for item in items:
                _find_braces(item, whole, found)
        case DictExpr(items=pairs):
            for _, item in pairs:
                _find_braces(item, whole, found)
        case _:
            pass


def _literal_braces(step: int, value: Value, match: re.Match[str]) -> Finding:
    written, meant = match[0], f"${match[0]}"
    return Finding(
        "CHK034",
        Severity.WARNING,
        f"{written} is literal text: nothing is inserted there",
        step,
        value.span,
        Suggestion(f"write {meant} for the value of ${match[1]}{match[2]}", WordFix(written, (meant,))),
        (match[1],),
    )
