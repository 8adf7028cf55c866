import { useContainer } from "@/addresses/useContainer";
import { Page } from "@/components/Page";
import { FailedVerdict } from "@/containers/FailedVerdict";
import { LastLines } from "@/containers/LastLines";
import { LatestActivity } from "@/containers/LatestActivity";
import { ReplicaTable } from "@/containers/ReplicaTable";
import { SettingsCard } from "@/containers/SettingsCard";

import { Cost } from "./Cost";
import classes from "./Overview.module.css";
import { StateTimeline } from "./StateTimeline";

export function Overview() {
  const container = useContainer();
  return (
    <Page title="Overview" hint={<code>{container.id}</code>}>
      {container.state === "FAILED" ? <FailedVerdict container={container} /> : null}
      <StateTimeline container={container} />
      <div className={classes.columns}>
        <div className={classes.column}>
          <ReplicaTable container={container} past />
          <LastLines container={container} />
          <Cost container={container} />
        </div>
        <div className={classes.column}>
          <SettingsCard container={container} />
          <LatestActivity container={container} />
        </div>
      </div>
    </Page>
  );
}
