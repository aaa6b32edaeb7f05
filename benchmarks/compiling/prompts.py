"""The prompts that the compiler is compared with: a minimal one, and one with the documented examples.

Both show the catalogue before the goal, so that a server can cache it for all goals with the same catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.compiling.goals import ToolText

BARE = """\
You write plans in LTP. A plan is lines of the form `S1: @TOOL (name="value", other=$variable) > $result`, \
numbered from S1. Results of earlier steps are passed on as $variables. `?IF ($x > 5) THEN @TOOL (...)` and \
`?FOREACH ($item IN $list) THEN @TOOL (...)` stand before a call; steps between `@PARALLEL {` and `}` run \
side by side; `ON_FAIL @RETRY(2)` and `ON_FAIL TERMINATE ("why")` stand after it. The last step is \
`@RESPOND ("text", $variable)`. Answer with the plan alone."""
"""The language in words, without an example."""

_OPERATIONS = """\
@LLM_EXTRACT ($x, target="what") takes something out of a text
@LLM_SUMMARIZE ($x, format="one sentence") shortens
@LLM_CLASSIFY ($x, categories=["a", "b"]) sorts
@LLM_ANALYZE ($x, $y, task="compare") examines
@LLM_GENERATE (context=$x, format="report") writes from material
@LLM_TRANSLATE ($x, target_lang="fr") translates
@LLM_EVALUATE ($x, condition="...") gives TRUE or FALSE"""

_EXAMPLES = """\
Goal: hi
PLAN_START
S1: @RESPOND ("Hello! How can I help you?")
PLAN_END

Goal: Who wrote Solaris?
PLAN_START
S1: @WEB_SEARCH (query="author of the novel Solaris") > $results
S2: @LLM_EXTRACT ($results, target="name of the author") > $author
S3: @RESPOND ($author)
PLAN_END

Goal: Get the weather page of Lima, save it, tell me the temperature
PLAN_START
S1: @FETCH_PAGE (url="https://weather.example/lima") > $page ON_FAIL @RETRY(2)
S2: @LLM_EXTRACT ($page, target="temperature") > $temperature
S3: @SAVE_FILE (path="lima.txt", content=$page)
S4: @RESPOND ("Saved. Temperature:", $temperature)
PLAN_END

Goal: If there are urgent tickets, alert the operators, and report on all tickets
PLAN_START
S1: @FETCH_TICKETS (queue="support") > $tickets:json ON_FAIL TERMINATE ("The tickets cannot be reached.")
S2: ?IF (IS_EMPTY($tickets.urgent)) THEN @RESPOND ("Nothing is urgent.")
S3: ?FOREACH ($t IN $tickets.urgent) THEN @ALERT (group="operators", text="Urgent: $t.title") > $sent
@PARALLEL {
  S4: @COUNT_TICKETS (queue="support") > $count
  S5: @LIST_OPERATORS (shift="now") > $operators
}
S6: @LLM_GENERATE (context=$tickets, format="short report") > $report
S7: @RESPOND ("$count tickets", $report, $operators)
PLAN_END"""

DOCUMENTED = f"""\
Translate the goal into a plan. Answer with the plan alone.

Operations of a language model, one focused question each:
{_OPERATIONS}

Control:
@RESPOND ("text", $x) ends the plan with the answer; TERMINATE ("why") ends it early; GOTO S4 jumps
?IF ($x == "value") THEN, with == != > < >= <= contains, IS_EMPTY($x), NOT_EMPTY($x), AND, OR, NOT (...)
?FOREACH ($item IN $list) THEN runs the call for each item
@PARALLEL {{ }} around steps that do not need each other runs them side by side
> $name:type stores the result as int, float, bool, list or json; $name.path.0 reads a part of it
ON_FAIL @RETRY(3), ON_FAIL GOTO S4, ON_FAIL TERMINATE ("why") stand after a call

{_EXAMPLES}"""
"""The language with worked examples, always the same ones."""


def conversation(card: str, tools: Sequence[ToolText], goal: str) -> list[dict[str, str]]:
    """The messages: the card, the catalogue, the goal last."""
    catalogue = "\n".join(tool.line for tool in tools)
    return [
        {"role": "system", "content": f"{card}\n\nThe tools that there are:\n{catalogue}"},
        {"role": "user", "content": f"Goal: {goal}"},
    ]
