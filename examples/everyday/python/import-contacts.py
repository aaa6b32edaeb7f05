import json


async def main(file: str = "people.csv"):
    """Take the people of a CSV file into the table of contacts, who are not there yet"""
    text = await read_file(path=file)
    rows = [line.split(",") for line in text.strip().splitlines()]
    assert rows[0] == ["name", "email"], f"{file} does not begin with the columns name and email"
    contacts = json.loads(await read_records(table="contacts"))
    known = [contact.email.lower() for contact in contacts]
    new = []
    for name, email in [row for row in rows[1:] if row[1].lower() not in known]:
        try:
            await create_record(table="contacts", data={"name": name.strip(), "email": email.strip().lower()})
            new.append(name)
        except ToolError as error:
            print(f"{name} is left out: {error}")
    return f"{len(new)} new people of {len(rows) - 1}."
