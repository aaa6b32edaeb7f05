"""A model behind an HTTP endpoint: requests, responses, and every way to fail."""

from __future__ import annotations

import json
import os
import struct
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
    context_of,
    diagnose,
    identify,
    strength_of,
)
from callsheet.ports.models.opening import PatientModel, open_model
from callsheet.ports.models.settings import ModelPrices, ModelSettings
from providers import (
    NOISE,
    Behaviour,
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

ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
AS_JSON = Constraint(Syntax.JSON_SCHEMA, json.dumps(SCHEMA), "answer")


def model_at(provider: Provider, **settings: object) -> LanguageModel:
    return open_model("", ModelSettings(url=f"{provider.url}/v1", name="small", **settings))  # type: ignore[arg-type]


def quick(model: LanguageModel) -> tuple[LanguageModel, list[float]]:
    """The same model, whose waits are recorded and skipped."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    assert isinstance(model, PatientModel)
    model._sleep = sleep
    return model, waits


async def failing(model: LanguageModel) -> ModelFailed:
    with pytest.raises(ModelFailed) as raised:
        await model.complete(ASK)
    return raised.value


# ---------------------------------------------------------------- what is sent and read


async def test_answer_has_usage() -> None:
    with serving(answer("Hi", read=1000, written=50, cached=400)) as provider:
        prices = ModelPrices(input=2.0, cached=0.5, output=10.0)
        model = model_at(provider, prices=prices, temperature=0.0, seed=7)
        said = await model.complete(ASK, max_tokens=64)
    assert (said.text, said.stop, said.model) == ("Hi", Stop.END, "gpt-x")
    used = said.usage
    assert (used.input_tokens, used.output_tokens, used.cached_tokens, used.tries) == (1000, 50, 400, 1)
    assert used.cost == pytest.approx((600 * 2.0 + 400 * 0.5 + 50 * 10.0) / 1e6)
    assert 0 < used.seconds < 5
    (asked,) = provider.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "messages": ASK,
        "model": "small",
        "max_tokens": 64,
        "stream": False,
        "temperature": 0.0,
        "seed": 7,
    }


async def test_unknown_cost_is_not_zero() -> None:
    with serving() as provider:
        assert (await model_at(provider).complete(ASK)).usage.cost is None
        silent = says('{"choices": [{"message": {"content": "x"}}]}')
        provider.next = [silent]
        priced = model_at(provider, prices=ModelPrices(input=1.0, output=1.0))
        assert (await priced.complete(ASK)).usage.cost is None  # it does not say what it took
        assert (await priced.complete(ASK)).usage.cost is not None


async def test_truncated_answer_is_marked() -> None:
    with serving(answer("once upon", cut=True)) as provider:
        assert (await model_at(provider).complete(ASK)).stop is Stop.LENGTH
        assert provider.asked[0].body["max_tokens"] == 8_192


async def test_configured_bound_applies_to_every_answer() -> None:
    with serving() as provider:
        await model_at(provider, max_tokens=50).complete(ASK, max_tokens=2_000)
        assert provider.asked[0].body["max_tokens"] == 50


async def test_content_parts_are_joined() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "?"},
        {"type": "text", "text": "b"},
    ]
    with serving(says(json.dumps({"choices": [{"message": {"content": parts}}]}))) as provider:
        assert (await model_at(provider).complete(ASK)).text == "ab"


@pytest.mark.parametrize(
    ("kind", "syntax", "sent"),
    [
        (
            "openai",
            Syntax.JSON_SCHEMA,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "plan", "schema": SCHEMA, "strict": True},
                }
            },
        ),
        ("llama.cpp", Syntax.JSON_SCHEMA, {"json_schema": SCHEMA}),
        ("llama.cpp", Syntax.GBNF, {"grammar": "the text"}),
        ("llama.cpp", Syntax.LARK, {"grammar": "%llguidance {}\nthe text"}),
        ("vllm", Syntax.JSON_SCHEMA, {"structured_outputs": {"json": SCHEMA}}),
        ("vllm", Syntax.GBNF, {"structured_outputs": {"grammar": "the text"}}),
        ("vllm", Syntax.LARK, {"structured_outputs": {"grammar": "the text"}}),
    ],
)
async def test_server_kinds_receive_constraint_in_their_form(
    kind: str, syntax: Syntax, sent: dict[str, object]
) -> None:
    text = json.dumps(SCHEMA) if syntax is Syntax.JSON_SCHEMA else "the text"
    with serving() as provider:
        model = model_at(provider, kind=kind, llguidance=True)
        said = await model.complete(ASK, Constraint(syntax, text, "plan"))
    assert said.constrained
    assert syntax in model.accepts
    assert sent.items() <= provider.asked[0].body.items()


async def test_unsupported_constraint_is_not_sent() -> None:
    with serving() as provider:
        for kind, syntax in (("openai", Syntax.GBNF), ("ollama", Syntax.LARK), ("llama.cpp", Syntax.LARK)):
            model = model_at(provider, kind=kind)
            assert syntax not in model.accepts
            with pytest.raises(ValueError, match=str(syntax)):
                await model.complete(ASK, Constraint(syntax, "x"))
        assert not provider.asked


# ---------------------------------------------------------------- failures


WRONG: list[tuple[str, Behaviour, Failure, int]] = [
    ("a key that is refused", refuses(401, "Incorrect API key"), Failure.KEY, 1),
    ("no right", refuses(403, "forbidden"), Failure.KEY, 1),
    ("no such model", refuses(404, "model 'small' not found"), Failure.REQUEST, 1),
    ("too long", refuses(400, "maximum context length is 4096 tokens"), Failure.REQUEST, 1),
    ("a filter", refuses(400, "content_filter: jailbreak"), Failure.REFUSED, 1),
    ("elsewhere", says("", 301), Failure.REQUEST, 1),
    ("too many requests", refuses(429, "slow down"), Failure.LIMITED, 4),
    ("no money", refuses(429, "You exceeded your current quota: insufficient_quota"), Failure.LIMITED, 1),
    ("its own fault", refuses(500, "oops"), Failure.OVERLOADED, 4),
    ("overloaded", refuses(529, "overloaded"), Failure.OVERLOADED, 4),
    ("a broken connection", breaks_off, Failure.UNREACHABLE, 4),
    ("no JSON", says("<html>It works!</html>"), Failure.MALFORMED, 2),
    ("other JSON", says('{"status": "ok"}'), Failure.MALFORMED, 2),
    ("a list", says("[]"), Failure.MALFORMED, 2),
    ("no text", says('{"choices": [{"message": {"content": 7}}]}'), Failure.MALFORMED, 2),
    ("an error under 200", says('{"error": {"message": "busy", "code": 429}}'), Failure.LIMITED, 4),
    ("a refusal", declines, Failure.REFUSED, 1),
    ("an empty answer", answer("  "), Failure.EMPTY, 2),
]


@pytest.mark.parametrize(("behaviour", "kind", "tries"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
async def test_failures_have_kinds_and_documented_retries(
    behaviour: Behaviour, kind: Failure, tries: int
) -> None:
    with serving(always=behaviour) as provider:
        model, waits = quick(model_at(provider))
        error = await failing(model)
        assert error.kind is kind
        assert len(provider.asked) == tries
        assert len(waits) == tries - 1
        assert waits == sorted(waits)
        assert ("asked" in str(error)) == (tries > 1)
        told = diagnose(error)
        assert model.name in told.message
        assert told.code.startswith("MDL")
        assert told.help


@pytest.mark.parametrize(
    "behaviour",
    [refuses(429, "wait", Retry_After="1"), refuses(503), breaks_off, says("oops"), answer("")],
    ids=["429", "503", "broken", "no JSON", "empty"],
)
async def test_transient_failure_is_retried(behaviour: Behaviour) -> None:
    with serving(behaviour) as provider:
        model, waits = quick(model_at(provider))
        said = await model.complete(ASK)
        assert (said.text, said.usage.tries, len(waits)) == ("fine", 2, 1)


async def test_retry_after_of_provider_is_honoured() -> None:
    with serving(refuses(429, "wait", Retry_After="1.5"), refuses(429, Retry_After="4000")) as provider:
        model, waits = quick(model_at(provider))
        error = await failing(model)
        assert waits == [1.5]
        assert "it asks to wait 4,000 s" in str(error)
        assert error.retry_after == 4000


async def test_zero_retries_make_no_retry() -> None:
    for behaviour in (refuses(429), refuses(500), says("x"), answer("")):
        with serving(always=behaviour) as provider:
            await failing(model_at(provider, retries=0))
            assert len(provider.asked) == 1


async def test_slow_answer_times_out() -> None:
    with serving(always=takes(3.0)) as provider:
        model, _ = quick(model_at(provider, timeout=1.0))
        error = await failing(model)
        assert (error.kind, len(provider.asked)) == (Failure.TIMEOUT, 2)
        assert "1 s" in str(error)


async def test_unreachable_server_is_reported() -> None:
    model, waits = quick(open_model("http://127.0.0.1:9/v1"))
    assert (await failing(model)).kind is Failure.UNREACHABLE
    assert len(waits) == 3


async def test_oversized_response_is_refused() -> None:
    with serving(always=answer(NOISE, written=40_000)) as provider:
        model, _ = quick(model_at(provider))
        with pytest.raises(ModelFailed, match="larger than 77,824 bytes") as raised:
            await model.complete(ASK, max_tokens=512)
        assert raised.value.kind is Failure.MALFORMED
        assert len(provider.asked) == 2


async def test_compressed_answer_is_bounded_after_decompression() -> None:
    with serving(packs("fine"), always=packs(NOISE)) as provider:
        model, _ = quick(model_at(provider))
        assert (await model.complete(ASK, max_tokens=512)).text == "fine"
        assert provider.asked[0].headers["Accept-Encoding"] == "identity"
        with pytest.raises(ModelFailed, match="larger than 77,824 bytes"):
            await model.complete(ASK, max_tokens=512)


# ---------------------------------------------------------------- constraints that are refused


async def test_refused_constraint_is_omitted_from_then_on() -> None:
    with serving(refuses(400, "response_format json_schema is not supported")) as provider:
        model, waits = quick(model_at(provider))
        assert model.accepts == (Syntax.JSON_SCHEMA,)
        said = await model.complete(ASK, AS_JSON)
        assert (said.text, said.constrained, said.usage.tries) == ("fine", False, 2)
        assert not waits
        assert model.accepts == ()
        assert not (await model.complete(ASK, AS_JSON)).constrained
        assert ["response_format" in asked.body for asked in provider.asked] == [True, False, False]
        other = open_model(f"{provider.url}/v1#other")
        assert other.accepts == (Syntax.JSON_SCHEMA,)


async def test_grammar_failing_on_server_is_omitted() -> None:
    with serving(refuses(500, "failed to parse grammar")) as provider:
        model, _ = quick(model_at(provider, kind="llama.cpp"))
        said = await model.complete(ASK, Constraint(Syntax.GBNF, "root ::="))
        assert (said.text, said.constrained) == ("fine", False)
        assert model.accepts == (Syntax.JSON_SCHEMA,)


async def test_error_mentioning_grammar_without_constraint_is_plain_error() -> None:
    with serving(always=refuses(400, "your grammar is bad")) as provider:
        assert (await failing(model_at(provider))).kind is Failure.REQUEST


# ---------------------------------------------------------------- keys


async def test_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "sk-s3cret")
    with serving(always=refuses(401, "Incorrect API key provided: sk-s3cret")) as provider:
        error = await failing(model_at(provider, key_env="THE_KEY"))
        assert provider.asked[0].headers["Authorization"] == "Bearer sk-s3cret"
    assert "s3cret" not in str(error)
    assert "Incorrect API key" in str(error)


async def test_missing_key_is_reported_before_request() -> None:
    with serving() as provider:
        error = await failing(model_at(provider, key_env="NO_SUCH_KEY"))
        assert (error.kind, provider.asked) == (Failure.KEY, [])
        assert "NO_SUCH_KEY" in str(error)


@pytest.mark.parametrize("url", ["http://me:pw@host/v1", "https://host/v1?api_key=abc"])
def test_url_with_secret_is_refused(url: str) -> None:
    for settings in ({"url": url}, {"model": url}):
        with pytest.raises(ValueError, match="key_env"):
            ModelSettings(**settings)
    with pytest.raises(CallsheetError, match="CFG016") as raised:
        open_model(url)
    assert "pw" not in str(raised.value)
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["http://host:90401/v1", "http://host:abc/v1", "http://[::1/v1", "http://a b/v1"]
)
def test_invalid_url_is_refused_before_request(url: str) -> None:
    with pytest.raises(CallsheetError, match="CFG016") as raised:
        open_model(url)
    assert "is not the address of a server" in str(raised.value)


# ---------------------------------------------------------------- names


def test_model_is_named_by_provider_or_url() -> None:
    assert open_model("ollama:qwen3:4b").name == "ollama:qwen3:4b"
    assert open_model("llama.cpp:any").accepts == (Syntax.GBNF, Syntax.JSON_SCHEMA)
    at_home = ModelSettings(url="http://127.0.0.1:8080/v1", name="a", kind="llama.cpp")
    assert open_model("", at_home).name == "http://127.0.0.1:8080/v1#a"
    assert open_model("http://127.0.0.1:8080/v1#b", at_home).accepts == (Syntax.GBNF, Syntax.JSON_SCHEMA)
    assert open_model("http://10.0.0.1/v1#b", at_home).accepts == (Syntax.JSON_SCHEMA,)


def test_model_is_strong_unless_known_to_be_small(tmp_path: Path) -> None:
    small = ModelSettings(url="http://127.0.0.1:8080/v1", name="a", kind="llama.cpp", strength="small")
    assert strength_of(open_model("", small)) is Strength.SMALL
    assert strength_of(open_model("http://10.0.0.1/v1#b", small)) is Strength.STRONG
    for named in ("llama.cpp:any", "vllm:any", "ollama:qwen3", "openai:gpt-5-mini", "http://10.0.0.1/v1"):
        assert strength_of(open_model(named)) is Strength.STRONG
        assert strength_of(open_model(named, ModelSettings(model=named, strength="small"))) is Strength.SMALL
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    assert strength_of(open_model(f"local:{weights}")) is Strength.SMALL
    told = ModelSettings(model=f"local:{weights}", strength="strong")
    assert strength_of(open_model("", told)) is Strength.STRONG
    os.truncate(weights, 4 << 30)
    assert strength_of(open_model(f"local:{weights}")) is Strength.STRONG


@pytest.mark.parametrize(
    ("named", "strength"),
    [
        ("ollama:qwen2.5-coder:1.5b", Strength.SMALL),
        ("http://10.0.0.1/v1#Qwen/Qwen3-4B", Strength.SMALL),
        ("openrouter:meta-llama/llama-3.2-3b-instruct", Strength.SMALL),
        ("vllm:Qwen3-30B-A3B", Strength.STRONG),
        ("ollama:gpt-oss:20b", Strength.STRONG),
        ("azure:gpt-4.1-1m", Strength.STRONG),
    ],
)
def test_model_is_as_strong_as_the_size_in_its_name(named: str, strength: Strength) -> None:
    assert strength_of(open_model(named)) is strength
    for stated in ("small", "strong"):
        told = ModelSettings(model=named, strength=stated)
        assert strength_of(open_model(named, told)) is Strength(stated)


LLAMA_CPP = {"id": "/m/a.gguf", "owned_by": "llamacpp", "meta": {"n_params": 1_777_088_000, "n_ctx": 4096}}


async def test_server_on_this_machine_is_asked_once_what_it_serves() -> None:
    grammar = Constraint(Syntax.GBNF, 'root ::= "a"')
    with serving() as provider:
        provider.listed = {"data": [LLAMA_CPP]}
        model = open_model(f"{provider.url}/v1")
        assert (strength_of(model), model.accepts) == (Strength.STRONG, (Syntax.JSON_SCHEMA,))
        await identify(model)
        assert (strength_of(model), context_of(model)) == (Strength.SMALL, 4096)
        await model.complete(ASK, grammar)
        await model.complete(ASK)
        assert [one.body.get("grammar") for one in provider.asked] == [grammar.text, None]
        assert [one.body.get("temperature") for one in provider.asked] == [0.0, 0.0]
        assert provider.listings == 1


async def test_what_settings_say_of_a_model_counts_more_than_what_its_server_says() -> None:
    with serving() as provider:
        provider.listed = {"data": [LLAMA_CPP, {"id": "big", "owned_by": "vllm", "max_model_len": 9000}]}
        model = model_at(provider, kind="vllm", strength="strong", temperature=0.7)
        await model.complete(ASK)
        assert (strength_of(model), provider.asked[0].body["temperature"]) == (Strength.STRONG, 0.7)
        assert Syntax.LARK in model.accepts
        other = open_model(f"{provider.url}/v1#big")
        await identify(other)
        assert (strength_of(other), context_of(other)) == (Strength.STRONG, 9000)
        assert Syntax.LARK in other.accepts


@pytest.mark.parametrize("listed", [None, [], "none", {"data": 1}, {"data": [7, {"meta": {"n_params": -1}}]}])
async def test_server_that_does_not_tell_what_it_serves_is_taken_as_the_settings_say(listed: object) -> None:
    with serving() as provider:
        provider.listed = listed
        model = open_model(f"{provider.url}/v1")
        assert (await model.complete(ASK)).text == "fine"
        await identify(model)
        assert (strength_of(model), context_of(model), provider.listings) == (Strength.STRONG, None, 1)
        assert "temperature" not in provider.asked[0].body


async def test_server_that_is_not_up_yet_is_asked_again() -> None:
    with serving() as provider:
        url = provider.url
    model = open_model(f"{url}/v1", ModelSettings(retries=0))
    assert (await failing(model)).kind is Failure.UNREACHABLE
    assert strength_of(model) is Strength.STRONG
    with serving(port=int(url.rpartition(":")[2])) as provider:
        provider.listed = {"data": [LLAMA_CPP]}
        await model.complete(ASK)
    assert (strength_of(model), context_of(model)) == (Strength.SMALL, 4096)


@pytest.mark.parametrize("spec", ["", "gpt-5", "opnai:gpt-5", "olama:x"])
def test_unknown_model_name_is_reported(spec: str) -> None:
    with pytest.raises(CallsheetError, match="MDL001"):
        open_model(spec)


def test_settings_of_configured_model_do_not_apply_to_another_model() -> None:
    settings = ModelSettings(
        url="http://127.0.0.1:1/v1",
        name="a",
        key_env="KEY",
        timeout=5.0,
        prices=ModelPrices(input=1.0, output=1.0),
    )
    other = settings.naming("ollama:b")
    assert (other.model, other.url, other.name, other.key_env) == ("ollama:b", "", "", "")
    assert (other.timeout, other.prices) == (5.0, ModelPrices())
    assert settings.naming("") is settings
    assert settings.naming("http://127.0.0.1:1/v1#a") is settings


async def test_endpoint_model_satisfies_language_model_protocol() -> None:
    with serving() as provider:
        model = model_at(provider)
        assert isinstance(model, LanguageModel)
        assert isinstance(await model.complete(ASK), Completion)
