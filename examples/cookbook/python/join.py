# names: the customer of each order
async def main(names: dict[str, str]):
    return [
        {"who": names.get(str(o.id), "unknown"), "total": o.total} for o in await orders() if o.total > 20
    ]
