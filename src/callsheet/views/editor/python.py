"""What an editor asks about a Python plan: whether a file is one, hover, proposals, hints, definitions.

In: the text of a file, even an incomplete one, and the known tools. Out: nothing for a file that is an
ordinary program: only a function with `@plan`, or one that awaits tools, is a plan.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from callsheet.diagnostics import Span
from callsheet.frontends.python import BINDINGS, plans_of, read_python, tools_declared
from callsheet.frontends.spelling import Syntax, has_marked_plan
from callsheet.frontends.values import ParseResult
from callsheet.ir import canonical_tool_name, tree
from callsheet.ir.plan import Plan
from callsheet.machine.program import ToolFacts
from callsheet.machine.tree.item_order import order_of_items
from callsheet.ports.tools import ToolSpec
from callsheet.views.editor.annotations import About, Hint
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.hover import Hover
from callsheet.views.editor.knowledge import Knowledge, plain, summary
from callsheet.views.editor.proposals import Proposal, Sort
from callsheet.views.python_types import Types
from callsheet.views.stubs import effect_text, function_name, signature_line, stub_of

_AWAITED: Final = re.compile(r"\bawait[ \t]+(\w+)[ \t]*\(")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_AFTER_AWAIT: Final = re.compile(r"\bawait[ \t]+(\w*)$")
_ARGUMENT: Final = re.compile(r"[(,]\s*(\w*)$")
_CALLED: Final = re.compile(r"(\w+)\s*$")
_GIVEN: Final = re.compile(r"(\w+)[ \t]*=(?!=)")


def is_plan_file(text: str, tools: Collection[str]) -> bool:
    """Whether a Python file is a plan: it has `@plan`, or awaits a tool that it does not define.

    >>> text = "import aiohttp\\nasync def main():\\n    return await fetch(1)\\n"
    >>> is_plan_file(text, {"FETCH"}), is_plan_file(text, {"SEARCH"}), is_plan_file("@plan\\n" + text, ())
    (True, False, False)
    """
    if "async" not in text:
        return False
    if has_marked_plan(text):
        return True
    awaited = {
        name for name in _AWAITED.findall(text) if canonical_tool_name(name) in tools or name in BINDINGS
    }
    own = {found[1] for found in re.finditer(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", text, re.MULTILINE)}
    return bool(awaited - own)


def _plans_in(text: str, name: str) -> tuple[ParseResult, ...]:
    """The plans of a file: one for each function with `@plan`, else that of the whole file."""
    try:
        marked = plans_of(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        marked = ()
    return tuple(read_python(text, name, within=one) for one in marked) or (read_python(text, name),)


def own_tools(text: str) -> frozenset[str]:
    """The canonical names of the tools that a text itself declares; none for one that cannot be parsed."""
    try:
        return frozenset(map(canonical_tool_name, tools_declared(ast.parse(text))))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()


def open_python(text: str, name: str) -> PlanDocument:
    """The document of a file; its plan is the first one that has no error."""
    results = _plans_in(text, name)
    plans = tuple(one.plan for one in results if one.plan is not None)
    found = tuple(dict.fromkeys(each for one in results for each in one.diagnostics))
    first = plans[0] if plans else None
    return PlanDocument(results[0].source, Syntax.PYTHON, first, Plan(()), found, plans=plans)


# ---------------------------------------------------------------- hover


def hover_in_python(document: PlanDocument, offset: int, known: Knowledge) -> Hover | None:
    """The hover text of a tool that is called, or of a function of the file."""
    word = _word_at(document.text, offset)
    if word is None:
        return None
    name = document.text[word.start : word.end]
    tool = _tool_of(name, known.tools)
    if tool is not None:
        return Hover(_about_tool(document, tool, offset, known), word)
    for head, about, _ in _definitions(document.text, name):
        lines = ["```python", head, "```", *(["", plain(about)] if about else [])]
        return Hover("\n".join(lines), word)
    return None


def _about_tool(document: PlanDocument, tool: str, offset: int, known: Knowledge) -> str:
    spec = known.tools.get(tool)
    if spec is None:
        shown = ", ".join(name for name, _ in BINDINGS[tool.lower()].parameters)
        about = summary(BINDINGS[tool.lower()].tool, None)
        return f"```python\nasync def {tool.lower()}({shown})\n```\n\n{about}"
    lines = ["```python", signature_line(tool, spec), "```"]
    if spec.description.strip():
        lines += ["", *(f"> {plain(line)}" for line in spec.description.strip().splitlines()[:20])]
    lines += ["", f"effect: {plain(effect_text(spec))}"]
    lines += [f"\nunder the policy `{known.policy}` {said}" for said in _labels_at(document, offset, known)]
    return "\n".join(lines)


def _labels_at(document: PlanDocument, offset: int, known: Knowledge) -> Iterator[str]:
    """What a policy says of the call at an offset."""
    call = _call_at(document, offset)
    labels = None if call is None else known.labels.get(call.id)
    if labels is None:
        return
    reads = [f"{name} `{label}`" for name, label in labels.reads]
    if reads:
        yield f"it reads {', '.join(reads[:8])}"
    yield f"its result is `{labels.result}`"


def _call_at(document: PlanDocument, offset: int) -> tree.Act | None:
    calls = (one for plan in document.plans if plan.tree is not None for one in tree.acts(plan.tree))
    inside = [one for one in calls if one.span is not None and one.span.start <= offset <= one.span.end]
    return min(inside, key=lambda one: one.span.end - one.span.start if one.span else 0, default=None)


def _tool_of(name: str, tools: Mapping[str, ToolSpec]) -> str | None:
    canonical = canonical_tool_name(name.removesuffix("_"))
    if canonical in tools:
        return canonical
    return canonical if name in BINDINGS else None


def _word_at(text: str, offset: int) -> Span | None:
    start = text.rfind("\n", 0, offset) + 1
    stop = text.find("\n", offset)
    line = text[start : len(text) if stop == -1 else stop]
    for found in _WORD.finditer(line):
        if found.start() <= offset - start <= found.end():
            return Span(start + found.start(), start + found.end())
    return None


# ---------------------------------------------------------------- definitions


def definitions_in_python(document: PlanDocument, offset: int) -> tuple[Span, ...]:
    """Where the function or class of the file whose name stands at an offset is defined."""
    word = _word_at(document.text, offset)
    if word is None:
        return ()
    name = document.text[word.start : word.end]
    return tuple(span for _, _, span in _definitions(document.text, name))


def _definitions(text: str, name: str) -> Iterator[tuple[str, str, Span]]:
    """The head, the docstring and the place of the name of each definition."""
    head = re.compile(
        rf"^[ \t]*((?:async[ \t]+)?(?:def|class)[ \t]+({re.escape(name)})\b[^\n]*)\n?", re.MULTILINE
    )
    for found in head.finditer(text):
        doc = re.match(r'\s*(?:"""|\'\'\')([^\n"\']*)', text[found.end() :])
        about = "" if doc is None else doc[1].strip()
        yield found[1].strip().removesuffix(":"), about, Span(found.start(2), found.end(2))


