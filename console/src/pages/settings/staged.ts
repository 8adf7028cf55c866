/** A staged draft as the form and the page show it. */
import { fieldName } from "@/components/fieldNames";
import type { Draft, Variable } from "@/containers/form/draft";
import type { StagedDraft } from "@/containers/queries";

type Change = StagedDraft["changes"][number];

/** The form as the draft would leave it. Values of secrets are not known here: `secretsOf` names them. */
export function withChanges(form: Draft, changes: Change[]): Draft {
  const to = new Map(changes.map((one) => [one.field, one.to]));
  const text = (field: string, before: string) => (to.has(field) ? String(to.get(field) ?? "") : before);
  const number = (field: string, before: number) => (to.has(field) ? Number(to.get(field) ?? before) : before);
  const numberOrNone = (field: string, before: number | null) => {
    const after = to.has(field) ? to.get(field) : before;
    return typeof after === "number" ? after : null;
  };
  return {
    ...form,
    category: text("category", form.category),
    image: text("image", form.image),
    provider: text("registry.provider", form.provider) as Draft["provider"],
    username: text("registry.username", form.username),
    infrastructure: text("infrastructure", form.infrastructure) as Draft["infrastructure"],
    acceptExposure: to.has("accept_exposure") ? to.get("accept_exposure") === "true" : form.acceptExposure,
    mode: text("resources.mode", form.mode) as Draft["mode"],
    instanceType: text("resources.instance_type", form.instanceType),
    min: number("resources.min_replicas", form.min),
    max: number("resources.max_replicas", form.max),
    target: number("resources.target_concurrency", form.target),
    delay: number("resources.scale_down_delay_s", form.delay),
    startCommand: text("start_command", form.startCommand),
    port: numberOrNone("port", form.port),
    healthPath: text("health_check.path", form.healthPath),
    healthTimeout: number("health_check.timeout_s", form.healthTimeout),
    apiPath: text("api_path", form.apiPath) as Draft["apiPath"],
    sleepAfter: numberOrNone("sleep_after_s", form.sleepAfter),
    cacheGib: numberOrNone("cache.size_gib", form.cacheGib),
    env: variables(form.env, to),
  };
}

/** Plain variables with their values; of secrets those that are there and stay. */
function variables(env: Variable[], to: Map<string, Change["to"]>): Variable[] {
  const kept = env.filter((one) => to.get(`${one.plain ? "plain_env" : "env"}.${one.name}`) !== null);
  const written = [...to]
    .filter(([field, value]) => field.startsWith("plain_env.") && value !== null)
    .map(([field, value]) => ({ name: field.slice("plain_env.".length), value: String(value), plain: true }));
  return [...new Map([...kept, ...written].map((one) => [one.name, one])).values()];
}

/** What the draft sets and nobody can read again. */
export function secretsOf(changes: Change[]): string[] {
  return changes
    .filter((one) => one.to !== null && (one.field.startsWith("env.") || one.field === "registry.password"))
    .map((one) => fieldName(one.field));
}

/** "2 changes": settings, and each variable by itself. */
export function changesIn(patch: object): string {
  const count = Object.entries(patch).reduce(
    (sum, [field, value]) => sum + (field === "env" || field === "plain_env" ? Object.keys(value as object).length : 1),
    0,
  );
  return count === 1 ? "1 change" : `${count} changes`;
}
