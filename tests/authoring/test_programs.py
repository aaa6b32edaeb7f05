"""From a goal to a plan as a Python program: what is told, what is accepted, what is repaired."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from callsheet import Plan as PublicPlan
from callsheet import Runtime, tool
from callsheet.api.compiling import Compiled
from callsheet.authoring.compiler.answer_doubts import left_out
from callsheet.authoring.compiler.answers import bound_names, program_in, with_imports, with_main
from callsheet.authoring.compiler.compile import compile_goal, prompt_for
from callsheet.authoring.compiler.mends import Lookup, with_lookups, with_told
from callsheet.authoring.compiler.program import fields_of, told_ids
from callsheet.authoring.compiler.program_prompt import ROOM, program_question, stubs_for
from callsheet.authoring.compiler.request import Draft, Options, PlanForm, Request
from callsheet.authoring.compiler.tool_lines import estimate_tokens
from callsheet.authoring.compiler.value_doubts import unstated
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.frontends.export import ToolShape, is_sentence, program_grammar
from callsheet.frontends.export.rules import ANY_NUMBER, Chars, Choice, Grammar, Many, Node, Seq, Text, Use
from callsheet.frontends.python import read_python
from callsheet.ir import Effect, Plan
from callsheet.ir.tree import Tree, acts
from callsheet.machine import Cut
from callsheet.passes import ToolSignature, check
from callsheet.ports.models.model import Completion, Stop, Strength, Syntax
from callsheet.ports.tools import ToolSpec
from compiled_goals import CANCEL, CONDITIONAL, FORECAST, GOALS, TEXT, TOOLS, spec
from scripted_models import Scripted


def checked(plan: Plan) -> Sequence[Diagnostic]:
    return check(plan, tools={t.name: ToolSignature.from_schema(t.parameters, t.effect) for t in TOOLS})


def drafted(model: Scripted, goal: str = GOALS[0], options: Options | None = None) -> Draft:
    return asyncio.run(compile_goal(Request(goal, TOOLS), model, checked, options))


@pytest.mark.parametrize("goal", GOALS)
def test_right_program_of_strong_model_is_taken_unchanged_and_asked_once(goal: str) -> None:
    model = Scripted([CONDITIONAL], accepts=[Syntax.LARK, Syntax.GBNF, Syntax.JSON_SCHEMA])
    draft = drafted(model, goal)
    assert draft.plan is not None
    assert draft.source.text.endswith(CONDITIONAL)
    assert read_python(draft.source.text).require() == draft.plan
    assert " ".join((draft.plan.goal or "").split()) == " ".join(goal.split())
    assert (draft.accounting.calls, draft.doubts, draft.diagnostics) == (1, (), ())
    assert model.constraints == [None]
    prompt = model.asked[0][0]["content"]
    assert all(f"async def {tool.executor}(" in prompt for tool in TOOLS)


DOUBTED = CONDITIONAL.replace('"e-5"', '"e-77"')


@pytest.mark.parametrize(
    ("second", "calls_of_second"),
    [
        (CONDITIONAL, True),
        (DOUBTED, False),
        ('async def main():\n    return "I cannot."', False),  # has fewer doubts, and does nothing
        ("async def main():\n    await nothing()", False),
        ("", False),
    ],
)
def test_small_model_is_asked_afresh_in_another_form_with_findings_beside_the_goal(
    second: str, *, calls_of_second: bool
) -> None:
    model = Scripted([DOUBTED, second, second], strength=Strength.SMALL)
    draft = drafted(model)
    assert draft.plan is not None
    assert draft.source.text.endswith(CONDITIONAL if calls_of_second else DOUBTED)
    assert len(model.asked) == 2
    asked, again = (messages[-1]["content"] for messages in model.asked)
    assert model.asked[1][:-1] == model.asked[0][:-1]
    assert not again.startswith(asked)
    assert f'async def main():\n    """{GOALS[0]}"""' in again
    assert "- event_id=e-77: nothing that the model was told" in again
    is_told = any(one.code == "CMP010" for one in draft.diagnostics)
    assert is_told is not calls_of_second


@pytest.mark.parametrize("strength", list(Strength))
def test_findings_are_not_sent_to_strong_models_nor_without_second_look(strength: Strength) -> None:
    options = Options(second_look=strength is Strength.STRONG)
    model = Scripted([DOUBTED], strength=strength)
    draft = drafted(model, options=options)
    assert (draft.accounting.calls, [one.code for one in draft.diagnostics]) == (1, ["CMP010", "CMP016"])


def test_condition_in_any_words_stays_in_plan() -> None:
    """The cancellation depends on the weather, whatever word states the condition."""
    for goal in GOALS:
        plan = drafted(Scripted([CONDITIONAL]), goal).plan
        assert plan is not None
        assert plan.tree is not None
        kinds = [type(one).__name__ for one in plan.tree.body]
        assert kinds[:2] == ["Act", "If"], kinds


def test_rules_and_stubs_are_the_same_for_all_goals_and_goal_is_last() -> None:
    prompts = [prompt_for(Request(goal, TOOLS)).messages for goal in GOALS]
    assert len({prompt[0]["content"] for prompt in prompts}) == 1
    assert all(goal in prompt[-1]["content"] for goal, prompt in zip(GOALS, prompts, strict=True))
    assert all(prompt[-1]["content"].endswith("</goal>") for prompt in prompts)


def test_result_shapes_and_nested_keys_are_told() -> None:
    prompt = prompt_for(Request(GOALS[0], TOOLS), Strength.SMALL).messages[0]["content"]
    assert "rain: bool\n    celsius: float" in prompt
    assert "oldText: str\n    newText: str" in prompt


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (CONDITIONAL.replace("cancel_event(", "drop_event("), "line 4"),
        (CONDITIONAL.replace("event_id=", "id="), "line 4"),
        (CONDITIONAL.replace("await cancel", "cancel"), "line 4"),
        ('async def main():\n    await edit_file(path="a", edits=[{"old": "x", "new": "y"}])\n', "oldText"),
        ("async def main()\n    return 1\n", "line 1"),
        ("I cannot do that.", "no Python program"),
    ],
)
def test_wrong_program_is_repaired_once_with_its_lines(wrong: str, said: str) -> None:
    model = Scripted([wrong, CONDITIONAL])
    draft = drafted(model)
    assert draft.plan is not None
    assert (draft.accounting.calls, draft.accounting.repaired) == (2, True)
    assert said in model.asked[1][-1]["content"]
    again = Scripted([wrong, wrong])
    failed = drafted(again)
    assert (failed.plan, len(again.asked)) == (None, 2)
    assert failed.diagnostics[0].code in ("CMP006", "CMP007")


@pytest.mark.parametrize(
    "around",
    [
        "```python\n{}```",
        "<think>\nasync def main(): no\n</think>\nHere is the plan:\n\n```\n{}```\nIt looks first.",
        "Here is the plan:\n{}\nThis cancels the event only if it rains.",
        "{}\nTools:\nasync def cancel_event(event_id: str) -> Any:",
    ],
)
def test_program_is_found_in_surrounding_text(around: str) -> None:
    assert program_in(around.replace("{}", CONDITIONAL)).strip() == CONDITIONAL.strip()


@pytest.mark.parametrize(
    "answer",
    [
        "forecast = await forecast(city='Bergen')\nreturn str(forecast)",
        "import json\nforecast = await forecast(city='Bergen')\nreturn json.dumps(forecast)",
        "```python\ntext = '''a\n  b'''\nawait forecast(city='Bergen')\n```",
    ],
)
def test_statements_without_a_function_are_those_of_main(answer: str) -> None:
    draft = drafted(Scripted([answer]))
    assert draft.plan is not None
    assert draft.accounting.calls == 1
    assert [act.tool for act in acts(draft.plan.tree or Tree(()))] == [FORECAST.name]


def test_text_over_lines_is_the_same_in_main() -> None:
    program = with_main("text = '''a\n  b'''\nawait send(text=text)\n")
    assert "text = 'a\\n  b'" in program
    assert with_main("await f(a=city)\n", ["city"]) == "async def main(city):\n    await f(a=city)\n"
    assert with_main("import math\nawait f()\n", ["class", "a b"]).startswith(
        "import math\nasync def main():"
    )
    assert with_main("def main():\n    pass\n\nawait f()\n").startswith("def main")
    assert with_main("async def main():\n    return await f()\n\nawait main()\n").startswith("async def main")


def test_plan_in_another_syntax_is_accepted() -> None:
    draft = drafted(Scripted(['S1: @forecast (city="Bergen") > $v1\nS2: @respond ($v1)']))
    assert draft.plan is not None
    assert draft.source.text.startswith("# ltp: 1\n")
    assert draft.accounting.calls == 1


@pytest.mark.parametrize("strength", list(Strength))
def test_many_tools_are_cut_to_room_by_whole_goal_with_remark(strength: Strength) -> None:
    many = tuple(
        spec(f"do_{n}", f"{'word ' * 60} number{n}", **{f"a{i}": TEXT for i in range(12)}) for n in range(500)
    )
    wanted = spec("feed_hamster", "Give the hamster its food.", grams={"type": "integer"})
    related = spec("read_scales_of_hamster", "Unlike it, too.")
    named = spec("zap_it", "Unlike any word of it.", volts={"type": "integer"})
    stubs = stubs_for("The animal should get food, then zap_it.", (*many, related, wanted, named), strength)
    assert {"FEED_HAMSTER", "READ_SCALES_OF_HAMSTER", "ZAP_IT"} <= {tool.name for tool in stubs.tools}
    assert 15 <= len(stubs.tools) < 503
    assert estimate_tokens(stubs.text) <= ROOM[strength] * 1.2
    assert [remark.kept for remark in stubs.remarks if isinstance(remark, Cut)] == [len(stubs.tools)]


def test_inputs_are_arguments_of_the_function() -> None:
    request = Request("Greet", TOOLS, given={"who": "a text of 3 characters"})
    asked = prompt_for(request).messages[-1]["content"]
    assert "async def main(who):" in asked


# ---------------------------------------------------------------- the grammar for small models


def small(*answers: str, accepts: Sequence[Syntax] = (Syntax.GBNF,)) -> Scripted:
    return Scripted(answers, accepts=accepts, strength=Strength.SMALL)


LARGE = """\
import asyncio
async def main():
    a, b = await asyncio.gather(forecast(city="A"), forecast(city='B'))
    done = []
    for event in [{"id": "e-5", "tags": ["x", 1, None]}, {"id": "e-6"}]:
        try:
            # one after another
            done.append(await cancel_event(event_id=event["id"]))
        except ToolError as error:
            done.append(f"failed: {error}")
            continue
    names = [one["id"] for one in done if one["n"] > 3 and one not in a]
    kinds = {one["kind"] for one in done} | {"x", 1}
    by_day = {f"{one['at'][:10]} {one['n'][1:]}": one for one in done}
    await edit_file(path="a", edits=[{"oldText": name, "newText": f"{name}!"} for name in names])
    if not a["rain"] and b["celsius"] >= 2.5:
        return {"n": len(done), "names": ", ".join(names)}
    elif b["rain"]:
        return max(done, key=lambda one: one["n"])
    else:
        await forecast(city=names[0])
    return sum(one["n"] for one in done) if done else -1
