import { useLocation } from "@tanstack/react-router";

import { LinkTo } from "@/components/LinkTo";
import { paths } from "@/routes/paths";
import { sections } from "@/routes/sections";

import classes from "./Frame.module.css";
import { useProject } from "./useProject";

export function Tabs() {
  const { project, isAdmin } = useProject();
  const { pathname } = useLocation();
  const shown = sections.filter((one) => isAdmin || !one.adminOnly);
  return (
    <nav className={classes.tabs} aria-label="Sections">
      {shown.map(({ section, label }) => {
        const to = paths.section(project.id, section);
        const active = pathname.startsWith(to) || (section === "containers" && pathname === paths.create(project.id));
        return (
          <LinkTo
            key={section}
            to={to}
            className={classes.tab}
            data-active={active || undefined}
            aria-current={active ? "page" : undefined}
          >
            {label}
          </LinkTo>
        );
      })}
    </nav>
  );
}
