"""The plan in a model's answer: Micro-CLI, or LTP text where the answer is that.

In: an answer. Out: its plan, or diagnostics. No line that looks like a step or a command is left
out: an answer that mixes both spellings is read as Micro-CLI, which knows the calls of LTP text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from callsheet.frontends.ltp import ParseResult, parse
from callsheet.frontends.micro import parse_micro
from callsheet.frontends.spelling import leaves_out_commands

_NAME = "<model>"
_THOUGHTS = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
"""What models with such a mark have thought before they answer; plans that they have thought of are none."""
_SEEN = re.compile(r"\S")


def read_answer_plan(answer: object, variables: Iterable[str] = (), name: str = _NAME) -> ParseResult:
    """The plan that an answer holds, or the diagnostics that say why it holds none.

    `variables` are set before the plan runs, so that a bare word in Micro-CLI can name them;
    `name` is what diagnostics call the text.
    """
    text = _without_thoughts(answer) if isinstance(answer, str) else ""
    names = tuple(variables)
    ltp = parse(text, name)
    if ltp.plan is not None and not leaves_out_commands(ltp, names):
        return ltp
    micro = parse_micro(text, name, variables=names)
    if micro.plan is not None or ltp.plan is not None:
        return micro
    return ltp if _reads_better(ltp, micro) else micro


def _without_thoughts(answer: str) -> str:
    """An answer with blanks in place of the thoughts before it, so that places in it stay what they are.

    >>> _without_thoughts("<think>S1: no</think>S1: @RESPOND (1)").strip()
    'S1: @RESPOND (1)'
    """
    thoughts = _THOUGHTS.match(answer)
    return answer if thoughts is None else _SEEN.sub(" ", thoughts[0]) + answer[thoughts.end() :]


def _reads_better(ltp: ParseResult, micro: ParseResult) -> bool:
    """Whether an answer without a plan is rather LTP text that has gone wrong."""
    if "PLAN_START" in ltp.source.text:
        return True
    return len(ltp.partial.steps) > len(micro.partial.steps)
