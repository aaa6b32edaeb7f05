"""Models of providers through pydantic-ai, with a server that speaks their formats, also wrongly."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Stop,
    Syntax,
)
from callsheet.ports.models.opening import PROVIDERS, PatientModel, open_model
from callsheet.ports.models.settings import ModelPrices, ModelSettings
from providers import (
    NOISE,
    Behaviour,
    Handler,
    Provider,
    answer,
    breaks_off,
    declines,
    packs,
    refuses,
    says,
    serving,
    takes,
)

ASK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Again"},
]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
AS_JSON = Constraint(Syntax.JSON_SCHEMA, json.dumps(SCHEMA), "plan")
MODELS = {
    "openai:gpt-5-mini": "/v1",
    "openai-chat:gpt-4o": "/v1",
    "anthropic:claude-opus-5": "",
    "google:gemini-2.5-flash": "",
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "sk-s3cret-key")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)


def model_at(spec: str, provider: Provider, **more: object) -> LanguageModel:
    settings = ModelSettings(model=spec, url=provider.url + MODELS[spec], timeout=60.0)
    from dataclasses import replace

    model = open_model("", replace(settings, **more))  # type: ignore[arg-type]
    assert isinstance(model, PatientModel)

    async def at_once(seconds: float) -> None:
        """No wait."""

    model._sleep = at_once
    return model


@pytest.mark.parametrize("spec", MODELS)
async def test_providers_answer_in_their_format(spec: str) -> None:
    with serving(answer("Hi", read=1000, written=50, cached=400)) as provider:
        model = model_at(spec, provider, seed=7)
        said = await model.complete(ASK, max_tokens=64)
    assert (said.text, said.stop, model.name) == ("Hi", Stop.END, spec)
    used = said.usage
    assert (used.input_tokens, used.output_tokens, used.cached_tokens, used.tries) == (1000, 50, 400, 1)
    assert used.cost is None  # a server of one's own has its own prices
    assert used.seconds > 0
    (asked,) = provider.asked
    sent = json.dumps(asked.body)
    for message in ASK:
        assert message["content"] in sent
    assert "64" in sent


@pytest.mark.parametrize("spec", MODELS)
async def test_providers_receive_schema_in_their_form(spec: str) -> None:
    with serving(answer('{"a": 1}')) as provider:
        model = model_at(spec, provider)
        assert Syntax.JSON_SCHEMA in model.accepts
        said = await model.complete(ASK, AS_JSON)
        assert (said.text, said.constrained) == ('{"a": 1}', True)
        assert '"integer"' in json.dumps(provider.asked[0].body).lower()


WRONG: list[tuple[str, Behaviour, Failure, int]] = [
    ("a key that is refused", refuses(401, "bad key sk-s3cret-key"), Failure.KEY, 1),
    ("no such model", refuses(404, "no such model"), Failure.REQUEST, 1),
    ("too many requests", refuses(429, "slow down"), Failure.LIMITED, 3),
    ("its own fault", refuses(500, "oops"), Failure.OVERLOADED, 3),
    ("a broken connection", breaks_off, Failure.UNREACHABLE, 3),
    ("no JSON", says("<html>It works!</html>"), Failure.MALFORMED, 2),
    ("a refusal", declines, Failure.REFUSED, 1),
    ("an empty answer", answer(""), Failure.EMPTY, 2),
]


@pytest.mark.parametrize("spec", MODELS)
@pytest.mark.parametrize(("behaviour", "kind", "tries"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
async def test_failures_have_kinds_and_documented_retries(
    spec: str, behaviour: Behaviour, kind: Failure, tries: int
) -> None:
    with serving(always=behaviour) as provider:
        model = model_at(spec, provider, retries=2)
        with pytest.raises(ModelFailed) as raised:
            await model.complete(ASK)
        assert raised.value.kind is kind, str(raised.value)
        assert len(provider.asked) == tries
        assert raised.value.model == spec
        assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("spec", MODELS)
async def test_transient_failure_is_retried(spec: str) -> None:
    with serving(refuses(429, "wait", Retry_After="1"), refuses(529), breaks_off) as provider:
        said = await model_at(spec, provider).complete(ASK)
        assert (said.text, said.usage.tries) == ("fine", 4)


@pytest.mark.parametrize("spec", MODELS)
async def test_slow_answer_times_out(spec: str) -> None:
    with serving(always=takes(4.0)) as provider:
        model = model_at(spec, provider, timeout=1.5, retries=0)
        with pytest.raises(ModelFailed, match=r"1\.5 s") as raised:
            await model.complete(ASK)
        assert raised.value.kind is Failure.TIMEOUT


@pytest.mark.parametrize("spec", MODELS)
async def test_oversized_response_is_refused(spec: str) -> None:
    with serving(answer(NOISE, written=40_000), always=packs(NOISE)) as provider:
        model = model_at(spec, provider, retries=0)
        for _ in range(2):
            with pytest.raises(ModelFailed, match="larger than 77,824 bytes") as raised:
                await model.complete(ASK, max_tokens=512)
            assert raised.value.kind is Failure.MALFORMED
        assert {asked.headers["Accept-Encoding"] for asked in provider.asked} == {"identity"}


@pytest.mark.parametrize("spec", MODELS)
async def test_refused_schema_is_omitted_from_then_on(spec: str) -> None:
    refused = refuses(400, "json_schema is not supported with this model")
    with serving(refused) as provider:
        model = model_at(spec, provider)
        said = await model.complete(ASK, AS_JSON)
        assert (said.text, said.constrained, said.usage.tries) == ("fine", False, 2)
        assert Syntax.JSON_SCHEMA not in model.accepts


@pytest.mark.parametrize("spec", MODELS)
async def test_missing_key_is_reported(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(ModelFailed) as raised:
        await open_model(spec).complete(ASK)
    assert raised.value.kind is Failure.KEY
    with serving() as provider:
        model = model_at(spec, provider, key_env="NO_SUCH_KEY")
        with pytest.raises(ModelFailed, match="NO_SUCH_KEY"):
            await model.complete(ASK)


def called(text: str) -> Behaviour:
    """The response of OpenAI in which a custom tool is called."""

    def behave(request: Handler) -> None:
        item = {"type": "custom_tool_call", "id": "x", "call_id": "y", "name": "plan", "input": text}
        data = {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "gpt-x",
            "output": [item],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 120,
            },
        }
        request.send(200, json.dumps(data))

    return behave


async def test_grammar_is_sent_as_required_tool() -> None:
    lark = Constraint(Syntax.LARK, 'start: "yes" | "no"', "plan")
    prices = ModelPrices(input=1.0, cached=0.0, output=2.0)
    with serving(called("yes")) as provider:
        model = model_at("openai:gpt-5-mini", provider, prices=prices)
        assert model.accepts == (Syntax.LARK, Syntax.JSON_SCHEMA)
        said = await model.complete(ASK, lark, max_tokens=99)
        assert (said.text, said.constrained, said.usage.cached_tokens) == ("yes", True, 40)
        assert said.usage.cost == pytest.approx(100e-6)
        body = provider.asked[0].body
        assert body["tools"][0]["format"] == {"type": "grammar", "syntax": "lark", "definition": lark.text}
        assert body["tool_choice"] == {"type": "custom", "name": "plan"}
        assert body["max_output_tokens"] == 99
        provider.next = [refuses(400, "Invalid grammar")]
        again = await model.complete(ASK, lark)
        assert (again.text, again.constrained) == ("fine", False)
        assert model.accepts == (Syntax.JSON_SCHEMA,)


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (refuses(401), Failure.KEY),
        (refuses(429), Failure.LIMITED),
        (answer("no tool for me"), Failure.EMPTY),
        (breaks_off, Failure.UNREACHABLE),
        (answer(NOISE), Failure.MALFORMED),
        (says("<html>"), Failure.MALFORMED),
    ],
    ids=["key", "limited", "no call", "broken", "noise", "no JSON"],
)
async def test_grammar_tool_fails_like_other_requests(behaviour: Behaviour, kind: Failure) -> None:
    with serving(always=behaviour) as provider:
        model = model_at("openai:gpt-5-mini", provider, retries=0)
        with pytest.raises(ModelFailed) as raised:
            await model.complete(ASK, Constraint(Syntax.LARK, 'start: "a"'), max_tokens=512)
        assert raised.value.kind is kind


def test_prices_apply_to_provider_itself() -> None:
    from genai_prices import Usage, calc_price
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.usage import RequestUsage

    from callsheet.ports.models.direct import DirectModel

    name = "claude-opus-5"
    used = RequestUsage(input_tokens=1_000, output_tokens=50)
    model = DirectModel("anthropic", name, ModelSettings())

    def cost_of(model_name: str) -> float | None:
        given = ModelResponse([TextPart("x")], usage=used, model_name=model_name, provider_name="anthropic")
        return model._read(given, constrained=False).usage.cost

    price = calc_price(Usage(input_tokens=1_000, output_tokens=50), name, provider_id="anthropic").total_price
    assert cost_of(name) == float(price) > 0
    assert cost_of("nobody-knows-this") is None


async def test_missing_provider_package_is_named() -> None:
    from importlib.util import find_spec

    if find_spec("groq") is not None:
        pytest.skip("the package of the provider is installed here")
    model = open_model("groq:llama")
    assert model.accepts == ()
    with pytest.raises(ModelFailed, match=r"pydantic-ai-slim\[groq\]"):
        await model.complete(ASK)


def test_table_providers_exist_in_pydantic_ai() -> None:
    from pydantic_ai.providers import infer_provider_class

    for provider in PROVIDERS.keys() - {"llama.cpp", "ollama", "vllm", "local"}:
        with suppress(ImportError):  # a package of that provider may be missing here; the name is known
            infer_provider_class(provider)


def test_provider_without_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callsheet.ports.models.direct.find_spec", lambda name: None)
    with pytest.raises(CallsheetError, match=r"MDL002.*pydantic_ai") as raised:
        open_model("openai:gpt-5")
    assert "callsheet[models]" in (raised.value.diagnostics[0].help or "")


async def test_models_of_providers_satisfy_language_model_protocol() -> None:
    with serving() as provider:
        model = model_at("openai-chat:gpt-4o", provider)
        assert isinstance(model, LanguageModel)
        assert isinstance(await model.complete(ASK), Completion)
