"""The helpers of lowered programs: Python for the executor, where it lacks or differs from CPython 3.12.

A program gets those that it names, and what they name. They are text, as CPython never runs them.
"""

from __future__ import annotations

from typing import Final

NOT_A_VALUE: Final = "\x00not a value:"
"""What an error's message starts with where an output is no value; a name and a type follow."""
RAISED: Final = "\x00raised:"
"""What a message starts with that stands for an exception of the program's own class; a number follows."""

CORE: Final = """\
import json as _cs_json
import datetime as _cs_dt
from decimal import Decimal as _cs_Decimal
def _cs_take(v):
    return v
def _cs_give(name, v):
    if v is None or isinstance(v, (bool, int, float, str)):
        return v
    try:
        _cs_json.dumps(v)
        return v
    except (TypeError, ValueError):
        return _cs_walk(name, v, {})
def _cs_walk(name, v, done):
    if v is None or isinstance(v, (bool, int, float, str, bytes, _cs_dt.date, _cs_dt.time, _cs_dt.timedelta, _cs_dt.timezone, _cs_Decimal)):
        return v
    known = id(v)
    if known in done:
        return done[known]
    if isinstance(v, list):
        r = []
        done[known] = r
        for x in v:
            r.append(_cs_walk(name, x, done))
        return r
    if isinstance(v, dict):
        r = {}
        done[known] = r
        for k, x in v.items():
            r[_cs_walk(name, k, done)] = _cs_walk(name, x, done)
        return r
    if isinstance(v, tuple):
        return tuple([_cs_walk(name, x, done) for x in v])
    if isinstance(v, (set, frozenset)):
        return v
    raise ValueError('\\x00not a value:' + name + ':' + type(v).__name__)
"""
