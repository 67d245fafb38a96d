"""run_cases.py VITALFEW: does `run` name the cause that matters, and is it worth what is said?

Programs of known truth (run_cases/), each with one dominant cause and a form without it. For each: is the first finding at the true place with
the true cause, is it not there on the repaired form, and does what it is said to be worth agree with what the repair gains? `tuned` are those
that the rules were tuned on, `held` those that were looked at once and then learned from, and so were `fresh` ones, written after that.
`unseen` ones, in other languages, were written after all of these, looked at once and then learned from; `blind` ones
after that, and `later` ones before experiments sped waits up and gains got lower ends; `newest` ones after the rules had
learned from these, `further` ones after these had been learned from, and `latest` ones after the misses among all of them had been.
`doubled` ones were written when `run` said what a twofold speedup saves. They have a third form, whose place is twice as fast by construction.
`others` were written after the rules had learned from these, by somebody who did not know the rules.
RUN_CASES names some of them or a half, with semicolons between; RUN_RESULTS keeps what was said in a directory.
"""

import atexit
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import bench
from bench import VITALFEW

SOURCES = bench.HERE / "run_cases"
HALVES = "tuned", "held", "fresh", "unseen", "blind", "later", "newest", "further", "latest", "doubled", "others"
TUNED, HELD, FRESH, UNSEEN, BLIND, LATER, NEWEST, FURTHER, LATEST, DOUBLED, OTHERS = HALVES
RESULTS = pathlib.Path(os.environ.get("RUN_RESULTS", bench.TEMPORARY / "results"))
TIMES = int(os.environ.get("RUN_TIMES", "5"))
BUDGET = os.environ.get("RUN_FOR", "60s")
LOCKS, COMPUTING = {"locks"}, {"computing"}
# Of work that is spread badly: that one thread works while the others do not.
ALONE = ["works_alone"]
# The part of a place's time from which on a finding's sentence names a second activity.
AS_MUCH = 0.4
# A repair that gains less shows no dominant cause on this machine.
DOMINANT = 0.25
GROUPS_V1 = pathlib.Path("/sys/fs/cgroup/memory")
SMALL_GROUP = (GROUPS_V1 if GROUPS_V1.exists() else GROUPS_V1.parent) / "vitalfew-run-cases"


class Case:
    """`spent`: what most of the first finding's time is spent on; `words`: one of them is in its evidence."""

    def __init__(self, half, name, places, spent, words=(), *, program=None):
        self.half, self.name, self.places, self.spent, self.words = half, name, places, spent, words
        self.command = program or [bench.TEMPORARY / half, name]


def case_of(half, source, *known):
    """A case of HALF_SOURCE: a script, or compiled."""
    name, suffix = source.split(".")
    script = SOURCES / f"{half}_{source}"
    classes = ["java", "-cp", bench.TEMPORARY, script.stem]
    program = {"java": classes, "js": ["node", script], "php": ["php", script], "py": [sys.executable, script], "rb": ["ruby", script]}
    return Case(half, name, *known, program=program.get(suffix, [bench.TEMPORARY / script.stem]))


