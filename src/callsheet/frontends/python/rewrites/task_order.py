"""Whether nothing but waits for tasks is awaited while tasks run, so that they may all run at the wait.

In: the body of a function that starts tasks. Raises `UnknownTasks` where it is otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from callsheet.frontends.python.rewrites.inlining import blocks_in
from callsheet.frontends.python.rewrites.task_words import (
    QUESTIONS,
    UnknownTasks,
    completed,
    flushes,
    question_of,
    started,
    waits_for,
)
from callsheet.frontends.python.source import Refused, own_nodes, walk


def check_questions(body: Sequence[ast.stmt]) -> None:
    """Raise UnknownTasks for questions in functions inside, and for what numbers do not answer.

    Raises Refused (PYT020) for a lambda that asks for a result.
    """
    own = {id(one) for one in own_nodes(ast.Module(list(body), []))}
    for one in own_nodes(ast.Module(list(body), [])):
        if isinstance(one, ast.Lambda) and any(question_of(each) == "result" for each in walk(one)):
            raise Refused(
                "PYT020",
                one,
                "a lambda asks a task for its result, which may be an error",
                "take the results first: results = [task.result() for task in done]; and let it ask these",
            )
    for part in body:
        for one in walk(part):
            match one:
                case ast.Call(func=ast.Attribute(attr=attr)) if id(one) not in own:
                    if attr in QUESTIONS - {"get_name"} or attr == "cancel":
                        raise UnknownTasks
                case ast.Attribute(attr="set_name" | "get_coro" | "uncancel" | "set_exception"):
                    raise UnknownTasks
                case _:
                    pass


def check_order(block: Sequence[ast.stmt], *, live: bool, is_single: bool) -> bool:
    """Whether tasks may have been started, and not run, behind a block that is entered so.

    Raises UnknownTasks where something else is awaited, or left, while tasks run.
    """
    for one in block:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner = list(blocks_in(one))
        if isinstance(one, (ast.With, ast.AsyncWith)) and live:
            raise UnknownTasks
        head = [each for each in own_nodes(one) if id(each) not in _inside(inner)]
        if isinstance(one, ast.For):
            head = [each for each in head if id(each) in {id(part) for part in own_nodes(one.iter)}]
        live = _check_head(one, head, live=live, is_single=is_single)
        if isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
            is_entered = isinstance(one, ast.While) and waits_for(one.body, one.test)
            again = check_order(one.body, live=live, is_single=is_single) or (live and not is_entered)
            if again != live:  # a second round begins in another way, and ends in that of a third
                again = check_order(one.body, live=again, is_single=is_single) or (again and not is_entered)
            live = again
            live = check_order(one.orelse, live=live, is_single=is_single)
        elif isinstance(one, ast.Try):
            first = [each for each in own_nodes(one.body[0]) if flushes(each, is_single=is_single)]
            ends = [check_order(one.body, live=live, is_single=is_single)]
            ends += [check_order(each, live=live and not first, is_single=is_single) for each in inner[1:]]
            live = any(ends)
        elif inner:
            ends = [check_order(each, live=live, is_single=is_single) for each in inner]
            is_skipped = isinstance(one, ast.If) and not one.orelse and not waits_for(one.body, one.test)
            live = any(ends) or (live and is_skipped)
    return live


def _check_head(one: ast.stmt, head: Sequence[ast.AST], *, live: bool, is_single: bool) -> bool:
    starts = any(started(each) is not None for each in head)
    awaits = [each for each in head if isinstance(each, ast.Await)]
    has_run = any(flushes(each, is_single=is_single) for each in awaits) or (
        isinstance(one, ast.For) and completed(one.iter) is not None
    )
    others = [each for each in awaits if not flushes(each, is_single=is_single)]
    if isinstance(one, ast.AsyncFor) and live:
        raise UnknownTasks
    if live and (others or isinstance(one, (ast.Return, ast.Raise, ast.Break, ast.Continue)) > has_run):
        raise UnknownTasks
    if starts and (has_run or isinstance(one, (ast.If, ast.While, ast.For, ast.Return))):
        raise UnknownTasks
    questions = {question_of(each) for each in head} - {None}
    if (live or starts) and not has_run and questions - {"get_name"}:
        raise UnknownTasks
    if has_run and isinstance(one, ast.While):
        raise UnknownTasks
    return starts or (live and not has_run)


def _inside(blocks: Sequence[Sequence[ast.stmt]]) -> set[int]:
    return {id(each) for block in blocks for one in block for each in walk(one)}
