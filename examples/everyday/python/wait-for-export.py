import asyncio
from callsheet import today


async def main(folder: str = "export"):
    """Wait until tonight's export is there, then put it away under today's name"""
    for look in range(12):
        listing = await list_directory(path=folder)
        if "[FILE] orders.csv" in listing.content:
            break
        if look < 11:
            await asyncio.sleep(300)
    else:
        raise ValueError("There is no export after an hour.")
    await move_file(source=f"{folder}/orders.csv", destination=f"{folder}/orders-{today()}.csv")
    return f"The export is {folder}/orders-{today()}.csv."