CASES = [
    Case(TUNED, "line", ["checksum_table"], COMPUTING),
    Case(TUNED, "paths", ["normalize_name"], COMPUTING),
    Case(TUNED, "misses", ["add_prices"], COMPUTING, ["D-cache miss", "DTLB miss"]),
    Case(TUNED, "mutex", ["update_total", "pthread_mutex_lock"], LOCKS, ["Lock"]),
    Case(TUNED, "sharing", ["count_event"], COMPUTING, ["Memory", "D-cache miss", "Synchronization"]),
    Case(TUNED, "fsync", ["save_record"], {"disk"}, ["fsync"]),
    Case(TUNED, "pinned", ["the program"], {"no_cpu"}),
    Case(TUNED, "pipeline", ["decode_item", "digest"], COMPUTING, ALONE),
    Case(TUNED, "sleeping", ["wait_for_device"], {"sleeping"}),
    Case(TUNED, "quadratic", ["find_duplicates"], COMPUTING, program=[sys.executable, SOURCES / "tuned_quadratic.py"]),
    Case(HELD, "branch", ["count_large"], COMPUTING, ["Branch mispredict"]),
    Case(HELD, "barrier", ["barrier", "move_particles"], {"barriers", "computing"}, ALONE),
    Case(HELD, "allocation", ["malloc", "free", "operator new", "count_fields", "_M_"], COMPUTING,
         program=[bench.TEMPORARY / "held_allocation"]),
    Case(HELD, "faults", ["fill_buffer"], {"page_faults"}),
    Case(HELD, "logging", ["log_event"], {"system_calls", "disk"}, ["write"]),
    Case(HELD, "processes", ["run_helper", "starting and ending processes"], {"system_calls", "page_faults", "other_waits", "computing"}, ["spawn", "wait", "clone", "exec", "vfork", "true", "processes"]),
    Case(HELD, "bandwidth", ["apply_operation"], COMPUTING, ["D-cache miss", "Store buffer"]),
    # Of a fast disk most of the time is the system call's.
    Case(HELD, "reading", ["read_block"], {"disk", "system_calls"}, ["pread"]),
    Case(HELD, "blocked", ["handle_event", "save_cache"], LOCKS, ["Lock", "locks"]),
    Case(HELD, "socket", ["receive_reply"], {"sleeping"}),
    Case(FRESH, "stat", ["config_age"], {"system_calls"}),
    Case(FRESH, "rwlock", ["read_table", "rebuild_table", "pthread_rwlock"], LOCKS, ["Lock", "locks"]),
    Case(FRESH, "hash", ["find_entry"], COMPUTING),
    Case(FRESH, "shards", ["process_shard", "process_item"], COMPUTING, ALONE),
    Case(FRESH, "journal", ["append_entry"], {"disk"}),
    Case(FRESH, "bytes", ["next_byte"], {"system_calls"}),
    Case(FRESH, "ticket", ["next_number", "take_numbers"], COMPUTING, ["Memory", "Synchronization", "D-cache miss"]),
    Case(FRESH, "regex", ["match_line", "regcomp"], COMPUTING),
    Case(FRESH, "messages", ["send_messages"], {"system_calls", "network", "other_waits"}),
    Case(FRESH, "polling", ["wait_until_ready"], {"sleeping"}),
    Case(FRESH, "exceptions", ["parse_number", "number_or_none", "_Unwind", "__cxa"], COMPUTING, program=[bench.TEMPORARY / "fresh_exceptions"]),
    Case(FRESH, "sorting", ["median_of"], COMPUTING, program=[sys.executable, SOURCES / "fresh_sorting.py"]),
    case_of(UNSEEN, "counting.rs", ["count_line"], LOCKS, ["Lock", "locks"]),
    case_of(UNSEEN, "cloning.rs", ["clone", "handle_query", "malloc", "free", "drop"], COMPUTING),
    case_of(UNSEEN, "syncing.go", ["storeMessage"], {"disk"}),
    case_of(UNSEEN, "joining.go", ["renderTable", "concatstring", "memmove"], COMPUTING | {"page_faults"}),
    case_of(UNSEEN, "lookup.js", ["customerOf"], COMPUTING),
    case_of(UNSEEN, "helpers.py", ["size_of", "starting and ending processes"], {"system_calls", "page_faults", "other_waits", "computing"}),
    case_of(UNSEEN, "retrying.py", ["read_answer"], {"sleeping"}),
    case_of(UNSEEN, "histogram.cpp", ["count_pixels"], COMPUTING, ["Memory", "D-cache miss", "Synchronization"]),
    case_of(UNSEEN, "tree.cpp", ["price_of"], COMPUTING, ["D-cache miss", "DTLB miss"]),
    case_of(UNSEEN, "shapes.cpp", ["total_area", "area"], COMPUTING, ["Branch mispredict"]),
    case_of(UNSEEN, "rows.c", ["reduce_row", "reduce_matrix", "barrier"], {"barriers", "computing"}, ALONE),
    case_of(UNSEEN, "flushing.rb", ["log_event"], {"system_calls", "disk"}),
    case_of(BLIND, "pipeline.go", ["taxOf"], COMPUTING),
    case_of(BLIND, "locking.go", ["countVisit", "renderPage"], LOCKS, ["Lock", "locks"]),
    case_of(BLIND, "regexes.js", ["matchesFilter"], COMPUTING),
    case_of(BLIND, "commits.py", ["add_reading"], {"disk"}),
    case_of(BLIND, "fields.py", ["read_field"], {"system_calls"}),
    case_of(BLIND, "copies.cpp", ["State::"], COMPUTING),
    case_of(BLIND, "columns.cpp", ["sum_columns"], COMPUTING, ["D-cache miss", "DTLB miss"]),
    case_of(BLIND, "branches.rs", ["count_high"], COMPUTING, ["Branch mispredict"]),
    case_of(BLIND, "waiting.rb", ["wait_for_job"], {"sleeping"}),
    case_of(BLIND, "report.rb", ["first_time", "include?"], COMPUTING),
    case_of(BLIND, "popen.c", ["length_by_shell", "starting and ending processes"], {"system_calls", "page_faults", "other_waits", "computing"}),
    case_of(BLIND, "frames.c", ["draw_frame"], {"page_faults"}),
    case_of(LATER, "writer.c", ["store_record"], {"disk"}),
    case_of(LATER, "device.rs", ["read_device"], {"sleeping"}),
    case_of(LATER, "states.py", ["has_changed"], COMPUTING),
    case_of(LATER, "buffers.go", ["packMessage", "mallocgc"], COMPUTING | {"page_faults"}),
    case_of(LATER, "chain.cpp", ["weigh_parts"], COMPUTING, ["D-cache miss", "DTLB miss"]),
    case_of(LATER, "settings.js", ["copySettings"], COMPUTING),
    case_of(LATER, "members.php", ["is_member", "in_array"], COMPUTING),
    case_of(LATER, "journal.cpp", ["append_entry"], {"disk"} | LOCKS, ["fsync", "Lock", "locks"]),
    case_of(NEWEST, "opcodes.cpp", ["run_opcodes"], COMPUTING, ["Branch mispredict"]),
    case_of(NEWEST, "registry.rs", ["register_entry", "rate_entry"], LOCKS, ["Lock", "locks"]),
    case_of(NEWEST, "layers.cpp", ["blend_layer"], COMPUTING, ["D-cache miss", "DTLB miss", "Store buffer"]),
    case_of(NEWEST, "stages.rs", ["encode_block"], COMPUTING, ALONE),
    case_of(NEWEST, "turns.cpp", ["advance_cells", "barrier"], {"barriers", "computing"}, ALONE),
    case_of(NEWEST, "tallies.rs", ["tally_words"], COMPUTING, ["Memory", "D-cache miss", "Synchronization"]),
    case_of(NEWEST, "letters.rb", ["add_line"], COMPUTING | {"page_faults"}),
    case_of(NEWEST, "thumbs.js", ["sizesOf", "makeThumbs", "starting and ending processes"], {"system_calls", "page_faults", "other_waits", "computing"}),
    case_of(NEWEST, "status.cpp", ["await_job"], {"sleeping"}),
    case_of(NEWEST, "agenda.js", ["insertSorted"], COMPUTING),
    case_of(NEWEST, "moves.py", ["score_move"], COMPUTING),
    case_of(NEWEST, "entries.go", ["parseEntry"], COMPUTING),
    case_of(NEWEST, "words.c", ["append_word"], COMPUTING),
    case_of(NEWEST, "ledger.rs", ["append_bookings"], {"disk"}),
    case_of(FURTHER, "vowels.c", ["count_vowels"], COMPUTING),
    # What is handed over by value is made, and dropped, by the caller.
    case_of(FURTHER, "names.cpp", ["length_of_copy", "::vector(std::vector<"], COMPUTING | {"page_faults"}),
    case_of(FURTHER, "scores.rs", ["store_score", "work_out"], LOCKS, ["Lock", "locks"]),
    case_of(FURTHER, "sizes.py", ["size_of", "starting and ending processes"], {"system_calls", "page_faults", "other_waits", "computing"}),
    case_of(FURTHER, "mails.go", ["isAddress"], COMPUTING | {"page_faults"}),
    case_of(FURTHER, "records.js", ["appendRecord"], {"disk"}),
    case_of(FURTHER, "weights.c", ["gather_weights"], COMPUTING, ["D-cache miss", "DTLB miss"]),
    case_of(FURTHER, "reply.rs", ["wait_for_reply"], {"sleeping"}),
    case_of(LATEST, "shares.c", ["smooth_rows", "barrier"], {"barriers", "computing"}, ALONE),
    case_of(LATEST, "tokens.cpp", ["split_record", "longest_of", "malloc", "free", "operator new", "_M_"], COMPUTING),
    case_of(LATEST, "events.rs", ["record_event", "describe_event"], LOCKS, ["Lock", "locks"]),
    case_of(LATEST, "audit.go", ["writeLine"], {"system_calls", "disk"}, ["write"]),
    case_of(LATEST, "dates.py", ["parse_date"], COMPUTING),
    case_of(LATEST, "views.js", ["loadTemplate"], {"system_calls", "disk"}),
    case_of(LATEST, "Stock.java", ["addArticle"], COMPUTING),
    case_of(LATEST, "pings.rb", ["read_answer"], {"sleeping"}),
    case_of(DOUBLED, "intake.c", ["grow_list"], COMPUTING | {"page_faults"}),
    case_of(DOUBLED, "flows.c", ["expire_flows"], COMPUTING),
    case_of(DOUBLED, "accounts.c", ["find_due"], COMPUTING, ["D-cache miss", "DTLB miss"]),
    case_of(DOUBLED, "scene.cpp", ["find_collisions"], COMPUTING),
    case_of(DOUBLED, "invoice.cpp", ["format_by_stream"], COMPUTING),
    case_of(DOUBLED, "films.cpp", ["encode_film"], COMPUTING, ALONE),
    case_of(DOUBLED, "jobs.rs", ["take_jobs"], COMPUTING),
    case_of(DOUBLED, "gateway.rs", ["check_in_thread", "starting and ending threads"], {"system_calls", "page_faults", "other_waits", "locks", "computing"}, ["spawn", "clone", "mmap", "join", "threads"]),
    case_of(DOUBLED, "feed.go", ["publishQuotes", "takeQuotes"], COMPUTING | LOCKS | {"other_waits", "system_calls"}),
    case_of(DOUBLED, "rollup.go", ["textKey"], COMPUTING),
    case_of(DOUBLED, "suppliers.go", ["askSupplier"], {"sleeping", "network", "other_waits"}),
    case_of(DOUBLED, "limits.py", ["parse_limits"], COMPUTING),
    case_of(DOUBLED, "coins.py", ["count_ways"], COMPUTING),
    case_of(DOUBLED, "parts.py", ["stock_of"], COMPUTING),
    case_of(DOUBLED, "catalog.js", ["withArticles"], COMPUTING),
    case_of(DOUBLED, "tariffs.js", ["makeFormatter"], COMPUTING),
    case_of(DOUBLED, "bookmarks.rb", ["save_all", "to_json"], COMPUTING | {"system_calls", "disk"}),
    case_of(DOUBLED, "badges.rb", ["compile_template"], COMPUTING),
    case_of(DOUBLED, "Trades.java", ["rankBoxed"], COMPUTING),
    case_of(DOUBLED, "Tiles.java", ["evictOldest", "Cache.store", "Cache.find"], LOCKS, ["Lock", "locks"]),
    case_of(OTHERS, "meter.c", ["receive_all", "send_batch"], {"network"}),
    case_of(OTHERS, "equalizer.c", ["tune_band"], COMPUTING),
    case_of(OTHERS, "printshop.cpp", ["submit", "Pool::work"], LOCKS | {"system_calls"}),
    case_of(OTHERS, "exporter.cpp", ["kind_of"], COMPUTING),
    case_of(OTHERS, "directory.rs", ["collation_key"], COMPUTING),
    case_of(OTHERS, "rates.go", ["acquire"], LOCKS | {"other_waits", "network"}),
    case_of(OTHERS, "access.go", ["parseEntry"], COMPUTING),
    case_of(OTHERS, "elevators.py", ["describe"], COMPUTING),
    case_of(OTHERS, "postings.py", ["tidy"], COMPUTING),
    case_of(OTHERS, "outbox.js", ["pack"], COMPUTING),
    case_of(OTHERS, "dedupe.js", ["fingerprint"], COMPUTING),
    case_of(OTHERS, "Tickets.java", ["newCode"], COMPUTING | LOCKS),
    case_of(OTHERS, "Sensors.java", ["smooth"], COMPUTING),
    case_of(OTHERS, "payroll.rb", ["shift_from"], COMPUTING),
    Case(FURTHER, "prices", ["price_of", "touching memory"], {"swapping"}, ["memory_short"], program=[bench.TEMPORARY / "further_prices", SMALL_GROUP]),
]


