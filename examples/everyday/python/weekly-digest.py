import re
from datetime import date, timedelta
from callsheet import gather, today


async def main(folder: str = "notes"):
    """Write a digest of the notes of the last seven days"""
    listing = await list_directory(path=folder)
    days = [date.fromisoformat(name) for name in re.findall(r"\d{4}-\d{2}-\d{2}", listing.content)]
    week = [day for day in sorted(days) if today() - day < timedelta(days=7)]
    if not week:
        return "There are no notes of this week."
    texts = await gather(*[read_file(path=f"{folder}/{day}.md") for day in week])
    notes = [f"## {day}\n{text}" for day, text in zip(week, texts)]
    digest = await llm_summarize("\n\n".join(notes), format="five short points")
    await write_file(path="digest.md", content=digest)
    return f"digest.md is about {len(week)} days."