"""


@pytest.mark.parametrize("syntax", [Syntax.LARK, Syntax.GBNF])
def test_small_model_is_held_to_its_tools_and_keeps_all_statements(syntax: Syntax) -> None:
    model = small(LARGE, accepts=[syntax])
    draft = drafted(model)
    constraint = model.constraints[0]
    assert constraint is not None
    assert (constraint.syntax, constraint.name) == (syntax, "program")
    kept = [str(remark) for remark in draft.accounting.remarks]
    assert not any("does not match" in one for one in kept), kept


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cancel_event(", "drop_event("),
        ("await cancel_event", "cancel_event"),
        ("event_id=event", "id=event"),
        ('event_id=event["id"]', ""),
        ('city="A"', 'city="A", day=1'),
        ("done = []", "done = open(a)"),
    ],
)
def test_grammar_has_no_call_that_does_not_exist(old: str, new: str) -> None:
    shapes = [ToolShape(tool.executor, tool.parameters) for tool in TOOLS]
    grammar = program_grammar(shapes)
    assert is_sentence(grammar, LARGE)
    assert not is_sentence(grammar, LARGE.replace(old, new, 1))


@pytest.mark.parametrize("name", ["llm", "llm_extract", "llm_classify", "llm_summarize", "ask_human"])
def test_grammar_has_the_operations_that_a_small_model_is_told(name: str) -> None:
    module = str(program_question(Request(GOALS[0], TOOLS), stubs_for(GOALS[0], TOOLS, Strength.SMALL)))
    program = f'async def main():\n    text = await {name}("a")\n    return text'
    assert is_sentence(program_grammar([]), program) == (f"async def {name}(" in module)


def test_grammar_takes_texts_of_enumerations_and_arguments_in_any_order() -> None:
    ways = {"how": {"enum": ["fast", "slow"]}, "n": {}, "by": TEXT}
    schema = {"properties": {"to": TEXT, **ways, "at": TEXT}, "required": ["to", "at"]}
    grammar = program_grammar([ToolShape("send", schema)], ["who"])
    program = "async def main(who):\n    await send({})"
    good = (
        "to=who, at=who",
        'to="a", at="b", how="fast"',
        'at="b", to=who, n=3',
        'to=who, at="b", how=who["way"], n=[1]',
        'to=who, at="b", n=3, by="c", how="fast" if who else "slow"',
    )
    bad = ("", "who, who", 'to="a"', 'to="a", at="b", how="quick"', 'how="fast"', "to=who, at=who, at=who")
    bad = (*bad, "n=3, to=who, at=who", "to=who, at=who, n=3, n=3")
    assert [is_sentence(grammar, program.format(each)) for each in good] == [True] * len(good)
    assert [is_sentence(grammar, program.format(each)) for each in bad] == [False] * len(bad)


def test_grammar_takes_what_models_write_over_lines_and_in_texts() -> None:
    schema = {"properties": {"to": TEXT, "items": {}}, "required": ["to"]}
    grammar = program_grammar([ToolShape("send", schema)])
    program = "async def main():\n    {}"
    good = (
        'await send(\n        to="a",\n        items=[\n            1,\n            2,\n        ],\n    )',
        'a, b = await asyncio.gather(\n        send(to="a"),\n        send(to="b")\n    )',
        "await send(to=f\"{'a' if x['n'] > 1 else 'b'} at {d.strftime('%H:%M')}, {(x + y) / 2:.2f}\")",
        """return f"{', '.join(str(x) for x in y)}\"""",
        "x = [a for b in c for a in b]  # all of them",
        'm = re.search(r"(\\d+) kg", text)',
        "x = awaited or awa or a",
        "await asyncio.gather(*(send(to=x) for x in y))",
        "x = list(map(lambda a: a.b, filter(None, y)))",
        "x *= 2",
        'return f"{sum(x.values()) / len(y)}"',
    )
    assert [is_sentence(grammar, program.format(each)) for each in good] == [True] * len(good)
    assert not is_sentence(grammar, program.format("x = not await is y"))