def build(cases):
    needed = {pathlib.Path(case.command[0]).name for case in cases}
    for source in SOURCES.glob("*.java"):
        if any(source.stem in case.command for case in cases):
            subprocess.run(["javac", "-g", "-d", bench.TEMPORARY, source], check=True)
    for source in SOURCES.iterdir():
        compiler = bench.COMPILERS.get(source.suffix, [])
        if compiler and source.stem in needed and shutil.which(compiler[0]):
            # In this order, as go takes no option after a file.
            libraries = ["-lm"] if source.suffix == ".c" else []
            subprocess.run([*compiler, "-o", bench.TEMPORARY / source.stem, source, *libraries], check=True)


def limit_memory():
    """A control group with little memory, and a file to swap to, as long as this runs. For root."""
    swap = bench.TEMPORARY / "swap"
    subprocess.run(["dd", "if=/dev/zero", f"of={swap}", "bs=1M", "count=1024", "status=none"], check=True)
    swap.chmod(0o600)
    subprocess.run(["mkswap", "-q", swap], check=True)
    subprocess.run(["swapon", swap], check=True)
    atexit.register(subprocess.run, ["swapoff", swap], check=True)
    SMALL_GROUP.mkdir()
    atexit.register(SMALL_GROUP.rmdir)
    limit = "memory.limit_in_bytes" if GROUPS_V1.exists() else "memory.max"
    (SMALL_GROUP / limit).write_text(str(128 << 20))


