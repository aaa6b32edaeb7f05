"""Installs packages for the code that plans run, in a folder separate from callsheet's environment.

Only wheels from the configured index are accepted: no URLs, paths or options, and no source packages, whose
installation would run code outside the sandbox.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence

from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import ToolFailed

_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
    r"(?:\[[A-Za-z0-9._-]{1,50}(?:,[A-Za-z0-9._-]{1,50}){0,9}\])?"
    r"(?:(?:==|>=|<=|!=|~=|<|>)[A-Za-z0-9.*+!_-]{1,50}(?:,(?:==|>=|<=|!=|~=|<|>)[A-Za-z0-9.*+!_-]{1,50}){0,5})?"
)
_KEPT_VARIABLES = re.compile(
    r"(?:PIP|UV)_\w+|(?:https?|no|all)_proxy|SSL_CERT_(?:FILE|DIR)|PATH|HOME|LANG", re.IGNORECASE
)
_MAX_PACKAGES = 50
_MAX_SAID = 2_000


def requirement(text: str) -> str:
    """A requirement with its blanks removed: a package name, extras, versions. Raises ToolFailed otherwise.

    >>> requirement("numpy >= 2")
    'numpy>=2'
    """
    plain = "".join(text.split())
    if not _REQUIREMENT.fullmatch(plain):
        raise ToolFailed(f"{text!r} is not the name of a package, with or without a version")
    return plain


async def install_packages(settings: BuiltinSettings, wanted: Sequence[str]) -> str:
    """Install packages for this namespace; raises ToolFailed if that is not allowed or fails."""
    if not settings.execution.allow_install:
        raise ToolFailed(
            "installing packages is not allowed (TOL104): allow_install in the configuration permits it"
        )
    if len(wanted) > _MAX_PACKAGES:
        raise ToolFailed(f"more than {_MAX_PACKAGES} packages at once")
    names = [requirement(name) for name in wanted]
    command = [
        *_installer(),
        "--target",
        str(settings.packages),
        "--upgrade",
        "--only-binary",
        ":all:",
        "--",
        *names,
    ]
    settings.packages.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if _KEPT_VARIABLES.fullmatch(name)}
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(settings.execution.install_timeout):
            output, _ = await process.communicate()
    except TimeoutError:
        raise ToolFailed(
            f"installing took longer than {settings.execution.install_timeout:g} seconds"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        message = output.decode(errors="replace").strip()
        message = (
            message
            if len(message) <= _MAX_SAID
            else f"(the last {_MAX_SAID:,} characters) …{message[-_MAX_SAID:]}"
        )
        raise ToolFailed(f"{message}\n{', '.join(names)} could not be installed".strip())
    return f"installed {', '.join(names)}"


def _installer() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    raise ToolFailed("neither pip nor uv is installed here")
