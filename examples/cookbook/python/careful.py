async def main(order: int):
    found = [one for one in await orders() if one.id == order]
    assert found, f"there is no order {order}"
    assert found[0].state == "open", f"order {order} is {found[0].state}"
    return await pay(id=order, amount=found[0].total)
