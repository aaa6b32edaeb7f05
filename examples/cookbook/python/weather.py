async def main(city: str = "Oslo"):
    now = await degrees(city=city)
    return "A coat." if now.degrees < 10 else f"{now.degrees} °C, no coat."
