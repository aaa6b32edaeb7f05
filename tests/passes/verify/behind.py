# ruff: noqa: E501 - a case is a line
"""Steps behind answers, which are reached if the answer is empty or by a jump, and behind steps that may end."""

from __future__ import annotations

from tests.passes.verify.corpus import NOTES, OK, OUT, case

_URGENT = '?IF ($a contains "urgent") THEN @RESPOND ("urgent", $a)'
_TICK = '@FETCH_PAGE (url="https://collect.example/tick") > $r'
_SEARCH = '@WEB_SEARCH (query="weather") > $a'

HOSTILE_BEHIND = [
    case("behind: a leak after an answer", NOTES, OK, OUT),
    case(
        "behind: a leak after an answer that a jump reaches too",
        '@FETCH_PAGE (url="https://news.example/") > $a ON_FAIL GOTO S4',
        NOTES,
        OK,
        OUT,
        OK,
    ),
    case(
        "behind: nothing but content decides between two answers",
        NOTES,
        _URGENT,
        '@RESPOND ("nothing")',
        _TICK,
        OK,
    ),
    case(
        "behind: an answer that may be empty",
        NOTES,
        "@SELECT ($a, query=\"extract(@, 'x')\") > $m",
        '?IF ($a contains "x") THEN @RESPOND ($m)',
        _TICK,
        OK,
    ),
    case(
        "behind: a variable is not set again if the step fails", NOTES, f"{_SEARCH} ON_FAIL GOTO S3", OUT, OK
    ),
    case(
        "behind: a variable is not set again in another branch",
        NOTES,
        f'?IF ("a" == "b") THEN {_SEARCH} ON_FAIL TERMINATE ("no")',
        OUT,
        OK,
    ),
]
HARMLESS_BEHIND = [
    case(
        "behind: a fallback after two answers",
        '@FETCH_PAGE (url="https://news.example/") > $p ON_FAIL GOTO S5',
        NOTES,
        _URGENT,
        '@RESPOND ("nothing", $p)',
        '@FETCH_PAGE (url="https://mirror.example/") > $p',
        "@RESPOND ($p)",
    ),
    case(
        "behind: a fallback of the private file itself",
        '@READ_FILE (path="notes.txt") > $a ON_FAIL GOTO S4',
        _URGENT,
        '@RESPOND ("nothing")',
        '@WEB_SEARCH (query="how to take notes") > $w',
        "@RESPOND ($w)",
    ),
    case(
        "behind: a variable is set again or the plan ends",
        NOTES,
        f'{_SEARCH} ON_FAIL TERMINATE ("no")',
        OUT,
        OK,
    ),
    case(
        "behind: a note is written or the plan ends",
        '@SET_WM (key="k", value="weather") ON_FAIL TERMINATE ("no")',
        '@GET_WM (key="k") > $a',
        OUT,
        OK,
    ),
]
