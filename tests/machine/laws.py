"""Laws of the machine that hold for every kind of plan, on every schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from callsheet.machine import Command, Event, Limits, Machine, Usage


def assert_slicing_changes_nothing(make: Callable[[], Machine], events: Iterable[Event], units: int) -> None:
    """The commands, their order and the end do not depend on the size of slices."""
    whole, sliced, hurried = make(), make(), make()
    said: list[Command] = []
    at_once: list[Command] = []
    for event in events:
        commands = whole.feed(event)
        slices = sliced.feed(event, units)
        while sliced.is_paused:
            slices += sliced.go_on(units)
        assert slices == commands
        at_once += commands
        said += hurried.feed(event, units)
    assert said + hurried.go_on() == at_once
    assert sliced.result == whole.result == hurried.result
    assert sliced.open_keys() == whole.open_keys()


def assert_usage_is_within(usage: Usage, limits: Limits, calls: int) -> None:
    """The usage counts these calls and the new plans, and exceeds no limit."""
    assert usage.calls == calls + usage.calls_by_tool.get("RE-PLAN", 0)
    assert limits.max_calls is None or usage.calls <= limits.max_calls
    assert limits.max_model_calls is None or usage.model_calls <= limits.max_model_calls
    for tool, most in limits.max_calls_by_tool.items():
        assert usage.calls_by_tool.get(tool, 0) <= most
