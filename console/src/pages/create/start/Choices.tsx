import { Select } from "@mantine/core";

import type { Draft, Errors } from "@/containers/form/draft";
import { Infrastructure } from "@/containers/form/Infrastructure";

import type { ModelPlan, Origin } from "./origin";
import classes from "./Start.module.css";

interface ChoicesProps {
  plan: ModelPlan;
  origin: Origin;
  changeOrigin: (changes: Partial<Origin>) => void;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  errors: Errors;
}

/** Where there is more than one: what serves it, in which file, and on whose machines. */
export function Choices({ plan, origin, changeOrigin, draft, change, errors }: ChoicesProps) {
  const { model, template, other_templates: others } = plan;
  const servers = [...(template ? [template] : []), ...others];
  const files = [...new Set(model?.gguf_files)];
  const kinds = new Set(plan.instance_types.map((one) => one.infrastructure));
  return (
    <div className={classes.choices}>
      {servers.length > 1 && origin.kind === "model" ? (
        <Select
          label="Server"
          data={servers.map(({ name, title }) => ({ value: name, label: title }))}
          value={template?.name ?? null}
          onChange={(value) => value && changeOrigin({ template: value })}
        />
      ) : null}
      {model && files.length > 1 ? (
        <Select
          label="Quantisation"
          data={files}
          value={model.precision}
          onChange={(value) => value && changeOrigin({ file: value })}
        />
      ) : null}
      {kinds.has("community") ? (
        <div className={classes.infrastructure}>
          <Infrastructure draft={draft} change={change} errors={errors} fullWidth />
        </div>
      ) : null}
    </div>
  );
}