def test_grammar_of_second_answer_begins_with_lookup_of_what_nobody_stated() -> None:
    one = {"properties": {"pet_id": TEXT}, "required": ["pet_id"]}
    shapes = [ToolShape("feed", one), ToolShape("find", {"properties": {"name": TEXT}})]
    grammar = program_grammar(shapes, looked_up={("feed", "pet_id"): {"find": "[0]"}})
    found = 'async def main():\n    found = await find(name="Rex")\n    await feed(pet_id=found[0]["id"])'
    bad = (found.replace('found[0]["id"]', '"Rex"'), found.replace('find(name="Rex")', "feed(pet_id=x)"))
    assert is_sentence(grammar, found)
    assert not any(is_sentence(grammar, each) for each in bad)
    record = program_grammar(shapes, looked_up={("feed", "pet_id"): {"find": '["id"]'}})
    read = found.replace('found = await find(name="Rex")', 'pet_id = (await find(name="Rex"))["id"]')
    assert is_sentence(record, read)
    assert not is_sentence(record, found)


def test_ids_are_words_of_the_goal_or_read_from_results() -> None:
    shapes = [ToolShape(tool.executor, tool.parameters) for tool in TOOLS]
    told = told_ids([FORECAST, CANCEL], Request("Cancel Ada Holm's event e-5 of 2026-05-04.", TOOLS))
    assert set(told) == {("cancel_event", "event_id")}
    grammar = program_grammar(shapes, told=told)
    program = CONDITIONAL.rstrip("\n")
    good = (
        '"e-5"',
        "'Ada Holm'",
        '"Ada"',
        'weather["id"]',
        '(await forecast(city="A"))["id"]',
        "event_id",
        'max(weather, key=lambda x: x["n"])["id"]',
    )
    bad = ('"e-77"', '"2026-05-04"', "'Ada e-5'", "5", 'f"{weather}-5"')
    assert [is_sentence(grammar, program.replace('"e-5"', each)) for each in good] == [True] * len(good)
    assert [is_sentence(grammar, program.replace('"e-5"', each)) for each in bad] == [False] * len(bad)
    assert max(readings(grammar, program)) <= 50
    assert told_ids([CANCEL], Request(" ".join(map(str, range(400))), TOOLS)) == {}, (
        "a long goal limits nothing"
    )


def readings(grammar: Grammar, text: str) -> list[int]:
    """How many readings of a text llama.cpp follows at once, after each of its characters."""
    nodes = grammar.nodes
    begun: set[tuple[Node, ...]] = set()
    _begin((Use(grammar.start),), nodes, begun, set())
    counts: list[int] = []
    for character in text:
        further: set[tuple[Node, ...]] = set()
        seen: set[tuple[Node, ...]] = set()
        for first, *rest in (each for each in begun if each):
            if isinstance(first, Text) and first.text.startswith(character):
                _begin((Text(first.text[1:]), *rest), nodes, further, seen)
            elif isinstance(first, Chars):
                within = any(low <= ord(character) <= high for low, high in first.ranges)
                if within != first.outside:
                    _begin(tuple(rest), nodes, further, seen)
        begun = further
        counts.append(len(begun))
    return counts


def _begin(
    reading: tuple[Node, ...],
    nodes: Mapping[str, Node],
    found: set[tuple[Node, ...]],
    seen: set[tuple[Node, ...]],
) -> None:
    """Adds to `found` what a reading may go on with, each beginning with a character."""
    if reading in seen:
        return
    seen.add(reading)
    match reading:
        case (Chars(), *_) | ():
            found.add(reading)
        case (Text(text), *rest):
            if text:
                found.add(reading)
            else:
                _begin(tuple(rest), nodes, found, seen)
        case (Use(name), *rest):
            _begin((nodes[name], *rest), nodes, found, seen)
        case (Seq(parts), *rest):
            _begin((*parts, *rest), nodes, found, seen)
        case (Choice(options), *rest):
            for option in options:
                _begin((option, *rest), nodes, found, seen)
        case (Many(node, least, most), *rest):
            if not least:
                _begin(tuple(rest), nodes, found, seen)
            if most:
                left = Many(node, max(0, least - 1), most if most >= ANY_NUMBER else most - 1)
                _begin((node, left, *rest), nodes, found, seen)
        case _:
            raise AssertionError(reading)


NESTED = 'async def main():\n    x = [[[{"a": [{"b": [1, 2, [3, ["five", y[{"c": [1, (4, [5, ['


def test_grammar_is_read_in_few_ways_at_once() -> None:
    """llama.cpp copies each reading for each character: 50,000 of them took it minutes for a token."""
    shapes = [ToolShape(tool.executor, tool.parameters) for tool in TOOLS]
    grammar = program_grammar(shapes)
    for text in (LARGE, NESTED):
        counts = readings(grammar, text.rstrip("\n"))
        assert 0 < min(counts) <= max(counts) <= 50


def test_texts_lists_and_calls_at_once_are_bounded_in_grammar() -> None:
    grammar = program_grammar([ToolShape("read", {"properties": {"path": {}}})], longest_text=300)
    program = "async def main():\n    return {}"

    def keeps(value: str) -> bool:
        return is_sentence(grammar, program.format(value))

    assert keeps(f'"{300 * "a"}"')
    assert not keeps(f'"{301 * "a"}"')
    assert keeps(f"[{', '.join(60 * '7')}]")
    assert not keeps(f"[{', '.join(61 * '7')}]")
    assert keeps(f"await asyncio.gather({', '.join(['read()'] * 12)})")
    assert not keeps(f"await asyncio.gather({', '.join(['read()'] * 13)})")


