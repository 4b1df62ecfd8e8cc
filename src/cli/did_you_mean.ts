/** What somebody meant who typed a name that there is not. */

/** `, did you mean port?`, or nothing when no name is near. */
export function didYouMean(typed: string, names: readonly string[]): string {
  const allowed = Math.max(1, Math.floor(typed.replace(/^--/, "").length / 3));
  const [best] = names.map((name) => ({ name, distance: editDistance(typed, name) })).sort((a, b) => a.distance - b.distance);
  return best === undefined || best.distance > allowed ? "" : `, did you mean ${best.name}?`;
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
