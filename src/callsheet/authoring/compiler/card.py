"""The language card of the compiler, and worked examples that fit a goal.

Pure. In: a goal. Out: texts, of at most 350 tokens together; the card is the same for every goal.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CARD_VERSION = 1
"""Changes whenever a text of a prompt does, so that a journal tells which prompt gave a plan."""

CARD = """\
You turn a goal into a plan of tool calls, one a line. Answer with the plan alone.
S1: @tool (name="text", count=3) > $v1
S2: @other (name=$v1.field, text="Found: $v1") > $v2
S3: @respond ("Done:", $v2)
- Do all that the goal says, in its order: one step for each part, and no step that it does not ask for.
- Arguments are what the goal says or results of earlier steps: $v1 is that of S1, $v1.field a part of it. \
Arguments with ? may be left out.
- Call only the tools below. The last step is @respond with the answer.
- S2: ?IF ($v1.n > 5) THEN @tool (...) > $v2 only where that is so: == != < > <= >= contains, IS_EMPTY($v1), \
NOT_EMPTY($v1), AND, OR
- S2: ?FOREACH ($x IN $v1) THEN @tool (name=$x.id) > $v2 once for each item
- At the end of a line: ON_FAIL @RETRY(2) or ON_FAIL TERMINATE ("message")"""


class Example(NamedTuple):
    """A goal and its plan; `fits` says of which goals it is an example."""

    goal: str
    plan: str
    fits: re.Pattern[str] | None = None


_CONDITION = re.compile(r"\b(?:if|only|unless|otherwise|whether|when|in case|except)\b", re.IGNORECASE)
_LOOP = re.compile(r"\b(?:each|every|all (?:the )?\w+s|one by one)\b", re.IGNORECASE)

EXAMPLES: tuple[Example, ...] = (
    Example(
        "Check the stock of item 7; if it is below 5, order 20 of it.",
        'S1: @get_stock (item=7) > $v1\nS2: ?IF ($v1.count < 5) THEN @order_item (item=7, count=20) > $v2\n'
        'S3: @respond ("Stock:", $v1.count)',
        _CONDITION,
    ),
    Example(
        "Invite each member of the chess club and tell Ann that it is done.",
        'S1: @list_members (club="chess") > $v1\nS2: ?FOREACH ($x IN $v1) THEN @invite (member=$x.id) > $v2\n'
        'S3: @tell (person="Ann", text="The members are invited.") > $v3\nS4: @respond ("Invited:", $v1)',
        _LOOP,
    ),
    Example(
        "Look up the recipe of plum cake, shorten it to three lines and print it.",
        'S1: @find_recipe (name="plum cake") > $v1\n'
        'S2: @llm_summarize ($v1, format="three lines") > $v2\n'
        'S3: @print_text (text=$v2) > $v3\nS4: @respond ("Printed:", $v2)',
    ),
)
"""Examples with tools that no catalogue is likely to have; the first that fits a goal is told."""


def example_for(goal: str) -> Example:
    """The example that is told for a goal.

    >>> example_for("Delete each file").plan.splitlines()[1][:28]
    'S2: ?FOREACH ($x IN $v1) THE'
    """
    return next(example for example in EXAMPLES if example.fits is None or example.fits.search(goal))