def test_repair_of_small_model_has_only_the_variables_of_its_program() -> None:
    wrong = CONDITIONAL.replace('"Bergen"', "Bergen")
    model = small(wrong, CONDITIONAL)
    draft = drafted(model)
    assert draft.plan is not None
    assert "nothing here is called Bergen" in model.asked[1][-1]["content"]
    first, second = (constraint.text for constraint in model.constraints if constraint is not None)
    assert second != first
    shapes = [ToolShape(tool.executor, tool.parameters) for tool in TOOLS]
    narrow = program_grammar(shapes, variables=bound_names(wrong))
    assert is_sentence(program_grammar(shapes), wrong.rstrip("\n"))
    assert not is_sentence(narrow, wrong.rstrip("\n"))
    assert is_sentence(narrow, CONDITIONAL.rstrip("\n"))
    assert not is_sentence(narrow, CONDITIONAL.replace('weather["rain"]', "result").rstrip("\n"))
    assert is_sentence(narrow, CONDITIONAL.replace('"Cancelled."', "json.dumps(weather)").rstrip("\n"))
    assert {"done", "event", "names", "error", "one"} <= bound_names(LARGE)


def test_only_fields_of_results_are_read_where_all_are_declared() -> None:
    shapes = [ToolShape(tool.executor, tool.parameters) for tool in TOOLS]
    program = CONDITIONAL.rstrip("\n")
    guessed = program.replace('"rain"', '"is_raining"')
    known = program_grammar(shapes, fields=fields_of([FORECAST]))
    assert (fields_of([FORECAST]), fields_of(TOOLS)) == ({"city", "rain", "celsius"}, None)
    assert is_sentence(known, program)
    assert not is_sentence(known, guessed)
    assert is_sentence(program_grammar(shapes), guessed)
    for place in ("weather[0]", "weather[-1:]", "weather[n + 1]", "weather[names[0]]", "weather['rain']"):
        assert is_sentence(known, program.replace('weather["rain"]', place)), place
    assert max(readings(known, program)) <= 50
    odd = program_grammar(shapes, fields=["first-name"])
    assert is_sentence(odd, program.replace('"rain"', '"first-name"')), "no field is a name of Python"


def test_answer_that_repeats_itself_is_asked_again_for_short_blocks() -> None:
    again = "async def main():\n" + 4 * '    await cancel_event(event_id="e-5")\n'
    model = small(again + "    await cancel", CONDITIONAL)
    cut = Completion(model.answers[0], stop=Stop.LENGTH, constrained=True)  # type: ignore[arg-type]
    model.answers = [cut, CONDITIONAL]
    assert drafted(model).plan is not None
    first, second = (constraint.text for constraint in model.constraints if constraint is not None)
    assert "{1,20}" in first
    assert "{1,8}" in second


# ---------------------------------------------------------------- what a plan comes to


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('if w["rain"]:\n        await cancel_event(event_id="e-5")', ['only if w["rain"]']),
        (
            'if not w["rain"]:\n        return "dry"\n    await cancel_event(event_id="e-5")',
            ['only if w["rain"]'],
        ),
        (
            'if w["rain"]:\n        await cancel_event(event_id="e-5")\n'
            '        return "wet"\n    await cancel_event(event_id="e-5")',
            ['whether or not w["rain"]'],
        ),
        (
            'for day in w["days"]:\n        if day["n"] > 2:\n            continue\n'
            '        await cancel_event(event_id="e-5")',
            ['for each day in w["days"], unless day["n"] > 2'],
        ),
        (
            'if w["rain"]:\n        note(w)\n    else:\n        return "dry"\n'
            '    await cancel_event(event_id="e-5")',
            ['only if w["rain"]'],
        ),
        (
            'if w["rain"]:\n        if w["late"]:\n            return "late"\n'
            '    await cancel_event(event_id="e-5")',
            ['unless w["rain"] and w["late"]'],
        ),
        (
            'for day in w["days"]:\n        if day["dry"]:\n            return "dry"\n'
            '    await cancel_event(event_id="e-5")',
            ['unless day["dry"] for some day in w["days"]'],
        ),
        (
            'try:\n        if w["dry"]:\n            raise ValueError("dry")\n    except ValueError:\n'
            '        note(w)\n    await cancel_event(event_id="e-5")',
            ["in any case"],
        ),
        (
            'await need(w["rain"])\n    await cancel_event(event_id="e-5")\n\nasync def need(n):\n'
            '    if not n:\n        raise ValueError("dry")\n    note(await forecast(city=n))',
            ["only if n"],
        ),
        (
            'try:\n        note(w)\n    except ToolError:\n        await cancel_event(event_id="e-5")',
            ["if that fails"],
        ),
        (
            'await drop(w["rain"])\n\nasync def drop(n):\n    await cancel_event(event_id="e-5")',
            ["in any case"],
        ),
        ("note(w)", []),
    ],
)
def test_effects_are_told_with_their_conditions(body: str, told: list[str]) -> None:
    program = f'async def main():\n    w = await forecast(city="Bergen")\n    {body}\n'

    @tool(effect="read")
    def forecast(city: str) -> Any:
        """The weather."""

    @tool(effect="unsafe")
    def cancel_event(event_id: str) -> None:
        """Cancel it."""

    runtime = Runtime([forecast, cancel_event], model=lambda _: program, builtins=False)
    made = asyncio.run(runtime.compile("If it rains in Bergen, cancel e-5"))
    assert isinstance(made, Compiled), made.findings.diagnostics
    assert list(made.effects) == [f'calls cancel_event(event_id="e-5") {one}' for one in told]
    codes = {d.code for d in made.findings.diagnostics}
    doubts = {"whether or not": "CHK130", "for each": "CHK132"}
    expected = {code for words, code in doubts.items() if words in "".join(told)}
    assert codes == (expected if told else {"CMP016"})


def test_lookup_that_decides_nothing_and_made_up_values_are_told() -> None:
    program = (
        'async def main():\n    w = await forecast(city="Bergen")\n'
        '    await cancel_event(event_id="e-77")\n    return "Cancelled."\n'
    )
    tools = (replace(FORECAST, effect=Effect.READ), CANCEL)
    known = {t.name: ToolSignature.from_schema(t.parameters, t.effect) for t in tools}
    request = Request(GOALS[0], tools)
    draft = asyncio.run(compile_goal(request, Scripted([program]), lambda plan: check(plan, tools=known)))
    assert draft.plan is not None
    assert [d.code for d in draft.diagnostics] == ["CHK131", "CMP010", "CMP016"]
    assert draft.accounting.calls == 1
    told = asyncio.run(
        compile_goal(replace(request, context="Its id is E-77."), Scripted([program]), lambda _: ())
    )
    assert [d.code for d in told.diagnostics] == ["CMP016"]


