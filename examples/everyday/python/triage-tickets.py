import json


async def main(people: dict[str, str] = {"crash": "Ada", "question": "Bo", "wish": "Cy"}):
    """Give each new ticket a kind and a person, and answer nobody yet"""
    tickets = json.loads(await read_records(table="tickets", conditions={"state": "new"}))
    if not tickets:
        return "There are no new tickets."
    kinds = []
    for ticket in tickets:
        kind = None
        for attempt in range(3):
            try:
                kind = await llm_classify(ticket.title, categories=["crash", "question", "wish"])
                break
            except ToolError as error:
                print(f"attempt {attempt + 1} for ticket {ticket.id}: {error}")
        if kind is not None:
            change = {"state": kind, "owner": people[kind]}
            await update_records(table="tickets", data=change, conditions={"id": ticket.id})
            kinds.append(kind)
    return f"{len(kinds)} of {len(tickets)} tickets are sorted, {kinds.count('crash')} of them crashes."
