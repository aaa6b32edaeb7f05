import json


# day: such as 2026-03-02
# start: such as 09:30
# rooms: the best first
async def main(day: str, start: str, end: str, rooms: list[str] = ["Fjord", "Forest", "Field"]):
    """Book the first room that is free at that time"""
    assert start < end, "the meeting ends before it begins"
    bookings = json.loads(await read_records(table="bookings", conditions={"day": day}))
    taken = {booking.room for booking in bookings if booking.start < end and start < booking.end}
    free = [room for room in rooms if room not in taken]
    if not free:
        return f"No room is free on {day} from {start} to {end}."
    await create_record(table="bookings", data={"room": free[0], "day": day, "start": start, "end": end})
    return f"{free[0]} is yours on {day} from {start} to {end}."
