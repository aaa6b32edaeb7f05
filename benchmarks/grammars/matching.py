"""Checks byte by byte whether llguidance accepts a text: what a decoder with the grammar could write."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper


class _Bytes:
    """A tokenizer in which every byte is a token."""

    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    special_token_ids = [256]  # noqa: RUF012 - as above

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


@cache
def tokenizer() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Bytes()), slices=[])


_MOST_TEXTS = 500
"""A matcher keeps the states that it has met, up to a limit that no answer comes near; so it is made anew."""


class Matcher:
    """One grammar as llguidance has compiled it; raises ValueError for one that it refuses."""

    def __init__(self, grammar: str, *, is_checked: bool = True) -> None:
        is_wrong, said = LLMatcher.validate_grammar_with_warnings(grammar) if is_checked else (False, [])
        if is_wrong:
            raise ValueError(said)
        self._grammar = grammar
        self._matcher = LLMatcher(tokenizer(), grammar, log_level=0)
        self._texts = 0

    @classmethod
    def of_schema(cls, schema: dict[str, Any]) -> Matcher:
        return cls(LLMatcher.grammar_from_json_schema(json.dumps(schema)))

    def takes(self, text: str) -> bool:
        """Whether the text is a sentence of the grammar."""
        return self.refused_at(text) is None

    def refused_at(self, text: str) -> int | None:
        """The number of accepted bytes if the text is not a whole sentence."""
        self._texts += 1
        if self._texts > _MOST_TEXTS:
            self._matcher, self._texts = LLMatcher(tokenizer(), self._grammar, log_level=0), 0
        matcher = self._matcher.deep_copy()
        tokens = list(text.encode())
        taken = matcher.try_consume_tokens(tokens)
        if matcher.is_error() and "too many" in matcher.get_error():
            raise RuntimeError(matcher.get_error())
        return None if taken == len(tokens) and matcher.is_accepting() else taken
