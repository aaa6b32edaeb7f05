"""The windows of a browser that tests use in turn, and one that is signed in to its own server."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page
from tests.apps.http.conftest import Api

FORGET = "try { localStorage.clear(); sessionStorage.clear(); } catch {}"  # a page of an error has none


@dataclass(slots=True)
class Window:
    """A page, with its console messages and requests."""

    page: Page
    said: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.page.set_default_timeout(60_000)  # a busy machine takes long for what takes a moment
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))


@dataclass(slots=True)
class Windows:
    """The windows of a browser. One that a test has left serves the next."""

    browser: Browser
    idle: list[Window] = field(default_factory=list[Window])

    async def open(self, size: tuple[int, int] = (1400, 900), scheme: str = "light") -> Window:
        """A window with no cookies, stored texts, permissions and messages."""
        if not self.idle:
            context = await self.browser.new_context()
            self.idle.append(Window(await context.new_page()))
        window = self.idle.pop()
        window.said.clear()
        window.asked.clear()
        await window.page.set_viewport_size({"width": size[0], "height": size[1]})
        await window.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        return window

    async def leave(self, window: Window) -> None:
        """Clear a window and keep it for the next test."""
        context = window.page.context
        for page in context.pages:
            if page is not window.page:
                await page.close()
        await window.page.evaluate(FORGET)
        await window.page.goto("about:blank")
        await context.clear_cookies()
        await context.clear_permissions()
        self.idle.append(window)


@dataclass(slots=True)
class Web:
    """A window of a browser at a server."""

    api: Api
    window: Window
    windows: Windows

    @property
    def page(self) -> Page:
        return self.window.page

    @property
    def said(self) -> list[str]:
        return self.window.said

    async def leave(self) -> None:
        """Leave the server, with all pages."""
        await self.windows.leave(self.window)

    async def go(self, address: str = "") -> None:
        """Go to an address of the web viewer, such as `#runs`."""
        await self.page.goto(f"{self.api.url}/{address}")

    async def sign_in(self, address: str = "") -> None:
        """Sign in with the code that the server printed, then go to an address."""
        await self.go(f"#code={self.api.code}")
        await self.page.wait_for_selector(".page")
        if address:
            await self.page.evaluate("(address) => { location.hash = address; }", address)

    async def text(self, selector: str) -> str:
        """The text of the first element with normalized whitespace."""
        return " ".join((await self.page.inner_text(selector)).split())

    async def wait_for(self, look: Callable[[], Awaitable[Any]]) -> None:
        """Wait until an expression on the page is truthy."""
        for _ in range(1_200):
            if await look():
                return
            await self.page.wait_for_timeout(50)
        raise AssertionError(await self.page.inner_text("body"))

    async def findings(self, *, of_look: bool = False) -> list[Any]:
        """The findings of axe, as `axe_findings`."""
        return await axe_findings(self.page, of_look=of_look)


OF_LOOK = ["color-contrast", "target-size", "scrollable-region-focusable"]
"""The rules whose findings depend on the size of the window and on the colours, not only on the elements."""


async def axe_findings(page: Page, *parts: str, of_look: bool = False) -> list[Any]:
    """The findings of axe on a page, or in parts of it, with two of the rules that are off by default.

    With `of_look` only those that a page, whose elements were looked at, may have in another size or scheme.
    """
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe is not installed: pip install axe-playwright-python")
    if not await page.evaluate("Boolean(window.axe)"):
        await page.evaluate(Path(spec.origin).with_name("axe.min.js").read_text())
    found = await page.evaluate(
        """([parts, only]) => axe.run(parts.length ? { include: parts } : document, {
            ...(only ? { runOnly: only } : { rules: {
                "label-content-name-mismatch": { enabled: true }, "target-size": { enabled: true } } }),
            resultTypes: ["violations"],
        })""",
        [list(parts), OF_LOOK if of_look else None],
    )
    return [
        (each["id"], node["target"], node.get("failureSummary"))
        for each in found["violations"]
        for node in each["nodes"][:4]
    ]


async def browse(
    windows: Windows, api: Api, size: tuple[int, int] = (1400, 900), scheme: str = "light"
) -> Web:
    """A browser window at a server, with no cookies."""
    return Web(api, await windows.open(size, scheme), windows)
