"""The inputs of a distilled plan, and what the user's words tell of the values of a recorded run.

In: the words of the user, and values of arguments. Out: inputs for what the user has said, and whether words
around data are the user's own.
"""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass, field

from callsheet.authoring.distillation.leaves import number_of
from callsheet.authoring.distillation.wording import SMALL_WORDS, said_data, says_the_same
from callsheet.ir import JSON

SAID = "the user said it"
"""Why something is an input that needs no further explanation."""
_PLAIN_NUMBER = re.compile(r"[1-9]\d*")
_SENTENCE = 3
"""From more words on, what the user has said is a text of theirs."""
_ALL = frozenset(("all", "each", "every", "everybody", "everyone", "everything", "both", "any", "whole"))


@dataclass
class Inputs:
    """The inputs so far by name, with their recorded values and the reasons for them.

    `said` are the words of the user, `request` the same without what they quote, `vocabulary` the words of
    the tools and their arguments, `words_kept` the words around data that were taken for the user's.
    """

    said: str
    request: str
    vocabulary: frozenset[str]
    names: set[str]
    values: dict[str, JSON] = field(default_factory=dict[str, JSON])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    words_kept: list[str] = field(default_factory=list[str])

    def new_name(self, wanted: str) -> str:
        """A name that is free in the plan."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", wanted).strip("_").lower() or "value"
        if base[0].isdigit() or keyword.iskeyword(base) or hasattr(builtins, base):
            base = f"the_{base}"
        name, number = base, 2
        while name in self.names:
            name, number = f"{base}_{number}", number + 1
        self.names.add(name)
        return name

    def input_for(self, argument: str, value: JSON, why: str) -> str:
        """The input for a value: one that has it already, or a new one named after the argument."""
        for name, known in self.values.items():
            if known == value and type(known) is type(value) and self.reasons[name] == why:
                return name
        name = self.new_name(argument)
        self.values[name] = value
        self.reasons[name] = why
        return name

    def said_input(self, name: str, value: JSON) -> str:
        """The input for a value that the user has said of items."""
        return self.input_for(name, value, SAID)

    def forget_all_but(self, used: set[str]) -> None:
        """Forget the inputs that nothing uses: a part of a list was thought of, and did not fit."""
        for name in [name for name in self.values if name not in used]:
            del self.values[name], self.reasons[name]

    def is_expected(self, words: str) -> bool:
        """Whether words that stand around data are the user's, or nothing by themselves."""
        is_said = says_the_same(words, self.said, self.vocabulary)
        if is_said and re.search(r"\w", words):
            self.words_kept.append(words.strip())
        return is_said

    def words_in(self, name: str, value: JSON) -> None:
        """Take what the user has said exactly as in a text as inputs: another time it may differ."""
        if not isinstance(value, str):
            return
        said = [
            (name, text) for text in said_data(self.said)
            if not _PLAIN_NUMBER.fullmatch(text)
            and re.search(rf"(?<![^\W_TZ]){re.escape(text)}(?![^\W_TZ])", value)
        ]  # fmt: skip
        rest = value
        for text in sorted((*self.texts_given(), *(text for _, text in said)), key=len, reverse=True):
            rest = rest.replace(text, "\0" * len(text))
        words = [*re.finditer(r"\w+", rest)]
        place = 0
        while place < len(words):
            start, size = words[place].start(), 1
            while place + size < len(words) and self.has_said(rest[start : words[place + size].end()]):
                size += 1
            if size <= _SENTENCE:  # words of grammar around others are no part of what may differ
                while size > 1 and not self.is_of_this_time(words[place + size - 1][0]):
                    size -= 1
            text = rest[start : words[place + size - 1].end()]
            if size > _SENTENCE or (self.has_said(text) and self.is_of_this_time(words[place][0])):
                said.append((name if size > 1 else text, text))
                place += size
            else:
                place += 1
        is_long = value.count("\n") > 1
        said += [(word, word) for word in self.words_of_data() if is_long]  # what stood there before
        for called, text in said:
            if is_long or text in value:
                self.said_input(called, text)

    def words_said(self, *, is_one: bool) -> None:
        """Take all that the user has said which may be data as inputs: words, numbers, and what is quoted.

        Of `is_one` run the words of the tools are none.
        """
        words = [*said_data(self.said), *re.findall(r"[\"“«]([^\"“”«»]+)[\"”»]", self.said)]
        words += [
            one
            for one in re.findall(r"[^\W\d_][\w'-]*", self.request)
            if len(one) >= _SENTENCE or one.isupper()
        ]
        texts = [
            one
            for one in dict.fromkeys(words)
            if (one.lower() not in SMALL_WORDS and not (is_one and one in self.vocabulary)) or one.isupper()
        ]
        for text in texts:
            if not _PLAIN_NUMBER.fullmatch(text):
                self.said_input(text, text)
        self.numbers_said()

    def is_of_this_time(self, text: str) -> bool:
        """Whether a text has a word besides those of the tools and those that say nothing."""
        words = re.findall(r"[^\W\d]\w{3,}", text)
        return any(not says_the_same(word, "", self.vocabulary) for word in words)

    def words_of_data(self) -> list[str]:
        """The words of the request that may be data."""
        found = re.findall(r"[^\W\d_][\w-]{3,}", self.request)
        return [word for word in dict.fromkeys(found[1:]) if self.is_of_this_time(word)]

    def texts_given(self) -> list[str]:
        """The texts of inputs, which are found in others."""
        return [text for text in self.values.values() if isinstance(text, str) and len(text) > _SENTENCE]

    def numbers_said(self) -> None:
        """Take the numbers that the user has said as inputs."""
        found = re.findall(r"(?<![\w.#-])(\d+(?:\.\d+)?)(?![\w-]|\.\d)\s*([A-Za-z]*)", self.request)
        for digits, unit in found:
            number = number_of(digits)
            if number is not None and str(number) == digits:
                self.said_input(unit or "number", number)

    def has_said(self, value: JSON) -> bool:
        """Whether a text or a number is in the user's words."""
        if value is None or isinstance(value, dict | list | bool):
            return False
        text = str(value)
        if not text.strip() or text not in self.said:
            return False
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.said) is not None

    def means_all(self) -> bool:
        """Whether the user has asked for all of something."""
        return bool(_ALL & {*re.findall(r"\w+", self.request.lower())})
