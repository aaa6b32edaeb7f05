import json
from datetime import date, timedelta
from callsheet import ask_human, today


async def main():
    """Before subscriptions renew this week, ask which of them to cancel"""
    active = json.loads(await read_records(table="subscriptions", conditions={"state": "active"}))
    due = [
        one
        for one in active
        if timedelta(days=0) <= date.fromisoformat(one.renews) - today() < timedelta(days=7)
    ]
    if not due:
        return "No subscription renews this week."
    saved = []
    for one in due:
        answer = await ask_human(
            f"Keep {one.name} for {one.price:.2f}?", options=["keep", "cancel"], timeout="3d", default="keep"
        )
        if answer == "cancel":
            await update_records(
                table="subscriptions", data={"state": "cancelled"}, conditions={"id": one.id}
            )
            saved.append(one.price)
        else:
            saved.append(0)
    return f"{len(due)} subscriptions were due; {sum(saved):.2f} are saved."
