"""Explanations of the keywords of LTP, for hover and completion."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "PLAN_START": "The plan begins here; the text before it is its header and prose.",
    "PLAN_END": "The plan ends here; the text after it is ignored.",
    "@PARALLEL": "`@PARALLEL { … }`: the steps inside run concurrently. They read the variables as of "
    "the opening brace; their results are stored in text order.",
    "?IF": "`?IF (condition) THEN …`: the step runs only if the condition holds.",
    "?FOREACH": "`?FOREACH ($item IN $list) THEN …`: the step runs once for each item; its result is the "
    "list of their results.",
    "THEN": "Separates a guard from the guarded action.",
    "IN": "Separates a loop variable from the list or dict of the loop.",
    "ON_FAIL": "`ON_FAIL @RETRY(n)`, `ON_FAIL GOTO S9`, `ON_FAIL TERMINATE (…)`: what happens if the step "
    "fails. Without it, the error's text is stored and the plan continues.",
    "@RETRY": "`@RETRY(n, delay=s, backoff=x)`: up to n more attempts, with delays between them.",
    "GOTO": "`GOTO S5`: the plan continues at that step.",
    "TERMINATE": '`TERMINATE ("why")`: the plan ends early with this message.',
    "@RESPOND": "`@RESPOND (values)`: the plan ends with this answer: its values, joined with spaces. If "
    "all are empty and steps follow, it is skipped.",
    "RE-PLAN": "`RE-PLAN (reason)`: a model writes a new plan, which is checked like this one and continues "
    "with its variables.",
    "AND": "Both conditions hold.",
    "OR": "At least one of the conditions holds.",
    "NOT": "`NOT (condition)`: the condition does not hold.",
    "IS_EMPTY": "`IS_EMPTY(value)`: null, blank text, an empty list or dict. 0 and false are not empty.",
    "NOT_EMPTY": "`NOT_EMPTY(value)`: anything but null, blank text, an empty list or dict.",
    "CONTAINS": "`a contains b`: a substring of a text, an item of a list, a key of a dict.",
}
"""Explanations by canonical keyword, in capitals."""
