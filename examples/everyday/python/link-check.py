import re
from callsheet import gather


async def main(file: str = "README.md"):
    """Find the links of a document that lead nowhere"""
    text = await read_file(path=file)
    links = sorted(set(re.findall(r"https?://[^\s)>]+", text)))
    pages = await gather(*[fetch(url=link, max_length=200) for link in links], return_exceptions=True)
    broken = [f"{link}: {page}" for link, page in zip(links, pages) if isinstance(page, ToolError)]
    return f"{len(broken)} of {len(links)} links are broken.\n" + "\n".join(broken)
