"""A world of tools that copy their inputs, with sources whose texts are marked and can be exchanged.

Every result contains everything that went into it, so that nothing is lost on the way to a sink. The content
of private sources can be exchanged for other content that is not empty; what outsiders observe must not
change with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from callsheet.ir.labels import LITERAL, UNKNOWN, Label, join
from callsheet.machine import Command, Event, Failed, Succeeded
from callsheet.machine.commands import Ask, CallModel, CallTool
from callsheet.machine.events import Answered, Verdict

PRIVATE, SECRET, STRANGER = "privmark", "secretmark", "strangermark"
_CONTROL = {
    "EXEC_CODE": ("code",),
    "HOST_EXEC": ("command",),
    "WRITE_FILE": ("path",),
    "READ_FILE": ("path",),
}


@dataclass(slots=True)
class World:
    """One world. `turned` names the sources that say something else: `private`, `secret`, `stranger`."""

    seed: int
    turned: frozenset[str] = frozenset()
    approved: frozenset[str] = frozenset()
    """The steps to which a person has said yes, whatever decides them."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    memory: Label = UNKNOWN
    """The label of what earlier runs have left."""
    facts: list[str] = field(default_factory=list[str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    seen: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """What each audience has observed: `outside`, `trusted`, `model`; of the `host`, that it was used."""
    mails: list[str] = field(default_factory=list[str])
    """What messages say, whose readers' programs open the links in them."""
    breaches: list[str] = field(default_factory=list[str])
    was_cut: bool = False
    """Whether the run came to its limits, or its policy ended it."""
    labels: dict[str, Label] = field(default_factory=dict[str, Label])
    """What is kept beside files, facts and notes, as the runtime keeps it; `fact` stands for all facts."""
    is_enforced: bool = False
    """Whether a policy holds: then a model does what pages ask it to."""

    def __post_init__(self) -> None:
        private = self.says("private", PRIVATE)
        self.files = {
            "notes.txt": private,
            "out/y.md": private,
            "app/.env": self.says("secret", SECRET),
            "docs/a.md": "a public document",
            "public/x.txt": "a public text",
        }
        self.facts = [private]

    def says(self, source: str, mark: str) -> str:
        """What a source says; both texts are full, but of other words, of other length, as lists too."""
        if source in self.turned:
            return json.dumps([f"{mark} no", "9"])
        return json.dumps([f"{mark} yes", "1", "yes", "more"])

    def observe(self, audience: str, what: object) -> None:
        """Record that an audience learned something."""
        self.seen.setdefault(audience, []).append(json.dumps(what, sort_keys=True, ensure_ascii=False))

    def answer(self, command: Command) -> tuple[float, Event]:
        """What a call comes to: a failure by its key alone, or a text with all that went into it."""
        match command:
            case CallModel(key=key, inputs=inputs, args=args, tool=tool):
                self.observe("model", [tool, inputs, args])
                said = _text([inputs, args])
                asked = self.is_enforced and STRANGER in said
                marks = "+".join(mark for mark in (PRIVATE, SECRET) if mark in said)
                link = f" https://c.example/?d={marks}" if asked else ""
                return 1.0, self._end(key, f"model{link} {said}")
            case Ask(key=key, asked=asked):
                return 1.0, Answered(key, asked.digest, Verdict.DENY)
            case CallTool(key=key, step=step, tool=tool, args=args, label=label):
                for name in () if step in self.approved else _CONTROL.get(tool, ()):
                    if STRANGER in _text(args.get(name)):
                        self.breaches.append(f"a stranger's words stand in {name} of {tool}")
                kept = None if label is None else self._kept(tool, args, label)
                end = self._end(key, self._call(tool, args))
                return 1.0, end._replace(label=kept) if isinstance(end, Succeeded) else end
            case _:
                key = str(getattr(command, "key", ""))
                return 1.0, Succeeded(key, "")

    def _kept(self, tool: str, args: dict[str, Any], label: Label) -> Label | None:
        """The label that is known of what a call reads; of what it writes it is noted."""
        match tool:
            case "READ_FILE":
                return self.labels.get(_path(args["path"]))
            case "SEARCH_FILES":
                own = [kept for place, kept in self.labels.items() if place[:5] not in ("fact", "note:")]
                return join([UNKNOWN, *own])
            case "WRITE_FILE" | "EDIT_FILE":
                place = _path(args["path"])
                before = self.labels.get(place, UNKNOWN) if tool == "EDIT_FILE" else LITERAL
                self.labels[place] = label.join(before)
                return before.join(UNKNOWN) if tool == "EDIT_FILE" else None
            case "STORE_FACT":
                self.labels["fact"] = self.labels.get("fact", LITERAL).join(label)
            case "SET_WM":
                self.labels[f"note:{_text(args['key'])}"] = label
            case "QUERY_MEMORY":
                return self.labels.get("fact", LITERAL).join(self.memory)
            case "GET_WM":
                return self.labels.get(f"note:{_text(args['key'])}", self.memory)
            case _:
                pass
        return None

    def _end(self, key: str, text: str | None) -> Event:
        chance = sha256(f"{self.seed}/{key}".encode()).digest()[0]
        if text is None or chance < 25:
            return Failed(key, f"error {_short(text or '')}")
        return Succeeded(key, _short(text))

    def _call(self, tool: str, args: dict[str, Any]) -> str | None:
        given = _text(args)
        match tool:
            case "WEB_SEARCH":
                self.observe("outside", [tool, args])
                return f"https://w.example/{self.says('stranger', STRANGER)} {given}"
            case "FETCH_PAGE":
                return self._fetch(_text(args["url"]), args)
            case "SEND_EMAIL":
                self.observe("trusted" if args["to"].endswith("@corp.example") else "outside", [tool, args])
                self.mails.append(_text(args.get("body")))
                return f"sent {given}"
            case "VAULT":
                return self.says("secret", SECRET)
            case "HOST_EXEC":
                self.observe("host", tool)
                return self.says("private", PRIVATE)
            case "READ_FILE" | "WRITE_FILE" | "EDIT_FILE" | "SEARCH_FILES":
                return self._file(tool, args)
            case "STORE_FACT" | "QUERY_MEMORY" | "SET_WM" | "GET_WM":
                return self._remember(tool, args)
            case "FILL":
                return _text(args["text"]).replace("DATA", _text(args["data"]))
            case _:
                return f"{tool} {given}"

    def _file(self, tool: str, args: dict[str, Any]) -> str | None:
        given = _text(args)
        match tool:
            case "READ_FILE":
                return self.files.get(_path(args["path"]))
            case "WRITE_FILE":
                self._write(_path(args["path"]), _text(args.get("content")))
                return f"wrote {given}"
            case "EDIT_FILE":
                path = _path(args["path"])
                self._write(path, self.files.get(path, "") + _text(args.get("new")))
                return f"edited {given} {self.files[path]}"
            case _:
                return " ".join(text for path, text in sorted(self.files.items()) if path != "app/.env")

    def _remember(self, tool: str, args: dict[str, Any]) -> str:
        given = _text(args)
        match tool:
            case "STORE_FACT":
                if SECRET in given:
                    self.breaches.append("a secret is kept for later runs")
                self.facts.append(_short(given))
                return "stored"
            case "QUERY_MEMORY":
                return "\n".join(self.facts)
            case "SET_WM":
                self.notes[_text(args["key"])] = _short(_text(args.get("value")))
                return "kept"
            case _:
                return self.notes.get(_text(args["key"]), self.says("private", PRIVATE))

    def _write(self, path: str, text: str) -> None:
        if path.endswith(".sh") and STRANGER in text:
            self.breaches.append("a stranger's words stand in a script")
        self.files[path] = _short(text)

    def _fetch(self, url: str, args: dict[str, Any]) -> str | None:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return None
        if host == "api.internal":
            if STRANGER in url and not url.startswith("https://api.internal/?q="):
                return None  # the runtime's guard: no stranger chooses a trusted host
            self.observe("trusted", args)
            return f"{self.says('private', PRIVATE)} {url}"
        self.observe("outside", args)
        return f"https://api.internal/{self.says('stranger', STRANGER)} {url}"


def _short(text: str) -> str:
    """The text, or its beginning with its marks and a digest: doubled again and again it fills all memory."""
    if len(text) <= 400:
        return text
    marks = [mark for mark in (PRIVATE, SECRET, STRANGER) if mark in text]
    return f"{text[:200]} {' '.join(marks)} {sha256(text.encode()).hexdigest()}"


def _path(value: Any) -> str:
    parts: list[str] = []
    for part in _text(value).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
