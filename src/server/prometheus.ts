/** Counters, gauges and histograms, and their text exposition for Prometheus (version 0.0.4). */
export type Labels = Readonly<Record<string, string>>;

/** One metric of the page. */
export interface Metric {
  readonly name: string;
  /** The metric's lines, without the final line feed. */
  render(): string;
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function sample(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escapeLabel(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${formatValue(value)}`;
}

function formatValue(value: number): string {
  return value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : String(value);
}

function header(name: string, help: string, type: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}`;
}

/** A number that only grows, one per set of labels. */
export class Counter implements Metric {
  readonly #values = new Map<string, { readonly labels: Labels; value: number }>();

  constructor(readonly name: string, readonly help: string) {}

  add(amount: number, labels: Labels = {}): void {
    if (!(amount >= 0)) throw new RangeError(`A counter only grows: ${this.name} was given ${amount}`);
    const key = JSON.stringify(labels);
    const entry = this.#values.get(key);
    if (entry === undefined) this.#values.set(key, { labels, value: amount });
    else entry.value += amount;
  }

  render(): string {
    return [header(this.name, this.help, "counter"), ...this.#values.values().map(({ labels, value }) => sample(this.name, labels, value))]
      .join("\n");
  }
}

/** A number that is read when the page is asked for, so that it cannot be stale. `counter` for totals that are kept elsewhere. */
export class Reading implements Metric {
  constructor(readonly name: string, readonly help: string, readonly type: "gauge" | "counter", readonly read: () => number) {}

  render(): string {
    return `${header(this.name, this.help, this.type)}\n${sample(this.name, {}, this.read())}`;
  }
}

/** How often a value fell under each bound, with sum and count. */
export class Histogram implements Metric {
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds upper bounds, ascending; +Inf is added. */
  constructor(readonly name: string, readonly help: string, readonly bounds: readonly number[]) {
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const index = this.bounds.findIndex((bound) => value <= bound);
    this.#counts[index === -1 ? this.bounds.length : index]!++;
    this.#sum += value;
  }

  render(): string {
    let total = 0;
    const buckets = [...this.bounds, Infinity].map((bound, index) => {
      total += this.#counts[index]!;
      return sample(`${this.name}_bucket`, { le: formatValue(bound) }, total);
    });
    return [
      header(this.name, this.help, "histogram"),
      ...buckets,
      sample(`${this.name}_sum`, {}, this.#sum),
      sample(`${this.name}_count`, {}, total),
    ].join("\n");
  }
}