@pytest.mark.parametrize(
    ("call", "said", "codes"),
    [
        ("cancel_event(event_id='E-77')", "cancel E 77", []),
        (
            "cancel_event('E-77')",
            "cancel it",
            ["cancel_event(E-77): nothing that the model was told has E-77"],
        ),
        ("cancel_event(event_id=1234567.89)", "cancel 1,234,567.89", []),
        (
            "cancel_event(event_id=250.0)",
            "cancel 25",
            ["event_id=250: nothing that the model was told has 250"],
        ),
        ("cancel_event(day='2026-05-04', at='07:15')", "the 4th of May 2026, 7:15", []),
        (
            "cancel_event(day='2026-05-04')",
            "May 2026",
            ["day=2026-05-04: nothing that the model was told has 2026-05-04"],
        ),
        ("cancel_event(event_id='boat_trip')", "cancel the boat trip", ["event_id='boat_trip' is not an id"]),
        ("cancel_event(event_id='trip')", "cancel the trip", []),
        (
            "cancel_event(event_id='2026-05-04')",
            "It is 2026-05-04. Cancel the trip.",
            ["event_id='2026-05-04' is not an id"],
        ),
        ("forecast(city='new_york')", "New York", ["city='new_york', but the goal says 'New York'"]),
        (
            "forecast(city='Oslo, Bergen')",
            "Is it dry in Bergen and Oslo?",
            ["city='Oslo, Bergen' is several things in one text"],
        ),
        ("cancel_event(at='17:30', till='2026-05-04 23:59:59', minutes=90)", "4 May 2026, 5:30, 1.5 h", []),
        ("list_rooms(hotel='Old Inn', floor=1)", "the ground floor of the Old Inn", []),
        ("forecast(phone='Tom')", "Call Tom", ["phone='Tom' is not a phone number"]),
        ("edit_file(path='file_name')", "Edit it", ["path='file_name': the goal does not say that"]),
        ("forecast(city='all')", "Is it dry?", ["city='all': the goal does not say that"]),
        (
            "forecast(hotel_names=['Hotel Bergen', 'Sun'])",
            "The hotels of Bergen, and the Sun",
            ["hotel_names='Hotel Bergen': nothing that the model was told has that name"],
        ),
        (
            "pay(recipient='Kim', at_date='now', url='https://www.b.example/x/', of='https://a.example')",
            "Pay Kim what www.b.example/x says",
            [
                "recipient='Kim' is not an IBAN",
                "at_date='now' is not a date that was told",
                "of=a.example: nothing that the model was told has a.example",
            ],
        ),
        (
            "cancel_event(event_id='Kim')",
            "cancel it",
            ["event_id='Kim' is of the example, and not of the goal"],
        ),
    ],
)
def test_values_are_compared_as_they_are_written(call: str, said: str, codes: list[str]) -> None:
    tree = read_python(f"async def main():\n    await {call}\n").require().tree
    assert tree is not None
    pay = spec("pay", "Pay.", recipient={**TEXT, "description": "IBAN of the recipient"}, at_date=TEXT)
    rooms = spec("list_rooms", "Rooms. Returns {hotel, floor, beds}.", hotel=TEXT, floor={"type": "integer"})
    inns = spec("get_inn", "An inn. Returns {floor, stars}.", hotel=TEXT)
    read = [replace(one, effect=Effect.READ) for one in (FORECAST, rooms, inns)]
    tools = [*read, *TOOLS[1:], pay, spec("clean", "Clean.", floor=TEXT)]
    assert [one.message for one in unstated(tree, [said], tools, 'call("Kim")')] == codes


@pytest.mark.parametrize("passed", ["found[0]", "one", "first"])
def test_id_that_is_read_from_result_of_another_kind_is_told(passed: str) -> None:
    addresses = {"type": "array", "items": TEXT}
    mails = {"type": "array", "items": {"properties": {"mail_id": TEXT, "body": TEXT, "at": TEXT}}}
    tools = [
        spec("delete_mail", "Delete it.", mail_id=TEXT),
        replace(spec("find_address", "Find.", who=TEXT), effect=Effect.READ, result=addresses),
        replace(spec("search_mails", "Search.", query=TEXT), effect=Effect.READ, result=mails),
        replace(spec("list_mail_ids", "List."), effect=Effect.READ, result=addresses),
    ]
    program = (
        "async def main():\n    found = await {}\n    first = found[0]\n"
        f"    for one in found:\n        await delete_mail(mail_id={passed})\n"
    )

    def told(lookup: str) -> list[str]:
        tree = read_python(program.format(lookup)).require().tree
        assert tree is not None
        return [f"{one.message}; {one.help}" for one in unstated(tree, ["Delete the mails of Kim"], tools)]

    (said,) = told('find_address(who="Kim")')
    assert said.startswith("mail_id is given what find_address finds, which is another thing; find it: ")
    assert '[x["mail_id"] for x in await search_mails(...)]' in said
    assert told("list_mail_ids()") == []


@pytest.mark.parametrize("listed", ["found", "[x for x in found if x.open]", "sorted(found)"])
def test_id_of_another_thing_is_told_with_the_tools_that_take_it(listed: str) -> None:
    tools = [
        spec("close_job", "Close it.", job_id=TEXT),
        spec("pay_invoice", "Pay it.", invoice_id=TEXT),
        replace(spec("list_invoices", "List."), effect=Effect.READ),
    ]
    head = f"async def main():\n    found = await list_invoices()\n    for one in {listed}:\n"

    def told(call: str, among: Sequence[ToolSpec]) -> list[str]:
        tree = read_python(f"{head}        await {call}\n").require().tree
        assert tree is not None
        return [f"{one.message}; {one.help}" for one in unstated(tree, ["Settle the invoices"], among)]

    wrong = "job_id is given the id of what list_invoices finds; that is taken by pay_invoice"
    assert told('close_job(job_id=one["id"])', tools) == [wrong]
    assert told("close_job(job_id=one.id)", tools) == [wrong]
    assert told('pay_invoice(invoice_id=one["id"])', tools) == []
    assert told('close_job(job_id=one["id"])', [tools[0], tools[2]]) == []


@pytest.mark.parametrize("lookup", ["list_project_members", "list_members_of_project"])
def test_id_of_a_part_is_not_told_to_be_that_of_the_whole(lookup: str) -> None:
    listing = replace(spec(lookup, "List them.", project_id=TEXT), effect=Effect.READ)
    tools = [
        spec("notify_user", "Tell.", user_id=TEXT),
        spec("close_project", "Close.", project_id=TEXT),
        listing,
    ]
    program = f'async def main():\n    for one in await {lookup}(project_id="p-1"):\n        await '
    tree = read_python(program + 'notify_user(user_id=one["id"])').require().tree
    assert tree is not None
    assert list(unstated(tree, ["Notify the members of p-1"], tools)) == []


def test_small_model_writes_names_and_ids_are_looked_up_without_asking_again() -> None:
    found = {"type": "object", "properties": {"id": TEXT, "phone": TEXT}}
    by_name = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
    find = ToolSpec("FIND_PERSON", "find_person", "A person.", by_name, effect=Effect.READ, result=found)
    call, fire = spec("call", "Call somebody.", phone=TEXT), spec("fire", "Fire.", person_id=TEXT)
    program = (
        'async def main():\n    kim = await find_person(name="Kim Lee")\n'
        '    await fire(person_id=kim)\n    await call(phone="ann_ray")\n'
    )
    request = Request("Fire Kim Lee and call Ann Ray.", (find, call, fire))
    small = Scripted([program], strength=Strength.SMALL)
    draft = asyncio.run(compile_goal(request, small, lambda _: ()))
    assert draft.source.text.splitlines()[3:] == [
        "    kim = await find_person(name='Kim Lee')",
        "    await fire(person_id=kim['id'])",
        "    person = await find_person(name='Ann Ray')",
        "    await call(phone=person['phone'])",
    ]
    assert [(one.code, one.severity) for one in draft.diagnostics] == [("CMP010", Severity.HINT)] * 2
    assert draft.accounting.calls == 1
    as_it_is = asyncio.run(compile_goal(request, Scripted([program]), lambda _: ()))
    assert as_it_is.source.text.endswith(program)


