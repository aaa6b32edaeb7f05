"""Compiles the CEL predicates of policy rules (the extra `callsheet[cel]`).

In: rules such as `args.amount > 100.0`. Out: functions of a call's arguments. A predicate that cannot be
evaluated (a missing argument, a wrong type) counts as true: rules fail closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span, meant
from callsheet.ir import JSON
from callsheet.policy.model import CallRule

_BEGIN = "Failed to parse expression '{}': "
_ERROR = lazy.pattern(r"^ERROR: [^\n:]*:(\d+):(\d+): (.*)$", re.MULTILINE)
_SYNTAX = "Syntax error: "
_EXPECTING = lazy.pattern(r"(?:mismatched|extraneous) input '(.*)' expecting (.*)")
_MISSING = lazy.pattern(r"missing (.+) at '(.*)'")
_NO_TOKEN = lazy.pattern(r"token recognition error at: '(.*)'")
_NO_ALTERNATIVE = lazy.pattern(r"no viable alternative at input '(.*)'")
_END = "<EOF>"
_CLOSING = (")", "]", "}", ":", ",")
_HINTS = {
    "and": "CEL writes && for and",
    "or": "CEL writes || for or",
    "not": "CEL writes ! for not",
    "=": "CEL writes == for equal",
}


class Unreadable(NamedTuple):
    """What is wrong with a predicate, where, and how to fix it."""

    message: str
    place: Span
    help: str | None


def unreadable(when: str, words: str) -> Unreadable:
    """The readable form of CEL's error about a predicate."""
    listed = _ERROR.findall(words.removeprefix(_BEGIN.format(when)))
    faults = sorted((int(line), int(column), text) for line, column, text in listed)
    if not faults:
        return Unreadable(words.partition("\n")[0], Span(0, len(when)), None)
    line, column, text = next((each for each in faults if each[2].startswith(_SYNTAX)), faults[0])
    before = sum(len(each) + 1 for each in when.split("\n")[: line - 1])
    at = min(before + column - 1, len(when))
    message, token = _in_few_words(text.removeprefix(_SYNTAX))
    if _NO_ALTERNATIVE.search(text):  # CEL means the last of several tokens
        at = max(when.rfind(token, 0, at + len(token)), 0)
    end = min(at + max(len(token), 1), max(len(when), at))
    hint = _HINTS.get(token) or _HINTS.get(when[:at].rstrip().rpartition(" ")[2])
    return Unreadable(message, Span(at, end), hint)


def _in_few_words(message: str) -> tuple[str, str]:
    """The message, and the token that it is about; empty at the end of the predicate."""
    if match := _EXPECTING.fullmatch(message):
        token = "" if match[1] == _END else match[1]
        expected = _kind_of(match[2])
        return (f"{token!r} stands" if token else "it ends") + f" where {expected} was expected", token
    if match := _MISSING.fullmatch(message):
        token = "" if match[2] == _END else match[2]
        return f"{match[1]} is missing " + (f"before {token!r}" if token else "at its end"), token
    if match := _NO_TOKEN.fullmatch(message):
        token = match[1].strip()
        if token[:1] in ("'", '"'):
            return "a string is not terminated: its closing quote is missing", token
        return f"{token!r} is not part of CEL", token
    if match := _NO_ALTERNATIVE.fullmatch(message):
        return f"{match[1]!r} is not allowed here", match[1]
    return message, ""


def _kind_of(tokens: str) -> str:
    """What was expected, summarised from the possible tokens."""
    names = [each.strip("'") for each in tokens.strip("{}").split(", ")]
    if "IDENTIFIER" in names and "NUM_INT" in names:
        return "a value"
    kinds = ["an operator"] if "==" in names else []
    kinds += [repr(each) for each in _CLOSING if f"'{each}'" in tokens]
    kinds += ["the end"] if _END in names else []
    if "IDENTIFIER" in names:
        kinds.append("a name")
    return " or ".join(kinds) or tokens


Predicate: TypeAlias = "Callable[[Mapping[str, JSON]], bool]"
"""Whether a rule applies to a call's arguments, given by name."""
_ARGUMENTS = "args"
"""The only variable of a predicate."""
_FUNCTIONS = frozenset(
    {
        *("size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
        *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
        *("of", "ofNonZeroValue", "none", "hasValue", "value", "or", "orValue"),
    }
)
"""The CEL functions available here; macros are not included."""
_TYPES = frozenset(
    {*("int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"), "optional"}
)
"""The other names that a predicate may use."""
_ITEM = lazy.pattern(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*(\w+)\s*,")
_NAME = lazy.pattern(r"[A-Za-z]\w*")


def compile_rules(rules: Iterable[CallRule]) -> dict[CallRule, Predicate]:
    """A predicate for each rule; empty without rules.

    Raises CallsheetError: POL009 if CEL is not installed, POL003 for an invalid predicate.
    """
    return {rule: _compiled(rule) for rule in rules}


def faults_of(rules: Iterable[CallRule]) -> list[tuple[int, Diagnostic]]:
    """The errors that `compile_rules` would raise, each with the index of its rule.

    Spans are relative to the beginning of the predicate.
    """
    faults: list[tuple[int, Diagnostic]] = []
    for number, rule in enumerate(rules):
        try:
            _compiled(rule)
        except CallsheetError as error:
            faults += [(number, diagnostic) for diagnostic in error.diagnostics]
    return faults


def _compiled(rule: CallRule) -> Predicate:
    try:
        cel: Any = import_module("cel")
    except ImportError:
        raise CallsheetError.single(
            "POL009",
            f"the policy has a rule for @{rule.tool} with a predicate, which needs CEL",
            help="pip install 'callsheet[cel]'",
        ) from None
    try:
        program = cel.compile(rule.when)
    except ValueError as error:
        wrong = unreadable(rule.when, str(error))
        message = f"the rule for @{rule.tool} has an invalid predicate: {rule.when!r}: {wrong.message}"
        diagnostic = Diagnostic("POL003", Severity.ERROR, message, wrong.place, wrong.help)
        raise CallsheetError([diagnostic], Source("when", rule.when)) from None
    _refuse_unknown(rule, program)

    def holds(args: Mapping[str, JSON]) -> bool:
        try:
            return program.execute({_ARGUMENTS: dict(args)}) is not False
        except Exception:  # fail closed, whatever the reason
            return True

    return holds


def _refuse_unknown(rule: CallRule, program: Any) -> None:
    """Refuse a predicate with an unknown name: it could never be evaluated and so would always apply."""
    called: list[str] = [name for name in program.functions() if _NAME.fullmatch(name)]
    for name in called:
        if name not in _FUNCTIONS:
            raise _undecidable(rule, name, meant(name, _FUNCTIONS, None))
    known = {_ARGUMENTS, *_TYPES, *_ITEM.findall(rule.when)}
    named: list[str] = program.variables()
    for name in named:
        if name not in known:
            raise _undecidable(rule, name, f"the arguments of the call are in args: args.{name}")


def _undecidable(rule: CallRule, name: str, hint: str | None) -> CallsheetError:
    return CallsheetError.single(
        "POL003",
        f"the rule for @{rule.tool} would always hold: {name!r} in {rule.when!r} is not defined",
        help=hint or "CEL has size, contains, startsWith, endsWith, matches, int, double, string, …",
    )
