"""Shell scripts are divided into words and redirections as a shell does it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.policy.programs import only_looks
from callsheet.policy.programs.script import NotClosedError, commands_of

PIECES = st.sampled_from(
    [*"'\"\\`$#&|;()<>{}\n\r\t \f\v\x00", "\u00a0", "\u2003", "a", "1", "$(", "<(", ">(", "<<", "<<<", ">&"]
)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("a\fb c", [["a\fb", "c"]]),
        ("a\u00a0b", [["a\u00a0b"]]),
        ("a b\r\nc\r", [["a", "b"], ["c"]]),
        ("a\r#;b", [["a\r#"], ["b"]]),
        ("a\\\nb \"c\\\nd\" ''\\\n-v", [["ab", "cd", "-v"]]),
        ('a "\\$x \\y"', [["a", "$x \\y"]]),
    ],
)
def test_white_space_divides_words_only_where_it_does_in_a_shell(script: str, words: list[list[str]]) -> None:
    assert [command.words for command in commands_of(script)] == words


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_script_comes_to_an_end(script: str) -> None:
    with contextlib.suppress(NotClosedError):
        assert commands_of(script)


@pytest.mark.parametrize(
    ("line", "is_look"),
    [
        ("ls -l | grep x", True),
        ("/usr/bin/ls; /bin/ps aux", True),
        ("ip addr show dev eth0", True),
        ("ip -s link", True),
        ("date -u +%F", True),
        ("hostname -f", True),
        ("dmesg --level=err", True),
        ("./ls", False),
        ("/workspace/ls", False),
        ("ip netns exec x cp a b", False),
        ("ip link set eth0 down", False),
        ("ip -b commands", False),
        ("date -s 12:00", False),
        ("date 010112002030", False),
        ("hostname evil", False),
        ("dmesg -C", False),
        ("file -C -m magic", False),
        ("ss -K dst 10.0.0.1", False),
        ("printf -v PATH .", False),
    ],
)
def test_command_only_looks_if_it_is_of_the_system_and_changes_nothing(line: str, is_look: bool) -> None:
    assert only_looks(line) is is_look


@pytest.mark.parametrize(
    ("script", "written"),
    [("ps >&2 2>&1", []), ("ps > 1", ["1"]), ("ps >& out", ["out"]), ("ps > '&1'", ["&1"])],
)
def test_descriptor_is_no_file_and_number_may_be_one(script: str, written: list[str]) -> None:
    (command,) = commands_of(script)
    assert command.writes == written
    assert only_looks(script) == (not written)