def listing(tool: str, *fields: str, result: bool = True, **arguments: object) -> ToolSpec:
    """A tool of an undeclared effect that lists records with these fields."""
    items = {"type": "object", "properties": dict.fromkeys(fields, TEXT)}
    shown = "" if result else f" Returns [{{{', '.join(fields)}}}]."
    schema = {"type": "object", "properties": arguments}
    declared = {"type": "array", "items": items} if result else {}
    return ToolSpec(tool.upper(), tool, f"List them.{shown}", schema, result=declared)


OPTIONAL_TEXT = {"anyOf": [TEXT, {"type": "null"}]}


@pytest.mark.parametrize("arguments", [{}, {"title": OPTIONAL_TEXT}], ids=["of all", "by a title"])
def test_thing_is_found_by_its_name_in_a_list(arguments: dict[str, object]) -> None:
    search = listing("search_books", "id", "title", **arguments)
    loans = listing("list_loans", "id", "book_id", "title")
    request = Request("Reserve Winter Bees.", (search, loans, spec("reserve_book", "Reserve.", book_id=TEXT)))
    small = Scripted(['async def main(): await reserve_book(book_id="Winter Bees")'], strength=Strength.SMALL)
    draft = asyncio.run(compile_goal(request, small, lambda _: ()))
    by = "title='Winter Bees'" if arguments else ""
    assert draft.source.text.splitlines()[3:] == [
        f"    [book] = [x for x in await search_books({by}) if str(x.get('title')).lower() == 'winter bees']",
        "    await reserve_book(book_id=book['id'])",
    ]
    assert [one.message for one in draft.diagnostics] == [
        "book_id='Winter Bees' is looked up by search_books"
    ]
    assert draft.accounting.calls == 1


@pytest.mark.parametrize(
    "body",
    [
        'await reserve_book(book_id=f"Winter Bees")',
        'await reserve_book(**{"book_id": "Winter Bees"})',
        'book: str = "Winter Bees"\n    await reserve_book(book_id=book)',
        'book = await find_book(q="Winter Bees")\n    await reserve_book(**{"book_id": book})',
    ],
)
def test_hint_tells_only_of_what_is_mended(body: str) -> None:
    one = spec("find_book", "Find.", q=TEXT)
    one = replace(one, result={"type": "object", "properties": {"id": TEXT, "title": TEXT}})
    request = Request("Reserve Winter Bees.", (one, spec("reserve_book", "Reserve.", book_id=TEXT)))
    program = f"async def main():\n    {body}\n"
    draft = asyncio.run(compile_goal(request, small(program, program, accepts=()), lambda _: ()))
    assert draft.source.text.endswith(program)
    assert not [one for one in draft.diagnostics if one.severity is Severity.HINT]


@pytest.mark.parametrize(
    ("name", "rest", "written"),
    [
        (
            "M-104",
            "    if found:\n        await pause(member_id=found['id'])\n        return found['name']\n",
            ["    await pause(member_id='M-104')", "    return 'M-104'"],
        ),
        ("M-104", "    await pause(member_id=found['id'], mail=found['mail'])\n", None),
        (
            "M-104",
            "    if found:\n        await pause(member_id=found['id'])\n    else:\n"
            "        await pause(member_id='all')\n",
            None,
        ),
        ("Ann Ray", "    await pause(member_id=found['id'])\n", None),
        (
            "Ann Ray",
            "    await pause(member_id='M-1')\n    return found['name']\n",
            ["    await pause(member_id='M-1')", "    return 'Ann Ray'"],
        ),
    ],
    ids=["an id", "an id of which more is needed", "an id that may not be there", "a name", "a name alone"],
)
def test_what_was_told_is_not_looked_up(name: str, rest: str, written: list[str] | None) -> None:
    record = {"type": "object", "properties": dict.fromkeys(("id", "name", "mail"), TEXT)}
    schema = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
    find = ToolSpec("FIND_MEMBER", "find_member", "Find by name.", schema, Effect.READ, result=record)
    request = Request(f"Pause member {name}.", (find, spec("pause", "Pause.", member_id=TEXT, mail=TEXT)))
    program = f"async def main():\n    found = await find_member(name='{name}')\n{rest}"
    draft = asyncio.run(compile_goal(request, small(program, program, accepts=()), lambda _: ()))
    lines = draft.source.text.splitlines()[3:]
    assert lines == (written or program.splitlines()[1:])
    hints = [one.message for one in draft.diagnostics if one.severity is Severity.HINT]
    assert bool(hints) is (written is not None)
    assert all(one.startswith(f"'{name}' is ") for one in hints)
    unsure = asyncio.run(
        compile_goal(
            replace(request, goal=f"Pause {name}."), small(program, program, accepts=()), lambda _: ()
        )
    )
    warned = {one.severity for one in unsure.diagnostics if "taken for an id" in one.message}
    assert warned == ({Severity.WARNING} if written and name == "M-104" else set())
    assert unsure.source.text.splitlines()[3:] == lines


def test_names_in_a_list_of_addresses_are_looked_up_each() -> None:
    by_name = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
    by_mail = {"type": "object", "properties": {"email": TEXT}, "required": ["email"]}
    people = {"type": "array", "items": TEXT, "description": "The email addresses of the guests."}
    tools = (
        ToolSpec("FIND_EMAIL_ADDRESS", "f", "Find one.", by_name, Effect.READ, result=TEXT),
        ToolSpec("FIND_USER_ID_BY_EMAIL", "u", "Find one.", by_mail, Effect.READ, result=TEXT),
        spec("invite", "Invite.", people=people),
    )
    request = Request("Invite Raj and ann@x.example.", tools)
    plain = "async def main():\n    await invite(people=['Raj', 'ann@x.example'])\n"
    draft = asyncio.run(compile_goal(request, Scripted([plain], strength=Strength.SMALL), lambda _: ()))
    assert draft.source.text.endswith(
        "    email_address = await find_email_address(name='Raj')\n"
        "    await invite(people=[email_address, 'ann@x.example'])\n"
    )
    other = (
        "async def main():\n    x = await find_user_id_by_email(email='{}')\n    await invite(people=[x])\n"
    )
    for email, doubts in (
        ("ann@x.example", ["people is given what find_user_id_by_email finds, which is another thing"]),
        ("Raj", ["email='Raj' is not an e-mail address"]),
    ):
        found = unstated(read_python(other.format(email)).plan.tree, [request.goal], tools)
        assert doubts[0] in [one.message for one in found]


