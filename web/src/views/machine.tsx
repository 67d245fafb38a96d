/** How the data came about, what it cost, and what is missing in them. */
import { useRef } from "preact/hooks";
import { saveElement } from "../charts/save";
import { amount, counted, grouped, percent, printable, shortened } from "../model/format";
import { type HostEpochs, type Status, epochsByHost, rateOf } from "../model/machine";
import { utcTime } from "../model/timeline";
import { Command } from "../parts/command";
import { Empty } from "../parts/empty";
import { SaveMenu } from "../parts/menu";
import { page } from "../state/page";

export function Machine() {
  const { profiles, results, notRead } = page.value!;
  const hosts = epochsByHost(results);
  const statuses = results.filter((one) => one.schema === "vitalfew.status/1") as unknown as readonly Status[];
  if (profiles.length === 0 && hosts.length === 0 && notRead.length === 0)
    return (
      <Empty why="This page was made without a profile." type={["vitalfew record -g -- COMMAND", "vitalfew doctor"]} />
    );
  return (
    <div>
      <h1>Machine</h1>
      {statuses.map((status, at) => (
        <Daemon key={at} status={status} />
      ))}
      {hosts.map((host) => (
        <Host key={host.host} host={host} />
      ))}
      {hosts.length === 0 && (
        <p class="quiet">
          A daemon samples the whole machine all the time, within a budget:{" "}
          <Command text="vitalfew daemon run --db DIR" /> <Command text="vitalfew serve --db DIR" />
        </p>
      )}
      {profiles.map((one, at) => (
        <section key={at} class="card">
          <h2>{printable(one.name)}</h2>
          <dl class="facts">
            <div>
              <dt>Format</dt>
              <dd>{one.format}</dd>
            </div>
            {one.values.map((value, index) => (
              <div key={value.name}>
                <dt>{value.name}</dt>
                <dd>
                  {amount(one.byThread.total[index]![0]!, value.unit)}
                  {value.per_second !== undefined && `, ${grouped(value.per_second)} a second of each busy CPU`}
                </dd>
              </div>
            ))}
            <div>
              <dt>Calling contexts</dt>
              <dd>
                {grouped(one.byThread.method.length - 1)}
                {one.leftOut ? `, ${grouped(one.leftOut.nodes)} left out` : ""}
              </dd>
            </div>
            {one.facts && (
              <>
                {one.facts.command && (
                  <div>
                    <dt>Command</dt>
                    <dd>
                      <code>{printable(one.facts.command.join(" "))}</code>
                    </dd>
                  </div>
                )}
                <div>
                  <dt>Machine</dt>
                  <dd>
                    {printable(one.facts.host)}, {one.facts.cpus} CPUs
                    {one.facts.cpu_model ? `, ${one.facts.cpu_model}` : ""}
                  </dd>
                </div>
                <div>
                  <dt>Start</dt>
                  <dd>
                    {utcTime(one.facts.start_unix_ns)} UTC, for {amount(one.facts.duration_ns, "nanoseconds")}
                  </dd>
                </div>
                <div>
                  <dt>Collected</dt>
                  <dd>
                    {one.facts.collector}, stacks: {one.facts.call_graph.replaceAll("_", " ")}
                  </dd>
                </div>
                {one.facts.task_times && (
                  <div>
                    <dt>Threads' time</dt>
                    <dd>
                      {amount(one.facts.task_times.cpu_ns, "nanoseconds")} on a CPU,{" "}
                      {amount(one.facts.task_times.waiting_ns ?? 0, "nanoseconds")} waiting for one,{" "}
                      {amount(one.facts.task_times.blocked_ns ?? 0, "nanoseconds")} blocked
                    </dd>
                  </div>
                )}
              </>
            )}
          </dl>
          {one.notes.length > 0 && (
            <ul>
              {one.notes.map((note) => (
                <li key={note}>{printable(note)}</li>
              ))}
            </ul>
          )}
        </section>
      ))}
      {notRead.length > 0 && (
        <section class="card" aria-label="Not shown">
          <h2>Not shown</h2>
          <ul>
            {notRead.map((one) => (
              <li key={one}>{shortened(one, 300)}</li>
            ))}
          </ul>
        </section>
      )}
      <p class="quiet">{page.value!.madeBy}</p>
    </div>
  );
}

