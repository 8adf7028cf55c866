/** Money arrives as whole micro-dollars and is only ever divided to be shown. */
export function dollars(microusd: number): string {
  const sign = microusd < 0 ? "\u2212" : "";
  const absolute = Math.abs(microusd);
  // Small prices keep the digits that make them different from nothing.
  const digits = absolute > 0 && absolute % 10_000 !== 0 ? (absolute < 100_000 ? 4 : 3) : 2;
  const text = (absolute / 1e6).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: digits });
  return `${sign}$${text}`;
}

export function Money({ microusd, per }: { microusd: number; per?: "h" }) {
  return (
    <span>
      {dollars(microusd)}
      {per ? `/${per}` : null}
    </span>
  );
}
