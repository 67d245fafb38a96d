"""Two tasks of asyncio take turns: three quarters of the CPU time is spent below `three`, by the process's own clock. Argument: seconds."""
import asyncio
import sys
import time


async def step(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(200))
    await asyncio.sleep(0)


async def three(rounds):
    for _ in range(rounds):
        await step(0.003)


async def one(rounds):
    for _ in range(rounds):
        await step(0.001)


async def main(rounds):
    await asyncio.gather(three(rounds), one(rounds))


asyncio.run(main(int(float(sys.argv[1]) / 0.004)))
