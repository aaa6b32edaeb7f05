"""The settings of the user's configuration file: what built-in tools may do, limits, models and more.

In: a TOML file, or the same tables from a run's journal. Out: settings, or CallsheetError (CFG016) at the
key. The file belongs to the user; what a project may set, and only once the user trusts it, is in `projects`.
"""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from dataclasses import asdict, field, fields, is_dataclass
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from callsheet.apps.config_file import VARIABLE, settings_path
from callsheet.diagnostics import CallsheetError, Source, meant
from callsheet.lazy import dataclass
from callsheet.machine.limits import Limits
from callsheet.machine.questions import approval_timeouts
from callsheet.ports.builtin import ExecutionSettings, FetchSettings, SearchSettings
from callsheet.ports.models.settings import ModelSettings
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.telemetry.target import OtelSettings
from callsheet.sealing.credentials import Shapes, WrongPattern

if TYPE_CHECKING:
    from callsheet.ports.mcp.trust import PinFile, PinKeeper


_T = TypeVar("_T")
_Path: TypeAlias = "tuple[str, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSettings:
    """The table `[secrets]`: recognizing secrets by their form.

    `patterns` turns that on; `more` are the user's own RE2 patterns, by name. Raises WrongPattern for an
    invalid pattern.
    """

    patterns: bool = True
    more: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.more:
            Shapes(self.more).check()

    @property
    def shapes(self) -> Shapes | None:
        """The patterns to look for; None if that is turned off."""
        return Shapes(self.more) if self.patterns else None


_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """The table `[retention]`: how long `callsheet serve` keeps runs that have ended; by default for ever.

    `done`, `failed` (and refused) and `cancelled` are ages such as `30d`, after which the large values of a
    run are deleted, and after twice that time the run. `most` is the size of the journal, such as `20GB`,
    above which the oldest runs that have ended are deleted. Raises ValueError for another text.
    """

    done: str | None = None
    failed: str | None = None
    cancelled: str | None = None
    most: str | None = None

    def __post_init__(self) -> None:
        if self.is_set:
            _ = self.ages, self.most_bytes

    @property
    def is_set(self) -> bool:
        """Whether anything is ever deleted."""
        return any((self.done, self.failed, self.cancelled, self.most))

    @property
    def ages(self) -> tuple[float | None, float | None, float | None]:
        """The seconds for which runs that are done, failed and cancelled are kept; None for ever."""
        from callsheet.store.runs import seconds_of_age  # noqa: PLC0415 - brings sqlite3

        done, failed, cancelled = (
            seconds_of_age(age or "never") for age in (self.done, self.failed, self.cancelled)
        )
        return done, failed, cancelled

    @property
    def most_bytes(self) -> int | None:
        """The size of the journal above which runs are deleted.

        >>> RetentionSettings(most="1.5 MB").most_bytes
        1500000
        """
        if self.most is None:
            return None
        number, unit = self.most.strip()[:-2].strip(), self.most.strip()[-2:]
        if unit not in _UNITS or not number.replace(".", "", 1).isdecimal():
            raise ValueError(f"{self.most[:60]!r} is not a size; write 500MB or 20GB")
        return int(float(number) * _UNITS[unit])


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The tables `[secrets]`, `[fetch]`, `[search]`, `[execution]`, `[model]`, `[otel]`, `[temporal]` …

    - `on_in_doubt`: how to handle calls that may have taken place, for tools that do not set it.
    - `approve`: the tools that need a person's approval before each call; a call that is not approved within
      `approval_timeout` (a text such as `3d`), or the tool's time in `approval_timeout_by_tool`, is denied.
    - `agent_tools`: the only tools that agents may call; without it, those that their step names, else those
      that only read.
    - `agent_blocks`: give agents LCTL blocks, and how to handle uncertain facts in those that they return.
    - `policy`: the policy for plans if the command names none: `strict`, `workspace`, `open`, or a path.
    - `trust`: `first-use` allows MCP server tools that are declared as at their first use, `pinned`
      those that a person has approved; `pins` is the file for both, by default the user's.
    - `store`: the address of the shared store, if the environment names none.
    """

    on_in_doubt: Literal["ask", "fail", "retry"] = "ask"
    approve: tuple[str, ...] = ()
    agent_tools: tuple[str, ...] | None = None
    agent_blocks: Literal["flag", "block", "review"] | None = None
    policy: str | None = None
    trust: Literal["first-use", "pinned"] = "first-use"
    pins: str | None = None
    store: str | None = None
    approval_timeout: str | None = None
    approval_timeout_by_tool: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: SecretSettings = field(default_factory=SecretSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    execution: ExecutionSettings = field(default_factory=ExecutionSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    otel: OtelSettings = field(default_factory=OtelSettings)
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    limits: Limits = field(default_factory=Limits)
    """The limits of runs whose command sets none."""

    def __post_init__(self) -> None:
        for name in ("approval_timeout", "approval_timeout_by_tool"):
            try:
                approval_timeouts(getattr(self, name))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error

    def approval_timeouts(self) -> dict[str, float]:
        """The time limits for approvals in seconds, by tool ("" for all others); raises ValueError."""
        given: dict[str, float | str] = dict(self.approval_timeout_by_tool)
        return approval_timeouts(
            given if self.approval_timeout is None else {**given, "": self.approval_timeout}
        )

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON data for `read_settings`; without limits, which a run stores itself."""
        tables = asdict(self)
        del tables["limits"], tables["temporal"], tables["store"], tables["retention"]
        if not self.otel.url:
            del tables["otel"]
        return cast("dict[str, Any]", _tuples_as_lists(tables))


