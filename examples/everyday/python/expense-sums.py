import json


# month: such as 2026-03
async def main(month: str, budget: dict[str, float] = {}):
    """Say what a month has cost, by category, and warn where that is above its budget"""
    expenses = json.loads(await read_records(table="expenses"))
    own = [expense for expense in expenses if expense.day.startswith(month)]
    assert own, f"there are no expenses of {month}"
    sums = {}
    for category in sorted({expense.category for expense in own}):
        sums[category] = sum([expense.amount for expense in own if expense.category == category])
        if sums[category] > budget.get(category, sums[category]):
            print(f"{category} is above its budget")
    lines = [f"{category}: {cost:.2f}" for category, cost in sums.items()]
    return f"{', '.join(lines)}; in all {sum(sums.values()):.2f}"
