"""Entry point of the LTP text parser.

In: a text and a name for it. Out: a `ParseResult`; no text makes it raise.
"""

from __future__ import annotations

import re
from dataclasses import replace

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity, Source, Span
from callsheet.frontends.ltp.document import Document
from callsheet.frontends.unseen import hidden_characters
from callsheet.frontends.values.reader import ParseResult, no_step
from callsheet.frontends.values.reader import replace as replace_text
from callsheet.ir import Plan, Step
from callsheet.ir.gc_pause import gc_paused

_OF_BLOCKS = lazy.pattern(
    r"^[ \t]*(?:[A-Za-z_][A-Za-z0-9_.-]*:[ \t]*)?(?:(?P<word>LET|SET|INPUT|RESULT|TYPE)[ \t]+[$\w]"
    r"|(?P<call>REQUIRE|YIELD|COMPUTE|CALL \w+)[ \t]*\("
    r"|(?P<block>TRY|\?IF|\?FOREACH|\?REPEAT)\b.*\{[ \t]*(?:#.*)?$)",
    re.MULTILINE,
)
"""A statement that steps do not have, and plans with blocks do."""
_LARGE = 20_000
"""From this many characters on the cyclic garbage collector is paused."""


def parse(text: str, name: str = "<plan>", *, strict: bool = False) -> ParseResult:
    """Parses LTP text. `name` is its name in diagnostics; `strict` makes loose spellings errors.

    >>> result = parse('PLAN_START\\nS1: @RESPOND ("hello")\\nPLAN_END')
    >>> result.plan.steps[0].id, result.diagnostics
    ('S1', ())
    """
    with gc_paused(len(text) >= _LARGE):
        return _parse(text, name, strict)


def _parse(text: str, name: str, strict: bool) -> ParseResult:
    document = Document(text)
    document.read()
    diagnostics = document.reader.diagnostics
    diagnostics.extend(hidden_characters(text))
    first = next((n for n, one in enumerate(diagnostics) if one.is_error), None)
    if first is not None and diagnostics[first].code != "LTP003" and (of_blocks := _OF_BLOCKS.search(text)):
        word = of_blocks["word"] or of_blocks["call"] or f"{of_blocks['block']} … {{"
        hint = f"{word} is of version 2 of the language: begin the text with the line # ltp: 2"
        diagnostics[first] = replace(diagnostics[first], help=hint)
    steps = _numbered(document.steps, diagnostics)
    if not steps and not any(d.is_error for d in diagnostics):
        diagnostics.append(no_step(text))
    meta = document.meta
    partial = Plan(
        tuple(steps),
        id=meta.get("id"),
        title=meta.get("title"),
        goal=meta.get("goal"),
        comments=tuple(document.comments),
    )
    return ParseResult.of(partial, diagnostics, Source(name, text), document.lost, strict=strict)


def _numbered(steps: list[Step], diagnostics: list[Diagnostic]) -> list[Step]:
    """The steps, where those without an id get the first free one of S1, S2, … and a hint."""
    taken = {step.id.upper() for step in steps}
    if "" not in taken:
        return steps
    out: list[Step] = []
    number = 1
    for step in steps:
        if step.id:
            out.append(step)
            continue
        while f"S{number}" in taken:
            number += 1
        step_id = f"S{number}"
        number += 1
        out.append(replace(step, id=step_id))
        at = step.span.start if step.span else 0
        fix = replace_text(f"write {step_id}:", at, at, f"{step_id}: ")
        message = f"the step has no id; it is {step_id} here"
        diagnostics.append(Diagnostic("LTP102", Severity.HINT, message, Span(at, at), None, fix, step_id))
    return out
