/** What threads lose to each other: functions, causes, and who waits for whom. */
import { useMemo } from "preact/hooks";
import { Graph } from "../charts/graph";
import { IntervalBar } from "../charts/interval";
import { commandOf } from "../model/claims";
import type { Result } from "../model/data";
import { amount, counted, grouped, printable, shortened } from "../model/format";
import {
  type InterferenceResult,
  type TracedFunction,
  enderName,
  lossRows,
  percents,
  waitGraph,
  waitRows,
  wakeGraph,
  wholePercent,
  wordsOf,
} from "../model/interference";
import { Empty } from "../parts/empty";
import { OnlyOf, isShown } from "../parts/only-of";
import { page, profile } from "../state/page";
import { change, route } from "../state/route";

export function Interference() {
  const results = page.value!.results.filter((one) => one.schema === "vitalfew.interference/2");
  const wakes = profile.value?.wakes;
  if (results.length === 0 && !wakes)
    return (
      <Empty
        why="No interference run is in this page. It says which functions threads slow down for each other."
        type={["vitalfew interference run -- COMMAND", "vitalfew html page.html RESULT"]}
      />
    );
  return (
    <div>
      <h1>Interference</h1>
      <OnlyOf commands={results.map(commandOf)} />
      {results.map((result, at) => isShown(commandOf(result)) && <Run key={at} result={result} />)}
      {wakes && <Wakers />}
    </div>
  );
}

