"""Asks `vitalfew mcp` by the client library of the protocol's authors: mcp_client.py VITALFEW PROGRAM FOLDER.

Prints a JSON object: the names of the tools, and the text and the error flag of each call's answer.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

VITALFEW, PROGRAM, FOLDER = sys.argv[1:]
COMMAND = [PROGRAM]
CALLS = [
    ("refused", "run", {"command": ["/bin/sh", "-c", "touch started"]}),
    ("recorded", "record", {"command": COMMAND}),
    ("again", "record", {"command": COMMAND}),
    ("small", "report", {"result": "record-1.vf", "rows": 1000, "max_bytes": 900}),
    ("searched", "search", {"result": "record-1.vf"}),
    ("why", "why", {"result": "record-1.vf", "finding": 1}),
    ("no finding", "why", {"result": "record-1.vf", "finding": 1000}),
    ("annotated", "annotate", {"result": "record-1.vf", "procedure": "busy"}),
    ("compared", "compare", {"before": "record-1.vf", "after": "record-2.vf"}),
    ("run", "run", {"command": COMMAND, "seconds": 5, "once": True}),
    ("what if", "what_if", {"command": COMMAND, "place": "busy", "percent": 50, "seconds": 6}),
    ("no place", "what_if", {"command": COMMAND, "place": "no_such_function", "seconds": 5}),
    ("no percentage", "what_if", {"command": COMMAND, "place": "busy", "percent": 3}),
    ("too long", "what_if", {"command": COMMAND, "place": "busy", "seconds": 1e9}),
    ("an option", "annotate", {"result": "record-1.vf", "procedure": "--autofdo=started"}),
    ("outside", "findings", {"result": "/etc/passwd"}),
    ("above", "findings", {"result": "../../../../etc/passwd"}),
    ("no profile", "findings", {"result": "text"}),
    ("doctor", "doctor", {}),
]


async def main():
    parameters = StdioServerParameters(command=VITALFEW, args=["mcp", "--allow", PROGRAM, "--folder", FOLDER])
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        tools = await session.list_tools()
        answers = {}
        for name, tool, arguments in CALLS:
            result = await session.call_tool(tool, arguments)
            answers[name] = {"text": result.content[0].text, "error": bool(result.is_error)}
        print(json.dumps({"tools": [tool.name for tool in tools.tools], "answers": answers}))


asyncio.run(main())
