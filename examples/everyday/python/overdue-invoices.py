import json
from datetime import date, timedelta
from callsheet import today


# grace: an invoice may be this many days late
async def main(grace: int = 7):
    """Write a reminder for each open invoice that is late"""
    invoices = json.loads(await read_records(table="invoices", conditions={"state": "open"}))
    late = [one for one in invoices if today() - date.fromisoformat(one.due) > timedelta(days=grace)]
    for invoice in late:
        bill = f"our invoice {invoice.id} over {invoice.amount:.2f} was due on {invoice.due}."
        await write_file(path=f"reminders/{invoice.id}.txt", content=f"Dear {invoice.customer},\n{bill}")
    total = sum([invoice.amount for invoice in late])
    return f"{len(late)} of {len(invoices)} open invoices are late, {total:.2f} in all."
