export function size(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`;
  if (bytes >= 1e6) return `${Math.round(bytes / 1e6)} MB`;
  return `${Math.round(bytes / 1e3)} kB`;
}

const BINARY: [name: string, bytes: number][] = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
];

/** "14.8 GiB", "22 GiB": as disks are bounded. */
export function binarySize(bytes: number): string {
  const [name, one] = binaryUnit(bytes);
  return `${Math.round((bytes / one) * 10) / 10} ${name}`;
}

/** The unit in which so many bytes are at least one, and how many of them it has. */
export function binaryUnit(bytes: number): [name: string, bytes: number] {
  return BINARY.find(([, one]) => bytes >= one) ?? BINARY[2]!;
}
