/** What somebody meant who typed a name that there is not. */

/** More would be a list to read, not an answer. */
const MAX_NAMES = 3;

/** `; did you mean --port?`, or nothing when no name is near. */
export function didYouMean(typed: string, names: readonly string[]): string {
  const allowed = Math.max(1, Math.floor(typed.replace(/^--/, "").length / 3));
  const [best] = names.map((name) => ({ name, distance: editDistance(typed, name) })).sort((a, b) => a.distance - b.distance);
  const meant = best !== undefined && best.distance <= allowed ? [best.name] : names.filter((name) => hasWords(name, typed));
  return meant.length === 0 || meant.length > MAX_NAMES ? "" : `; did you mean ${meant.join(" or ")}?`;
}

/** Whether the words that were typed are among those of the name: `--batch` is a part of `--max-batch`. */
function hasWords(name: string, typed: string): boolean {
  const words = wordsOf(typed);
  return words.length > 0 && words.every((word) => wordsOf(name).includes(word));
}

function wordsOf(name: string): readonly string[] {
  return name.split("-").filter((word) => word !== "");
}

/** Letters to put in, take out, change, or swap with their neighbour. */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      const steps = [rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + cost];
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) steps.push(rows[i - 2]![j - 2]! + 1);
      row.push(Math.min(...steps));
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
