"""Explanations of the keywords of LTP, for hover and completion."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "PLAN_START": "The plan begins here; what stands before is its head and prose.",
    "PLAN_END": "The plan ends here; what follows is not read.",
    "@PARALLEL": "`@PARALLEL { … }`: the steps inside run together. They see the variables as they were at "
    "the opening brace; their results are stored in the order of the text.",
    "?IF": "`?IF (condition) THEN …`: the step is done only where the condition holds.",
    "?FOREACH": "`?FOREACH ($item IN $list) THEN …`: the step is done once for each item; its result is the "
    "list of their results.",
    "THEN": "Stands between a guard and what it guards.",
    "IN": "Stands between a loop's variable and what it goes over.",
    "ON_FAIL": "`ON_FAIL @RETRY(n)`, `ON_FAIL GOTO S9`, `ON_FAIL TERMINATE (…)`: what becomes of a failure. "
    "Without it the error's text is stored and the plan goes on.",
    "@RETRY": "`@RETRY(n, delay=s, backoff=x)`: up to n more attempts, with waits between.",
    "GOTO": "`GOTO S5`: the plan goes on at that step.",
    "TERMINATE": '`TERMINATE ("why")`: the plan ends early with this message.',
    "@RESPOND": "`@RESPOND (values)`: the plan ends with this answer: its values, joined with blanks. Where "
    "all are empty and steps follow, it is left out.",
    "RE-PLAN": "`RE-PLAN (reason)`: a model writes a new plan, which is checked as this one was and goes on "
    "with its variables.",
    "AND": "Both conditions hold.",
    "OR": "One of the conditions holds.",
    "NOT": "`NOT (condition)`: the condition does not hold.",
    "IS_EMPTY": "`IS_EMPTY(value)`: null, blank text, an empty list or dict. 0 and false are not empty.",
    "NOT_EMPTY": "`NOT_EMPTY(value)`: anything but null, blank text, an empty list or dict.",
    "CONTAINS": "`a contains b`: a part of a text, a member of a list, a key of a dict.",
}
"""Explanations by canonical keyword, in capitals."""
