import { NumberInput, Select, TextInput } from "@mantine/core";

import type { ApiPath, FieldsProps } from "./draft";
import { EnvEditor } from "./EnvEditor";
import classes from "./Form.module.css";

const MONO = { input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12 } };

/** That anybody can ask for; an operator may allow less, and the API then says how much. */
const LARGEST_CACHE_GIB = 4096;

export function AdvancedFields({ draft, change, errors }: FieldsProps) {
  return (
    <div className={classes.fields}>
      <TextInput
        label="Start command"
        description="Replaces the image's ENTRYPOINT and CMD. Empty keeps them."
        placeholder="vllm serve Qwen/Qwen2.5-14B-Instruct --host 0.0.0.0 --port 8080"
        styles={MONO}
        value={draft.startCommand}
        error={errors["start_command"]}
        onChange={(event) => change({ startCommand: event.currentTarget.value })}
        autoComplete="off"
        spellCheck={false}
      />
      <div className={classes.three}>
        <NumberInput
          label="Port"
          description="Empty: the image's own, else 8000."
          placeholder="8000"
          min={1}
          max={65535}
          hideControls
          value={draft.port ?? ""}
          error={errors["port"]}
          onChange={(value) => change({ port: typeof value === "number" ? value : null })}
        />
        <TextInput
          label="Health path"
          description="Ready when it answers 200. Empty: when the port does."
          placeholder="/health"
          styles={MONO}
          value={draft.healthPath}
          error={errors["health_check.path"]}
          onChange={(event) => change({ healthPath: event.currentTarget.value })}
          autoComplete="off"
          spellCheck={false}
        />
        <NumberInput
          label="Health timeout"
          description="From its start to ready, else it fails."
          min={10}
          max={3600}
          suffix=" s"
          value={draft.healthTimeout}
          error={errors["health_check.timeout_s"]}
          onChange={(value) => typeof value === "number" && change({ healthTimeout: value })}
        />
      </div>
      <Select
        label="API path"
        description="Where its server has its API. Either way, clients use /api/v1."
        data={[
          { value: "/api/v1", label: "/api/v1, as it is asked for" },
          { value: "/v1", label: "/v1, as vLLM, SGLang, TGI, llama.cpp and Ollama" },
        ]}
        allowDeselect={false}
        value={draft.apiPath}
        error={errors["api_path"]}
        onChange={(value) => value && change({ apiPath: value as ApiPath })}
      />
      <NumberInput
        label="Sleep after"
        description="Without a request for so long it has no replicas and costs nothing. The next request wakes it and waits. Empty: never."
        placeholder="never"
        min={10}
        max={86400}
        suffix=" s"
        value={draft.sleepAfter ?? ""}
        error={errors["sleep_after_s"]}
        onChange={(value) => change({ sleepAfter: typeof value === "number" ? value : null })}
      />
      <NumberInput
        label="Cache"
        description={
          "Room on each machine where weights and kernels stay for later starts. " +
          "Empty: no cache, and an existing one is deleted. Not available where a Kubernetes cluster is all there is."
        }
        placeholder="none"
        min={1}
        max={LARGEST_CACHE_GIB}
        allowDecimal={false}
        suffix=" GiB"
        value={draft.cacheGib ?? ""}
        error={errors["cache"] ?? errors["cache.size_gib"]}
        onChange={(value) => change({ cacheGib: typeof value === "number" ? value : null })}
      />
      <EnvEditor env={draft.env} change={(env) => change({ env })} error={errors["env"] ?? errors["plain_env"]} />
    </div>
  );
}
