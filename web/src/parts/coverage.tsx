/**
 * What labels cover: all of them as one bar in which nothing counts twice, and of each what it
 * shares with others.
 */
import { saveBars } from "../charts/bars";
import { grouped, percent, printable, shortened } from "../model/format";
import type { Label } from "../model/labels";
import type { Path, Sequence } from "../model/sequences";
import { SaveMenu } from "./menu";

export interface Labelled {
  readonly label: Label;
  readonly sequence: Sequence;
}

interface Props {
  readonly labelled: readonly Labelled[];
  readonly overlap: readonly { readonly added: number; readonly shared: number }[];
  readonly whole: number;
  /** The profile's. */
  readonly name: string;
  /** Labels whose sequence this profile does not have. */
  readonly missing: readonly string[];
  readonly text: (path: Path) => string;
  readonly onOpen: (path: Path) => void;
  readonly onDrop: (label: Label) => void;
  readonly onClear: () => void;
}

export function Coverage({ labelled, overlap, whole, name, missing, text, onOpen, onDrop, onClear }: Props) {
  const part = (cost: number) => percent(cost / whole);
  const covered = overlap.reduce((sum, one) => sum + one.added, 0);
  const wide = (cost: number) => ({ width: `${(100 * Math.max(0, cost)) / whole}%` });
  const saved = (how: "svg" | "png") =>
    saveBars(
      `Labelled call sequences cover ${part(covered)} of ${name}`,
      labelled.map(({ label, sequence }, at) => ({
        text: `${printable(label.name)}: ${text(sequence.path.slice(-4))}`,
        worth: `${part(sequence.cum)}, of it shared ${part(overlap[at]!.shared)}`,
        value: sequence.cum / whole,
        shared: overlap[at]!.shared / whole,
      })),
      how,
    );
  return (
    <section aria-label="What labels cover">
      <div class="shares" role="img" aria-label={`Labelled sequences cover ${part(covered)}`}>
        {overlap.map((one, at) => (
          <span key={at} class={`share s${at % 6}`} style={wide(one.added)}>
            {one.added > 0.03 * whole ? at + 1 : ""}
          </span>
        ))}
        <span class="share else" style={{ flex: 1 }}>
          {labelled.length === 0 ? "no labels yet: open a sequence and label it" : "not covered"}
        </span>
      </div>
      {labelled.length > 0 && (
        <div class="table" tabIndex={0} role="region" aria-label="Labels">
          <table class="labels" data-testid="labels">
            <thead>
              <tr>
                <th scope="col">Label</th>
                <th scope="col">Sequence</th>
                <th scope="col" class="number">
                  Costs
                </th>
                <th scope="col" class="number">
                  Adds
                </th>
                <th scope="col" class="number">
                  Shared
                </th>
                <th scope="col">alone, and shared</th>
                <th scope="col">
                  <span class="unseen">Remove</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {labelled.map(({ label, sequence }, at) => (
                <tr key={at}>
                  <th scope="row">
                    <span class={`swatch s${at % 6}`}>{at + 1}</span> {shortened(label.name, 50)}
                  </th>
                  <td class="fills">
                    <button type="button" class="plain" onClick={() => onOpen(sequence.path)}>
                      {text(sequence.path.slice(-4))}
                    </button>
                  </td>
                  <td class="number">{part(sequence.cum)}</td>
                  <td class="number">{part(overlap[at]!.added)}</td>
                  <td class="number">{part(overlap[at]!.shared)}</td>
                  <td>
                    <span class="overlap" aria-hidden="true">
                      <span class={`s${at % 6}`} style={wide(sequence.cum - overlap[at]!.shared)} />
                      <span class={`s${at % 6} hatched`} style={wide(overlap[at]!.shared)} />
                    </span>
                  </td>
                  <td>
                    <button
                      type="button"
                      aria-label={`Remove label ${shortened(label.name, 50)} ${at + 1}`}
                      onClick={() => onDrop(label)}
                    >
                      ×
                    </button>
                  </td>
                </tr>
              ))}
              <tr class="sum">
                <th scope="row">together</th>
                <td />
                <td class="number">{part(covered)}</td>
                <td class="number">{part(covered)}</td>
                <td />
                <td />
                <td />
              </tr>
            </tbody>
          </table>
        </div>
      )}
      {labelled.length > 0 && (
        <p class="bar">
          <SaveMenu save={saved} />
          <button type="button" onClick={onClear}>
            Remove all labels
          </button>
          <span class="quiet">Hatched: other labels have it, too. Labels are in the address of this page.</span>
        </p>
      )}
      {missing.length > 0 && (
        <p class="doubt">
          Not in this profile: {grouped(missing.length)} labelled {missing.length === 1 ? "sequence" : "sequences"} (
          {shortened(missing.join(", "), 120)}).
        </p>
      )}
    </section>
  );
}
