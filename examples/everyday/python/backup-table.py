import json
from datetime import date, timedelta
from callsheet import today


async def main(table: str):
    """Keep a copy of a table in a file of today, and of no more than seven days"""
    rows = json.loads(await read_records(table=table))
    assert rows, f"{table} is empty: that is no backup"
    await create_directory(path="backup")
    await write_file(path=f"backup/{table}-{today()}.json", content=rows)
    listing = await list_directory(path="backup")
    days = [date.fromisoformat(file[-15:-5]) for file in listing.content.splitlines() if f"{table}-" in file]
    old = [day for day in days if today() - day > timedelta(days=7)]
    for day in old:
        await create_directory(path="backup/old")
        await move_file(source=f"backup/{table}-{day}.json", destination=f"backup/old/{table}-{day}.json")
    return f"{len(rows)} rows of {table} are kept, {len(old)} older copies were put away."
