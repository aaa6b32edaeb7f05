import json
from datetime import date, timedelta


# agreed: hours a week
async def main(monday: str, agreed: float = 40.0):
    """Sum up the hours of a week by project, and say who has worked more than agreed"""
    entries = json.loads(await read_records(table="hours"))
    first = date.fromisoformat(monday)
    projects, people = {}, {}
    for entry in entries:
        if first <= date.fromisoformat(entry.day) < first + timedelta(days=7):
            projects[entry.project] = projects.get(entry.project, 0) + entry.hours
            people[entry.person] = people.get(entry.person, 0) + entry.hours
    tired = [person for person, hours in people.items() if hours > agreed]
    return {"projects": projects, "more than agreed": tired}
