"""What the texts of a plan may make of the data beside them: an address that carries it, an image, a link.

In: texts that the plan itself writes, and the label of data that a computation may put together with them.
Out: the label of what comes of it, and what such texts may say by themselves (`Says`). Where they make an
address, nobody may be shown it, since whoever follows or loads it tells its host the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Text, nodes
from callsheet.ir.labels import Label
from callsheet.policy.judge import Judge
from callsheet.policy.labelled import Labelled, Says
from callsheet.policy.links import hosts_named, hosts_spoken, images, is_active
from callsheet.policy.rules.base import own_texts


def texts_beside(node: Expression, values: Iterable[Labelled]) -> list[str]:
    """The texts of the plan that a computation may put beside data: those of it, and those in its `values`.

    >>> from callsheet.frontends.expressions import read_expression
    >>> node = read_expression("'a' + $x.replace('b', '')").expression
    >>> texts_beside(node, ())
    ['a', 'b']
    """
    own = [one.value for one in nodes(node) if isinstance(one, Literal) and isinstance(one.value, str)]
    own += [
        part for one in nodes(node) if isinstance(one, Text) for part in one.parts if isinstance(part, str)
    ]
    own += [text for value in values for shape in value.shapes for text in own_texts(shape)]
    return [text for text in own if text]


def told(judge: Judge, own: Sequence[str], label: Label, *, spells: bool = False) -> Label:
    """The label of data that a computation may put together with these texts of the plan.

    Where the texts make an address nobody may be shown it. Where they might, in an order that is not
    known, it is retold, so that links in it are disarmed, or not shown if the data is trusted.
    `spells` says that the computation can make any text of numbers.
    """
    if label.is_public or not (own or spells):
        return label
    tried = [*own, "".join(own), "".join(reversed(own)), *(text[::-1] for text in own)]
    if any(text_may_link(judge, text, label) for text in tried):
        return judge.unshown(label)
    if label.untrusted:
        return label.retold()
    return judge.unshown(label) if spells or may_spell(own) else label


def text_may_link(judge: Judge, text: str, label: Label) -> bool:
    """Whether a text names a host that may not have data of this label, or loads something."""
    if images(text) or is_active(text):
        return True
    audiences = judge.setting.audiences
    return any(host is None or not label.may_reach(audiences.of_host(host)) for host in hosts_named(text))


def said_by_text(judge: Judge, text: str) -> Says:
    """What a text of the plan says by itself: of hosts that the policy does not know."""
    says = Says.NOTHING
    of_host = judge.setting.audiences.of_host
    if "/" in text and any(host is None or not of_host(host) for host in hosts_spoken(text)):
        says |= Says.ADDRESS
    if images(text) and any(host is None or not of_host(host) for host in hosts_named(text)):
        says |= Says.IMAGE
    if "![" in text or "<i" in text.casefold() or text.endswith("!"):
        says |= Says.BEGINNING
    return says


def may_spell(own: Sequence[str]) -> bool:
    """Whether the characters of these texts suffice for the beginning of an address.

    >>> may_spell(["https:", "/"]), may_spell([": ", ", "]), may_spell(["/"])
    (True, False, False)
    """
    letters = set("".join(own).casefold())
    has_slash = not letters.isdisjoint("/\\&%")
    return (has_slash and ":" in letters and len(letters & set("htpsfw")) > 2) or {"w", "."} <= letters
