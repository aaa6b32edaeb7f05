"""Random graphs of steps with uneven durations, each a function of its seed."""

from __future__ import annotations

import random
from typing import NamedTuple


class Work(NamedTuple):
    """A graph: for each step the steps it waits for, all of them before it, and its seconds."""

    kind: str
    waits: tuple[tuple[int, ...], ...]
    seconds: tuple[float, ...]


SHAPES = ("layered", "anywhere", "nearby")
TIMES = ("even", "heavy-tailed", "few long")


def random_work(seed: int) -> Work:
    """The graph of a seed: 20 to 120 steps of 1 to 50 ms; shapes and distributions alternate."""
    chance = random.Random(seed)
    shape, times = SHAPES[seed % 3], TIMES[seed // 3 % 3]
    count = chance.randint(20, 120)
    waits = _layered(chance, count) if shape == "layered" else _before(chance, count, shape)
    return Work(f"{shape}, {times}", waits, tuple(_seconds(chance, times) for _ in waits))


def _layered(chance: random.Random, count: int) -> tuple[tuple[int, ...], ...]:
    """Layers of 3 to 12; each step waits for up to 3 of the layer before, some for one further back."""
    layers: list[range] = []
    waits: list[tuple[int, ...]] = []
    while len(waits) < count:
        layer = range(len(waits), min(count, len(waits) + chance.randint(3, 12)))
        for _ in layer:
            above: set[int] = set()
            if layers:
                above.update(chance.sample(layers[-1], min(len(layers[-1]), chance.randint(1, 3))))
            if len(layers) > 1 and chance.random() < 0.3:
                above.add(chance.choice(chance.choice(layers[:-1])))
            waits.append(tuple(sorted(above)))
        layers.append(layer)
    return tuple(waits)


def _before(chance: random.Random, count: int, shape: str) -> tuple[tuple[int, ...], ...]:
    """Each step waits for up to 3 of those before it, of all or of the ten nearest."""
    waits: list[tuple[int, ...]] = []
    for number in range(count):
        first = 0 if shape == "anywhere" else max(0, number - 10)
        most = min(number - first, chance.choice((0, 1, 1, 2, 3)))
        waits.append(tuple(sorted(chance.sample(range(first, number), most))))
    return tuple(waits)


def _seconds(chance: random.Random, times: str) -> float:
    if times == "even":
        return chance.uniform(0.001, 0.05)
    if times == "few long":
        return chance.choice((0.001, 0.002, 0.003, 0.05)) * chance.uniform(0.95, 1.0)
    low, high, slope, at = 1.0, 50.0, 1.1, chance.random()  # a Pareto distribution cut at 50
    part = -(at * high**slope - at * low**slope - high**slope) / (high**slope * low**slope)
    return part ** (-1 / slope) / 1000
