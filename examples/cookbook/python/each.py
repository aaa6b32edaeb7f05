async def main():
    pieces = []
    for order in [one for one in await orders() if one.state == "open"]:
        try:
            found = await stock(id=order.id)
            pieces.append(found.pieces)
        except ToolError as error:
            print(f"order {order.id} is left out: {error}")
    return pieces
