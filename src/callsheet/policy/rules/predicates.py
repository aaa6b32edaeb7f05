"""PREDICATE: applies the operator's own predicates, which refuse a call or require approval.

Paths and addresses have many spellings: a rule applies if it does to the arguments as written or in normal
form.
"""

from __future__ import annotations

import re

from callsheet.ir import JSON
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.policy.addresses import AddressRefused, parse_url
from callsheet.policy.builtins import Traits, fold
from callsheet.policy.calls import Argument, CallView, Duty, Rule
from callsheet.policy.paths import PathRefused, host_path, workspace_path
from callsheet.policy.predicates import compile_rules
from callsheet.policy.rules import attachments, files
from callsheet.policy.rules.base import Check, Notes, Setting

_PATHS = files.FILE_NAMES | attachments.PATHS | attachments.ATTACHMENTS
"""Folded names of arguments that name files."""
_BEHIND = re.compile(r"[^:]*://[^/?#]*")
"""Scheme and authority of an address."""


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """PREDICATE for each rule that refuses, an approval for each that asks.

    If an argument is not yet known, the rules are decided at the call. Raises CallsheetError (POL009, POL003)
    for a predicate that cannot be compiled.
    """
    rules = compile_rules(rule for rule in setting.policy.rules if fold(rule.tool) == tool)
    if not rules:
        return None

    def check(call: CallView, notes: Notes) -> None:
        args: dict[str, JSON] = {}
        for argument in call.arguments:
            is_known, value = _value(argument)
            if not is_known:
                notes.oblige(Duty.VERIFY_AGAIN, call, "; ".join(rule.when for rule in rules))
                return
            args[argument.name] = value
        plain = {name: _plain(name.casefold(), value, traits) for name, value in args.items()}
        for rule, holds in rules.items():
            if not (holds(args) or (plain != args and holds(plain))):
                continue
            if rule.then == "refuse":
                notes.object(
                    Rule.PREDICATE,
                    f"the policy refuses @{tool} where {rule.when}",
                    help="change the arguments, or the rule in the policy",
                )
            elif not setting.is_approved(call):
                notes.ask(f"the policy requires approval for @{tool} where {rule.when}")

    return check


def _plain(name: str, value: JSON, traits: Traits | None) -> JSON:
    """The value of an argument with paths and address heads in normal form."""
    if isinstance(value, list):
        return [_plain(name, item, traits) for item in value]
    if not isinstance(value, str):
        return value
    try:
        if traits is not None and name == traits.path:
            return host_path(value) if traits.on_host else workspace_path(value)
        if "://" in value:
            head = parse_url(value)
            return f"{head.scheme}://{head.authority}{_BEHIND.sub('', value.strip(), count=1)}"
        return workspace_path(value) if name in _PATHS else value
    except (AddressRefused, PathRefused):
        return value


def _value(argument: Argument) -> tuple[bool, JSON]:
    """Whether the value of an argument is known, and the value; numbers and booleans are parsed."""
    if argument.items:
        members = [_value(item) for item in argument.items]
        return all(is_known for is_known, _ in members), [value for _, value in members]
    text = argument.text
    if text is None:
        return False, None
    try:
        value = read_json(text)
    except NotJson:
        return True, text
    return True, value if isinstance(value, bool | int | float) else text
