import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { handbook } from "@/addresses/handbook";
import { api, body } from "@/api/client";
import type { Container } from "@/api/queries";
import { Page } from "@/components/Page";
import { done } from "@/components/toasts";
import { fromContainer } from "@/containers/form/draft";
import { useContainerAction } from "@/containers/queries";

import { CachesCard } from "./CachesCard";
import { DraftCard } from "./DraftCard";
import { SettingsFields } from "./SettingsFields";
import { changesIn } from "./staged";
import { useSettings } from "./useSettings";

/** While nothing runs: what is saved is what the next start uses. */
export function SettingsForm({ container }: { container: Container }) {
  const form = useSettings(container);
  const start = useContainerAction(container.id);
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      body(
        api.PATCH("/api/v1/containers/{container_id}", {
          params: { path: { container_id: container.id } },
          body: form.patch,
        }),
      ),
    onSuccess: (saved) => {
      queries.setQueryData(["containers", container.id], saved);
      form.put(fromContainer(saved));
      done("Saved. The next start uses the new settings.");
    },
    onError: form.refused,
  });
  const submit = (thenStart: boolean) => {
    if (form.isRight()) save.mutate(undefined, { onSuccess: () => thenStart && start.mutate("start") });
  };
  return (
    <Page
      learn={handbook.updates}
      title="Settings"
      foot={
        <>
          <span role="status">{form.isChanged ? `${changesIn(form.patch)}, not saved yet. Start alone uses what is saved.` : "Changes take effect at the next start."}</span>
          {form.isChanged ? (
            <Button variant="subtle" color="var(--m-ink-2)" onClick={() => form.put(fromContainer(container))}>
              Discard
            </Button>
          ) : null}
          <Button variant="default" disabled={!form.isChanged} loading={save.isPending} onClick={() => submit(false)}>
            Save
          </Button>
          <Button disabled={!form.isChanged} loading={start.isPending} onClick={() => submit(true)}>
            Save and start
          </Button>
        </>
      }
    >
      {container.draft ? <DraftCard container={container} /> : null}
      <SettingsFields container={container} draft={form.draft} change={form.change} errors={form.errors} />
      <CachesCard container={container} />
    </Page>
  );
}
