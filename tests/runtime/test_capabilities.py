"""An agent's token covers what it names, until it ends, and cannot be forged."""

from __future__ import annotations

import pytest

from callsheet.ir import JSON
from callsheet.runtime.capabilities import Call, Capability, Ledger, Signer, TokenRefused

GIVEN = Capability("run", "h", "S1", "S1.0.1", ("NOTE",), 2, 1, 100.0, "T/pub", "pub")


def test_token_is_readable_only_by_signing_process() -> None:
    signer = Signer()
    token = signer.sign(GIVEN)
    assert signer.read(token) == GIVEN
    with pytest.raises(TokenRefused):
        Signer().read(token)


def test_modified_token_is_invalid() -> None:
    signer = Signer()
    body, _, seal = signer.sign(GIVEN).partition(".")
    other = signer.sign(GIVEN._replace(tools=("PAY",))).partition(".")[0]
    for forged in (f"{other}.{seal}", body, f"{body}.", f"{body}.{seal[:-1]}0x", ""):
        with pytest.raises(TokenRefused):
            signer.read(forged)


def call(tool: str = "NOTE", key: str = "S1.0.1/t1c1", **args: JSON) -> Call:
    return Call(tool, args, key)


@pytest.mark.parametrize(
    ("run_id", "talk", "made", "now", "why"),
    [
        ("run", "S2.0.1", call(), 1.0, "another agent"),
        ("other", "S1.0.1", call(), 1.0, "another run"),
        ("run", "S1.0.1", call("PAY"), 1.0, "does not name @PAY"),
        ("run", "S1.0.1", call(), 100.0, "time .* has run out"),
    ],
)
def test_call_is_covered_by_run_agent_tool_and_time(
    run_id: str, talk: str, made: Call, now: float, why: str
) -> None:
    with pytest.raises(TokenRefused, match=why):
        Ledger().call(GIVEN, run_id, talk, made, now)


def test_calls_are_counted_and_redelivery_counts_once() -> None:
    used = Ledger()
    used.call(GIVEN, "run", "S1.0.1", call(), 1.0)
    used.call(GIVEN, "run", "S1.0.1", call(), 2.0)
    with pytest.raises(TokenRefused, match="for 1 calls"):
        used.call(GIVEN, "run", "S1.0.1", call(key="S1.0.1/t1c2"), 3.0)


def test_call_is_covered_by_arguments_after_token_round_trip() -> None:
    signer, used = Signer(), Ledger()
    bound = GIVEN._replace(arguments={"NOTE": {"text": ("a", "b*")}})
    read = signer.read(signer.sign(bound))
    assert read == bound
    used.call(read, "run", "S1.0.1", call(text="bc"), 1.0)
    others: list[dict[str, JSON]] = [{"text": "ab"}, {}, {"text": ["a", "x"]}, {"text": None}]
    for args in others:
        with pytest.raises(TokenRefused, match="text must be"):
            used.call(read, "run", "S1.0.1", Call("NOTE", args, "S1.0.1/t1c1"), 1.0)


def test_token_with_wider_arguments_is_invalid() -> None:
    signer = Signer()
    bound = GIVEN._replace(arguments={"NOTE": {"text": ("a",)}})
    seal = signer.sign(bound).partition(".")[2]
    wider = signer.sign(GIVEN).partition(".")[0]
    with pytest.raises(TokenRefused):
        signer.read(f"{wider}.{seal}")


def test_turns_are_counted() -> None:
    used = Ledger()
    used.turn(GIVEN, "S1.0.1/t1", 1.0)
    used.turn(GIVEN, "S1.0.1/t2", 1.0)
    with pytest.raises(TokenRefused):
        used.turn(GIVEN, "S1.0.1/t3", 1.0)
