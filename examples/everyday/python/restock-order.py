import json
from callsheet import ask_human


async def main():
    """Order what has run low, after one question"""
    stock = json.loads(await read_records(table="stock"))
    low = [article for article in stock if article.pieces < article.least]
    if not low:
        return "Nothing has run low."
    lines = [
        f"{2 * article.least - article.pieces} {article.item} from {article.supplier}" for article in low
    ]
    answer = await ask_human(
        f"Order this? {'; '.join(lines)}", options=["yes", "no"], timeout="2d", default="no"
    )
    if answer == "no":
        return "Nothing was ordered."
    for article in low:
        await create_record(
            table="orders", data={"item": article.item, "pieces": 2 * article.least - article.pieces}
        )
    return f"Ordered: {'; '.join(lines)}."
