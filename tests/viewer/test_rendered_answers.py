"""Answers of proved runs in a real browser: the page that they make asks nobody with private text."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from playwright.async_api import Browser, Route
from tests.security.rendering import MARK, answers_beside, renderings

pytestmark = pytest.mark.asyncio(loop_scope="session")
_SUBMIT = """() => {
    const names = ["href", "src", "action", "formaction", "srcset", "poster", "data", "ping", "background"];
    const found = [...document.querySelectorAll("*")].flatMap(e => names.map(n => e.getAttribute(n)));
    for (const form of document.forms) form.submit();
    return found.filter(Boolean);
}"""


async def test_no_answer_makes_a_browser_send_private_text(browser: Browser):
    asked: list[str] = []

    async def refuse(route: Route) -> None:
        asked.append(f"{route.request.url} {route.request.post_data or ''}")
        await route.abort()

    context = await browser.new_context()
    page = await context.new_page()
    await page.route("**/*", refuse)
    for answer in answers_beside(f"{MARK}'> and"):
        _, markdown, html = renderings(answer)
        for shown in (markdown, html):
            asked.clear()
            await page.set_content(shown, wait_until="domcontentloaded")
            addresses = await page.evaluate(_SUBMIT)
            sent = [each for each in (*asked, *addresses) if MARK.lower() in unquote(each).lower()]
            assert sent == [], answer
    await context.close()
