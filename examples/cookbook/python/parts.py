async def pieces(order_id: int) -> int:
    try:
        found = await stock(id=order_id)
    except ToolError:
        return 0
    return found.pieces


async def main():
    all_pieces = [await pieces(order_id) for order_id in [1, 2, 3]]
    return f"{all_pieces}, in all {sum(all_pieces)}"
