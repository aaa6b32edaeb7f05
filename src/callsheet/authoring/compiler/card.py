"""The language card of the compiler, and worked examples that fit a goal.

Pure. In: a goal. Out: texts, of at most 350 tokens together; the card is the same for every goal.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from callsheet.authoring.compiler.focus import parts_of

CARD_VERSION = 1
"""Changes whenever a text of a prompt does, so that a journal tells which prompt gave a plan."""

CARD = """\
You turn a goal into a plan: tool calls, one a line. Answer with the plan alone.
S1: @tool (name="text", count=3) > $v1
S2: @other (name=$v1.field, text="Found: $v1") > $v2
S3: @respond ("Done:", $v2)
- One step for each part of the goal, in its order, and no others; the last is @respond with the answer.
- Use only the tools below. Arguments with ? may be left out. $v1 is the result of S1, $v1.field a part of it.
- Before a call: ?IF ($v1.n > 5) THEN with == != < > <= >= contains, IS_EMPTY($v1), NOT_EMPTY($v1), AND, OR; \
?FOREACH ($x IN $v1) THEN does it for each item $x
- Behind a call: ON_FAIL @RETRY(2) or ON_FAIL TERMINATE ("message")"""


class Example(NamedTuple):
    """A goal and its plan."""

    goal: str
    plan: str


CONDITION = Example(
    "Check the stock of tea; if it is below 5, order 20 of it.",
    'S1: @get_stock (item="tea") > $v1\n'
    'S2: ?IF ($v1.count < 5) THEN @order_item (item="tea", count=20) > $v2\n'
    'S3: @respond ("Stock:", $v1.count)',
)
LOOP = Example(
    "Find the members of the chess club and invite each of them.",
    'S1: @find_members (club="chess") > $v1\n'
    "S2: ?FOREACH ($x IN $v1) THEN @invite (member=$x.id) > $v2\n"
    'S3: @respond ("Invited:", $v1)',
)
FAILURE = Example(
    'Print the recipe of plum cake; if it fails, try twice more, then stop with "no paper".',
    'S1: @print_recipe (name="plum cake") > $v1 ON_FAIL @RETRY(2) TERMINATE ("no paper")\n'
    'S2: @respond ("Printed.")',
)
ONE = Example(
    "Which films run on Friday?", 'S1: @list_films (day="Friday") > $v1\nS2: @respond ("Films:", $v1)'
)
TWO = Example(
    "Look up the recipe of plum cake and print it.",
    'S1: @find_recipe (name="plum cake") > $v1\n'
    "S2: @print_text (text=$v1) > $v2\n"
    'S3: @respond ("Printed:", $v1)',
)
THREE = Example(
    "Look up the recipe of plum cake, shorten it to three lines and print it.",
    'S1: @find_recipe (name="plum cake") > $v1\n'
    'S2: @llm_summarize ($v1, format="three lines") > $v2\n'
    "S3: @print_text (text=$v2) > $v3\n"
    'S4: @respond ("Printed:", $v2)',
)
EXAMPLES = (ONE, TWO, THREE, CONDITION, LOOP, FAILURE)
"""Examples with tools that no catalogue is likely to have."""

_CONDITIONAL = re.compile(r"\b(?:if|only|unless|otherwise|whether|in case|except)\b", re.IGNORECASE)
_FAILING = re.compile(
    r"\b(?:if|when|should|in case) (?:\w+ ){0,4}fails?\b|\bretr(?:y|ies|ying)\b"
    r"|\btr(?:y|ying) (?:it )?(?:again|up to|twice|once more)\b|\b(?:does|did)(?: not|n't) work\b",
    re.IGNORECASE,
)
_LOOPING = re.compile(r"\b(?:each|every|one by one|all (?:of )?(?:the )?\w+s)\b", re.IGNORECASE)


def example_for(goal: str) -> Example:
    """The example that is told for a goal: one with what the goal has, or of as many parts.

    >>> example_for("Delete each file") is LOOP, example_for("What time is it?") is ONE
    (True, True)
    """
    if _FAILING.search(goal):
        return FAILURE
    if _CONDITIONAL.search(goal):
        return CONDITION
    if _LOOPING.search(goal):
        return LOOP
    return (ONE, TWO, THREE)[min(len(parts_of(goal)), 3) - 1] if parts_of(goal) else ONE
