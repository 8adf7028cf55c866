import type { Container, InstanceType } from "@/api/queries";

export function replicaRange(container: Pick<Container, "resources">): { min: number; max: number } {
  const { resources } = container;
  return resources.mode === "autoscaling"
    ? { min: resources.min_replicas, max: resources.max_replicas }
    : { min: 1, max: 1 };
}

/** "2 vCPU · 8 GiB RAM", with the GPU before it where there is one. */
export function hardware(
  type: Gpus & Pick<InstanceType, "vcpu_millis" | "memory_bytes">,
): string {
  return `${gpus(type)} · ${trimmed(type.vcpu_millis / 1000)} vCPU · ${trimmed(type.memory_bytes / 2 ** 30)} GiB RAM`;
}

type Gpus = Pick<InstanceType, "gpu_model" | "gpu_count"> & Partial<Pick<InstanceType, "gpu_memory_bytes">>;

/** "2 × L40S 45 GiB", each with so much; the memory only once where the model's name has it. */
export function gpus(type: Gpus): string {
  if (!type.gpu_model) return "No GPU";
  const name = gpuName(type.gpu_model);
  const memory = type.gpu_memory_bytes && !/\dGB\b/.test(name) ? ` ${Math.round(type.gpu_memory_bytes / 2 ** 30)} GiB` : "";
  return `${type.gpu_count > 1 ? `${type.gpu_count} × ` : ""}${name}${memory}`;
}

export function gpuName(model: string): string {
  return model.replace(/^NVIDIA (GeForce )?/, "");
}

/** As much of a replica's id as tells it from its neighbours. */
export function shortId(id: string): string {
  return id.slice(0, 10);
}

export function shortDigest(digest: string): string {
  return `${digest.slice(0, 11)}…${digest.slice(-4)}`;
}

function trimmed(value: number): string {
  return String(Math.round(value * 100) / 100);
}
