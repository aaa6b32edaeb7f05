"""A cache of judgements: admits a call by its shape and labels if an equivalent call was judged before.

In: a call that was judged in full. Out: the same judgement for calls of the same shape: same tool, same
argument names and labels, and the same label of what decided that the call is made. A judgement is reused
only if the rules do not depend on the values: no rule reads them, or the plan itself writes them, or checks
on the texts (`clears`) pass; and if all data is public, or the texts stand apart so that joining them forms
nothing new. Every other call is judged in full, with its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from callsheet.ir.labels import LITERAL
from callsheet.machine.monitor.admitted import NOTHING_SHOWN, Admitted
from callsheet.machine.monitor.call_shapes import (
    ALWAYS_JUDGED,
    MOST,
    CachedJudgement,
    CallShape,
    CallShapes,
    has_safe_texts,
)
from callsheet.machine.monitor.implicit_flows import ImplicitFlows
from callsheet.machine.monitor.origins import Extended
from callsheet.machine.monitor.variable_labels import VariableLabels
from callsheet.machine.program import Program, StepCode
from callsheet.policy.calls import bare
from callsheet.policy.judge import Judge
from callsheet.policy.rules.base import BETWEEN
from callsheet.policy.separation import ALONE, YES, opens_nothing

Args: TypeAlias = "Mapping[str, Any]"
Inputs: TypeAlias = "Sequence[Any]"


class JudgementCache:
    """The judgement cache for one run of a program under one set of rules; without rules, always empty."""

    __slots__ = ("_by_form", "_extended", "_implicit_flows", "_rules", "_shapes", "_variables")

    def __init__(
        self,
        rules: Judge | None,
        implicit_flows: ImplicitFlows,
        variables: VariableLabels,
        extended: Extended,
        program: Program,
    ) -> None:
        self._rules = rules
        self._implicit_flows = implicit_flows
        self._variables = variables
        self._extended = extended
        # a judgement of a shape depends only on the rules, so every run of the program can use it
        shapes = None if rules is None else program.cached((CallShapes, rules), lambda: CallShapes(rules))
        self._shapes = shapes
        self._by_form: dict[int, CallShape] = {} if shapes is None else shapes.by_form

    def admitted(self, code: StepCode, args: Args, inputs: Inputs = ()) -> Admitted | None:
        """The cached judgement for the call a step is about to make; None if it must be judged in full."""
        shape = self._by_form.get(code.form)
        if shape is None or code.recurs:
            if self._shapes is None:
                return None
            shape = self._shapes.of(code, self._implicit_flows)
        known = shape.known
        if not known:
            return None
        implicit_flows, variables, slots = self._implicit_flows, self._variables, code.read_slots
        pc = implicit_flows.about(code.number) if implicit_flows.noted else implicit_flows.base
        if len(slots) == 1:
            (slot,) = slots
            cached = known.get((pc, variables.labels[slot]))
            origins = variables.origins[slot]
        else:
            labels = variables.labels
            cached = known.get((pc, *[labels[slot] for slot in slots]))
            origins = variables.origins_at(slots)
        if cached is None:
            return None
        result, sent, is_separate, is_safe = cached
        if is_safe and not has_safe_texts(code, shape):
            return None
        if shape.clears or is_separate:
            if not self._passes(code, shape, is_separate, args, inputs):
                return None
        elif not _are_scalars(args):
            return None
        return bare(Admitted, (result, sent, self._extended.extend(origins, code.id), (), NOTHING_SHOWN))

    def note(self, code: StepCode, admitted: Admitted, args: Args, inputs: Inputs) -> None:
        """Cache the judgement of a call that was judged in full, if it does not depend on its values."""
        result, sent = admitted.result, admitted.sent
        if admitted.reasons or result.is_secret or self._shapes is None or self._rules is None:
            return
        shape = self._shapes.of(code, self._implicit_flows)
        if shape is ALWAYS_JUDGED:
            return
        labels = [self._variables.labels[slot] for slot in code.read_slots]
        if any(label.may_link for label in labels) and self._rules.is_message(code.tool):
            return  # the links in the message must be disabled, which needs the values
        is_separate = not sent.is_public or not (result.is_public or self._rules.prepared(code.tool).adds)
        if is_separate:
            if LITERAL in labels or not shape.of_private:
                return
            if not self._passes(code, shape, True, args, inputs):
                return
        if len(shape.known) >= MOST:
            shape.known.clear()
        shape.known[self._implicit_flows.about(code.number), *labels] = CachedJudgement(
            result, sent, is_separate, bool(shape.safe) and sent.untrusted
        )

    def _passes(
        self, code: StepCode, shape: CallShape, is_separate: bool, args: Args, inputs: Inputs
    ) -> bool:
        """Whether the texts of a call pass the checks, and stand apart if `is_separate`."""
        texts: list[str] = []
        for value in (*inputs, *args.values()) if inputs else args.values():
            if type(value) is str:
                texts.append(value)
            elif type(value) is int:
                texts.append(str(value))
            else:
                return False
        text = texts[0] if len(texts) == 1 else BETWEEN.join(texts)
        for clear in shape.clears:
            if not clear(text):
                return False
        if not is_separate:
            return True
        assert self._shapes is not None
        how = self._shapes.separation(code, shape)
        return how is ALONE or (how is YES and opens_nothing(text))


def _are_scalars(args: Args) -> bool:
    """Whether no argument is a dict or a list: the keys of a dict are data, and may name recipients."""
    for value in args.values():  # noqa: SIM110 - for each call: faster than `any`
        if type(value) is dict or type(value) is list:
            return False
    return True
