import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useContainer } from "@/addresses/useContainer";
import type { Container } from "@/api/queries";
import { Page } from "@/components/Page";
import { isStopped } from "@/components/state";
import { draftQuery } from "@/containers/queries";
import { SettingsCard } from "@/containers/SettingsCard";

import { CachesCard } from "./CachesCard";
import { DraftCard } from "./DraftCard";
import { hasEdits } from "./keptEdits";
import classes from "./Settings.module.css";
import { SettingsForm } from "./SettingsForm";
import { StageForm } from "./StageForm";

/** Edited in place while nothing runs; staged, compared and applied while it does. */
export function Settings() {
  const container = useContainer();
  if (isStopped(container.state)) return <SettingsForm key={container.id} container={container} />;
  if (container.draft) return <Staged key={container.id} container={container} />;
  if (container.state === "DELETING") return <Shown container={container} />;
  return <StageForm key={container.id} container={container} />;
}

function Staged({ container }: { container: Container }) {
  // Whoever left it half done comes back to it.
  const [isEditing, setEditing] = useState(() => hasEdits(container.id));
  const { data: staged } = useQuery(draftQuery(container));
  if (isEditing && staged && !container.draft?.applying)
    return <StageForm container={container} staged={staged} leave={() => setEditing(false)} />;
  return <Shown container={container} edit={() => setEditing(true)} />;
}

function Shown({ container, edit }: { container: Container; edit?: () => void }) {
  return (
    <Page title="Settings">
      <div className={classes.columns}>
        {container.draft ? <DraftCard container={container} {...(edit ? { edit } : {})} /> : null}
        <SettingsCard container={container} isHere />
      </div>
      <CachesCard container={container} />
    </Page>
  );
}
