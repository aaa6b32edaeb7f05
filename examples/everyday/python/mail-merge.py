import json


# city: only those of this city
async def main(template: str = "letter.txt", city: str | None = None):
    """Write a letter to each customer from a template with [name] and [city] in it"""
    letter = await read_file(path=template)
    assert "[name]" in letter, f"{template} does not say where the name stands"
    customers = json.loads(await read_records(table="customers"))
    chosen = [one for one in customers if city is None or one.city == city]
    for one in chosen:
        await write_file(
            path=f"letters/{one.id}.txt",
            content=letter.replace("[name]", one.name).replace("[city]", one.city),
        )
    return f"{len(chosen)} letters are written."
