import re


async def main(folder: str = "photos"):
    """Sort the photos of a camera into a folder for each month, by the day in their names"""
    listing = await list_directory(path=folder)
    photos = re.findall(r"IMG_\d{8}_\w+\.jpg", listing.content)
    months = sorted({f"{photo[4:8]}-{photo[8:10]}" for photo in photos})
    for month in months:
        await create_directory(path=f"{folder}/{month}")
    for photo in photos:
        month = f"{photo[4:8]}-{photo[8:10]}"
        await move_file(source=f"{folder}/{photo}", destination=f"{folder}/{month}/{photo}")
    return f"{len(photos)} photos are in {len(months)} folders."
