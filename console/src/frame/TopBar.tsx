import { useLocation, useParams } from "@tanstack/react-router";

import { dashboardTab } from "@/addresses/dashboardTabs";
import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { LinkTo } from "@/components/LinkTo";

import { AccountMenu } from "./AccountMenu";
import { Balance } from "./Balance";
import { Bell } from "./Bell";
import classes from "./Frame.module.css";
import { Logo } from "./Logo";
import { Palette } from "./Palette";
import { ContainerSwitcher } from "./ContainerSwitcher";
import { OrganizationSwitcher, ProjectSwitcher } from "./Switchers";

export function TopBar() {
  const { project } = useProject();
  const { containerId } = useParams({ strict: false }) as { containerId?: string };
  const tab = dashboardTab(useLocation().pathname);
  return (
    <div className={classes.topBar} data-inside={(containerId && tab) || undefined}>
      <LinkTo to={paths.service(project.id)} className={classes.logo} aria-label="Moorage, containers">
        <Logo />
      </LinkTo>
      <div className={classes.names}>
        <div className={classes.outer}>
          <OrganizationSwitcher />
          <span className={classes.separator} aria-hidden>
            /
          </span>
          <ProjectSwitcher />
        </div>
        {containerId && tab ? (
          <>
            <span className={classes.separator} aria-hidden>
              /
            </span>
            <ContainerSwitcher containerId={containerId} tab={tab} />
          </>
        ) : null}
      </div>
      <div className={classes.right}>
        <Palette />
        <Balance />
        <Bell />
        <AccountMenu />
      </div>
    </div>
  );
}
