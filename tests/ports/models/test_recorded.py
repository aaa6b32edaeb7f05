"""Recorded answers are replayed for the same requests only; scripts record their requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Stop,
    Strength,
    Syntax,
    Usage,
    strength_of,
)
from callsheet.ports.models.scripted import RecordedModel, ScriptedModel

ASK = [{"role": "user", "content": "Grüße"}]
HELD = Constraint(Syntax.GBNF, 'root ::= "a"')


async def test_recorded_answer_is_replayed_without_model(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    whole = Completion("ü", Usage(3, 2, 1, 0.5, 1.25, 2), Stop.LENGTH, "m-1")
    model = ScriptedModel(
        [whole, "b", ModelFailed(Failure.REFUSED, "no", model="m")],
        accepts=[Syntax.GBNF],
        strength=Strength.SMALL,
    )
    tape = RecordedModel(path, model, mode="record")
    assert await tape.complete(ASK) == whole
    held = await tape.complete(ASK, HELD)
    with pytest.raises(ModelFailed):
        await tape.complete([*ASK, *ASK])
    again = RecordedModel(path)
    assert isinstance(again, LanguageModel)
    assert (again.name, again.accepts) == ("scripted", (Syntax.GBNF,))
    assert (strength_of(model), again.strength) == (Strength.SMALL, Strength.SMALL)
    for _ in range(2):
        assert await again.complete(ASK) == whole
        assert await again.complete(ASK, HELD) == held
        with pytest.raises(ModelFailed, match="no") as raised:
            await again.complete([*ASK, *ASK])
        assert (raised.value.kind, raised.value.model) == (Failure.REFUSED, "m")


@pytest.mark.parametrize(
    ("messages", "constraint"),
    [
        ([{"role": "user", "content": "grüße"}], None),
        ([{"role": "system", "content": "Grüße"}], None),
        (ASK, HELD),
        ([*ASK, *ASK], None),
    ],
)
async def test_different_request_has_no_recorded_answer(
    tmp_path: Path, messages: list[dict[str, str]], constraint: Constraint | None
) -> None:
    tape = RecordedModel(tmp_path / "a.json", ScriptedModel(["x"]), mode="record")
    await tape.complete(ASK)
    with pytest.raises(CallsheetError, match=r"MDL013.*a\.json holds no answer"):
        await RecordedModel(tmp_path / "a.json").complete(messages, constraint)


async def test_recording_keeps_earlier_answers_and_replaces_same_request(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    first = RecordedModel(path, ScriptedModel(["1", "2"]), mode="record")
    await first.complete(ASK)
    await first.complete([*ASK, *ASK])
    await RecordedModel(path, ScriptedModel(["3"]), mode="record").complete(ASK)
    tape = RecordedModel(path)
    assert [(await tape.complete(ASK)).text, (await tape.complete([*ASK, *ASK])).text] == ["3", "2"]


@pytest.mark.parametrize("content", [None, "no JSON", "[]", '{"recorded_answers": 9, "answers": {}}'])
def test_file_without_answers_is_reported(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CallsheetError, match="MDL013"):
        RecordedModel(path)


async def test_scripted_model_returns_answers_and_keeps_requests() -> None:
    model = ScriptedModel(["a", ModelFailed(Failure.LIMITED, "later")])
    assert isinstance(model, LanguageModel)
    said = await model.complete(ASK, max_tokens=5)
    assert (said.text, said.usage.cost, said.usage.output_tokens) == ("a", 0.0, 1)
    with pytest.raises(ModelFailed, match="later"):
        await model.complete(ASK)
    with pytest.raises(ModelFailed, match="no further answer"):
        await model.complete(ASK)
    assert [request.max_tokens for request in model.asked] == [5, None, None]
    with pytest.raises(ValueError, match="gbnf"):
        await model.complete(ASK, HELD)
    echo = ScriptedModel(lambda messages: messages[-1]["content"])
    assert (await echo.complete(ASK)).text == "Grüße"
