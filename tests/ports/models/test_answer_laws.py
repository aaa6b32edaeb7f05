"""Any response of a provider is an answer or a described failure, without keys or other errors."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from callsheet.ports.models.endpoint import read_completion
from callsheet.ports.models.model import Completion, Failure, ModelFailed, Usage, refusal, seconds_in
from callsheet.ports.models.settings import ModelPrices

NAMES = [
    "choices",
    "message",
    "content",
    "refusal",
    "finish_reason",
    "usage",
    "error",
    "code",
    "text",
    "type",
]
NAMES += [
    "prompt_tokens",
    "completion_tokens",
    "prompt_tokens_details",
    "cached_tokens",
    "timings",
    "cache_n",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
CHOICES = st.fixed_dictionaries({"message": VALUES | st.fixed_dictionaries({"content": VALUES})})
ANSWERS = VALUES | st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2)}, optional={"usage": VALUES}
)
COUNTS = st.integers(0, 10**7)
PRICES = st.floats(0, 100)


@given(ANSWERS)
def test_any_json_is_answer_with_text_or_failure(data: object) -> None:
    with suppress(ModelFailed):
        said = read_completion(json.dumps(data), 1.0, constrained=False, secrets=())
        assert isinstance(said, Completion)
        assert said.text.strip()
        assert 0 <= said.usage.cached_tokens <= said.usage.input_tokens


@given(st.text())
def test_any_text_is_answer_or_failure(text: str) -> None:
    with suppress(ModelFailed):
        read_completion(text, 1.0, constrained=True, secrets=())


@given(
    status=st.integers(400, 599),
    before=st.text(max_size=40),
    after=st.text(max_size=40),
    constrained=st.booleans(),
    wraps=st.sampled_from([lambda t: t, lambda t: json.dumps({"error": {"message": t}}), json.dumps]),
)
def test_failure_is_one_line_without_key(status, before, after, constrained, wraps) -> None:
    key = "sk-very-secret-key"
    error = refusal(status, wraps(f"{before}{key}{after}"), constrained=constrained, secrets=(key,))
    assert isinstance(error.kind, Failure)
    assert str(status) in str(error)
    assert key not in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 400


@given(st.integers(0, 10**6))
def test_retry_after_is_seconds_or_date(seconds: int) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert seconds_in(str(seconds)) == seconds
    assert seconds_in(format_datetime(now + timedelta(seconds=seconds), usegmt=True), now) == seconds
    assert seconds_in(format_datetime(now - timedelta(seconds=seconds), usegmt=True), now) == 0


@given(COUNTS, COUNTS, COUNTS, PRICES, PRICES)
def test_cached_tokens_never_increase_cost(
    read: int, written: int, cached: int, price: float, output: float
) -> None:
    prices = ModelPrices(input=price, cached=price / 2, output=output)
    without, with_cache = prices.cost_of(Usage(read, written)), prices.cost_of(Usage(read, written, cached))
    assert without is not None
    assert with_cache is not None
    assert 0 <= with_cache <= without + 1e-9
