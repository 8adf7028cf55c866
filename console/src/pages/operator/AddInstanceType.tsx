import { Group, NumberInput, Select, TextInput } from "@mantine/core";
import { useState } from "react";

import type { Schemas } from "@/api/client";
import { messageOf, Problem } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { MoneyInput } from "@/components/MoneyInput";

import { decisions, useDecision } from "./queries";

const GIB = 2 ** 30;

export type Proposal = Schemas["InstanceTypeProposal"];

/** Filled in with a proposal, where there is one. */
export function AddInstanceType({ close, proposal }: { close: () => void; proposal: Proposal | null }) {
  const [name, setName] = useState(proposal?.name ?? "");
  const [gpuModel, setGpuModel] = useState(proposal?.gpu_model ?? "");
  const [gpus, setGpus] = useState(proposal?.gpu_count ?? 1);
  const [vcpu, setVcpu] = useState(proposal ? proposal.vcpu_millis / 1000 : 8);
  const [memory, setMemory] = useState(proposal ? proposal.memory_bytes / GIB : 32);
  const [disk, setDisk] = useState(proposal ? proposal.disk_bytes / GIB : 100);
  const [price, setPrice] = useState<number | null>(proposal?.price_per_hour_microusd ?? null);
  const [infrastructure, setInfrastructure] = useState(
    (proposal?.infrastructure ?? "operator") as "operator" | "community",
  );
  const hasGpu = gpuModel.trim() !== "";
  const add = useDecision(
    () =>
      decisions.addType({
        name: name.trim(),
        gpu_model: hasGpu ? gpuModel.trim() : null,
        gpu_count: hasGpu ? gpus : 0,
        vcpu_millis: Math.round(vcpu * 1000),
        memory_bytes: Math.round(memory * GIB),
        disk_bytes: Math.round(disk * GIB),
        price_per_hour_microusd: price ?? 0,
        infrastructure,
        enabled: true,
      }),
    `${name.trim()} is offered.`,
    close,
  );
  const fields = add.error instanceof Problem ? add.error.fields() : {};
  const isElsewhere = Object.keys(fields).some((field) => field !== "name");
  const number = (label: string, value: number, set: (value: number) => void, field: string, least: number) => (
    <NumberInput
      label={label}
      min={least}
      allowDecimal
      value={value}
      onChange={(next) => typeof next === "number" && set(next)}
      error={fields[field]}
    />
  );
  return (
    <FormDialog
      opened
      close={close}
      title="Add an instance type"
      action="Add"
      submit={() => add.mutate(undefined)}
      busy={add.isPending}
      disabled={!name.trim() || !price}
    >
      <TextInput
        label="Name"
        placeholder="l40s-48gb"
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={fields["name"] ?? (add.error && !isElsewhere ? messageOf(add.error) : null)}
      />
      <TextInput
        label="GPU model"
        description="As NVIDIA's driver names it. Empty: without a GPU."
        placeholder="NVIDIA L40S"
        value={gpuModel}
        onChange={(event) => setGpuModel(event.currentTarget.value)}
        error={fields["gpu_model"]}
      />
      <Group grow gap={12} align="flex-start">
        {hasGpu ? number("GPUs", gpus, setGpus, "gpu_count", 1) : null}
        {number("vCPU", vcpu, setVcpu, "vcpu_millis", 0.25)}
        {number("Memory, GiB", memory, setMemory, "memory_bytes", 0.25)}
        {number("Disk, GiB", disk, setDisk, "disk_bytes", 1)}
      </Group>
      <Group grow gap={12} align="flex-start">
        <MoneyInput
          label="Price per hour in USD"
          digits={6}
          initialMicrousd={proposal?.price_per_hour_microusd ?? null}
          change={setPrice}
          error={fields["price_per_hour_microusd"]}
        />
        <Select
          label="Machines"
          data={[
            { value: "operator", label: "Operator" },
            { value: "community", label: "Community" },
          ]}
          value={infrastructure}
          onChange={(value) => value && setInfrastructure(value as typeof infrastructure)}
        />
      </Group>
    </FormDialog>
  );
}
