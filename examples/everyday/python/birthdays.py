from datetime import timedelta
from callsheet import today


async def main(days: int = 7):
    """Say whose birthday is in the next days, from what is known of people, such as "birthday 1990-03-05"""
    found = await search_nodes(query="birthday")
    known = [
        {"name": person.name, "day": fact.removeprefix("birthday ")[5:]}
        for person in found.entities
        for fact in person.observations
        if fact.startswith("birthday ")
    ]
    soon = [f"{today() + timedelta(days=1) * n}" for n in range(days)]
    lines = [f"{day[5:]} {person.name}" for day in soon for person in known if person.day == day[5:]]
    return "\n".join(lines) or f"Nobody has a birthday in the next {days} days."
