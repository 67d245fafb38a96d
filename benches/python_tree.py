"""python_tree.py OUT.cpuprofile MODULE [ARGUMENTS…]: the exact call tree of a Python program, for the search to work on.

Runs the module as `python3 -m` does, with a profile function, and writes each calling context with the number of
its calls (`--unit calls`, the default: the same in each run) or its own time (`--unit time`) as a Chromium CPU
profile. Unlike sampled trees these have each context that occurred, most of them tiny, and recursion as deep as
the program's.
"""

import argparse
import json
import runpy
import sys
import time


def tracer(unit):
    """A profile function, and the tree that it fills: nodes by number, each [code, parent, cost, children]."""
    nodes = [[None, -1, 0, {}]]
    here, since, clock = 0, time.perf_counter_ns(), time.perf_counter_ns
    counting = unit == "calls"

    def on_event(frame, event, _):
        nonlocal here, since
        if event == "call":
            if not counting:
                now = clock()
                nodes[here][2] += now - since
            code = frame.f_code
            children = nodes[here][3]
            child = children.get(code)
            if child is None:
                child = children[code] = len(nodes)
                nodes.append([code, here, 0, {}])
            here = child
            if counting:
                nodes[here][2] += 1
            else:
                since = clock()
        elif event == "return" and here:
            if not counting:
                now = clock()
                nodes[here][2] += now - since
                since = clock()
            here = nodes[here][1]

    return on_event, nodes


def write(path, nodes, unit):
    """Samples of the profile are the nodes themselves, once each, with their cost as the time between."""
    with open(path, "w") as out:
        out.write('{"nodes":[')
        for number, (code, _, _, children) in enumerate(nodes):
            frame = {"functionName": "(root)", "scriptId": "0", "url": "", "lineNumber": -1, "columnNumber": -1}
            if code is not None:
                name = getattr(code, "co_qualname", code.co_name)
                frame |= {"functionName": name, "url": code.co_filename, "lineNumber": code.co_firstlineno - 1}
            node = {"id": number + 1, "callFrame": frame, "children": [child + 1 for child in children.values()]}
            out.write(("," if number else "") + json.dumps(node))
        # Nanoseconds are written as they are where the format means microseconds: only shares matter here.
        costs = [(number, node[2]) for number, node in enumerate(nodes) if node[2] > 0]
        samples = [number + 1 for number, _ in costs]
        deltas = [cost for _, cost in costs]
        out.write('],"startTime":0,"endTime":%d,"samples":' % sum(deltas))
        json.dump(samples + samples[-1:], out)
        out.write(',"timeDeltas":')
        json.dump([0] + deltas, out)
        out.write("}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unit", choices=["calls", "time"], default="calls")
    parser.add_argument("out")
    parser.add_argument("module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    sys.argv = [args.module, *args.arguments]
    on_event, nodes = tracer(args.unit)
    sys.setprofile(on_event)
    try:
        runpy.run_module(args.module, run_name="__main__", alter_sys=True)
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    write(args.out, nodes, args.unit)
    print(f"{len(nodes) - 1:,} calling contexts", file=sys.stderr)


if __name__ == "__main__":
    main()