function Run({ result }: { readonly result: Result }) {
  const run = result as Result & InterferenceResult;
  const [words, losses, waits, graph] = useMemo(() => {
    const said = wordsOf(run);
    return [said, lossRows(run.functions, said), waitRows(run), waitGraph(run.functions)] as const;
  }, [run]);
  const most = Math.max(0.01, ...losses.map(({ loss }) => loss.high));
  const known = (name: string | undefined) => run.functions.find((one) => one.name === name);
  const chosen = known(route.value.params["block"]) ?? losses[0]?.of ?? waits[0]?.of;
  const choose = (name: string) => change({ block: name });
  const row = (of: TracedFunction, suffix = "") => (
    <th scope="row">
      <button type="button" class="plain" aria-pressed={of === chosen} onClick={() => choose(of.name)}>
        {shortened(of.name, 60)}
        {suffix}
      </button>
    </th>
  );
  return (
    <section>
      <p class="quiet">
        {shortened(commandOf(result), 100)}, {amount(run.duration_ns, "nanoseconds")}, {counted(run.threads, "thread")}
      </p>
      {words.machine.map((sentence) => (
        <p key={sentence} class="doubt">
          {printable(sentence)}
        </p>
      ))}
      <p>
        <b>{printable(words.verdict)}</b>
      </p>
      {words.contention !== null && <p>{printable(words.contention)}</p>}
      {losses.length > 0 && (
        <div class="table" tabIndex={0} role="region" aria-label="Functions in which the program loses time">
          <table>
            <thead>
              <tr>
                <th scope="col">Function</th>
                <th scope="col" colSpan={2}>
                  Lost, of all threads' time
                </th>
                <th scope="col" class="number">
                  Of its time
                </th>
                <th scope="col">Cause</th>
                <th scope="col" class="number">
                  Calls
                </th>
                <th scope="col" class="number">
                  Mean
                </th>
              </tr>
            </thead>
            <tbody>
              {losses.map(({ of, lock, loss, share, cause }, at) => (
                <tr key={at} class={of === chosen ? "current" : ""}>
                  {row(of, lock)}
                  <td class="number">{percents(loss)}</td>
                  <td class="wide">
                    <IntervalBar value={loss.estimate} interval={[Math.max(0, loss.low), loss.high]} most={most} />
                  </td>
                  <td class="number">{wholePercent(Math.min(1, loss.estimate / share))}</td>
                  <td>{printable(cause)}</td>
                  <td class="number">{lock === "" && grouped(of.calls)}</td>
                  <td class="number">{lock === "" && amount(of.mean_ns, "nanoseconds")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {waits.length > 0 && (
        <div class="table" tabIndex={0} role="region" aria-label="Functions in which threads wait">
          <table>
            <thead>
              <tr>
                <th scope="col">Function</th>
                <th scope="col" class="number">
                  Waiting, of all threads' time
                </th>
                <th scope="col" class="number">
                  Waits
                </th>
                <th scope="col">For</th>
                <th scope="col">Ended by</th>
              </tr>
            </thead>
            <tbody>
              {waits.map((one, at) => (
                <tr key={at} class={one.of === chosen ? "current" : ""}>
                  {row(one.of)}
                  <td class="number">{wholePercent(one.part)}</td>
                  <td class="number">{grouped(one.waits)}</td>
                  <td>{words.waits[one.kind] ?? one.kind}</td>
                  <td>{shortened(enderName(one.ended_by[0]), 60)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {chosen && <Details of={chosen} />}
      {graph.nodes.length > 1 && (
        <section class="card">
          <h2>Who waits for whom</h2>
          <p class="quiet">An arrow leads from a function that waits to the function or thread that ended the wait.</p>
          <Graph
            nodes={graph.nodes}
            edges={graph.edges}
            label="Functions that wait for functions"
            direction="LR"
            selected={chosen?.name ?? ""}
            onSelect={(name) => known(name) && choose(name)}
          />
        </section>
      )}
    </section>
  );
}

/** The threads and the callers of a function. */
function Details({ of }: { readonly of: TracedFunction }) {
  return (
    <section class="card" aria-label={`${shortened(of.name, 60)} in detail`} data-testid="block">
      <h2>{shortened(of.name, 120)}</h2>
      <p class="quiet">
        {shortened(of.image, 80)}: {counted(of.calls, "call")}
        {of.period > 1 && `, one in ${grouped(of.period)} recorded`}, {amount(of.mean_ns, "nanoseconds")} each,{" "}
        {amount(of.max_ns, "nanoseconds")} at most; {counted(of.threads_total, "thread")}
      </p>
      <div class="two">
        <div>
          <h3>Threads</h3>
          <table>
            <thead>
              <tr>
                <th scope="col">Thread</th>
                <th scope="col" class="number">
                  Total
                </th>
                <th scope="col" class="number">
                  Calls
                </th>
              </tr>
            </thead>
            <tbody>
              {of.threads.slice(0, 12).map((one) => (
                <tr key={one.tid}>
                  <th scope="row">
                    {shortened(one.name, 30)} ({one.tid})
                  </th>
                  <td class="number">{amount(one.total_ns, "nanoseconds")}</td>
                  <td class="number">{grouped(one.calls)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div>
          <h3>Called from</h3>
          {of.stacks.length === 0 ? (
            <p class="quiet">No stacks were taken.</p>
          ) : (
            of.stacks.slice(0, 4).map((stack, at) => (
              <details key={at} open={at === 0}>
                <summary>
                  {counted(stack.count, "time")}, {amount(stack.mean_ns, "nanoseconds")} each
                </summary>
                <ol class="frames">
                  {stack.frames.slice(0, 12).map((frame, deep) => (
                    <li key={deep}>{shortened(frame, 100)}</li>
                  ))}
                </ol>
              </details>
            ))
          )}
        </div>
      </div>
    </section>
  );
}

/** The threads of the recording, and which of them woke which. */
function Wakers() {
  const shown = profile.value!;
  const graph = useMemo(() => wakeGraph(shown.wakes!), [shown]);
  if (graph.edges.length === 0) return null;
  return (
    <section class="card">
      <h2>Who waits for whom, by thread</h2>
      <p class="quiet">
        {shortened(shown.name, 80)}. An arrow leads from a thread that waited to the one that woke it, with how long it
        had waited for that in all.
      </p>
      <Graph nodes={graph.nodes} edges={graph.edges} label="Threads that wait for threads" direction="LR" />
      <details class="twin">
        <summary>As a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">Thread</th>
              <th scope="col">Woken by</th>
              <th scope="col" class="number">
                After
              </th>
            </tr>
          </thead>
          <tbody>
            {graph.wakes.map((one, at) => (
              <tr key={at}>
                <th scope="row">{shortened(one.thread, 50)}</th>
                <td>{shortened(one.waker, 50)}</td>
                <td class="number">{amount(one.ns, "nanoseconds")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}
