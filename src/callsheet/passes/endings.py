"""Finds file extensions that are parsed as field access: `"$title.md"` is the field md of $title."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Call, Cast, Ref, Template, Value
from callsheet.ir.flow import Place
from callsheet.passes.finding import Finding, Subject

_ENDINGS = frozenset({
    "md", "txt", "csv", "tsv", "json", "jsonl", "yaml", "yml", "toml", "xml", "html", "htm", "pdf", "log",
    "docx", "xlsx", "pptx", "png", "jpg", "jpeg", "svg", "gif", "py", "js", "ts", "sh", "sql", "zip", "ltp",
})  # fmt: skip
_NAMES_A_FILE = ("path", "file", "dest")
"""An argument whose name contains one of these names a file."""


def endings_read_as_fields(subject: Subject) -> Iterator[Finding]:
    """CHK033 for a file name that ends in a field access which looks like a file extension."""
    steps = subject.plan.steps
    for use in subject.uses:
        path = use.ref.path
        if not path or path[-1] not in _ENDINGS or use.place is not Place.ARGUMENTS:
            continue
        action = steps[use.step].action
        if not isinstance(action, Call) or _has_fields(subject, use.ref.name):
            continue
        if any(_last(value) is use.ref for value in _files(subject, action)):
            yield _finding(use.step, use.ref)


def _finding(step: int, ref: Ref) -> Finding:
    whole = ".".join((ref.name, *map(str, ref.path)))
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
