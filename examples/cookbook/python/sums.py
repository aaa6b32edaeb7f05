async def main():
    all_orders = await orders()
    cities = sorted({o.city for o in all_orders})
    totals = {city: sum(o.total for o in all_orders if o.city == city) for city in cities}
    return f"{totals}, with tax {sum(totals.values()) * 1.25:.2f}"
