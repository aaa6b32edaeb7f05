"""A browser for tests of the viewer: Chromium from CALLSHEET_CHROMIUM or from the system.

Without one the tests are skipped, with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright
from tests.apps.http.conftest import TOOLS, Api, running
from tests.viewer.runs import Runs
from tests.viewer.web import Window, Windows

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """The browser's program; the test is skipped where there is none."""
    named = os.environ.get("CALLSHEET_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium, or name one in CALLSHEET_CHROMIUM")
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests of this process."""
    program = chromium()
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        await opened.close()


@pytest.fixture(scope="session")
def windows(browser: Browser) -> Windows:
    """The windows of the browser."""
    return Windows(browser)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs of a journal, and their pages, created on first use."""
    return Runs(tmp_path_factory.mktemp("runs"))


@dataclass(slots=True)
class Opened:
    """A page opened from disk, with its console messages and requests."""

    window: Window

    @property
    def page(self) -> Page:
        return self.window.page

    @property
    def said(self) -> list[str]:
        return self.window.said

    @property
    def asked(self) -> list[str]:
        return self.window.asked

    async def drawn(self) -> None:
        """Wait until the last change is drawn."""
        for _ in range(3):
            await self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    async def text(self, selector: str) -> str:
        """The text of the first element with normalized whitespace."""
        await self.drawn()
        return " ".join((await self.page.inner_text(selector)).split())

    async def at(self, part: str) -> None:
        """Wait until the address, which is updated a moment later, contains this."""
        await self.page.wait_for_function("(part) => location.hash.includes(part)", arg=part)

    async def complains(self, words: str) -> None:
        """Wait until the browser has logged a message."""
        for _ in range(1_200):
            if any(words in line for line in self.said):
                return
            await self.page.wait_for_timeout(50)
        raise AssertionError(self.said)


@dataclass(slots=True)
class Opener:
    """Opens pages of runs."""

    windows: Windows
    runs: Runs
    opened: list[Opened] = field(default_factory=list[Opened])

    async def __call__(
        self, run: str, address: str = "", *, size: tuple[int, int] = (1440, 900), scheme: str = "light"
    ) -> Opened:
        """Open the report of a run."""
        return await self.file(await self.runs.page(run), address, size=size, scheme=scheme)

    async def file(
        self, path: Path, address: str = "", *, size: tuple[int, int] = (1440, 900), scheme: str = "light"
    ) -> Opened:
        """Open a file."""
        made = Opened(await self.windows.open(size, scheme))
        self.opened.append(made)
        await made.page.goto(path.as_uri() + address)
        await made.page.wait_for_selector(".app")
        return made


@pytest_asyncio.fixture(loop_scope="session")
async def open_report(windows: Windows, runs: Runs) -> AsyncIterator[Opener]:
    """Opens reports; an opened report has no console message and makes no request."""
    opener = Opener(windows, runs)
    yield opener
    for opened in opener.opened:
        await windows.leave(opened.window)
    said = [line for opened in opener.opened for line in opened.said]
    assert said == []
    asked = [url for opened in opener.opened for url in opened.asked]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture
def folder(own_home: Path) -> Path:
    """The folder of a user with a file of tools."""
    (own_home / "tools.py").write_text(TOOLS)
    return own_home


@pytest.fixture
def api(folder: Path) -> Iterator[Api]:
    """A server with the usual options."""
    with running(folder) as made:
        yield made
