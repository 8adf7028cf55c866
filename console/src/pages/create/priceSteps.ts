const MOST = 8;

/** The numbers of replicas whose price is drawn: all from the least to the most, or a few between them where they are many. */
export function countsBetween(min: number, max: number): number[] {
  const bars = Math.min(max - min + 1, MOST);
  if (bars <= 1) return [min];
  return Array.from({ length: bars }, (_, index) => Math.round(min + (index * (max - min)) / (bars - 1)));
}
