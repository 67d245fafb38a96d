/** Curves of what speedups of code are worth, as small multiples on one scale. */
import { Curve, type Effect } from "../charts/curve";
import { type CausalProgram, causalPrograms, chosenResult, lineNamed } from "../model/causal";
import { commandOf } from "../model/claims";
import { profilesOf } from "../model/subject";
import type { Result } from "../model/data";
import { grouped, percent, printable, shortened } from "../model/format";
import { Command } from "../parts/command";
import { Empty } from "../parts/empty";
import { OnlyOf, isShown } from "../parts/only-of";
import { SourceLine } from "../parts/source-line";
import { page } from "../state/page";
import { change, route } from "../state/route";

/** As `causal report --json` has it. */
interface Fragment {
  readonly name: string;
  readonly detail: string;
  readonly copy_of?: string | null;
  readonly share: number;
  readonly effects: readonly Effect[];
}

export function Causal() {
  const results = page.value!.results.filter((one) => one.schema === "vitalfew.causal/1");
  if (results.length === 0)
    return (
      <Empty
        why="No performance experiments are in this page. They say what making a line or function faster is worth."
        type={["vitalfew causal run --by function -- COMMAND", "vitalfew html page.html app.vf"]}
      />
    );
  const programs = causalPrograms(results);
  return (
    <div>
      <h1>Causal</h1>
      <OnlyOf commands={programs.map(({ command }) => command)} />
      {programs.map((program, at) => isShown(program.command) && <Program key={at} program={program} number={at} />)}
    </div>
  );
}

/** The runs of a program: all together, or those that are switched on. */
function Program({ program, number }: { readonly program: CausalProgram; readonly number: number }) {
  const key = `off${number}`;
  const off = new Set((route.value.params[key] ?? "").split(".").filter((one) => one !== ""));
  const on = program.files.filter((_, at) => !off.has(String(at)));
  const result = chosenResult(program, on);
  const turn = (at: number) => {
    const next = new Set(off);
    if (!next.delete(String(at))) next.add(String(at));
    change({ [key]: [...next].sort().join(".") });
  };
  return (
    <section aria-label={`Experiments with program ${number + 1}`}>
      {program.files.length > 1 && (
        <fieldset class="runs">
          <legend>
            {on.length} of {program.files.length} profiles together: more experiments make narrower bands
          </legend>
          {program.files.map((file, at) => (
            <label key={at}>
              <input type="checkbox" checked={!off.has(String(at))} onChange={() => turn(at)} /> {shortened(file, 60)}
            </label>
          ))}
        </fieldset>
      )}
      {result ? (
        <Curves result={result} />
      ) : (
        <p>
          {on.length === 0
            ? "No profile is switched on."
            : "The page has results of all profiles together and of each alone, but not of these."}
        </p>
      )}
      {program.files.length === 1 && (
        <p class="quiet">
          More runs make narrower bands:{" "}
          <Command text={`vitalfew html page.html ${shortened(program.files[0]!, 60)} SECOND.json`} />
        </p>
      )}
    </section>
  );
}

function Curves({ result }: { readonly result: Result }) {
  const fragments = result["findings"] as readonly Fragment[];
  const { profiles } = page.value!;
  const among = profilesOf(profiles, { about: commandOf(result), sets: [] });
  const cards = fragments.flatMap((fragment) => {
    const line = lineNamed(profiles, among, fragment.copy_of ?? fragment.name);
    return fragment.effects.map((effect) => ({ fragment, effect, line }));
  });
  const values = cards.flatMap(({ effect }) => effect.curve.flatMap((one) => [one.low, one.high]));
  const most = Math.max(0.05, ...values.filter(Number.isFinite).map((one) => Math.min(one, 2)));
  const least = Math.min(-0.02, ...values.filter(Number.isFinite).map((one) => Math.max(one, -1)));
  return (
    <>
      <p class="quiet">
        {grouped(Number(result["experiments"]))} experiments in{" "}
        {grouped(Array.isArray(result["runs"]) ? result["runs"].length : 1)} run
        {Array.isArray(result["runs"]) && result["runs"].length === 1 ? "" : "s"} of {shortened(commandOf(result), 60)}.
        Across: how much faster the code is. Up: how much faster the program is, with 95 % bands; all on one scale.
      </p>
      {cards.length === 0 && <p>The experiments do not tell yet what any code is worth.</p>}
      <div class="multiples">
        {cards.map(({ fragment, effect, line }, at) => (
          <section key={at} class="card">
            <h2>{shortened(fragment.name, 60)}</h2>
            <p>
              <strong>{printable(effect.words ?? effect.verdict)}</strong>
            </p>
            {line && <SourceLine profile={line.profile} row={line.row} text={line} />}
            <Curve effect={effect} least={least} most={most} name={fragment.name} />
            <p class="quiet">
              {shortened(effect.point, 40)} ({effect.measure}); {effect.experiments} experiments,{" "}
              {effect.visits.toLocaleString("en-US")} visits; {percent(fragment.share)} of the samples
            </p>
            <details class="twin">
              <summary>As a table</summary>
              <table>
                <thead>
                  <tr>
                    <th scope="col">Code faster by</th>
                    <th scope="col">Program</th>
                    <th scope="col">from</th>
                    <th scope="col">to</th>
                  </tr>
                </thead>
                <tbody>
                  {effect.curve
                    .filter((_, index) => index % Math.max(1, Math.floor(effect.curve.length / 10)) === 0)
                    .map((one) => (
                      <tr key={one.speedup}>
                        <th scope="row">{percent(one.speedup)}</th>
                        <td>{percent(one.program)}</td>
                        <td>{percent(one.low)}</td>
                        <td>{percent(one.high)}</td>
                      </tr>
                    ))}
                </tbody>
              </table>
            </details>
          </section>
        ))}
      </div>
    </>
  );
}
