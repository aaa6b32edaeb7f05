import json


async def main():
    """Find contacts that are in the table twice, by their mail address"""
    contacts = json.loads(await read_records(table="contacts"))
    by_address = {
        contact.email.lower(): [other for other in contacts if other.email.lower() == contact.email.lower()]
        for contact in contacts
    }
    double = {address: same for address, same in by_address.items() if len(same) > 1}
    if not double:
        return "Nobody is there twice."
    lines = [f"{address}: {' and '.join([one.name for one in same])}" for address, same in double.items()]
    return "\n".join(lines)
