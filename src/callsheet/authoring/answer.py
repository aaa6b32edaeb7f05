"""Extracts the plan from a model's answer, in Micro-CLI or LTP text.

In: an answer. Out: its plan, or diagnostics. No line that looks like a step or command is ignored: an
answer that mixes both notations is parsed as Micro-CLI, which accepts the calls of LTP text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from callsheet.frontends.ltp import ParseResult, parse
from callsheet.frontends.micro import parse_micro
from callsheet.frontends.spelling import leaves_out_commands

_NAME = "<model>"
_THOUGHTS = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
"""The reasoning of some models before their answer; plans inside it do not count."""
_SEEN = re.compile(r"\S")


def read_answer_plan(answer: object, variables: Iterable[str] = (), name: str = _NAME) -> ParseResult:
    """The plan in an answer, or the diagnostics that say why there is none.

    `variables` are set before the plan runs, so that a bare word in Micro-CLI can refer to them; `name` is
    the name of the text in diagnostics.
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
    """The answer with its reasoning replaced by blanks, so that positions in it stay the same.

    >>> _without_thoughts("<think>S1: no</think>S1: @RESPOND (1)").strip()
    'S1: @RESPOND (1)'
    """
    thoughts = _THOUGHTS.match(answer)
    return answer if thoughts is None else _SEEN.sub(" ", thoughts[0]) + answer[thoughts.end() :]


def _reads_better(ltp: ParseResult, micro: ParseResult) -> bool:
    """Whether an answer without a plan looks more like faulty LTP text than like Micro-CLI."""
    if "PLAN_START" in ltp.source.text:
        return True
    return len(ltp.partial.steps) > len(micro.partial.steps)
