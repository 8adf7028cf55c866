import { SegmentedControl, Select } from "@mantine/core";

import type { Draft } from "@/containers/form/draft";

import type { ModelPlan, Origin } from "./origin";
import classes from "./Start.module.css";

interface ChoicesProps {
  plan: ModelPlan;
  origin: Origin;
  changeOrigin: (changes: Partial<Origin>) => void;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

/** Where there is more than one: what serves it, in which file, and on whose machines. */
export function Choices({ plan, origin, changeOrigin, draft, change }: ChoicesProps) {
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
      {kinds.size > 1 ? (
        <div className={classes.infrastructure}>
          <span>Machines</span>
          <SegmentedControl
            aria-label="Infrastructure"
            fullWidth
            value={draft.infrastructure}
            onChange={(value) => change({ infrastructure: value as Draft["infrastructure"], instanceType: "" })}
            data={[
              { value: "operator", label: "Operator" },
              { value: "community", label: "Community" },
              { value: "any", label: "Any" },
            ]}
          />
          {draft.infrastructure === "operator" ? null : (
            <p className={classes.warning}>Whoever owns a community machine can read what runs there.</p>
          )}
        </div>
      ) : null}
    </div>
  );
}
