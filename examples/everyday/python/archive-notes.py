import re
from callsheet import today


async def main(folder: str = "notes"):
    """Put the notes of past years into the archive, a folder for each year"""
    listing = await list_directory(path=folder)
    this_year = str(today())[:4]
    old = [name for name in re.findall(r"\d{4}-\d{2}-\d{2}\.md", listing.content) if name[:4] < this_year]
    if not old:
        return "All notes are of this year."
    for year in sorted({name[:4] for name in old}):
        await create_directory(path=f"archive/{year}")
    for name in old:
        await move_file(source=f"{folder}/{name}", destination=f"archive/{name[:4]}/{name}")
    return f"{len(old)} notes are in the archive."
