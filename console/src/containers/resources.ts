import type { Container, InstanceType } from "@/api/queries";

export function replicaRange(container: Pick<Container, "resources">): { min: number; max: number } {
  const { resources } = container;
  return resources.mode === "autoscaling"
    ? { min: resources.min_replicas, max: resources.max_replicas }
    : { min: 1, max: 1 };
}

/** "2 vCPU · 8 GiB", with the GPU before it where there is one. */
export function hardware(
  type: Pick<InstanceType, "gpu_model" | "gpu_count" | "vcpu_millis" | "memory_bytes">,
): string {
  const gpu = type.gpu_model ? `${type.gpu_count > 1 ? `${type.gpu_count} × ` : ""}${gpuName(type.gpu_model)}` : "No GPU";
  return `${gpu} · ${trimmed(type.vcpu_millis / 1000)} vCPU · ${trimmed(type.memory_bytes / 2 ** 30)} GiB`;
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
