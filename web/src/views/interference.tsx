/**
 * What threads lose to each other: functions, why, how long their executions take, and who waits
 * for whom.
 */
import { useMemo } from "preact/hooks";
import { Graph } from "../charts/graph";
import { IntervalBar } from "../charts/interval";
import { SortedCurve } from "../charts/sorted-curve";
import { commandOf } from "../model/claims";
import type { Result } from "../model/data";
import { amount, grouped, percent, shortened } from "../model/format";
import { type Block, blocksByStanding, wakeGraph, waitGraph } from "../model/interference";
import { Empty } from "../parts/empty";
import { OnlyOf, isShown } from "../parts/only-of";
import { page, profile } from "../state/page";
import { change, route } from "../state/route";

export function Interference() {
  const results = page.value!.results.filter((one) => one.schema === "vitalfew.interference/1");
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
  const blocks = useMemo(
    () => (result["findings"] as readonly Block[]).filter((block) => block.program.estimate > 0).slice(0, 100),
    [result],
  );
  const graph = useMemo(() => waitGraph(blocks), [blocks]);
  const most = Math.max(0.01, ...blocks.slice(0, 50).map((block) => Math.min(1, block.program.high)));
  const chosen = blocks.find((block) => block.name === route.value.params["block"]) ?? blocks[0];
  const choose = (name: string) => change({ block: name });
  const command = commandOf(result);
  return (
    <section>
      <p class="quiet">
        {shortened(command, 100)}
        {command && ": "}
        {grouped(Number(result["executions"]))} executions by {String(result["threads"])} threads. Each execution is
        held against the fastest of its kind: what is longer is lost.
      </p>
      {chosen === undefined ? (
        <p>No function lost time.</p>
      ) : (
        <>
          <div class="table" tabIndex={0} role="region" aria-label="Functions by what they lose">
            <table>
              <thead>
                <tr>
                  <th scope="col">Function</th>
                  <th scope="col">The program loses</th>
                  <th scope="col">95 %</th>
                  <th scope="col">Blocked</th>
                  <th scope="col">No CPU</th>
                  <th scope="col">Running</th>
                  <th scope="col">Calls</th>
                  <th scope="col">Mean</th>
                  <th scope="col">At best</th>
                </tr>
              </thead>
              {blocksByStanding(blocks).map((group, number) => (
                <tbody key={number}>
                  {group.says !== "" && (
                    <tr class="block">
                      <th scope="rowgroup" colSpan={9}>
                        Functions that {group.says}
                      </th>
                    </tr>
                  )}
                  {group.blocks.map((block, at) => {
                    const lost = block.blocked + block.scheduler + block.running || 1;
                    return (
                      <tr key={at} class={block === chosen ? "current" : ""}>
                        <th scope="row">
                          <button
                            type="button"
                            class="plain"
                            aria-pressed={block === chosen}
                            onClick={() => choose(block.name)}
                          >
                            {shortened(block.name, 60)}
                          </button>
                          {block.same_as ? <span class="quiet"> as {shortened(block.same_as, 40)}</span> : null}
                        </th>
                        <td class="number">
                          {percent(block.program.estimate)} [{percent(block.program.low)}, {percent(block.program.high)}
                          ]
                        </td>
                        <td class="wide">
                          <IntervalBar
                            value={block.program.estimate}
                            interval={[block.program.low, Math.min(most, block.program.high)]}
                            most={most}
                          />
                        </td>
                        <td class="number">{percent(block.blocked / lost)}</td>
                        <td class="number">{percent(block.scheduler / lost)}</td>
                        <td class="number">{percent(block.running / lost)}</td>
                        <td class="number">{grouped(block.calls)}</td>
                        <td class="number">{amount(block.mean_ns, "nanoseconds")}</td>
                        <td class="number">{amount(block.floor.ns, "nanoseconds")}</td>
                      </tr>
                    );
                  })}
                </tbody>
              ))}
            </table>
          </div>
          <Details block={chosen} />
          {graph.nodes.length > 1 && (
            <section class="card">
              <h2>Who waits for whom</h2>
              <p class="quiet">
                An arrow leads from a function that waits to the one that ended the wait: of a lock, the one that held
                it.
              </p>
              <Graph
                nodes={graph.nodes}
                edges={graph.edges}
                label="Functions that wait for functions"
                direction="LR"
                selected={chosen.name}
                onSelect={(name) => blocks.some((block) => block.name === name) && choose(name)}
              />
            </section>
          )}
        </>
      )}
    </section>
  );
}

/** Why a function loses time. */
function Details({ block }: { readonly block: Block }) {
  return (
    <section class="card" aria-label={`${shortened(block.name, 60)} in detail`} data-testid="block">
      <h2>{shortened(block.name, 120)}</h2>
      <p class="quiet">
        {shortened(block.image, 80)}. Its floor of {amount(block.floor.ns, "nanoseconds")} is {block.floor.quality}
        {block.floor.reasons.length > 0 && `: ${block.floor.reasons.join(", ")}`}.
      </p>
      <div class="why">
        <div>
          <h3>Why</h3>
          {block.causes.length === 0 ? (
            <p class="quiet">No cause was found.</p>
          ) : (
            <ul class="causes">
              {block.causes.map((cause) => (
                <li key={cause.kind}>
                  <b>{cause.kind.replaceAll("_", " ")}</b> {percent(cause.share)} {cause.measured ? "seen" : "possible"}
                  <span class="meter" aria-hidden="true">
                    <span style={{ width: `${100 * cause.share}%` }} />
                  </span>
                  {cause.evidence.map((text) => (
                    <p key={text} class="evidence">
                      {shortened(text, 300)}
                    </p>
                  ))}
                </li>
              ))}
            </ul>
          )}
          {block.doubts.map((doubt) => (
            <p key={doubt.kind} class="doubt">
              Doubt: {shortened(doubt.text, 300)}
            </p>
          ))}
        </div>
        <div>
          <h3>Executions, by how long they took</h3>
          <SortedCurve block={block} />
        </div>
        <div>
          <h3>Threads</h3>
          <table>
            <thead>
              <tr>
                <th scope="col">Thread</th>
                <th scope="col" class="number">
                  Lost
                </th>
                <th scope="col" class="number">
                  Calls
                </th>
                <th scope="col" class="number">
                  Shortest
                </th>
              </tr>
            </thead>
            <tbody>
              {block.threads.slice(0, 12).map((one) => (
                <tr key={one.tid}>
                  <th scope="row">
                    {shortened(one.name, 30)} ({one.tid})
                  </th>
                  <td class="number">{percent(one.sci)}</td>
                  <td class="number">{grouped(one.calls)}</td>
                  <td class="number">{amount(one.min_ns, "nanoseconds")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div>
          <h3>Called from</h3>
          {block.stacks.length === 0 ? (
            <p class="quiet">No stacks were taken.</p>
          ) : (
            block.stacks.slice(0, 4).map((stack, at) => (
              <details key={at} open={at === 0}>
                <summary>
                  {grouped(stack.count)} times, {amount(stack.mean_ns, "nanoseconds")} each
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
