/** The settings of a container while somebody writes them: what the form holds, and how it becomes a request. */
import type { Schemas } from "@/api/client";
import type { Container } from "@/api/queries";

export type Provider = Schemas["RegistryProvider"];
export type ApiPath = Schemas["ApiPath"];

export interface Variable {
  name: string;
  /** null: kept as it is. Values of secrets are write-only, so the form of an existing container never has them. */
  value: string | null;
  /** No secret: shown, and not covered in logs. */
  plain?: boolean;
}

export interface Draft {
  name: string;
  category: string;
  image: string;
  provider: Provider;
  isPrivate: boolean;
  username: string;
  password: string;
  infrastructure: "operator" | "community" | "any";
  /** That owners of community machines can read what runs there is known, and may be. */
  acceptExposure: boolean;
  instanceType: string;
  mode: "general" | "autoscaling";
  min: number;
  max: number;
  target: number;
  delay: number;
  startCommand: string;
  port: number | null;
  healthPath: string;
  healthTimeout: number;
  apiPath: ApiPath;
  /** Seconds without a request; null: never. */
  sleepAfter: number | null;
  /** On each machine, for what later starts find there; null: none. */
  cacheGib: number | null;
  env: Variable[];
}

export const EMPTY: Draft = {
  name: "",
  category: "",
  image: "",
  provider: "docker-hub",
  isPrivate: false,
  username: "",
  password: "",
  infrastructure: "operator",
  acceptExposure: false,
  instanceType: "",
  mode: "general",
  min: 1,
  max: 2,
  target: 4,
  delay: 300,
  startCommand: "",
  port: null,
  healthPath: "",
  healthTimeout: 300,
  apiPath: "/api/v1",
  sleepAfter: null,
  cacheGib: null,
  env: [],
};

/** What `make up` leaves on the machine, so that a first deployment needs no registry. */
export const EXAMPLE: Partial<Draft> = {
  name: "chat",
  category: "Chat",
  image: "local/chat:latest",
  provider: "local",
  healthPath: "/health",
  healthTimeout: 60,
};

export type Errors = Record<string, string>;

export interface FieldsProps {
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  /** By the API's name of the field. */
  errors: Errors;
  /** While it runs, a container keeps its name. */
  isNameFixed?: boolean;
}

export function registryOf(draft: Draft): Schemas["RegistryWrite"] {
  const credentials = draft.isPrivate && draft.username ? { username: draft.username } : {};
  const password = draft.isPrivate && draft.password ? { password: draft.password } : {};
  return { provider: draft.provider, ...credentials, ...password };
}

export function resourcesOf(draft: Draft): Schemas["ContainerCreate"]["resources"] {
  if (draft.mode === "general") return { mode: "general", instance_type: draft.instanceType };
  return {
    mode: "autoscaling",
    instance_type: draft.instanceType,
    min_replicas: draft.min,
    max_replicas: draft.max,
    target_concurrency: draft.target,
    scale_down_delay_s: draft.delay,
  };
}

export function cacheOf({ cacheGib }: Draft): Schemas["CacheSettings"] | null {
  return cacheGib === null ? null : { size_gib: cacheGib };
}

/** What the form does not have is not sent, and keeps the API's default. */
export function toCreate(draft: Draft): Schemas["ContainerCreate"] {
  const body: Omit<Schemas["ContainerCreate"], "limits"> = {
    name: draft.name.trim(),
    category: draft.category.trim() || null,
    image: draft.image.trim(),
    registry: registryOf(draft),
    resources: resourcesOf(draft),
    start_command: draft.startCommand.trim() || null,
    port: draft.port,
    health_check: { path: draft.healthPath.trim() || null, timeout_s: draft.healthTimeout },
    env: valuesOf(draft.env.filter((one) => !one.plain)),
    plain_env: valuesOf(draft.env.filter((one) => one.plain)),
    infrastructure: draft.infrastructure,
    accept_exposure: draft.infrastructure !== "operator" && draft.acceptExposure,
    api_path: draft.apiPath,
    sleep_after_s: draft.sleepAfter,
    cache: cacheOf(draft),
  };
  return body as Schemas["ContainerCreate"];
}

function valuesOf(env: Variable[]): Record<string, string> {
  return Object.fromEntries(env.filter((one) => one.name).map((one) => [one.name, one.value ?? ""]));
}

