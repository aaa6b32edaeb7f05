from datetime import date, timedelta


# age: an open order is late after so many days
async def main(day: str, age: int = 7):
    today = date.fromisoformat(day)
    late = []
    for order in await orders():
        if order.state == "open" and today - date.fromisoformat(order.placed) > timedelta(days=age):
            late.append(order.id)
    return f"late: {', '.join(str(order_id) for order_id in late)}"
