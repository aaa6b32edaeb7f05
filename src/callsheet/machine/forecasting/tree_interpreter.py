"""Abstract interpretation of a plan with blocks: walks its statements in the order of the text.

In: a plan of version 2, its inputs, what is known of the world. Out: a `Forecast`. Items and rounds are
walked one by one as long as they are known; both branches of an undecided condition are walked and joined. A
sub-plan is walked at each of its calls, as if it were written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from callsheet.ir import JSON, Call, Effect, Plan, Replan, Respond, Step, Terminate
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.operations import COMPUTE
from callsheet.ir.tree import (
    Act,
    Block,
    Compute,
    Foreach,
    Input,
    Invoke,
    Parallel,
    Say,
    Statement,
    Word,
    variables_set,
)
from callsheet.ir.types import type_text
from callsheet.machine.forecasting.assembling import (
    agent_of_call,
    effect_of_step,
    models_of_step,
    unforeseen_in,
)
from callsheet.machine.forecasting.forecast import BlockForecast, Forecast, StepForecast, When
from callsheet.machine.forecasting.partial_values import Foreseen, Knowledge, Unknown
from callsheet.machine.forecasting.step_interpreter import StepOutcome
from callsheet.machine.forecasting.tree_blocks import BlockWalk, parts_of
from callsheet.machine.forecasting.tree_calls import (
    MOST_SETTERS,
    At,
    Binding,
    BlockRow,
    ForeseenCall,
    Frame,
    Recall,
    Row,
    Scope,
    data_of,
)
from callsheet.machine.tree.values import conformed


def _forgets(_: ForeseenCall) -> None:
    return None


def foresee_tree(
    plan: Plan,
    inputs: Mapping[str, JSON] | None = None,
    knowledge: Knowledge | None = None,
    recall: Recall = _forgets,
) -> Forecast:
    """What a plan with blocks would do with these inputs; nothing is called.

    `recall` is asked about each call in the order of the text, and may know its value. Raises CallsheetError
    for a plan that cannot be compiled.
    """
    with gc_paused(True):
        return _TreeInterpreter(plan, knowledge or Knowledge(), recall).forecast(inputs or {})


class _TreeInterpreter(BlockWalk):
    """Makes the forecast: lists the steps and blocks, walks the plan, and says what came of it."""

    def forecast(self, inputs: Mapping[str, JSON]) -> Forecast:
        self._list(self._tree.body, "", ())
        scope, frame = Scope(), Frame()
        for one in self._tree.inputs:
            scope.put(one.name, Binding(self._input(one, inputs)))
        self._block(self._tree.body, scope, At(), frame)
        steps = tuple(self._step(number, row) for number, row in enumerate(self._rows.values()))
        blocks = {key: self._block_forecast(row) for key, row in self._blocks.items()}
        return Forecast(self._plan, steps, tuple(unforeseen_in(steps, self._knowledge)), blocks)

    def _input(self, one: Input, given: Mapping[str, JSON]) -> Foreseen:
        """The value of an input, as far as it is given and not to be kept secret."""
        hides = one.is_secret and not self._knowledge.has_secrets
        if hides or (one.name not in given and one.must_be_given):
            return Unknown(f"${one.name}", kind=type_text(one.type))
        return conformed(given.get(one.name, one.default), one.type, self._named)[0]

    def _list(self, block: Block, path: str, within: tuple[str, ...]) -> None:
        """List the steps and blocks in the order of the text, a sub-plan in place of its calls."""
        for one in block:
            place = path + one.id
            match one:
                case Act():
                    listed = self._listed[one.id]
                    retries = (
                        0 if one.recovery is None or one.recovery.again is None else one.recovery.again.count
                    )
                    self._add(Row(replace(listed, id=place), one, within, tries=1 + retries))
                case Compute():
                    self._add(Row(Step(place, Call(COMPUTE)), one, within))
                case Say(word=Word.RESPOND | Word.RETURN | Word.WAIT | Word.FAIL):
                    self._add(Row(Step(place, Respond(())), one, within))
                case Say(word=Word.REPLAN):
                    self._add(Row(Step(place, Replan(())), one, within))
                case Say(word=Word.TERMINATE):
                    self._add(Row(Step(place, Terminate(())), one, within))
                case _:
                    pass
            for part, inner in parts_of(one):
                key = self._add_block(place, one, part, within)
                self._list(inner, path, (*within, key))
            if isinstance(one, Invoke) and (called := self._tree.plan(one.plan)) is not None:
                key = self._add_block(place, one, "", within)
                self._list(called.body, place + "/", (*within, key))

    def _add(self, row: Row) -> None:
        self._rows[row.step.id] = row

    def _add_block(self, place: str, statement: Statement, part: str, within: tuple[str, ...]) -> str:
        key = f"{place} {part}".rstrip()
        self._blocks[key] = BlockRow(place, statement, part, within)
        return key

    # -------------------------------------------------------------- the result

    def _step(self, number: int, row: Row) -> StepForecast:
        step, knowledge = row.step, self._knowledge
        effect, is_declared = effect_of_step(step, knowledge)
        if isinstance(row.statement, Compute):
            effect, is_declared = Effect.PURE, True
        outcome = StepOutcome(visits=tuple(row.visits), times=row.times)
        when = When.NEVER
        if row.times.most != 0:
            when = When.ALWAYS if row.times.least else When.MAYBE if row.is_usual else When.ON_FAILURE
        tools = {step.id, row.statement.id} & knowledge.assumed.keys()
        results = row.results
        has_result = bool(variables_set(row.statement)) and bool(results)
        return StepForecast(
            number=number,
            step=step,
            when=when,
            times=row.times,
            total=row.times.by(1, row.tries),
            visits=tuple(row.visits),
            is_per_item=row.is_per_item,
            repeats=row.repeats,
            depends_on=tuple(row.depends_on)[:MOST_SETTERS],
            effect=effect,
            is_declared=is_declared,
            models=models_of_step(step, outcome, knowledge),
            agent=None if step.call is None else agent_of_call(step.call, outcome, knowledge),
            needs_approval=step.call is not None and knowledge.needs_approval(step.call.tool, step.id),
            is_assumed=bool(tools),
            is_computed=row.is_computed and not tools,
            result=data_of(results[0]) if has_result and len(results) == 1 else _some_of(row),
            has_result=has_result,
            why_not=row.why_not if when is When.NEVER else None,
            within=row.within,
            statement=row.statement,
        )

    def _block_forecast(self, row: BlockRow) -> BlockForecast:
        when = When.NEVER
        if row.times.most != 0:
            when = When.ALWAYS if row.times.least else When.MAYBE if row.is_usual else When.ON_FAILURE
        statement, at_once, is_side = row.statement, None, isinstance(row.statement, Parallel)
        differing: tuple[str, ...] = ()
        if isinstance(statement, Foreach) and not row.part:
            op = self._loops[statement.id]
            is_side, at_once = op.side_by_side, op.most
            differing = () if op.distinction is None else op.distinction.arguments
        is_loop = isinstance(statement, Foreach) and not row.part
        return BlockForecast(
            id=row.id,
            statement=statement,
            part=row.part,
            when=when,
            times=row.times,
            within=row.within,
            items=data_of(row.items) if is_loop else None,
            count=row.count if is_loop else None,
            is_side_by_side=is_side and not row.part,
            differing=differing,
            at_once=at_once,
        )


def _some_of(row: Row) -> Foreseen:
    """What is said of the results of a call that is made several times."""
    call = row.step.call
    name = "" if call is None else call.tool
    return Unknown(f"{name} result", row.step.id) if row.results else None
