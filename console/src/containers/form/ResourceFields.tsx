import { NumberInput, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { instanceTypesQuery } from "@/api/queries";
import { Waiting } from "@/components/Patterns";

import type { Draft, FieldsProps } from "./draft";
import classes from "./Form.module.css";
import { Infrastructure } from "./Infrastructure";
import { Tiles } from "./Tiles";

interface ResourceFieldsProps extends FieldsProps {
  /** Sentences by the names of types that what is to run does not fit on. */
  obstacles?: ReadonlyMap<string, string>;
}

export function ResourceFields({ draft, change, errors, obstacles }: ResourceFieldsProps) {
  const types = useQuery(instanceTypesQuery).data;
  const shown = types?.filter((one) => draft.infrastructure === "any" || one.infrastructure === draft.infrastructure);
  const kinds = new Set(types?.map((one) => one.infrastructure));
  return (
    <div className={classes.fields}>
      {kinds.has("community") || draft.infrastructure !== "operator" ? <Infrastructure draft={draft} change={change} errors={errors} /> : null}
      {shown ? (
        <Tiles types={shown} obstacles={obstacles} chosen={draft.instanceType} choose={(instanceType) => change({ instanceType })} />
      ) : (
        <Waiting rows={3} height={96} />
      )}
      {errors["resources.instance_type"] ? <p className={classes.error}>{errors["resources.instance_type"]}</p> : null}
      <Replicas draft={draft} change={change} errors={errors} />
    </div>
  );
}

function Replicas({ draft, change, errors }: FieldsProps) {
  const number = (field: "min" | "max" | "target" | "delay", label: string, description: string, name: string) => (
    <NumberInput
      label={label}
      description={description}
      min={field === "delay" ? 0 : 1}
      value={draft[field]}
      suffix={field === "delay" ? " s" : undefined}
      error={errors[name] ?? errors[name.replace("resources.", "resources.autoscaling.")]}
      onChange={(value) => typeof value === "number" && change({ [field]: value })}
    />
  );
  return (
    <section className={classes.replicas} aria-label="Replicas">
      <div className={classes.inline}>
        <h3 className={classes.subtitle}>Replicas</h3>
        <SegmentedControl
          aria-label="How many replicas"
          value={draft.mode}
          onChange={(value) => change({ mode: value as Draft["mode"] })}
          data={[
            { value: "general", label: "Fixed, one replica" },
            { value: "autoscaling", label: "Autoscaling" },
          ]}
        />
        <span className={classes.hint}>
          {draft.mode === "general"
            ? "One replica while it runs, at one price."
            : "Follows the requests in flight, between a minimum and a maximum."}
        </span>
      </div>
      {draft.mode === "autoscaling" ? (
        <div className={classes.four}>
          {number("min", "Minimum", "always ready", "resources.min_replicas")}
          {number("max", "Maximum", "above 30 asks the operator", "resources.max_replicas")}
          {number("target", "Target in flight", "requests per replica", "resources.target_concurrency")}
          {number("delay", "Scale down after", "of lower demand", "resources.scale_down_delay_s")}
        </div>
      ) : null}
    </section>
  );
}
