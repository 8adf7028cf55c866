import type { Container } from "@/api/queries";
import { Card } from "@/components/Page";
import { AdvancedFields } from "@/containers/form/AdvancedFields";
import { BaseFields } from "@/containers/form/BaseFields";
import type { FieldsProps } from "@/containers/form/draft";
import { Preflight } from "@/containers/form/Preflight";
import { ResourceFields } from "@/containers/form/ResourceFields";

import classes from "./Settings.module.css";

/** Every setting of a container, as the steps of its creation show them. */
export function SettingsFields({ container, ...fields }: FieldsProps & { container: Container }) {
  const { draft, errors } = fields;
  return (
    <>
      {errors[""] ? (
        <p className={classes.problem} role="alert">
          {errors[""]}
        </p>
      ) : null}
      <Card title="Base settings">
        <BaseFields {...fields} />
      </Card>
      {draft.image !== container.image || draft.provider !== container.registry.provider ? (
        <Preflight projectId={container.project_id} draft={draft} change={fields.change} />
      ) : null}
      <section aria-label="Resources">
        <h2 className={classes.heading}>Instance type</h2>
        <p className={classes.about}>Each replica runs on one instance of the type you pick. The price is that of one replica.</p>
        <ResourceFields {...fields} />
      </section>
      <Card title="Advanced">
        <AdvancedFields {...fields} />
      </Card>
    </>
  );
}
