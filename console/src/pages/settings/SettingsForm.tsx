import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, body } from "@/api/client";
import { messageOf, Problem } from "@/api/problem";
import type { Container } from "@/api/queries";
import { Card, Page } from "@/components/Page";
import { done } from "@/components/toasts";
import { AdvancedFields } from "@/containers/form/AdvancedFields";
import { BaseFields } from "@/containers/form/BaseFields";
import { type Draft, type Errors, fromContainer, mistakes, STEPS, toPatch } from "@/containers/form/draft";
import { Preflight } from "@/containers/form/Preflight";
import { ResourceFields } from "@/containers/form/ResourceFields";
import { useContainerAction } from "@/containers/queries";

import classes from "./Settings.module.css";

export function SettingsForm({ container }: { container: Container }) {
  const [draft, setDraft] = useState(() => fromContainer(container));
  const [errors, setErrors] = useState<Errors>({});
  const start = useContainerAction(container.id);
  const save = useSave(container, draft, setDraft, setErrors);
  const change = (changes: Partial<Draft>) => {
    setDraft({ ...draft, ...changes });
    setErrors({});
  };
  const isChanged = Object.keys(toPatch(draft, container)).length > 0;
  const submit = (thenStart: boolean) => {
    const found = STEPS.reduce<Errors>((all, step) => ({ ...all, ...mistakes(draft, step) }), {});
    setErrors(found);
    if (Object.keys(found).length > 0) return;
    save.mutate(undefined, { onSuccess: () => thenStart && start.mutate("start") });
  };
  const fields = { draft, change, errors };
  return (
    <Page
      title="Settings"
      hint={isChanged ? "Not saved yet" : "Used by the next start."}
      actions={
        <>
          {isChanged ? (
            <Button variant="subtle" color="var(--m-ink-2)" onClick={() => setDraft(fromContainer(container))}>
              Discard
            </Button>
          ) : null}
          <Button variant="default" disabled={!isChanged} loading={save.isPending} onClick={() => submit(false)}>
            Save
          </Button>
          <Button loading={start.isPending} onClick={() => (isChanged ? submit(true) : start.mutate("start"))}>
            {isChanged ? "Save and start" : "Start"}
          </Button>
        </>
      }
    >
      {errors[""] ? (
        <p className={classes.problem} role="alert">
          {errors[""]}
        </p>
      ) : null}
      <Card title="Base settings">
        <BaseFields {...fields} />
      </Card>
      {draft.image !== container.image || draft.provider !== container.registry.provider ? (
        <Preflight projectId={container.project_id} draft={draft} />
      ) : null}
      <ResourceFields {...fields} />
      <Card title="Advanced">
        <AdvancedFields {...fields} />
      </Card>
    </Page>
  );
}

function useSave(
  container: Container,
  draft: Draft,
  setDraft: (draft: Draft) => void,
  setErrors: (errors: Errors) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () =>
      body(
        api.PATCH("/api/v1/containers/{container_id}", {
          params: { path: { container_id: container.id } },
          body: toPatch(draft, container),
        }),
      ),
    onSuccess: (saved) => {
      queries.setQueryData(["containers", container.id], saved);
      setDraft(fromContainer(saved));
      done("Saved. The next start uses the new settings.");
    },
    onError: (error) => {
      const fields = error instanceof Problem ? error.fields() : {};
      if (error instanceof Problem && error.code === "name_taken") setErrors({ name: error.message });
      else setErrors(Object.keys(fields).length > 0 ? fields : { "": messageOf(error) });
    },
  });
}
