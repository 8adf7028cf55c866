import { LinkTo } from "@/components/LinkTo";
import { paths } from "@/routes/paths";

import { AccountMenu } from "./AccountMenu";
import classes from "./Frame.module.css";
import { Logo } from "./Logo";
import { Palette } from "./Palette";
import { OrganizationSwitcher, ProjectSwitcher } from "./Switchers";
import { useProject } from "./useProject";

export function TopBar() {
  const { project } = useProject();
  return (
    <div className={classes.topBar}>
      <LinkTo to={paths.service(project.id)} className={classes.logo} aria-label="Moorage, containers">
        <Logo />
      </LinkTo>
      <OrganizationSwitcher />
      <span className={classes.separator} aria-hidden>
        /
      </span>
      <ProjectSwitcher />
      <div className={classes.right}>
        <Palette />
        <AccountMenu />
      </div>
    </div>
  );
}
