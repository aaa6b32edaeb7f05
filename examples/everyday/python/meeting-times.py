# time: such as 16:00
async def main(
    time: str,
    zone: str = "Europe/Oslo",
    offices: dict[str, str] = {"Lisbon": "Europe/Lisbon", "Nairobi": "Africa/Nairobi", "Osaka": "Asia/Tokyo"},
):
    """Say what time a meeting is for each office, and for whom it is at night"""
    lines = []
    for office in offices:
        there = await convert_time(source_timezone=zone, time=time, target_timezone=offices[office])
        clock = there.target.datetime[11:16]
        remark = "" if "07:00" <= clock <= "21:00" else " (at night)"
        lines.append(f"{office}: {there.target.day_of_week} {clock}{remark}")
    return "\n".join(lines)
