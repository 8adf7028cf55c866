/** Settings as a person calls them. */
const NAMES: Record<string, string> = {
  "registry.provider": "Registry",
  "registry.username": "Registry user",
  "registry.password": "Registry password",
  "resources.mode": "Replicas",
  "resources.instance_type": "Instance type",
  "resources.min_replicas": "Minimum replicas",
  "resources.max_replicas": "Maximum replicas",
  "resources.target_concurrency": "Target in flight",
  "resources.scale_down_delay_s": "Scale down after, s",
  "health_check.path": "Health path",
  "health_check.timeout_s": "Health timeout, s",
  sleep_after_s: "Sleeps after, s",
  "cache.size_gib": "Cache, GiB",
};

export function fieldName(field: string): string {
  if (isVariable(field)) return field.slice(field.indexOf(".") + 1);
  const words = field.replaceAll("_", " ").replace(".", " ");
  return NAMES[field] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** "Image, start command". */
export function fieldNames(fields: string[]): string {
  const names = fields.map((field, index) => (index === 0 || isVariable(field) ? fieldName(field) : lowerFirst(fieldName(field))));
  return names.join(", ");
}

function isVariable(field: string): boolean {
  return /^(plain_)?env\./.test(field);
}

/** A variable's name stays as it is written. */
export function lowerFirst(words: string): string {
  return /^[A-Z][a-z]/.test(words) ? words.charAt(0).toLowerCase() + words.slice(1) : words;
}
