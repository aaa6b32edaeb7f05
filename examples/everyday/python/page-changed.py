import asyncio


async def look(page):
    for wait in (5, 5, None):
        try:
            return await fetch(url=page, max_length=100000)
        except ToolError:
            if wait is None:
                raise
            await asyncio.sleep(wait)


# page: its address
async def main(page: str):
    """Say what is new on a page since the last look"""
    now = await look(page)
    try:
        before = await read_file(path="pages/last.txt")
    except ToolError:
        before = ""
    await write_file(path="pages/last.txt", content=now)
    if before == "":
        return f"This is the first look at {page}."
    new = [line for line in now.splitlines() if line.strip() and line not in before.splitlines()]
    if not new:
        return f"Nothing is new on {page}."
    return "\n".join(new)
