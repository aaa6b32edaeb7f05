import json
from callsheet import gather


async def main():
    """Mark the invoices as paid that a payment names with the right amount, and list the other payments"""
    invoices, payments = await gather(
        read_records(table="invoices", conditions={"state": "open"}), read_records(table="payments")
    )
    invoices, payments = json.loads(invoices), json.loads(payments)
    open_ = {str(invoice.id): invoice.amount for invoice in invoices}
    matched = [
        payment
        for payment in payments
        if payment.reference in open_ and open_[payment.reference] == payment.amount
    ]
    for payment in matched:
        await update_records(
            table="invoices", data={"state": "paid"}, conditions={"id": int(payment.reference)}
        )
    unclear = [f"{payment.reference}: {payment.amount:.2f}" for payment in payments if payment not in matched]
    return f"{len(matched)} invoices are paid. To look at: {', '.join(unclear) or 'nothing'}."
