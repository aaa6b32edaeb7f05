"""What the jobs of `distilling.py` have in common: data made of a seed, and what was done to it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from callsheet.ports.calls import ToolFailed

Call = Callable[..., Any]
Agent = Callable[[Call, dict[str, Any]], None]
"""What an agent does for a task: it makes calls, given what the user has said."""
LONGER, SHORTER = 901, 902
"""The seeds of worlds whose lists are longer than in a record, and empty or of one item."""


@dataclass
class World:
    """Data made of a seed, and what was done to it."""

    fields: ClassVar[dict[str, tuple[str, ...]]]
    """The tools, with the names of their arguments."""

    seed: int
    done: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])

    def pick(self, *key: object) -> random.Random:
        """The chance that belongs to a thing of this world."""
        return random.Random(f"{self.seed}:{key}")

    def size(self, chance: random.Random) -> int:
        """How long a list is."""
        return chance.randrange(*{LONGER: (6, 9), SHORTER: (0, 2)}.get(self.seed, (3, 6)))

    def some(self, chance: random.Random, things: tuple[str, ...]) -> list[str]:
        """Some of the things, each once."""
        return chance.sample(things, min(len(things), self.size(chance)))

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Call a tool; raises ToolFailed if it cannot do that."""
        if not only_reads(tool):
            self.done.append((tool, args))
            return self.receipt(tool)
        return getattr(self, tool)(**args)

    def receipt(self, tool: str) -> dict[str, Any]:
        """What a tool says that has changed something."""
        return {"ok": True, "ref": f"{tool[0]}-{len(self.done)}"}


def tried(call: Call, tool: str, **args: Any) -> Any:
    """The result of a call that may fail, after which the agent goes on; then None."""
    try:
        return call(tool, **args)
    except ToolFailed:
        return None


def only_reads(tool: str) -> bool:
    """Whether a tool changes nothing, by its name."""
    return tool.startswith(("list_", "get_", "read_", "search_", "find_", "query", "check_"))


@dataclass
class Distracted:
    """An agent's calls with what does not belong to the task: looks, repetitions, and attempts that fail."""

    made: Callable[..., Any]
    """Makes a call, given the tool and its arguments, and records it."""
    fail: Callable[[str, dict[str, Any], str], None]
    """Records a call that failed, given the tool, its arguments and the message."""
    world: World
    chance: random.Random

    def look(self, said: dict[str, Any]) -> None:
        """Perhaps look at something that nothing follows from, with a value of the user or none."""
        alone = [(tool, names) for tool, names in self.world.fields.items()
                 if only_reads(tool) and all(name in said for name in names)]  # fmt: skip
        if alone and self.chance.random() < 0.4:
            tool, names = self.chance.choice(alone)
            self.made(tool, **{name: said[name] for name in names})

    def __call__(self, tool: str, **args: Any) -> Any:
        chance = self.chance.random()
        if chance < 0.05 and args:
            left_out = self.chance.choice(list(args))
            short = {name: value for name, value in args.items() if name != left_out}
            self.fail(tool, short, f"validation error: '{left_out}' is a required property")
        elif chance < 0.1:
            self.fail(tool, args, "429 Too Many Requests: try again in 1 s")
        result = self.made(tool, **args)
        if only_reads(tool) and self.chance.random() < 0.08:
            self.made(tool, **args)
        return result
