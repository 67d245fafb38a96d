"""The page: a flame graph of 500,000 calling contexts in headless Chromium, beside speedscope's on the same file.

Interactive is when a frame can be moved: from the start of navigation to the first animation frame after the graph is drawn. A frame's
cost is what the main thread did for one turn of the wheel (DevTools' TaskDuration: script, layout, drawing), the median of all turns.
Memory is what the page's process has for itself (PSS), after a garbage collection.
"""

import pathlib
import random
import subprocess

import bench

NODES = 500_000
SPEEDSCOPE = "1.25.0"
WEB = bench.HERE.parent / "web"


def folded(path):
    """Stacks as programs have them: few functions near the root, many far from it; each adds a context or some."""
    choose = random.Random(1)
    nodes, stacks = {()}, []
    while len(nodes) < NODES:
        stack = ()
        for depth in range(10 + choose.randrange(50)):
            stack += (f"module_{depth % 12}::function_{min(choose.randrange(3 + 2 * depth), choose.randrange(3 + 2 * depth))}",)
            nodes.add(stack)
            if len(nodes) >= NODES:
                break
        stacks.append(stack)
    path.write_text("".join(f"{';'.join(stack)} {1 + choose.randrange(20)}\n" for stack in stacks))
    return len(nodes)


def main():
    profile = bench.TEMPORARY / "large.folded"
    nodes = folded(profile)
    page = bench.TEMPORARY / "large.html"
    subprocess.run([bench.VITALFEW, "html", page, profile, "--max-size", "500M"], check=True, capture_output=True)
    peer = bench.TEMPORARY / "peer"
    peer.mkdir()
    subprocess.run(["npm", "install", "--prefix", peer, "--ignore-scripts", "--no-audit", "--no-fund", f"speedscope@{SPEEDSCOPE}"], check=True, capture_output=True)
    print(f"\n## The page: {nodes:,} calling contexts in headless Chromium\n")
    print(f"The file: {profile.stat().st_size / 1e6:.0f} MB of folded stacks; as a page, {page.stat().st_size / 1e6:.1f} MB.\n", flush=True)
    subprocess.run(["node", WEB / "bench.js", page, profile, peer / "node_modules/speedscope"], check=True)


main()
