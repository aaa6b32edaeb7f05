import re


async def main(file: str = "plans.md", calendar: str = "plans.ics"):
    """Make a calendar of the lines of a note that begin with a date, such as "2026-12-24 Dinner with Ada" """
    text = await read_file(path=file)
    dated = [line.strip() for line in text.splitlines() if re.match(r"\s*\d{4}-\d{2}-\d{2} \S", line)]
    if not dated:
        return f"No line of {file} begins with a date."
    events = []
    for line in dated:
        day = line[:10].replace("-", "")
        events.append(f"BEGIN:VEVENT\nDTSTART;VALUE=DATE:{day}\nSUMMARY:{line[11:]}\nEND:VEVENT")
    head = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:callsheet"]
    await write_file(path=calendar, content="\n".join([*head, *events, "END:VCALENDAR"]))
    return f"{calendar} has {len(dated)} events."