# ---------------------------------------------------------------- proposals


def proposals_in_python(document: PlanDocument, offset: int, known: Knowledge) -> tuple[Proposal, ...]:
    """Tools after `await`, and the arguments of a tool in its call that are not given yet."""
    before = document.text[:offset]
    line = before[before.rfind("\n") + 1 :]
    awaited = _AFTER_AWAIT.search(line)
    if awaited is not None:
        span = Span(offset - len(awaited[1]), offset)
        return tuple(_tools(span, awaited[1], known))
    return tuple(_arguments(document.text, offset, known))


def _tools(span: Span, typed: str, known: Knowledge) -> Iterator[Proposal]:
    for tool, spec in known.tools.items():
        name = function_name(tool)
        if name.startswith(typed):
            about = signature_line(tool, spec)
            snippet = f"{name}($1)$0"
            yield Proposal(
                name, Sort.TOOL, f"{name}()", span, summary(tool, spec), f"```python\n{about}\n```", snippet
            )
    for name, binding in BINDINGS.items():
        if name.startswith(typed) and canonical_tool_name(name) not in known.tools:
            detail = summary(binding.tool, None)
            yield Proposal(name, Sort.TOOL, f"{name}()", span, detail, "", f"{name}($1)$0")


def _arguments(text: str, offset: int, known: Knowledge) -> Iterator[Proposal]:
    opened = _open_bracket(text, offset)
    if opened is None:
        return
    called = _CALLED.search(text[max(0, opened - 200) : opened])
    tool = None if called is None else _tool_of(called[1], known.tools)
    typed = _ARGUMENT.search(text[opened:offset])
    if tool is None or typed is None:
        return
    given = set(_GIVEN.findall(text[opened:offset]))
    span = Span(offset - len(typed[1]), offset)
    for name, takes, about in _parameters(tool, known):
        if name not in given and name.startswith(typed[1]):
            yield Proposal(f"{name}=", Sort.ARGUMENT, f"{name}=", span, takes, plain(about))


def _parameters(tool: str, known: Knowledge) -> Iterator[tuple[str, str, str]]:
    """The parameters of a tool or operation: the name, what it takes, its description."""
    spec = known.tools.get(tool)
    if spec is None:
        yield from ((name, "", "") for name, _ in BINDINGS[tool.lower()].parameters)
        return
    stub = stub_of(tool, spec, Types())
    for one in (*stub.positional, *stub.named):
        yield one.name, one.type if one.default else f"{one.type}, required", one.about


def _open_bracket(text: str, offset: int) -> int | None:
    """The bracket that opens the call around an offset; brackets in texts are not told apart."""
    depth = 0
    for at in range(offset - 1, max(-1, offset - 4_000), -1):
        char = text[at]
        if char in ")]}":
            depth += 1
        elif char in "([{":
            if not depth:
                return at if char == "(" else None
            depth -= 1
    return None


# ---------------------------------------------------------------- hints


def hints_in_blocks(document: PlanDocument, known: Knowledge, within: Span) -> Iterator[Hint]:
    """What runs side by side in a plan with blocks, at the end of the line where it begins."""
    facts = {
        name: ToolFacts(spec.effect, spec.parameter_names, independence=spec.independence)
        for name, spec in known.tools.items()
    }
    plans = document.plans or ((document.plan,) if document.plan is not None else ())
    trees = [plan.tree for plan in plans if plan.tree is not None]
    for whole, one in [(each, one) for each in trees for one in tree.all_statements(each)]:
        match one:
            case tree.Foreach(most=most):
                order = order_of_items(one, facts, whole)
                calls = any(isinstance(each, tree.Act | tree.Invoke) for each in tree.statements(one.body))
                if not (order.side_by_side and (calls or one.together)):
                    continue
                text = "∥ all items" if most is None else f"∥ {most} items at a time"
                tip = f"the items run side by side ({order.why}); the calls of each in the order of the text"
            case tree.Parallel(members=members):
                text, tip = f"∥ {len(members)} calls", "these calls run side by side"
            case _:
                continue
        if one.span is None:
            continue
        stop = document.text.find("\n", one.span.start)
        end = len(document.text) if stop == -1 else stop
        if within.start <= end <= within.end:
            yield Hint(end, text, About.ORDER, tip)
