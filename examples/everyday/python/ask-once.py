from callsheet import ask_human


async def main(question: str):
    """Answer a question from memory; ask a person what is not known, and remember it"""
    known = await open_nodes(names=[question])
    if known.entities:
        return known.entities[0].observations[0]
    answer = await ask_human(question, timeout="5d", default="")
    if answer == "":
        return "Nobody knows."
    await create_entities(entities=[{"name": question, "entityType": "question", "observations": [answer]}])
    return answer