/** Only what differs from the container. Credentials are sent when a new password was written, and then whole. */
export function toPatch(draft: Draft, container: Container): Schemas["ContainerPatch"] {
  const before = toCreate(fromContainer(container));
  const after = toCreate(draft);
  const patch: Record<string, unknown> = {};
  for (const field of Object.keys(after) as (keyof typeof after)[]) {
    if (field === "env" || field === "plain_env" || field === "registry") continue;
    if (JSON.stringify(after[field]) !== JSON.stringify(before[field])) patch[field] = after[field];
  }
  const keepsCredentials = draft.isPrivate && !draft.password && container.registry.has_password;
  const registry = { ...registryOf(draft) };
  if (!keepsCredentials && JSON.stringify(registry) !== JSON.stringify(before.registry)) patch["registry"] = registry;
  for (const [field, changed] of Object.entries(changedVariables(draft, container)))
    if (Object.keys(changed).length > 0) patch[field] = changed;
  return patch as Schemas["ContainerPatch"];
}

/** One that is sent as the one kind is taken out of the other by the API. */
function changedVariables(draft: Draft, container: Container): Record<"env" | "plain_env", Record<string, string | null>> {
  const names = new Set(draft.env.map((one) => one.name));
  const removed = (known: object) => Object.keys(known).filter((name) => !names.has(name)).map((name) => [name, null]);
  const written = draft.env.filter((one) => one.name && one.value !== null);
  const secret = written.filter((one) => !one.plain);
  const plain = written.filter((one) => one.plain && container.plain_env[one.name] !== one.value);
  const entries = (some: Variable[]) => some.map((one) => [one.name, one.value]);
  return {
    env: Object.fromEntries([...removed(container.env), ...entries(secret)]),
    plain_env: Object.fromEntries([...removed(container.plain_env), ...entries(plain)]),
  };
}

export function fromContainer(container: Container): Draft {
  const { resources, registry, health_check: health } = container;
  const scaling = resources.mode === "autoscaling" ? resources : null;
  return {
    name: container.name,
    category: container.category ?? "",
    image: container.image,
    provider: registry.provider,
    isPrivate: registry.has_password,
    username: registry.username ?? "",
    password: "",
    infrastructure: container.infrastructure as Draft["infrastructure"],
    acceptExposure: container.accept_exposure,
    instanceType: resources.instance_type,
    mode: scaling ? "autoscaling" : "general",
    min: scaling?.min_replicas ?? EMPTY.min,
    max: scaling?.max_replicas ?? EMPTY.max,
    target: scaling?.target_concurrency ?? EMPTY.target,
    delay: scaling?.scale_down_delay_s ?? EMPTY.delay,
    startCommand: container.start_command ?? "",
    port: container.port,
    healthPath: health.path ?? "",
    healthTimeout: health.timeout_s,
    apiPath: container.api_path,
    sleepAfter: container.sleep_after_s,
    cacheGib: container.cache?.size_gib ?? null,
    env: [
      ...Object.keys(container.env).map((name) => ({ name, value: null })),
      ...Object.entries(container.plain_env).map(([name, value]) => ({ name, value, plain: true })),
    ],
  };
}

export const STEPS = ["base", "resources", "advanced", "review"] as const;
export type Step = (typeof STEPS)[number];

/** Where an error of the API belongs, so that the form opens at the right place. */
export function stepOf(field: string): Step {
  if (/^(resources|infrastructure|accept_exposure)/.test(field)) return "resources";
  if (/^(start_command|port|health_check|api_path|sleep_after_s|cache|env|plain_env)/.test(field)) return "advanced";
  return "base";
}

/** Nobody's containers run on the machines of strangers without their word. */
export function exposureMistake({ infrastructure, acceptExposure }: Draft): Errors {
  if (infrastructure === "operator" || acceptExposure) return {};
  return { accept_exposure: "Accept it, or choose the operator's machines." };
}

/** What can be said before the server is asked. */
export function mistakes(draft: Draft, step: Step): Errors {
  const found: Errors = {};
  if (step === "base") {
    if (!draft.name.trim()) found["name"] = "Give it a name.";
    if (!draft.image.trim()) found["image"] = "Name the image to run.";
    if (draft.isPrivate && !draft.username) found["registry.username"] = "A private image needs a user name.";
  }
  if (step === "resources") {
    if (!draft.instanceType) found["resources.instance_type"] = "Choose an instance type.";
    Object.assign(found, exposureMistake(draft));
    if (draft.mode === "autoscaling" && draft.min > draft.max)
      found["resources.max_replicas"] = "Must be at least the minimum.";
  }
  if (step === "advanced") {
    if (draft.healthPath && !draft.healthPath.startsWith("/")) found["health_check.path"] = "Begins with a slash.";
    const twice = draft.env.find((one, at) => one.name && draft.env.findIndex((other) => other.name === one.name) < at);
    if (twice) found["env"] = `${twice.name} is there twice.`;
  }
  return found;
}
