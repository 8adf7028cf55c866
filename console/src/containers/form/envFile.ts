import type { Variable } from "./draft";

/** The variables of a .env file: `NAME=value`, `export NAME="value"`, comments and empty lines. */
export function parseEnvFile(text: string): Variable[] {
  const found: Variable[] = [];
  for (const line of text.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line);
    if (match) found.push({ name: match[1]!, value: unquoted(match[2]!) });
  }
  return found;
}

function unquoted(value: string): string {
  const quoted = /^(["'])(.*)\1(?:\s+#.*)?$/.exec(value);
  if (!quoted) return value.replace(/\s+#.*$/, "");
  return quoted[1] === "'" ? quoted[2]! : quoted[2]!.replace(/\\n/g, "\n").replace(/\\(["\\])/g, "$1");
}

/** What was pasted wins over what was there; the order stays, and what was no secret is none now. */
export function merged(env: Variable[], pasted: Variable[]): Variable[] {
  const plain = new Set(env.filter((one) => one.plain).map((one) => one.name));
  const kept = pasted.map((one) => (plain.has(one.name) ? { ...one, plain: true } : one));
  const byName = new Map([...env, ...kept].filter((one) => one.name).map((one) => [one.name, one]));
  return [...byName.values()];
}