/** What the daemon takes, of what it may take. */
function Daemon({ status }: { readonly status: Status }) {
  const cost = status.sampling_share + status.own_share;
  return (
    <section class="card" aria-label="Daemon" data-testid="daemon">
      <h2>Daemon {status.stopped === null ? "samples" : "does not sample"}</h2>
      {status.stopped !== null && <p class="doubt">{shortened(status.stopped, 300)}</p>}
      <div class="tiles">
        <Tile
          name="Rate"
          value={`${grouped(status.frequency)} Hz`}
          more={`on each CPU${status.asked_frequency === null ? "" : `, ${grouped(status.asked_frequency)} asked for`}`}
        />
        <Tile
          name="Cost"
          value={percent(cost)}
          more={`of the machine; budget ${percent(status.budget)}`}
          part={cost / (status.budget || 1)}
        />
        <Tile name="Samples" value={grouped(status.stored)} more={`${grouped(status.taken)} taken`} />
        <Tile
          name="Lost"
          value={grouped(status.dropped)}
          more={percent(status.dropped / (status.taken || 1))}
          part={status.dropped / (status.taken || 1)}
        />
        <Tile name="In unknown code" value={percent(status.unknown)} more="of the samples" part={status.unknown} />
        <Tile name="Memory" value={amount(status.resident_bytes, "bytes")} more="resident" />
        <Tile name="Disk" value={amount(status.disk_bytes, "bytes")} more={counted(status.epochs, "epoch")} />
        <Tile
          name="Up"
          value={amount(status.uptime_ns, "nanoseconds")}
          more={
            status.unsampled_ns > 0
              ? `not sampled for ${amount(status.unsampled_ns, "nanoseconds")}`
              : status.events.join(", ")
          }
        />
      </div>
      {status.not_pinned !== null && (
        <p class="quiet">Its collector would end with it: {shortened(status.not_pinned, 200)}</p>
      )}
    </section>
  );
}

function Tile({
  name,
  value,
  more,
  part,
}: {
  readonly name: string;
  readonly value: string;
  readonly more: string;
  readonly part?: number;
}) {
  return (
    <div class="tile">
      <span class="quiet">{name}</span>
      <b>{value}</b>
      <span class="quiet">{more}</span>
      {part !== undefined && (
        <span class="meter" aria-hidden="true">
          <span style={{ width: `${100 * Math.max(0, Math.min(1, part))}%` }} />
        </span>
      )}
    </div>
  );
}

/** The epochs of a host over time: how wide is how long, how high is the rate. */
function Host({ host }: { readonly host: HostEpochs }) {
  const known = host.epochs.filter((one) => one.start_unix_ns !== undefined && one.duration_ns !== undefined);
  const [from, to] = [
    known[0]?.start_unix_ns ?? 0,
    Math.max(...known.map((one) => one.start_unix_ns! + one.duration_ns!), 1),
  ];
  const most = Math.max(1e-9, ...known.map(rateOf));
  const picture = useRef<SVGSVGElement>(null);
  const x = (ns: number) => (1000 * (ns - from)) / Math.max(1, to - from);
  return (
    <section class="card" aria-label={`Host ${host.host}`}>
      <h2>{shortened(host.host, 80)}</h2>
      <p class="quiet">
        {counted(host.epochs.length, "epoch")}, {counted(host.samples, "sample")}
        {host.lost > 0 && `, ${grouped(host.lost)} lost (${percent(host.lost / (host.samples + host.lost))})`},{" "}
        {amount(host.bytes, "bytes")}
      </p>
      {known.length > 1 && (
        <>
          <div class="bar">
            <span />
            <SaveMenu save={(how) => picture.current && saveElement(picture.current, `Epochs of ${host.host}`, how)} />
          </div>
          <svg
            ref={picture}
            class="epochs"
            viewBox="0 0 1000 70"
            preserveAspectRatio="none"
            role="img"
            aria-label={`Samples a second in each epoch of ${host.host}; the numbers are in the table`}
          >
            {known.map((one) => (
              <rect
                key={one.epoch}
                class={one.open ? "open" : ""}
                x={x(one.start_unix_ns!)}
                width={Math.max(1.5, x(one.start_unix_ns! + one.duration_ns!) - x(one.start_unix_ns!) - 1)}
                y={68 - (64 * rateOf(one)) / most}
                height={(64 * rateOf(one)) / most}
              >
                <title>{one.epoch}</title>
              </rect>
            ))}
          </svg>
        </>
      )}
      <div
        class="table"
        tabIndex={0}
        role="region"
        aria-label={`Epochs of ${host.host}`}
        style={{ maxHeight: "320px" }}
      >
        <table>
          <thead>
            <tr>
              <th scope="col">Epoch (UTC)</th>
              <th scope="col" class="number">
                Length
              </th>
              <th scope="col" class="number">
                Samples
              </th>
              <th scope="col" class="number">
                a second
              </th>
              <th scope="col" class="number">
                Lost
              </th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Events</th>
            </tr>
          </thead>
          <tbody>
            {[...host.epochs]
              .reverse()
              .slice(0, 300)
              .map((one) => (
                <tr key={one.epoch}>
                  <th scope="row">
                    {one.start_unix_ns === undefined ? one.epoch : utcTime(one.start_unix_ns)}
                    {one.open ? ", open" : ""}
                  </th>
                  {one.error === undefined ? (
                    <>
                      <td class="number">{amount(one.duration_ns ?? 0, "nanoseconds")}</td>
                      <td class="number">{grouped(one.samples ?? 0)}</td>
                      <td class="number">{grouped(rateOf(one))}</td>
                      <td class="number">{grouped(one.lost ?? 0)}</td>
                      <td class="number">{amount(one.bytes ?? 0, "bytes")}</td>
                      <td>
                        {one.events?.join(", ")}
                        {one.damaged && `; ${one.damaged.length} damaged`}
                      </td>
                    </>
                  ) : (
                    <td colSpan={6}>{shortened(one.error, 200)}</td>
                  )}
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
