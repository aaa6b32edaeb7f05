# kinds: a folder for each ending
async def main(
    folder: str = "downloads",
    kinds: dict[str, str] = {"pdf": "papers", "jpg": "pictures", "png": "pictures", "zip": "archives"},
):
    """Move the files of the downloads folder into a folder for each kind"""
    listing = await list_directory(path=folder)
    files = [
        line.removeprefix("[FILE] ") for line in listing.content.splitlines() if line.startswith("[FILE] ")
    ]
    moved = 0
    for file in files:
        kind = kinds.get(file.split(".")[-1].lower())
        if kind is None:
            print(f"{file} stays where it is")
            continue
        await create_directory(path=f"{folder}/{kind}")
        await move_file(source=f"{folder}/{file}", destination=f"{folder}/{kind}/{file}")
        moved += 1
    return f"{moved} of {len(files)} files were moved."
