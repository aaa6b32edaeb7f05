async def main(file: str = "meeting.txt"):
    """File what was agreed in a meeting: each line "ACTION Ada: call Bo" becomes a task of Ada"""
    minutes = await read_file(path=file)
    actions = [line.removeprefix("ACTION ") for line in minutes.splitlines() if line.startswith("ACTION ")]
    people = []
    for action in actions:
        who, colon, what = action.partition(": ")
        if not colon:
            print(f"nobody is named in: {action}")
            continue
        await create_record(table="tasks", data={"who": who, "what": what, "state": "open"})
        people.append(who)
    return f"{len(people)} of {len(actions)} actions are filed, for {', '.join(sorted(set(people))) or 'nobody'}."
