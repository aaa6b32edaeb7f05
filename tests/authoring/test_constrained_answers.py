"""Every sentence of the grammar becomes a plan that can run, with one model call."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from benchmarks.grammars.catalogue import TOOLS, VARIANTS, signatures
from benchmarks.grammars.sentences import Sentences

from callsheet.authoring.compiler.compile import compile_goal
from callsheet.authoring.compiler.request import Options, PlanForm, Request
from callsheet.diagnostics import Diagnostic
from callsheet.frontends.export import Form, plan_grammar
from callsheet.frontends.ltp import format_plan, parse
from callsheet.ir import Plan
from callsheet.passes import check
from callsheet.ports.models.model import Syntax
from callsheet.ports.tools import ToolSpec
from scripted_models import Scripted

SENTENCES = 10
SPECS = tuple(ToolSpec(tool.canonical, tool.name, "", tool.parameters) for tool in TOOLS)
LEAN = [name for name, options in VARIANTS.items() if options.form is Form.LEAN]


@pytest.mark.parametrize("variant", LEAN)
def test_grammar_sentence_is_valid_plan_without_repair(variant: str) -> None:
    options = VARIANTS[variant]
    sentences = Sentences(plan_grammar(TOOLS, options), Random(variant))
    given = dict.fromkeys(options.given, "a text")

    def checked(plan: Plan) -> tuple[Diagnostic, ...]:
        return check(plan, tools=signatures(), inputs=options.given)

    for _ in range(SENTENCES):
        text = sentences.draw()
        model = Scripted([text], accepts=[Syntax.LARK])
        asked = compile_goal(
            Request("Look at all of it", SPECS, given=given),
            model,
            checked,
            Options(form=PlanForm.LTP, repairs=False),
        )
        draft = asyncio.run(asked)
        assert draft.plan is not None, (text, draft.diagnostics)
        assert draft.accounting.calls == 1
        assert parse(draft.source.text).require() == draft.plan
        assert format_plan(draft.plan) == draft.source.text
