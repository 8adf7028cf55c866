import { Page } from "@/components/Page";
import { isStopped } from "@/components/state";
import { SettingsCard } from "@/containers/SettingsCard";
import { useContainer } from "@/frame/useContainer";

import classes from "./Settings.module.css";
import { SettingsForm } from "./SettingsForm";

/** Editable while nothing runs; otherwise shown, with the way to edit them. */
export function Settings() {
  const container = useContainer();
  if (isStopped(container.state)) return <SettingsForm key={container.id} container={container} />;
  return (
    <Page title="Settings">
      <p className={classes.notice}>Settings change while a container is stopped. Stop it to edit them.</p>
      <div className={classes.narrow}>
        <SettingsCard container={container} />
      </div>
    </Page>
  );
}
