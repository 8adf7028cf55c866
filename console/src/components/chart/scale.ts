/** The round number at which an axis ends. */
export function niceMax(max: number): number {
  if (max <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12].map((step) => step * power).find((step) => step >= max * 1.05)!;
}
