/** How the values beside a chart are written: as exact as the distance between two of them, so that no two read the same. */
const MOST_DECIMALS = 9;

/** "0.0005", "0.25", "2", "12.5k". */
export function tick(value: number, step: number): string {
  const [divisor, letter] = value >= 10_000 ? [1000, "k"] : [1, ""];
  return (value / divisor).toFixed(decimalsOf(step / divisor)) + letter;
}

/** How many decimals a number needs. */
function decimalsOf(step: number): number {
  for (let decimals = 0; decimals < MOST_DECIMALS; decimals++) {
    const scaled = step * 10 ** decimals;
    if (Math.abs(scaled - Math.round(scaled)) < scaled * 1e-6) return decimals;
  }
  return MOST_DECIMALS;
}
