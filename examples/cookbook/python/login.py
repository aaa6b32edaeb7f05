async def main(token: str):
    return await login(token=token)