def words_of(case, form=None):
    return [*map(str, case.command), *([form] if form else [])]


def said(case, repaired):
    """What `run` says, and how long it took."""
    RESULTS.mkdir(exist_ok=True, parents=True)
    name = f"{case.half}-{case.name}{'-repaired' if repaired else ''}"
    result = RESULTS / f"{name}.json"
    begin = time.monotonic()
    if not result.exists():
        with open(RESULTS / f"{name}.txt", "w") as text:
            subprocess.run([VITALFEW, "run", "-q", "--for", BUDGET, "-o", result, "--", *words_of(case, "repaired" if repaired else None)], stdout=subprocess.DEVNULL, stderr=text)
    return json.loads(result.read_text()), time.monotonic() - begin


def names_of(finding):
    what = finding["place"]["what"]
    if what["kind"] == "program":
        return "the program"
    return " > ".join(what.get("path") or [what.get("procedure") or what.get("name") or "", what.get("line") or ""])


def spent_on(finding):
    """What the sentence names: what most of the time is spent on, and what has nearly as much."""
    spent = [e for e in finding["evidence"] if e["kind"] == "time_spent"]
    return {e["on"] for number, e in enumerate(spent) if number == 0 or number == 1 and e["part"] >= AS_MUCH}


def judge(case, result):
    """Whether the first finding is at the place, and has the cause; the finding."""
    # That others had the CPUs is true of a busy machine, and no cause in the program.
    others = lambda finding: any(e["kind"] == "cpu_taken" and e["by"]["who"] in ("other_program", "other_machines") for e in finding["evidence"][:2])
    first = next((finding for finding in result["claims"]["list"] if not others(finding)), None)
    if first is None:
        return False, False, None
    placed = any(place in names_of(first) for place in case.places)
    evidence = json.dumps(first["evidence"]) + names_of(first)
    # Who holds a lock computes: that others wait for it is the cause.
    held = bool(case.spent & LOCKS) and any(e["kind"] == "holds_up" for e in first["evidence"])
    caused = (held or bool(spent_on(first) & case.spent)) and (not case.words or any(word.lower() in evidence.lower() for word in case.words))
    return placed, placed and caused, first


