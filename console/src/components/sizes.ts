/** What would be rounded to a thousand of one unit is one of the next: "1.0 GB", never "1000 MB". */
const ROUNDED_UP = 0.9995;

export function size(bytes: number): string {
  if (bytes >= ROUNDED_UP * 1e9) return `${(bytes / 1e9).toFixed(1)} GB`;
  if (bytes >= ROUNDED_UP * 1e6) return `${Math.round(bytes / 1e6)} MB`;
  return `${Math.round(bytes / 1e3)} kB`;
}

/** Of a model: "7.6 B", "494 M". */
export function parameterCount(parameters: number): string {
  return parameters >= ROUNDED_UP * 1e9 ? `${(parameters / 1e9).toFixed(1)} B` : `${Math.round(parameters / 1e6)} M`;
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
