import { Checkbox, SegmentedControl } from "@mantine/core";

import type { Draft, FieldsProps } from "./draft";
import classes from "./Form.module.css";

type Kind = Draft["infrastructure"];

const KINDS: { kind: Kind; label: string; meaning: string }[] = [
  { kind: "operator", label: "Operator", meaning: "machines of whoever runs this installation." },
  {
    kind: "community",
    label: "Community",
    meaning:
      "machines that others lend, for another price. Containers are isolated from them and each other, but the owner of a machine can read what runs there.",
  },
  { kind: "any", label: "Any", meaning: "for each replica the cheaper of both that has room. So it may be a community machine." },
];

interface InfrastructureProps extends Pick<FieldsProps, "draft" | "change" | "errors"> {
  fullWidth?: boolean;
}

/** On whose machines: what each choice means stands there before it is made, and what it exposes has to be accepted. */
export function Infrastructure({ draft, change, errors, fullWidth = false }: InfrastructureProps) {
  return (
    <div className={classes.infrastructure}>
      <div className={fullWidth ? undefined : classes.inline}>
        <span className={classes.inlineLabel}>Machines</span>
        <SegmentedControl
          aria-label="Infrastructure"
          fullWidth={fullWidth}
          value={draft.infrastructure}
          // Who accepted one choice has not accepted the next.
          onChange={(value) => change({ infrastructure: value as Kind, acceptExposure: false, instanceType: "" })}
          data={KINDS.map(({ kind, label }) => ({ value: kind, label }))}
        />
      </div>
      <dl className={classes.kinds} aria-label="What each means">
        {KINDS.map(({ kind, label, meaning }) => (
          <div key={kind} data-chosen={kind === draft.infrastructure || undefined}>
            <dt>{label}:</dt> <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      {draft.infrastructure === "operator" ? null : (
        <div className={classes.exposure}>
          <Checkbox
            label="The owner of the machine may read what runs there"
            description="With root they can read its memory: prompts, answers, weights, secrets, the image and the environment. Who accepted it is kept in the audit log."
            checked={draft.acceptExposure}
            error={errors["accept_exposure"]}
            onChange={(event) => change({ acceptExposure: event.currentTarget.checked })}
          />
        </div>
      )}
    </div>
  );
}
