"""A browser that is signed in to its own server."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page
from tests.apps.http.conftest import Api


@dataclass(slots=True)
class Web:
    """A page of a server, with its console messages."""

    api: Api
    page: Page
    said: list[str] = field(default_factory=list[str])

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

    async def findings(self) -> list[Any]:
        """The findings of axe."""
        return await axe_findings(self.page)


async def axe_findings(page: Page) -> list[Any]:
    """The findings of axe on a page, of any impact, with two of the rules that are off by default."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe is not installed: pip install axe-playwright-python")
    if not await page.evaluate("Boolean(window.axe)"):
        await page.evaluate(Path(spec.origin).with_name("axe.min.js").read_text())
    found = await page.evaluate(
        """axe.run(document, {
            rules: { "label-content-name-mismatch": { enabled: true }, "target-size": { enabled: true } },
            resultTypes: ["violations"],
        })"""
    )
    return [
        (each["id"], node["target"], node.get("failureSummary"))
        for each in found["violations"]
        for node in each["nodes"][:4]
    ]


async def browse(
    browser: Browser, api: Api, size: tuple[int, int] = (1400, 900), scheme: str = "light"
) -> Web:
    """A new browser window at a server, with no cookies."""
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = await context.new_page()
    page.set_default_timeout(60_000)
    web = Web(api, page)
    page.on("console", lambda message: web.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: web.said.append(f"error: {error}"))
    return web
