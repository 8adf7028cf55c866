import { Button } from "@mantine/core";

import { handbook } from "@/addresses/handbook";
import type { Container } from "@/api/queries";
import { Page } from "@/components/Page";
import { fromContainer } from "@/containers/form/draft";
import type { StagedDraft } from "@/containers/queries";

import { CachesCard } from "./CachesCard";
import { forgetEdits, keepEdits } from "./keptEdits";
import { useStage } from "./queries";
import classes from "./Settings.module.css";
import { SettingsFields } from "./SettingsFields";
import { changesIn, secretsOf, withChanges } from "./staged";
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
  const begin = staged ? withChanges(now, staged.changes) : now;
  const form = useSettings(container, begin);
  const stage = useStage(container, form.patch, () => leave?.());
  const submit = () => {
    if (!form.isRight()) return;
    // Before it is answered: the container may say that it has a draft first, and this form is gone then.
    forgetEdits(container.id);
    stage.mutate(undefined, {
      onError: (error) => {
        keepEdits(container.id, begin, form.draft);
        form.refused(error);
      },
    });
  };
  const secrets = staged ? secretsOf(staged.changes) : [];
  return (
    <Page
      learn={handbook.updates}
      title="Settings"
      hint={staged ? "Staged before; go on with it." : undefined}
      foot={
        <>
          <span role="status">
            {form.isChanged
              ? `${changesIn(form.patch)}, not staged yet. What runs stays as it is until they are staged and applied.`
              : "It goes on running as it is. Changes are staged first, then applied."}
          </span>
          {form.isChanged || staged ? (
            <Button
              variant="subtle"
              color="var(--m-ink-2)"
              onClick={() => {
                form.put(begin);
                leave?.();
              }}
            >
              {staged ? "Cancel" : "Discard"}
            </Button>
          ) : null}
          <Button disabled={!form.isChanged} loading={stage.isPending} onClick={submit}>
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
