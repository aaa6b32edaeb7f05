from callsheet import Denied


async def main():
    next_order = [one for one in await orders() if one.state == "open"][0]
    try:
        return await pay(id=next_order.id, amount=next_order.total)
    except Denied as error:
        return f"Not paid: {error}"
