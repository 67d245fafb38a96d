/** Epochs of a database and the status of its daemon. No DOM. */
import type { Result } from "./data";

export interface Epoch {
  readonly epoch: string;
  readonly open: boolean;
  readonly host?: string;
  readonly start_unix_ns?: number;
  readonly duration_ns?: number;
  readonly events?: readonly string[];
  readonly samples?: number;
  readonly lost?: number;
  readonly bytes?: number;
  readonly error?: string;
  readonly damaged?: readonly string[];
}

export interface Status {
  readonly uptime_ns: number;
  readonly events: readonly string[];
  readonly frequency: number;
  readonly asked_frequency: number | null;
  readonly taken: number;
  readonly stored: number;
  readonly dropped: number;
  readonly unknown: number;
  readonly sampling_share: number;
  readonly own_share: number;
  readonly budget: number;
  readonly resident_bytes: number;
  readonly epochs: number;
  readonly disk_bytes: number;
  readonly late_ns: number;
  readonly unsampled_ns: number;
  readonly stopped: string | null;
  readonly not_pinned: string | null;
}

export interface HostEpochs {
  readonly host: string;
  readonly epochs: readonly Epoch[];
  readonly samples: number;
  readonly lost: number;
  readonly bytes: number;
}

/** Epochs by host, in the order of time. */
export function epochsByHost(results: readonly Result[]): HostEpochs[] {
  const hosts = new Map<string, Epoch[]>();
  for (const result of results) {
    if (result.schema !== "vitalfew.epochs/1") continue;
    for (const epoch of result["epochs"] as readonly Epoch[]) {
      const host = epoch.host ?? "unreadable";
      hosts.set(host, [...(hosts.get(host) ?? []), epoch]);
    }
  }
  return [...hosts].map(([host, epochs]) => {
    const sum = (pick: (epoch: Epoch) => number | undefined) => epochs.reduce((all, one) => all + (pick(one) ?? 0), 0);
    return {
      host,
      epochs: epochs.sort((a, b) => (a.start_unix_ns ?? 0) - (b.start_unix_ns ?? 0)),
      samples: sum((one) => one.samples),
      lost: sum((one) => one.lost),
      bytes: sum((one) => one.bytes),
    };
  });
}

/** Samples a second of an epoch. */
export function rateOf(epoch: Epoch): number {
  return epoch.samples !== undefined && epoch.duration_ns ? epoch.samples / (epoch.duration_ns / 1e9) : 0;
}
