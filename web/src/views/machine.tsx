/** How the data came about, and what is missing in them. */
import { amount, grouped, printable } from "../model/format";
import { Empty } from "../parts/empty";
import { page } from "../state/page";

export function Machine() {
  const profiles = page.value!.profiles;
  if (profiles.length === 0) return <Empty why="This page was made without a profile." type={["vitalfew record -g -- COMMAND", "vitalfew doctor"]} />;
  return (
    <div>
      <h1>Recordings</h1>
      {profiles.map((one, at) => (
        <section key={at} class="card">
          <h2>{printable(one.name)}</h2>
          <dl class="facts">
            <div><dt>Format</dt><dd>{one.format}</dd></div>
            {one.values.map((value, index) => <div key={value.name}><dt>{value.name}</dt><dd>{amount(one.byThread.total[index]![0]!, value.unit)}</dd></div>)}
            <div><dt>Calling contexts</dt><dd>{grouped(one.byThread.method.length - 1)}{one.leftOut ? `, ${grouped(one.leftOut.nodes)} left out` : ""}</dd></div>
            {one.facts && <>
              {one.facts.command && <div><dt>Command</dt><dd><code>{printable(one.facts.command.join(" "))}</code></dd></div>}
              <div><dt>Machine</dt><dd>{printable(one.facts.host)}, {one.facts.cpus} CPUs{one.facts.cpu_model ? `, ${one.facts.cpu_model}` : ""}</dd></div>
              <div><dt>Start</dt><dd>{new Date(one.facts.start_unix_ns / 1e6).toISOString().replace("T", " ").slice(0, 19)} UTC, for {amount(one.facts.duration_ns, "nanoseconds")}</dd></div>
              <div><dt>Collected</dt><dd>{one.facts.collector}, stacks: {one.facts.call_graph.replaceAll("_", " ")}</dd></div>
              {one.facts.task_times && <div><dt>Threads' time</dt><dd>{amount(one.facts.task_times.cpu_ns, "nanoseconds")} on a CPU, {amount(one.facts.task_times.waiting_ns ?? 0, "nanoseconds")} waiting for one, {amount(one.facts.task_times.blocked_ns ?? 0, "nanoseconds")} blocked</dd></div>}
            </>}
          </dl>
          {one.notes.length > 0 && <ul>{one.notes.map((note) => <li key={note}>{printable(note)}</li>)}</ul>}
        </section>
      ))}
      <p class="quiet">{page.value!.madeBy}</p>
    </div>
  );
}