def test_filter_of_the_goal_that_a_lookup_does_not_get_is_told() -> None:
    kinds = {"anyOf": [{"type": "string", "enum": ["lead", "won"]}, {"type": "null"}]}
    find = replace(listing("search_customers", "id", "name", status=kinds), effect=Effect.READ)
    plan = "async def main(): return len(await search_customers({}))"
    for given, said in (("", 1), ("status='lead'", 0)):
        tree = read_python(plan.format(given)).plan.tree
        told = [one.message for one in left_out(tree, "How many leads are there?", (find,))]
        assert told == ["the goal says leads, and no call or condition of the plan has it"] * said


def test_id_of_another_thing_is_not_taken_for_that_of_what_is_looked_up() -> None:
    find = replace(listing("find_customer", "id", "name", name=TEXT), effect=Effect.READ)
    tools = (find, spec("close", "Close.", repair_id=TEXT), spec("tell", "Tell.", customer_id=TEXT))
    program = (
        "async def main():\n    await close(repair_id='R-31')\n"
        "    found = await find_customer(name='R-31')\n    await tell(customer_id=found['id'])\n"
    )
    fields = {("find_customer", "name"): "id"}
    assert with_told(program, fields)[0] == program
    assert "'R-31'" in with_told(program.replace("await close(repair_id='R-31')", "pass"), fields)[0]
    asked = Scripted([program, program], strength=Strength.SMALL)
    draft = asyncio.run(compile_goal(Request("R-31 is done. Close it, tell.", tools), asked, lambda _: ()))
    assert "name='R-31' is rather an id than a name" in [one.message for one in draft.diagnostics]


def test_names_in_the_singular_are_those_of_the_goal() -> None:
    kinds = replace(listing("list_stock", "name", "count", "least"), effect=Effect.READ)
    tools = (kinds, listing("get_stock", name=TEXT), listing("order", name=TEXT))
    for name, doubted in (("tennis ball", False), ("tennis racket", True)):
        tree = read_python(f"async def main(): await order(name='{name}')").plan.tree
        assert bool([*unstated(tree, ["We need 3 tennis balls."], tools)]) is doubted


def test_id_of_the_goal_that_is_looked_up_as_something_else_is_doubted() -> None:
    jobs = replace(listing("list_jobs", "id", "title", project=TEXT), effect=Effect.READ)
    tools = (jobs, spec("close_job", "Close.", job_id=TEXT))
    text = "async def main():\n for x in await list_jobs(project='{}'):\n  await close_job(job_id=x['id'])"
    for told, doubted in (("t-1", ["project='t-1' is rather an id than a project"]), ("house", [])):
        tree = read_python(text.format(told)).plan.tree
        assert [one.message for one in unstated(tree, [f"Close {told}."], tools)] == doubted


def test_lookup_of_what_nobody_spoke_of_is_left_out_where_nothing_reads_it() -> None:
    find = replace(listing("find_reader", "id", "name", name=TEXT), effect=Effect.READ)
    request = Request("Block card 4401.", (find, spec("block_card", "Block.", card=TEXT)))
    unread = (
        'async def main():\n    ann = await find_reader(name="Ann Moss")\n    await block_card(card="4401")\n'
    )
    small = Scripted([unread], strength=Strength.SMALL)
    draft = asyncio.run(compile_goal(request, small, lambda _: ()))
    assert "find_reader" not in draft.source.text
    assert [(one.code, one.severity) for one in draft.diagnostics] == [("CMP010", Severity.HINT)]
    read = unread.replace('"4401"', 'ann[0]["id"]')
    asked = Scripted([read, read], strength=Strength.SMALL)
    kept = asyncio.run(compile_goal(request, asked, lambda _: ()))
    assert "find_reader" in kept.source.text
    assert "is left out" not in "".join(one.message for one in kept.diagnostics)


def test_call_of_an_undeclared_effect_is_never_left_out() -> None:
    block = spec("block_card", "Block.", card=TEXT)
    fetch = replace(block, name="FETCH_GUEST", executor="fetch_guest")
    fetch = replace(fetch, parameters={"type": "object", "properties": {"name": TEXT}})
    request = Request("Block card 4401.", (fetch, block))
    program = 'async def main():\n    x = await fetch_guest(name="Emma")\n    await block_card(card="4401")\n'
    small = Scripted([program, program], strength=Strength.SMALL)
    assert "fetch_guest" in asyncio.run(compile_goal(request, small, lambda _: ())).source.text


@pytest.mark.parametrize(
    ("names", "fails"),
    [(["Winter Bees", None], False), (["winter bees"], False), (["Winter Bees"] * 2, True), (["Bees"], True)],
)
def test_found_thing_is_the_only_one_of_its_name(names: list[str | None], *, fails: bool) -> None:
    @tool(effect="read")
    def search_books() -> list[dict[str, Any]]:
        """Search books. Returns [{id, title}]."""
        return [{"id": f"B-{n}", "title": name} for n, name in enumerate(names)] + [{"id": "none"}]

    @tool
    def reserve_book(book_id: str) -> str:
        """Reserve a book."""
        return book_id

    lookup = Lookup("search_books", "", "id", "title", "Winter Bees")
    sought = {("reserve_book", "book_id", "Winter Bees"): lookup}
    program = with_lookups('async def main():\n    return await reserve_book(book_id="Winter Bees")', sought)
    result = Runtime([search_books, reserve_book]).run_sync(PublicPlan.parse(program, language="python"))
    assert result.ok is not fails
    assert fails or result.answer == "B-0"


def test_field_that_a_description_does_not_show_is_a_doubt() -> None:
    find = listing("list_readers", "card", "name", result=False)
    request = Request("Block all cards.", (find, spec("block_card", "Block.", card=TEXT)))
    program = (
        "async def main():\n    for one in await list_readers():\n        await block_card(card=one['id'])\n"
    )
    asked = Scripted([program, program.replace("'id'", "'card'")], strength=Strength.SMALL)
    draft = asyncio.run(compile_goal(request, asked, lambda _: ()))
    assert (draft.accounting.calls, draft.diagnostics) == (2, ())
    told = asyncio.run(compile_goal(request, Scripted([program]), lambda _: ()))
    assert [(one.code, one.severity) for one in told.diagnostics] == [("CHK120", Severity.WARNING)]
    assert told.plan is not None


@pytest.mark.parametrize(
    "program",
    [
        'async def main():\n    to = await address(name="Tom")\n    await mail(to=to, of=to)\n',
        'async def main():\n    one = await person(name="Tom")\n    await mail(to=one["email"], of=one)\n',
        'async def tell(to):\n    await mail(to=to, of="")\n\nasync def main():\n'
        '    to = await person(name="Tom")\n    await tell(to["email"])\n',
        'async def main():\n    await move(city="Paris")\n',
    ],
    ids=["the address itself", "a record that is meant", "an argument of the same name", "a city of others"],
)
def test_right_program_of_small_model_is_not_mended(program: str) -> None:
    by_name = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
    found = {"type": "object", "properties": {"city": TEXT, "of": TEXT, "email": TEXT}}
    tools = [
        ToolSpec("ADDRESS", "address", "The email of somebody.", by_name, effect=Effect.READ),
        ToolSpec("PERSON", "person", "Somebody.", by_name, effect=Effect.READ, result=found),
        spec("mail", "Mail.", to={**TEXT, "format": "email"}, of={}),
        spec("move", "Move.", city=TEXT),
        spec("visit", "Visit.", city=TEXT),
    ]
    request = Request("Mail Tom about himself, and move to Paris.", tuple(tools))
    draft = asyncio.run(compile_goal(request, Scripted([program], strength=Strength.SMALL), lambda _: ()))
    assert draft.source.text.endswith(program)


