"""Reconcilers: how other tools tell whether a call in doubt took place, without a person.

In: a declaration: the call of a tool that reads with a condition on its answer, or a plan. Out: what a probe
gives: the value that the call had, that it was never made, or that this is unknown. The calls themselves are
made by whoever has the tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from callsheet.ir import JSON, Plan
from callsheet.ir.expression import Expression, variables_in
from callsheet.ir.inverse import CALL, Inverse, NotAnInverse, read_inverse
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine import TookPlace
from callsheet.ports.answers import Probed, as_json
from callsheet.ports.calls import ToolFailed

ANSWER, KEY = "answer", "key"
"""What a condition reads beside `$call`, the arguments of the call: the tool's answer, and the call's key."""
_NAMES = (ANSWER, CALL, KEY)
PROBE_HINT = (
    'name a call and a condition: probe="find_order(reference=key)", happened="len($answer) > 0"; '
    "or a plan: a file such as probe.ltp, or its text"
)


class NotAReconciler(ValueError):
    """A declaration of a probe that cannot be used; its message says why, and how to write one."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Whether a call took place, and its value: expressions over `$answer`, `$call` and `$key`."""

    happened: Expression
    value: Expression | None = None
    """The value of the call; None for the answer itself."""

    def judge(self, answer: JSON, args: Mapping[str, JSON], key: str) -> Probed:
        """What an answer tells of a call; a text with JSON in it is read as such. Raises ToolFailed.

        >>> condition = read_condition("any(i.title == $call.title for i in $answer)", "$answer[0].id")
        >>> condition.judge([{"id": 7, "title": "t"}], {"title": "t"}, "k"), condition.judge([], {}, "k")
        (TookPlace(value=7), False)
        """
        from callsheet.machine.expressions import ExpressionFailed  # noqa: PLC0415 - only for a call in doubt

        if isinstance(answer, str):
            with suppress(NotJson):
                answer = read_json(answer)
        slots: list[Any] = [answer, dict(args), key]
        try:
            if not _evaluated(self.happened, slots):
                return False
            return TookPlace(answer if self.value is None else as_json(_evaluated(self.value, slots)))
        except ExpressionFailed as failed:
            raise ToolFailed(f"its condition fails: {failed.message}") from failed


@dataclass(frozen=True, slots=True)
class ByCall:
    """A tool that reads is called, and a condition judges its answer."""

    call: Inverse
    condition: Condition


@dataclass(frozen=True, slots=True)
class ByPlan:
    """A plan is run whose tools only read. It answers as a probing tool does: `{"happened": …, "value": …}`.

    Its inputs are `call`, `key`, or have the names of arguments of the call.
    """

    plan: Plan

    def inputs(self, args: Mapping[str, JSON], key: str) -> dict[str, JSON]:
        """The inputs of the plan for a call."""
        assert self.plan.tree is not None
        known: dict[str, JSON] = {**args, CALL: dict(args), KEY: key}
        return {one.name: known[one.name] for one in self.plan.tree.inputs if one.name in known}


Reconciler: TypeAlias = "ByCall | ByPlan"


def read_reconciler(text: str, happened: str | None, value: str | None, folder: Path) -> Reconciler:
    """The reconciler that a declaration names; files are relative to `folder`. Raises NotAReconciler."""
    if "\n" in text or text.strip().endswith(".ltp"):
        if happened is not None or value is not None:
            raise NotAReconciler(
                "a plan says itself whether the call took place: remove `happened` and `value`"
            )
        return read_plan(text, folder)
    if happened is None:
        raise NotAReconciler(f"the probe {text[:80]!r} needs a condition")
    try:
        call = read_inverse(text, (CALL, KEY))
    except NotAnInverse as error:
        raise NotAReconciler(str(error)) from None
    return ByCall(call, read_condition(happened, value))


def read_condition(happened: str, value: str | None = None) -> Condition:
    """The condition in two texts; raises NotAReconciler."""
    return Condition(_expression(happened), None if value is None else _expression(value))


def read_plan(text: str, folder: Path) -> ByPlan:
    """The plan with blocks in a file or text; raises NotAReconciler."""
    from callsheet.frontends.spelling import read_plan_text  # noqa: PLC0415 - few tools have one

    if "\n" not in text:
        path = folder / Path(text.strip()).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NotAReconciler(f"the plan {path} cannot be read: {error}") from None
    read = read_plan_text(text, "probe").result
    wrong = next((found.message for found in read.diagnostics if found.is_error), None)
    if read.plan is None or wrong is not None:
        raise NotAReconciler(f"its plan has an error: {wrong}")
    if read.plan.tree is None:
        raise NotAReconciler("its plan needs the first line `# ltp: 2`")
    return ByPlan(read.plan)


def _expression(text: str) -> Expression:
    from callsheet.frontends.expressions import NotAnExpression, read_expression  # noqa: PLC0415 - as above

    try:
        node = read_expression(text.strip(), in_brackets=True).expression
    except NotAnExpression as error:
        raise NotAReconciler(f"{text[:80]!r} is no expression: {error.message}") from None
    unknown = [name for name in variables_in(node) if name not in _NAMES]
    if unknown:
        raise NotAReconciler(f"${unknown[0]} is not known here: a condition reads $answer, $call and $key")
    return node


def _evaluated(node: Expression, slots: list[Any]) -> Any:
    from callsheet.machine.expressions import Environment, compile_expression  # noqa: PLC0415 - as above
    from callsheet.machine.tree.values import plain  # noqa: PLC0415 - as above

    compiled = compile_expression(node, _NAMES.index)
    return plain(compiled(slots, Environment(datetime.now(UTC))))
