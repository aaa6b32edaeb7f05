"""Finds texts that hardly mean what they say: a file extension that is read as a field (`"$title.md"`), and
a name in braces without a dollar sign (`"Hello {name}"`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    for number, step in enumerate(subject.plan.steps):
        call = step.call
        if call is None:
            continue
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
        if any(word in name.lower() for word in _NAMES_A_FILE):
            yield value


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
        own = known if step.foreach is None else {*known, step.foreach.var}
        if not own:
            continue
        for value in _read_by_people(step):
            for text in _literal_texts(value):
                match = _BRACES.search(text) if "{" in text else None
                if match is not None and match[1] in own:
                    yield _literal_braces(number, value, match)
                    break


def _read_by_people(step: Step) -> Iterator[Value]:
    """The values of a step, without code."""
    call = step.call
    if call is None:
        yield from step.values()
        return
    code = CODE_ARGUMENTS.get(call.tool)
    yield from call.positional[code is not None :]
    yield from (value for name, value in call.named if name.lower() not in OWN_BRACES)


def _literal_texts(value: Value) -> Iterator[str]:
    match value:
        case Literal(value=str(text)):
            yield text
        case Template(parts=parts):
            yield from (part for part in parts if isinstance(part, str))
        case ListExpr(items=items):
            for item in items:
                yield from _literal_texts(item)
        case DictExpr(items=pairs):
            for _, item in pairs:
                yield from _literal_texts(item)
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
