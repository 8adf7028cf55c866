import { Button } from "@mantine/core";

import type { Container } from "@/api/queries";
import { Page } from "@/components/Page";
import { fromContainer } from "@/containers/form/draft";

import { CachesCard } from "./CachesCard";
import { type StagedDraft, useStage } from "./queries";
import classes from "./Settings.module.css";
import { SettingsFields } from "./SettingsFields";
import { secretsOf, withChanges } from "./staged";
import { useSettings } from "./useSettings";

interface StageFormProps {
  container: Container;
  /** The one that is staged already, to go on with. */
  staged?: StagedDraft | undefined;
  leave?: () => void;
}

/** While it runs: changes are staged, and nothing that runs is touched until they are applied. */
export function StageForm({ container, staged, leave }: StageFormProps) {
  const now = fromContainer(container);
  const form = useSettings(container, staged ? withChanges(now, staged.changes) : now);
  const stage = useStage(container, form.patch, () => leave?.());
  const secrets = staged ? secretsOf(staged.changes) : [];
  return (
    <Page
      title="Settings"
      hint="It goes on running as it is. Changes are staged first."
      actions={
        <>
          {staged ? (
            <Button variant="subtle" color="var(--m-ink-2)" onClick={leave}>
              Cancel
            </Button>
          ) : null}
          <Button
            disabled={!form.isChanged}
            loading={stage.isPending}
            onClick={() => form.isRight() && stage.mutate(undefined, { onError: form.refused })}
          >
            Stage changes
          </Button>
        </>
      }
    >
      {secrets.length > 0 ? (
        <p className={classes.notice}>
          Values are never shown again: write {secrets.join(", ")} once more, or the value that runs now stays.
        </p>
      ) : null}
      <SettingsFields
        container={container}
        draft={form.draft}
        change={form.change}
        errors={form.errors}
        isNameFixed
      />
      <CachesCard container={container} />
    </Page>
  );
}