def load_settings(path: Path | None = None) -> Settings:
    """The settings of the file at `path`, by default the user's; the defaults if that does not exist.

    Raises CallsheetError (CFG016) for an invalid file, or a missing one that was named.
    """
    place = path or settings_path()
    try:
        text = place.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if path is None and VARIABLE not in os.environ:
            return Settings()
        raise _unreadable(place, "it does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _unreadable(place, f"it cannot be read: {reason}") from error
    return read_tables(Settings, Source(str(place), text))


def read_tables(kind: type[_T], source: Source, within: tuple[str, ...] = ()) -> _T:
    """The settings of a kind in a TOML text, or in its table `within`; all defaults if that is not there.

    Raises CallsheetError (CFG016) at the key that is wrong.
    """
    from callsheet.apps.config_file import read_table, wrong_key  # noqa: PLC0415 - only where there is a file

    data: object = read_table(source)
    for name in within:
        data = cast("Mapping[str, object]", data).get(name, {}) if isinstance(data, Mapping) else {}
    try:
        return _read(kind, data, ())
    except _InvalidSetting as misfit:
        path = (*within, *misfit.path)
        raise wrong_key(source, path, misfit.message, misfit.hint, misfit.code) from None


def read_settings(data: object, where: str) -> Settings:
    """The settings in JSON data; `where` describes them in messages. Raises CallsheetError (CFG016)."""
    try:
        return _settings(data)
    except _InvalidSetting as misfit:
        message = f"the configuration {where}: {misfit.message}"
        raise CallsheetError.single(misfit.code, message, help=misfit.hint) from misfit


class _InvalidSetting(Exception):
    """An unknown key, or an invalid value, of the configuration."""

    def __init__(self, path: _Path, message: str, hint: str | None = None, code: str = "CFG016") -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.hint = hint
        self.code = code


def _settings(data: object) -> Settings:
    return _read(Settings, data, ())


def _read(kind: type[_T], data: object, path: _Path) -> _T:
    """Parses a table; every key must be known and its value of the right type."""
    if not isinstance(data, Mapping):
        raise _InvalidSetting(path, f"{_dotted(path) or 'it'} must be a table")
    field_types = get_type_hints(kind)
    known = [f.name for f in fields(cast("Any", kind))]
    values: dict[str, Any] = {}
    for key, value in cast("Mapping[Any, object]", data).items():
        place = (*path, str(key))
        if key not in known:
            hint = meant(str(key), known, f"known are {', '.join(known)}")
            table = None if path else _table_of(str(key))
            if table is not None:
                hint = f"{key} belongs to the table [{table}]"
            raise _InvalidSetting(place, f"there is no key {_dotted(place)}", hint)
        values[key] = _value(field_types[key], value, place)
    try:
        return kind(**values)
    except WrongPattern as error:
        place = (*path, "more", error.name)
        raise _InvalidSetting(
            place, f"{_dotted(place)}: {error}", "patterns are those of RE2", "SEC007"
        ) from error
    except ValueError as error:
        named = str(error).partition(" ")[0].rstrip(":")
        place = (*path, named) if named in values else path
        raise _InvalidSetting(place, f"{_dotted(path)}: {error}" if path else str(error)) from error


def _dotted(path: _Path) -> str:
    return ".".join(path)


def _table_of(key: str) -> str | None:
    """The only table that has a key of this name; None if no table has it, or several."""
    kinds = get_type_hints(Settings).items()
    tables = [name for name, kind in kinds if is_dataclass(kind) and key in {f.name for f in fields(kind)}]
    return tables[0] if len(tables) == 1 else None


def _value(hint: Any, value: object, path: _Path) -> Any:
    if is_dataclass(hint):
        return _read(cast("type[Any]", hint), value, path)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (hint,) = (option for option in get_args(hint) if option is not type(None))
        return _value(hint, value, path)
    if origin is Literal:
        if value not in get_args(hint):
            raise _InvalidSetting(
                path, f"{_dotted(path)} must be one of {', '.join(map(str, get_args(hint)))}"
            )
        return value
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _InvalidSetting(path, f"{_dotted(path)} must be a table")
        named = cast("Mapping[str, object]", value).items()
        return {key: _value(get_args(hint)[1], each, (*path, key)) for key, each in named}
    if origin is tuple:
        items = cast("list[object]", value)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in items):
            raise _InvalidSetting(path, f"{_dotted(path)} must be a list of strings")
        return tuple(items)
    return value if hint is object else _scalar(hint, value, path)