def test_plan_that_calls_nothing_is_told() -> None:
    draft = drafted(Scripted(['async def main():\n    return "It does not rain."\n']))
    assert draft.plan is not None
    assert [(d.code, d.severity) for d in draft.diagnostics] == [("CMP011", Severity.WARNING)]
    none = Request("Say hello", ())
    hello = Scripted(['async def main():\n    return "Hello."\n'])
    assert asyncio.run(compile_goal(none, hello, checked)).diagnostics == ()


@pytest.mark.parametrize("syntax", [(), (Syntax.GBNF,)])
def test_forgotten_imports_are_added_without_asking_again(syntax: Sequence[Syntax]) -> None:
    together = (
        "async def main():\n"
        '    await asyncio.gather(forecast(city="Bergen"), forecast(city="Oslo"))\n'
        "    return str(timedelta(days=2)) + json.dumps([1])\n"
    )
    draft = drafted(
        Scripted([together], accepts=syntax, strength=Strength.SMALL if syntax else Strength.STRONG)
    )
    assert draft.plan is not None, draft.diagnostics
    assert draft.accounting.calls == 1
    assert "import asyncio\nimport json\nfrom datetime import timedelta\n" in draft.source.text
    own = "async def main():\n    json = await forecast(city='Bergen')\n    return json\n"
    assert with_imports(own) == own


def test_defining_a_tool_again_is_no_plan() -> None:
    """Small models copy the stub of a tool and invent its result."""
    copied = 'async def forecast(city: str):\n    return {"rain": True}\n\n' + CONDITIONAL
    draft = drafted(Scripted([copied, CONDITIONAL]))
    assert draft.accounting.repaired
    assert drafted(Scripted([copied])).plan is None


def test_arguments_that_nothing_gives_are_repaired() -> None:
    asking = CONDITIONAL.replace("main()", "main(city)").replace('"Bergen"', "city")
    model = Scripted([asking, CONDITIONAL])
    assert drafted(model).accounting.repaired
    assert "the plan needs the input city" in model.asked[1][-1]["content"]


# ---------------------------------------------------------------- failures


def test_failure_that_program_passes_over_is_told() -> None:
    swallowing = (
        "async def main():\n    try:\n        await cancel_event(event_id='e-5')\n"
        "    except ToolError:\n        pass\n    return 'Cancelled.'\n"
    )
    goal = "Please cancel event e-5."
    draft = drafted(Scripted([swallowing]), goal)
    assert draft.plan is not None
    (warning,) = draft.diagnostics
    assert (warning.code, warning.severity) == ("CMP009", Severity.WARNING)
    assert warning.span is not None
    assert draft.source.text[warning.span.start : warning.span.end].strip() == "except ToolError:"
    telling = swallowing.replace("pass", "return 'It could not be cancelled.'")
    assert drafted(Scripted([telling]), goal).diagnostics == ()


@pytest.mark.parametrize("handling", ["", " ON_FAIL @RETRY(2)"])
def test_failed_write_of_text_plan_that_would_end_as_done_is_told(handling: str) -> None:
    text = f'S1: @cancel_event (event_id="e-5"){handling}\nS2: @respond ("Cancelled.")'
    for form in (PlanForm.LTP, PlanForm.PYTHON):
        draft = drafted(Scripted([text]), options=Options(form=form))
        assert [d.code for d in draft.diagnostics] == ["CMP009"]
    ended = text.replace('e-5")', 'e-5") ON_FAIL TERMINATE ("It failed.")').replace(" ON_FAIL @RETRY(2)", "")
    assert drafted(Scripted([ended])).diagnostics == ()


def test_failed_write_of_compiled_program_ends_run_as_failed() -> None:
    @tool(effect="unsafe")
    def cancel_event(event_id: str) -> str:
        raise ValueError(f"{event_id} is locked")

    program = 'async def main():\n    await cancel_event(event_id="e-5")\n    return "Cancelled."\n'
    runtime = Runtime([cancel_event], model=lambda _: program, builtins=False)
    made = asyncio.run(runtime.compile("Cancel e-5"))
    result = asyncio.run(runtime.run(made.require()))
    assert (result.ok, str(result.status)) == (False, "failed")
    assert "e-5 is locked" in str(result.error)


def test_errors_are_told_to_the_model_in_words_of_python() -> None:
    wrong = CONDITIONAL.replace('    if weather["rain"]', '    sky = [1, 2]\n    if sky["rain"]')
    model = Scripted([wrong, CONDITIONAL])
    assert drafted(model).plan is not None
    told = model.asked[1][-1]["content"]
    assert '`if sky["rain"]:`: sky is a list' in told
    assert "$" not in told


# ---------------------------------------------------------------- questions

ASKS = "QUESTION: Which event is meant, e-5 or e-6?"


@pytest.mark.parametrize("answer", [ASKS, f"<think>Hm.</think>\n{ASKS}", f"```\n{ASKS}\n```"])
def test_question_of_model_ends_compiling_and_is_not_repaired(answer: str) -> None:
    model = Scripted([answer])
    draft = drafted(model, "Call the event off if it rains in Bergen.")
    assert (draft.plan, draft.question) == (None, "Which event is meant, e-5 or e-6?")
    assert [one.code for one in draft.errors] == ["CMP012"]
    assert draft.accounting.calls == 1


def test_answers_of_user_are_told_with_goal_and_count_as_stated() -> None:
    model = Scripted([CONDITIONAL])
    goal = "Call the event off if it rains in Bergen."
    draft = drafted(model, goal, Options(answers={"Which one, A or B?": "the one with the id e-5"}))
    assert draft.diagnostics == ()
    told = model.asked[0][-1]["content"]
    assert f"{goal}\n\n(You asked: Which one, A or B?\nAnswer: the one with the id e-5)" in told
    assert draft.plan is not None
    assert draft.plan.goal == goal


def test_only_strong_models_are_told_to_ask() -> None:
    for strength in Strength:
        rules = prompt_for(Request(GOALS[0], TOOLS), strength).messages[0]["content"]
        assert ("QUESTION:" in rules) is (strength is Strength.STRONG)


def test_tools_leave_room_in_a_small_context_for_a_long_goal() -> None:
    tools = tuple(spec(f"find_thing_{number}", "Find a thing by what it is. " * 5) for number in range(40))
    for goal in ("Find it.", "Find it, and this as well. " * 250):
        told = prompt_for(Request(goal, tools), Strength.SMALL, window=4_096)
        assert sum(estimate_tokens(str(one["content"])) for one in told.messages) < 4_096 - 600
