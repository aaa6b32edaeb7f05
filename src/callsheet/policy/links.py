"""Detects data inside links, images and bare addresses, which a rendering program would request.

In: texts with holes. Out: whether data is part of an address whose host is not among its readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html import unescape

from callsheet import lazy
from callsheet.ir.labels import LITERAL
from callsheet.policy.addresses import AddressRefused, parse_url
from callsheet.policy.calls import Hole, Part
from callsheet.policy.urls import MARK

_SOFT = lazy.pattern(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
    r"|\\(?=[!-/:-@\[-`{-~])"
)
"""What renderers drop: control and zero-width characters, and a backslash before punctuation."""
_OTHER_DOT = lazy.pattern(r"(?<=[a-z\d])[\u3002\uff0e\uff61](?=[a-z\d])", re.I)
"""Full stops of other scripts between letters or digits, which separate host labels like a dot."""


def as_read(text: str, *, has_entities: bool = True) -> str:
    r"""A text as it is read; entities are decoded unless `has_entities` is false.

    >>> as_read("https&#58;\\//c\u200b.example/")
    'https://c.example/'
    """
    plain = _SOFT.sub("", unescape(text) if has_entities else text)
    return plain if plain.isascii() else _OTHER_DOT.sub(".", plain)


_ACTIVE_TAG = lazy.pattern(r"<([a-z][\w:-]*)([^<>]*)", re.I)
_QUOTED_TAG = lazy.pattern(r"""<([a-z][\w:-]*)((?:[^<>"']|"[^"]*"|'[^']*')*+)""", re.I)
"""A tag as browsers parse it: a bracket inside quotes does not end it. Other programs use `_TAG`."""
_HANDLER = lazy.pattern(r"""(?:\A|[\s/"'])(?:on\w+|srcdoc|formaction)\s*=""", re.I)
_FETCHED = frozenset({"iframe", "frame", "object", "embed", "applet", "portal", "link", "base"})
"""Elements that embed external content or change where links lead."""
_REFRESH = lazy.pattern(r"http-equiv\s*=\s*[\"']?\s*refresh", re.I)
_ELSEWHERE = lazy.pattern(r""":|[/\\]{2}|=\s*(?:(["'])\s*\1|["']?\s*\Z)""")
"""An address outside the page, or one supplied by data."""
_STYLE_LOADS = lazy.pattern(r"@import\b|url\(", re.I)
_SCRIPT_ADDRESS = lazy.pattern(r"(?<![\w-])(?:java|vb)script:(?=\S)", re.I)
_LEFT_OUT = lazy.pattern(r"[\x00-\x1f\x7f]")
"""Characters that browsers drop from addresses."""
_NAMED_TAG = lazy.pattern(r"(?<!`)`</?[a-z][\w:-]*\s?/?>`(?!`)", re.I)
"""A tag that is only mentioned: alone in a code span."""


PERHAPS = "\ufffa"
"""Stands for a quote that may not be there: JSON has quotes around texts, and none around numbers."""
_PIECE = lazy.pattern(rf"[<>=\"'{PERHAPS}]|[ \t\n\r\f]+|[^<>=\"' \t\n\r\f{PERHAPS}]+")
_TAG_NAME = lazy.pattern(rf"[A-Za-z{MARK}]")
_SHOWN = frozenset(
    {"title", "alt", "class", "lang", "dir", "width", "height", "align", "colspan", "rowspan", "role"}
)
"""Attributes that are shown or shape what is shown, and are sent to nobody."""
_NAME, _EQUALS, _UNQUOTED, _DOUBLE, _SINGLE = "name", "equals", "bare", "double", "single"
"""Where a browser may be in a tag: among names, behind an equals sign, in a value without or with quotes."""


class OpenTag:
    """Follows a text as browsers parse its tags, from each place at which one may begin.

    >>> tag = OpenTag()
    >>> tag.feed("<b>1 < 2</b> <img alt='>")
    >>> tag.is_in_value
    True
    """

    __slots__ = ("_begins", "_places", "_word", "is_shown")

    def __init__(self) -> None:
        self._places: frozenset[str] = frozenset()
        self._begins = False
        self._word = ""
        self.is_shown = False
        """Whether the last attribute with a value is only shown, like a title."""

    @property
    def is_in_value(self) -> bool:
        """Whether what follows may belong to the value of an attribute."""
        return not self._places <= {_NAME}

    def feed(self, text: str) -> None:
        """Go on with a text."""
        if self._begins and _TAG_NAME.match(text):
            self._places |= {_NAME}
        if not self._places and "<" not in text:
            self._begins = self._begins and not text
            return
        for found in _PIECE.finditer(text):
            piece = found[0]
            if self._places and piece == "=" and self._places & {_NAME}:
                self.is_shown = self._word.lower() in _SHOWN
            if piece.isalpha():
                self._word = piece
            elif piece not in "=" and not piece.isspace():
                self._word = ""
            if self._places:
                self._places = frozenset([after for place in self._places for after in _next(place, piece)])
            if piece == "<" and _TAG_NAME.match(text, found.end()):
                self._places |= {_NAME}
        self._begins = text.endswith("<")


def _next(place: str, piece: str) -> tuple[str, ...]:
    """The places in which a browser may be in a tag after a piece; none if the tag is closed."""
    first = piece[0]
    if place in (_DOUBLE, _SINGLE):
        if first == PERHAPS:
            return (place, _NAME) if place == _DOUBLE else (place,)
        return (_NAME,) if first == ('"' if place == _DOUBLE else "'") else (place,)
    if first == ">":
        return ()
    if place == _EQUALS:
        if first in " \t\n\r\f":
            return (_EQUALS,)
        quoted = {'"': (_DOUBLE,), "'": (_SINGLE,), PERHAPS: (_DOUBLE, _EQUALS)}
        return quoted.get(first, (_UNQUOTED,))
    if place == _UNQUOTED:
        return (_NAME,) if first in " \t\n\r\f" else (_UNQUOTED,)
    return (_EQUALS,) if first == "=" else (_NAME,)


def inert(text: str) -> str:
    """The text with a blank behind each bracket that would begin a tag.

    >>> inert("1 < 2 <b>x</b><!-- y -->")
    '1 < 2 < b>x< /b>< !-- y -->'
    """
    return _BEGIN.sub("< ", text)


_BEGIN = lazy.pattern(r"<(?=[a-z/!?])", re.I)


def is_active(text: str) -> bool:
    """Whether the text, rendered as a page, may read what surrounds it and send it, or let others do so.

    >>> is_active("<script src=//c.example/x.js></script>"), is_active("<b>10 < 12</b>")
    (True, False)
    >>> is_active("the `<form>` that they sent"), is_active("<iframe src='https://c.example/'>")
    (False, True)
    """
    if ":" in text and runs_an_address(text):
        return True
    if "<" not in text:
        return False
    meant = text if _runs_spans(text) else _NAMED_TAG.sub("", text)
    loads_styles = _STYLE_LOADS.search(text) is not None
    return any(
        _is_active_tag(name.lower(), attributes) or (loads_styles and name.lower() == "style")
        for name, attributes in _tags(meant)
    )


def _runs_spans(text: str) -> bool:
    """Whether a renderer without code spans would run what is between two mentioned tags."""
    return "</script" in text.lower() or "${" in text


def _tags(text: str) -> Iterator[tuple[str, str]]:
    """The names and contents of tags, in each way in which a program may parse the text."""
    for pattern in (_ACTIVE_TAG, _QUOTED_TAG):
        for match in pattern.finditer(text):
            yield match[1], match[2]


def _is_active_tag(name: str, attributes: str) -> bool:
    if name == "script":
        return True
    if "=" not in attributes:
        return False
    if name == "form" or _HANDLER.search(attributes) is not None:
        return True
    if name in _FETCHED or (name == "meta" and _REFRESH.search(attributes) is not None):
        return _ELSEWHERE.search(unescape(attributes)) is not None
    return False


def runs_an_address(text: str) -> bool:
    """Whether an address in the text is a program that a click would run."""
    if _SCRIPT_ADDRESS.search(text) is not None:
        return True
    read = _LEFT_OUT.sub("", unescape(text))
    return read != text and _SCRIPT_ADDRESS.search(read) is not None


_REST = r"[^ \t\n\r<]*\Z"
"""The rest of an address: programs read past every character but a plain blank, a line end and a tag."""
_CLOSERS = frozenset(" \t\n\r<")
"""What ends an address for all programs; other white space, such as a no-break space, belongs to it."""
_DATA = "\ufffb"
"""Placeholder for data that is not public."""
_WORDS = (
    "mailto|data|javascript|vbscript|tel|callto|sms|smsto|facetime|skype|sip|sips|xmpp|whatsapp|tg|magnet|intent|market"
    "|geo|feed|webcal|ircs?|ldaps?|bitcoin|view-source|matrix|slack|zoommtg|vscode|(?:ht|f)tps?"
)
"""Schemes that programs link without two slashes."""
_BARE = lazy.pattern(
    rf"(?:\w:[/\\]{{2}}|(?<![:\w/])//|(?<![\w\\])\\\\(?=\w)|www\.|(?<![\w-])(?:{_WORDS}):){_REST}",
    re.I,
)
_HOST = r"(?:(?:[\w-]+\.)+(?:[^\W\d_]{2,}|xn--[a-z0-9-]+)|(?:\d{1,3}\.){3}\d{1,3})"
_DOMAIN = lazy.pattern(
    rf"(?<![\w@./-])(?:{_HOST}|localhost|\[[\da-f.]*:[\da-f:.]*\])(?:(?::\d+)?[/?#]{_REST}|\.?(?::\d*)?\Z)",
    re.I,
)
"""A host without a scheme: followed by a path, or at the end, where data may go on with one."""
_NAMED = r"^(?:[ \t>*+-]|\d{1,9}[.)])*+\[(?:[^\]\\\n]|\\.|\\?\n(?![ \t>]*$)){1,999}+\]:"
"""The label of a Markdown reference definition, also in lists and quotes, and over several lines."""
_MARKDOWN = lazy.pattern(
    rf"\]\(\s*(?:<(?:\\.|[^>\n\\])*|[^)\n]*)\Z|{_NAMED}\s*(?:<(?:\\.|[^>\n\\])*|[^ \t\n\r]*)\Z", re.M
)
"""The target of a link or a definition; between angle brackets it may contain blanks."""
_WHOLE_TAG = lazy.pattern(
    r"<[a-z][a-z0-9-]*(?:\s+[a-z_:][\w.:-]*(?:\s*=\s*(?:[^\s\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*\s*/?>", re.I
)
"""A complete tag, whose attributes are no addresses in the text around it."""
_LOADING = (
    r"\w*(?:src|href)\w*|on\w+|\w*action|poster|background|data|style|ping|cite|content|value|code\w*"
    r"|archive|longdesc|manifest|profile|classid|icon"
)
_TAG = lazy.pattern(rf"<[a-z][\w:-]*[\s/][^>]*\b(?:{_LOADING})\s*=[^>]*\Z|url\(\s*[^)]*\Z", re.I)
"""A tag with an attribute that loads or links to an address; not every less-than sign."""
_OPEN_TAG = lazy.pattern(r"<[a-z][\w:-]*[\s/][^<>]*\Z", re.I)
_GLUED = lazy.pattern(
    rf"[{MARK}{_DATA}](?:[^ \t\n\r<]*[/?#&=\x0b\x0c\x1c-\x1f\x85\xa0\u1680\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u2064\u3000\ufeff])?\Z"
)
_GLUED_HOST = r"[^ \t\n\r<>/?#@:,;!\"'()\[\]{}*&\\]*"
"""What a host may begin with that programs find without a scheme: even symbols such as an equals sign."""
_AFTER = lazy.pattern(
    rf"{_GLUED_HOST}\.(?:[a-z]{{2,}}|xn--[a-z0-9-]+)\.?(?::\d+)?[/?#]"
    rf"|{_GLUED_HOST}\.(?:com|net|org|info|biz|io|dev|app|example|site|online|xyz|link|shop|live)\b",
    re.I,
)
"""A host that begins with data: followed by a path, or with a TLD that is not a file extension."""
_SCHEME = lazy.pattern(r"[a-z][a-z0-9+.-]{0,30}\Z", re.I)
"""The scheme before `://`: at most 31 characters, so that matching stays linear."""
_WHOLE = lazy.pattern(r"[a-z][a-z0-9+.-]{0,30}://[^\s<>\"'`)\]]+", re.I)
_IMAGE = lazy.pattern(
    r"!\[(?:[^\]!]|!(?!\[))*+\]\(|<(?:img|iframe|script|link|video|audio|source)\b|url\(", re.I
)
_DEFINED = lazy.pattern(_NAMED, re.M)
"""A Markdown reference definition."""
_NAMED_HOST = lazy.pattern(r"[a-z][a-z0-9+.-]{0,30}://(?:[\w-]+\.)+[\w-]+[^\s\"'`]*", re.I)
_SPOKEN_HOST = lazy.pattern(rf"(?<![\w@./:-])(?://|www\.)?{_HOST}(?::\d+)?/(?!\s|\Z)", re.I)
"""An address without a scheme, as people write it."""
_ENDING = lazy.pattern(r"[()\[\]{}|\\^,;*]")
"""Characters at which programs disagree whether an address ends."""
_ANOTHER = lazy.pattern(
    rf"[/\\]{{2}}|&#|&\w+;|www\.|(?<![\w-])(?:{_WORDS}):|(?<![\w/.-]){_HOST}(?::\d+)?[/?#]", re.I
)
"""What may begin another address after the end of one."""
_APART = lazy.pattern(r"[\s<>]|[\"'`],")
"""What ends an address for all programs."""
_NESTING = lazy.pattern(r"[a-z][a-z0-9+.-]{0,30}://[^/?#\s]+[/?#]", re.I)
"""The beginning of a complete web address that may contain another."""
_LONGEST_LABEL = 1_000
"""The longest label of a Markdown reference."""
_FARTHEST = 2_000
"""The longest text before an address that is searched for one around it; a longer one counts as one."""
_MOST_AFTER = 300
"""How much of the text after data can tell that the data begins an address."""
_SLASHED_HOST = lazy.pattern(r"(?<![\w:/])//(?:[\w-]+\.)+[\w-]+", re.I)


def carries_data(
    parts: Iterable[Part],
    may_have: Callable[[str | None, Hole | None], bool],
    literal_is_public: bool,
    *,
    is_strict: bool = False,
) -> bool:
    """Whether private data is part of an address.

    Adjacent fields of one value are allowed, unless their texts are known and form an address, or `is_strict`
    is set. `may_have(host, hole)` says whether a host may read the data of a hole, or, for None, the plan's
    own text.
    """
    text = ""
    parts = list(parts)
    own = OpenTag()
    defines: bool | None = None
    for number, part in enumerate(parts):
        if isinstance(part, str):
            text += part
            own.feed(part)
            continue
        if part.label.is_public:
            known = MARK if part.text is None else part.text
            text += known
            own.feed(known if part.label == LITERAL else MARK)
            continue
        if text.rfind("[", max(len(text) - _LONGEST_LABEL, 0)) > text.rfind("]"):
            if defines is None:
                defines = _DEFINED.search("".join(map(_known, parts))) is not None
            if defines and not may_have(None, part):
                return True
        after = _text_after(parts, number)
        is_own = not is_strict and _goes_on(parts, number)
        is_value = own.is_in_value and not own.is_shown
        if (is_value or _is_address(text, after, is_own=is_own)) and not all(
            may_have(host, part) for host in _hosts_before(text)
        ):
            return True
        text += _DATA if part.text is None else part.text
        own.feed(MARK)
    return not literal_is_public and any(
        not may_have(_only_host_of(found.group()), None) for found in _WHOLE.finditer(text)
    )


def opens_tag(parts: Iterable[Part]) -> bool:
    """Whether private data is in an attribute of a tag that any text before it has begun.

    >>> from callsheet.ir.labels import LITERAL, UNKNOWN
    >>> private = Hole("a", UNKNOWN, "private")
    >>> opens_tag([Hole("page", LITERAL, "<p title='"), private]), opens_tag(["1 <b and b> 2 = ", private])
    (True, False)
    """
    tag = OpenTag()
    for part in parts:
        if isinstance(part, str) or part.label.is_public:
            tag.feed(_known(part))
            continue
        if tag.is_in_value:
            return True
        tag.feed(_known(part))
    return False


def _known(part: Part) -> str:
    """The text of a part, a mark if it is not known."""
    return part if isinstance(part, str) else MARK if part.text is None else part.text


def _text_after(parts: list[Part], number: int) -> str:
    """The beginning of the text after a part, with marks for unknown data."""
    text = ""
    at = number + 1
    while at < len(parts) and len(text) < _MOST_AFTER:
        text += _known(parts[at])
        at += 1
    return text[:_MOST_AFTER]


def _goes_on(parts: list[Part], number: int) -> bool:
    """Whether a hole is a field of the same value as the hole before it: `$done.count/$done.total`."""
    ref = parts[number]
    before = next((parts[at] for at in range(number - 1, -1, -1) if isinstance(parts[at], Hole)), None)
    if not isinstance(before, Hole) or isinstance(ref, str):
        return False
    (one, _, field), (other, _, further) = before.name.partition("."), ref.name.partition(".")
    return one == other and bool(field) and bool(further)


def _is_address(before: str, after: str, *, is_own: bool) -> bool:
    """Whether what is between these texts is part of an address.

    Data directly after other data may be, since that may end in an address; with `is_own` both are fields of
    one value and are not.
    """
    tail = before[-_FARTHEST:]
    if len(before) > _FARTHEST and _CLOSERS.isdisjoint(tail):
        return True
    if _ends_in_address(tail, after, is_own=is_own):
        return True
    if tail.isascii() and "&" not in tail and "\\" not in tail:
        return False
    return _ends_in_address(as_read(tail), after, is_own=is_own)


def _ends_in_address(tail: str, after: str, *, is_own: bool) -> bool:
    last = tail[-1:]
    if last and last not in _CLOSERS:  # an address may extend to the end of the text before
        bare = _WHOLE_TAG.sub("<", tail) if ">" in tail else tail
        bare = bare[_last_closer(bare) :]
        if _BARE.search(bare) or _DOMAIN.search(bare):
            return True
    if ("](" in tail or "]:" in tail) and _MARKDOWN.search(tail):
        return True
    if ("<" in tail or "(" in tail) and _TAG.search(tail):
        return True
    if not is_own and _GLUED.search(tail, _last_closer(tail)) is not None:
        return True
    return _AFTER.match(after) is not None


def _last_closer(text: str) -> int:
    """Where what can be part of one address begins at the end of a text: at the last character that ends any.

    None of the patterns that read an address to the end of a text matches such a character.
    """
    return max(0, *map(text.rfind, _CLOSERS))


def _hosts_before(text: str) -> list[str | None]:
    """The host of the address that the text ends in, and those of addresses around it; None for one that
    cannot be told.

    >>> _hosts_before("https://c.example/?to=https://a.example/"), _hosts_before("[x](//c.example/https://a.example/")
    (['a.example', 'c.example'], ['a.example', None])
    """
    start = text.rfind("://")
    if start < 0:
        return [None]
    scheme = _SCHEME.search(text[max(start - 31, 0) : start])
    begin = start - len(scheme[0]) if scheme else start
    url = text[begin:]
    if re.search(r"[\s<>\"'`]", url) or not re.search(r"://[^/?#]+[/?#]", url):
        return [None]
    return [_only_host_of(url), *_hosts_around(text[max(begin - _FARTHEST, 0) : begin])]


def _hosts_around(before: str) -> list[str | None]:
    """The hosts of the addresses, or of the tag, that the text leaves open: what follows is part of them."""
    left = before[_open_from(before) :]
    first = _ANOTHER.search(left)
    if first is None and len(left) < _FARTHEST:
        return []
    named = list(_NESTING.finditer(left))
    if first is None or not named or named[0].start() > first.start():
        return [None]
    return [host_of(found.group()) for found in named]


def _open_from(text: str) -> int:
    """Where the address, the tag, the style or the Markdown link that the text leaves open begins."""
    begins = [max((found.end() for found in _APART.finditer(text)), default=0)]
    tag, style = text.rfind("<"), text.lower().rfind("url(")
    if tag > text.rfind(">") and (_OPEN_TAG.match(text, tag) or text[:tag].rstrip().endswith("](")):
        begins.append(tag)
    if style > text.rfind(")"):
        begins.append(style)
    link = text.rfind("](")
    if link >= 0 and not re.search(r"\s", text[link:]):  # its target ends at white space, not at a quote
        begins.append(link)
    return min(begins)


def _only_host_of(url: str) -> str | None:
    """The host of a web address; None also if another address may begin after its end.

    >>> _only_host_of("https://c.example/a(b),c.d"), _only_host_of("https://c.example/](//evil.example/")
    ('c.example', None)
    """
    end = _ENDING.search(url)
    if end is not None and (end[0] == "\\" or _ANOTHER.search(url, end.end())):
        return None
    return host_of(url)


def host_of(url: str) -> str | None:
    """The host of a web address; None if it is invalid."""
    try:
        return parse_url(url.replace(MARK, "x").replace(_DATA, "x")).host
    except AddressRefused:
        return None


def images(text: str) -> bool:
    """Whether rendering the text makes a request by itself.

    >>> images("![x](https://c.example/)"), images("![x]\\n\\n[x]: https://c.example/"), images("vec![1][0]")
    (True, True, False)
    """
    is_marked = "![" in text
    if not is_marked and "<" not in text and "(" not in text:  # whatever loads something has one of these
        return False
    return _IMAGE.search(text) is not None or (is_marked and _DEFINED.search(text) is not None)


def hosts_named(text: str) -> list[str | None]:
    """The hosts of the web addresses in a text, None for an invalid one."""
    if "://" not in text:
        return []
    return [_only_host_of(found.group()) for found in _NAMED_HOST.finditer(text)]


def hosts_spoken(text: str) -> list[str | None]:
    """The hosts of the addresses in a text, with or without a scheme, None for an invalid one.

    >>> hosts_spoken("a link to shop.example/find and one to //cdn.example, on 1/2 page")
    ['shop.example', 'cdn.example']
    """
    if "/" not in text:
        return []
    urls = [f.group() for pattern in (_SPOKEN_HOST, _SLASHED_HOST) for f in pattern.finditer(text)]
    spoken = dict.fromkeys(host_of(f"https://{url.lstrip('/')}") for url in urls)
    return hosts_named(text) + list(spoken)
