from callsheet import gather


async def main():
    first, third = await gather(stock(id=1), stock(id=3))
    return f"{first.pieces + third.pieces} pieces"