def seconds(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def gain_of(case, form="repaired"):
    """What a form gains: the median of pairs that are run in turns, and the range of them."""
    pairs = [(seconds(words_of(case)), seconds(words_of(case, form))) for _ in range(TIMES)]
    gains = sorted((slow - fast) / slow for slow, fast in pairs)
    return statistics.median(gains), gains[0], gains[-1]


def gain_said(finding):
    """The bounds of what a change at the place makes the run shorter by."""
    evidence = finding["evidence"] if finding else []
    return next((one["interval"] for one in evidence if one["kind"] == "virtual_speedup"), [0, 0])


def judge_speedup(case, finding):
    """Whether what a twofold speedup is said to save is what it saves, and the width of its interval; None if nothing is said."""
    # What is said is the saving of a place that takes no time. Half of the place's time is half of that.
    low, high = (end / 2 for end in gain_said(finding))
    truth, least, most = gain_of(case, "doubled")
    stated = high > low
    right = stated and low <= most and high >= least
    said = f"[{percent(low)}, {percent(high)}]" if stated else "nothing"
    print(f"  twice as fast: said {said}, measured {percent(truth)} [{percent(least)}, {percent(most)}]{'' if right or not stated else ', WRONG'}")
    return (right, high - low) if stated else None


def percent(value):
    return f"{100 * value:.0f}"


def main():
    asked = os.environ.get("RUN_CASES", TUNED).split(";")
    cases = [case for case in CASES if case.half in asked or case.name in asked]
    build(cases)
    if any(SMALL_GROUP in case.command for case in cases):
        limit_memory()
    for half in HALVES:
        own = [case for case in cases if case.half == half]
        if not own:
            continue
        bench.title(f"What `run` says of programs of known truth, {half}")
        bench.head("program", "place", "cause", "repaired: elsewhere", "its part and what a change gains, %", "the repair gains, %", "agree", "s", "first finding")
        sums, dominant, widths, speedups = [0, 0, 0, 0], [0, 0, 0, 0, 0], [], []
        for case in own:
            result, took = said(case, False)
            placed, caused, first = judge(case, result)
            _, again, other = judge(case, said(case, True)[0])
            gain, least, most = gain_of(case)
            value = first["amount"]["value"] if first else 0
            low, high = gain_said(first)
            widths.append(high - low)
            agree = first is not None and low <= most and high >= least
            for at, good in enumerate((placed, caused, not again, agree)):
                sums[at] += good
                dominant[at] += good and gain >= DOMINANT
            dominant[4] += gain >= DOMINANT
            mark = lambda good: "yes" if good else "NO"
            bench.row(case.name, mark(placed), mark(caused), mark(not again), f"{percent(value)} [{percent(low)}, {percent(high)}]",
                      f"{percent(gain)} [{percent(least)}, {percent(most)}]", mark(agree), f"{took:.0f}", first["sentence"] if first else "none")
            if again:
                print(f"  repaired: {other['sentence']}")
            if half == DOUBLED:
                speedups.append(judge_speedup(case, first))
        place, cause, elsewhere, worth, all_dominant = dominant
        print(f"\nof {all_dominant} whose repair gains {percent(DOMINANT)} % or more: place {place}, cause {cause}, repaired {elsewhere}, worth {worth}")
        print(f"of {len(own)}: place {sums[0]}, cause {sums[1]}, repaired {sums[2]}, worth {sums[3]}; intervals are {percent(statistics.mean(widths))} points wide", flush=True)
        if speedups:
            stated = [speedup for speedup in speedups if speedup]
            right, wide = sum(right for right, _ in stated), statistics.mean([width for _, width in stated] or [0])
            print(f"speedup right {right} of {len(stated)}, mean width {percent(wide)} points; silent {len(speedups) - len(stated)}", flush=True)


main()
