"""Validates plan ids, which become file names, and creates new ones.

In: a text, or the title of a plan. Out: an id, or CallsheetError (PLN001).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.frontends.dag.fields import ID

_PLAN_ID = re.compile(ID, re.ASCII)
_MOST_OF_A_TITLE = 40


def is_plan_id(text: str) -> bool:
    """Whether a text may be the id of a plan."""
    return _PLAN_ID.fullmatch(text) is not None


def check_plan_id(text: str) -> str:
    """The id itself if it matches `[a-z0-9][a-z0-9._-]{0,63}`; raises CallsheetError (PLN001) otherwise.

    >>> check_plan_id("refactor-auth-001")
    'refactor-auth-001'
    """
    if _PLAN_ID.fullmatch(wanted("plan_id", text, str, "the id of a plan")) is None:
        raise CallsheetError.single(
            "PLN001",
            f"{text[:80]!a} is not a plan id",
            help="1 to 64 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first",
        )
    return text


def new_plan_id(title: str, taken: Container[str] = ()) -> str:
    """An id derived from a title that is not `taken`.

    >>> new_plan_id("Réfactor the Auth module!"), new_plan_id("..", {"plan"})
    ('refactor-the-auth-module', 'plan-2')
    """
    plain = unicodedata.normalize("NFKD", title.lower()).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    base = words[:_MOST_OF_A_TITLE].rpartition("-")[0] if len(words) > _MOST_OF_A_TITLE else words
    base = base or words[:_MOST_OF_A_TITLE] or "plan"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name