_WORDS = {
    bool: "true or false",
    int: "a whole number of at least 0",
    float: "a number of at least 0",
    str: "a text",
}


def _scalar(hint: Any, value: object, path: _Path) -> Any:
    fits = isinstance(value, (int, float) if hint is float else hint)
    if isinstance(value, bool) != (hint is bool):
        fits = False
    if not fits or (isinstance(value, int | float) and value < 0):
        raise _InvalidSetting(path, f"{_dotted(path)} must be {_WORDS[hint]}")
    return float(cast("float", value)) if hint is float else value


def _tuples_as_lists(value: object) -> object:
    """The value with tuples as lists, at every depth."""
    if isinstance(value, dict):
        return {key: _tuples_as_lists(item) for key, item in cast("dict[str, object]", value).items()}
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _unreadable(place: Path, why: str) -> CallsheetError:
    return CallsheetError.single("CFG016", f"the configuration {place}: {why}")


def pins_path(settings: Settings) -> Path:
    """The file with the pins of server tools; it need not exist."""
    from callsheet.ports.mcp.trust import default_pins  # noqa: PLC0415 - only with servers or a policy

    return default_pins() if settings.pins is None else Path(settings.pins).expanduser()


def pin_file(settings: Settings) -> PinFile:
    """The file with the pins of server tools."""
    from callsheet.ports.mcp.trust import PinFile  # noqa: PLC0415 - only with servers

    return PinFile(pins_path(settings))


def pin_keeper(settings: Settings, *, records: bool = True) -> PinKeeper:
    """The comparison of server tools with the pins in that file."""
    from callsheet.ports.mcp.trust import PinKeeper  # noqa: PLC0415 - as above

    return PinKeeper(pin_file(settings), pinned=settings.trust == "pinned", records=records)
