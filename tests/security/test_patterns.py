"""Forbidden patterns take linear time; a pattern that could not is refused when it is read."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compat.worlds import plan_of as documented_plan_of
from tests.growth import seconds, takes_linear_time
from tests.runtime.tools import plan_of

from callsheet.compat import PlanPolicy, verify_plan
from callsheet.ir.labels import Label
from callsheet.ir.linear_patterns import Patterns
from callsheet.passes.verify import verify
from callsheet.policy.calls import Hole, Rule
from callsheet.policy.disarming import Allowed, addresses_in, disarmed
from callsheet.policy.judge import Judge
from callsheet.policy.links import carries_data, hosts_named, hosts_spoken, images
from callsheet.policy.model import Policy
from callsheet.policy.rules.base import BETWEEN
from callsheet.store import JournalError
from callsheet.trace.search import finder

EXPLODING = [r"(a+)+$", r"(a|aa)+$", r"(a|a?)+b$", r"(.*a){12}b", r"^([a-f]+\s?)*$", r"([a-z]+)*\d"]
"""Patterns that keep an engine that goes back over its steps busy for longer than the universe is old."""
BACKWARDS = [r"(a)\1", r"(?P<x>a)(?P=x)", r"(?=a)b", r"(?!a)b", r"(?<=a)b", r"(?<!a)b", r"(?>a)b"]
LONG = "a" * 100_000 + "!"
SECONDS = 0.05
GIVEN_UP = 10.0
"""CPU seconds after which a search is ended that would not end."""


PRIVATE = Label(untrusted=False, readers=frozenset())


def data_before(text: str) -> object:
    """Whether private data after a text is in an address."""
    hole = Hole("secret", PRIVATE)
    return carries_data(
        [f"{text}://x.example/", hole, f"{text} "], lambda _host, _hole: True, literal_is_public=False
    )


def with_disabled_links(text: str) -> object:
    """The text with its addresses disabled."""
    return disarmed(text, Allowed(lambda _host: False))


def answer_of_values(text: str) -> object:
    """Whether private data is in an address of an answer with a value for each tenth character."""
    parts = [part for sign in text[::10] for part in (Hole("secret", PRIVATE), f" {sign} ")]
    return carries_data(parts, lambda _host, _hole: True, literal_is_public=True)


READERS = [images, hosts_named, hosts_spoken, addresses_in, with_disabled_links, data_before]
"""What reads the texts of strangers for links."""


@pytest.fixture(autouse=True)
def unbounded_search_fails() -> Iterator[None]:
    def end(_number: int, _frame: object) -> None:
        raise TimeoutError(f"a search takes longer than {GIVEN_UP:g} seconds")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def fastest(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of three runs."""
    return min(seconds(work) for _ in range(3))


@pytest.mark.parametrize("pattern", EXPLODING)
def test_long_text_is_searched_in_bounded_time(pattern: str) -> None:
    patterns = Patterns((pattern,))
    assert fastest(lambda: patterns.found_in(LONG)) < SECONDS


@pytest.mark.parametrize("pattern", EXPLODING)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_search_in_runs_is_bounded_or_refused(pattern: str, ignore_case: bool) -> None:
    find = finder(f"/{pattern}/", ignore_case=ignore_case)
    assert fastest(lambda: find(LONG)) < SECONDS


@pytest.mark.parametrize("pattern", [r"^sk-\d+", r"sk-\d+$", r"^sk-\d+$", r"\Ask-\d+\z"])
@pytest.mark.parametrize("argument", ['"sk-1234"', '"ｓｋ-1234"', '["a", "sk-1234", "b"]'])
def test_each_text_of_call_is_anchored(pattern: str, argument: str) -> None:
    judge = Judge(Policy(forbidden=(pattern,)))
    proof = verify(plan_of(f'S1: @LLM_ANALYZE ("first", key={argument}, task="last")'), judge)
    assert (Rule.FORBIDDEN, "key") in [(told.rule, told.argument) for told in proof.violations]
    assert not any(
        clear(BETWEEN.join(("first", "sk-1234", "last"))) for clear in judge.prepared("LLM_ANALYZE").clears
    )


@given(
    st.lists(st.text("sk-1_é ", max_size=6), min_size=1, max_size=4),
    st.sampled_from([r"\bsk", r"k\b", r"\Bk", r"s\B", r"\b1\b", r"\B-", r"-\b", r"(?i)\bS"]),
)
def test_word_boundaries_are_same_in_joined_texts(texts: list[str], pattern: str) -> None:
    patterns = Patterns((pattern,))
    assert not patterns.are_anchored
    found = [word for text in texts for word in patterns.found_in(text)]
    assert bool(patterns.found_in(BETWEEN.join(texts))) == bool(found)


@pytest.mark.parametrize("pattern", BACKWARDS)
def test_backtracking_pattern_is_refused_in_search(pattern: str) -> None:
    with pytest.raises(JournalError, match="JRN085"):
        finder(f"/{pattern}/")


@pytest.mark.parametrize(
    "piece", ["a", "a.", "a-", "www.", "//a.", "://", "](", "![", "<a ", "[", "(", "@a."]
)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_links_are_found_in_linear_time(read: Callable[[str], object], piece: str) -> None:
    assert takes_linear_time(read, "<{0}://x {0}", piece)


def test_answer_is_judged_in_linear_time() -> None:
    assert takes_linear_time(answer_of_values, "{0}", "a")


def test_match_at_end_of_long_text_is_found() -> None:
    assert Patterns((r"(a+)+$", "x")).found_in(LONG[:-1]) == [r"(a+)+$"]


def test_plan_with_long_argument_is_checked_against_all_patterns() -> None:
    text = f'S1: @WEB_SEARCH (query="{LONG}")'
    proof = verify(plan_of(text), Policy(forbidden=(*EXPLODING, "a!$")))
    assert any("a!$" in str(violation) for violation in proof.violations)
    documented, policy = documented_plan_of(text), PlanPolicy(forbidden_arg_patterns=[*EXPLODING, "a!$"])
    found = []
    assert seconds(lambda: found.extend(verify_plan(documented, policy).violations)) < 5
    assert [violation.detail for violation in found] == ["an argument of @WEB_SEARCH matches a!$"]


@pytest.mark.parametrize("pattern", BACKWARDS)
def test_backtracking_pattern_is_refused_in_policy(user, pattern: str) -> None:
    Path("policy.toml").write_text(f"schema = 1\n[secrets]\npatterns = ['{pattern}']\n")
    told = user("policy", "check", "policy.toml")
    assert told.exit_code != 0
    assert "POL003" in told.output
    assert "RE2" in told.output
    with pytest.raises(ValueError, match="cannot be read as a pattern"):
        PlanPolicy(forbidden_arg_patterns=[pattern])
