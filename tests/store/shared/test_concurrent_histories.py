"""What machines do at once to shared labels and plans is as if they had done it one after another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.store.shared.linear import Operation, linear_order, played

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import Syntax, read_as
from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.store.labels import LabelStore, Writing
from callsheet.store.library import PlanLibrary
from callsheet.store.shared.opening import SharedFiles
from callsheet.store.shared.postgres import PostgresDatabase

LABELS = [read_label(text) for text in ("U/pub", "U/priv", "T/secret", "T/pub")]


class Place(NamedTuple):
    """What is recorded of a file."""

    label: Label | None = None
    open: int = 0
    writes: int = 0
    counted: int = 0
    """The calls that a policy counts."""


def of_labels(place: Place, asked: tuple[Any, ...]) -> tuple[Any, Place]:
    """What the store of labels answers, and the place afterwards."""
    label, under_way, writes, counted = place
    match asked:
        case ("begin", Label() as new):
            after = Place((label or LITERAL).join(new), under_way + 1, writes + 1, counted)
            return (writes + 1, under_way == 0), after
        case ("end", Label() as new, number, was_alone):
            alone = was_alone and under_way == 1 and writes == number
            return None, place._replace(label=new if alone else label, open=under_way - 1)
        case ("put", Label() as new):
            return None, Place(new, under_way, writes if label is None else writes + 1, counted)
        case ("forget",):
            is_gone = label is not None and under_way == 0
            return is_gone, Place(counted=counted) if is_gone else place
        case ("admit", most):
            return counted < most, place._replace(counted=counted + (counted < most))
        case _:
            return label, place


def label_machine(address: str, chance: Random) -> Callable[[Callable[..., Any]], None]:
    def work(do: Callable[..., Any]) -> None:
        with LabelStore(PostgresDatabase(address)) as store:
            for _ in range(6):
                label = chance.choice(LABELS)
                match chance.choice(("write", "write", "put", "forget", "of", "admit")):
                    case "write":
                        writing = list[Writing]()

                        def begin() -> tuple[int, bool]:
                            writing.append(store.begin("/w", "a", label))  # noqa: B023 - called at once
                            return writing[0].number, writing[0].was_alone  # noqa: B023

                        number, alone = do(("begin", label), begin)
                        do(("end", label, number, alone), lambda: store.end(writing[0], replaced=True))  # noqa: B023
                    case "put":
                        do(("put", label), lambda: store.put("/w", "a", label))  # noqa: B023
                    case "forget":
                        do(("forget",), lambda: store.forget("/w", "a"))
                    case "of":
                        do(("of",), lambda: store.of("/w", ["a"]))
                    case _:
                        do(("admit", 3), lambda: store.admit_within("mail", 0, 9, 1, _at_most(3)) is None)

    return work


def _at_most(most: int) -> Callable[[int, float], str | None]:
    return lambda count, _: "too many" if count >= most else None


@pytest.mark.parametrize("seed", range(2))
def test_labels_are_as_after_one_machine_after_another(address: str, seed: int) -> None:
    with closing(PostgresDatabase(address)) as database:
        database.execute("SELECT 1")  # makes the tables
    history = played([label_machine(address, Random(f"{seed} {one}")) for one in range(4)])
    assert linear_order(history, Place(), of_labels), history


Plans = tuple[str, ...] | None
"""The texts of the versions of the one plan; None while there is none."""


def of_library(plan: Plans, asked: tuple[Any, ...]) -> tuple[Any, Plans]:
    """What the library answers, and its one plan afterwards."""
    match asked:
        case ("save", text, replaces):
            if plan is not None and not replaces:
                return "PLN003", plan
            after = plan if plan and plan[-1] == text else (*(plan or ()), text)
            return len(after or ()), after
        case ("delete",):
            return ("PLN002", plan) if plan is None else ("deleted", None)
        case ("ids",):
            return plan is not None, plan
        case _:
            return ("PLN002" if plan is None else (len(plan), plan[-1], False)), plan


def library_machine(address: str, chance: Random) -> Callable[[Callable[..., Any]], None]:
    def work(do: Callable[..., Any]) -> None:
        with closing(PostgresDatabase(address)) as database:
            library = PlanLibrary(files=SharedFiles(database, "plans"), clock=lambda: 5.0)

            def save(text: str, *, replaces: bool) -> Any:
                plan = read_as(Syntax.LTP, text, "plan").require()
                return library.save(plan, "p", text=text, syntax=Syntax.LTP, replaces=replaces).version

            def load() -> Any:
                found = library.load("p")
                return found.version, found.text, found.is_edited

            for _ in range(5):
                text = f"S1: @RESPOND ('{chance.randrange(3)}')\n"
                replaces = chance.random() < 0.8
                match chance.choice(("save", "save", "load", "load", "delete", "ids")):
                    case "save":
                        how = lambda: save(text, replaces=replaces)  # noqa: B023, E731
                        do(("save", text, replaces), lambda: _code(how))  # noqa: B023
                    case "load":
                        do(("load",), lambda: _code(load))
                    case "delete":
                        do(("delete",), lambda: _code(lambda: library.delete("p") and "deleted"))
                    case _:
                        do(("ids",), lambda: bool(library.ids()))

    return work


def _code(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except CallsheetError as error:
        return str(error.diagnostics[0].code)


@pytest.mark.parametrize("seed", range(2))
def test_library_is_as_after_one_machine_after_another(address: str, seed: int) -> None:
    with closing(PostgresDatabase(address)) as database:
        database.execute("SELECT 1")
    history = played([library_machine(address, Random(f"{seed} {one}")) for one in range(3)])
    assert linear_order(history, None, of_library), history


def test_history_that_no_order_explains_is_found() -> None:
    begun = [Operation(("begin", label), (1, True), 0, 9) for label in LABELS[:2]]
    assert linear_order(begun[:1], Place(), of_labels) == begun[:1]
    assert linear_order(begun, Place(), of_labels) is None, "both were the first and only write"
    late = [Operation(("put", LABELS[0]), None, 0, 1), Operation(("of",), None, 2, 3)]
    assert linear_order(late, Place(), of_labels) is None, "a label that was put is read afterwards"
