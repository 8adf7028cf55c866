import { useLocation } from "@tanstack/react-router";

import { paths } from "@/routes/paths";
import { sections } from "@/routes/sections";

import { TabRow } from "./TabRow";
import { useProject } from "./useProject";

export function Tabs() {
  const { project, isAdmin } = useProject();
  const { pathname } = useLocation();
  const shown = sections.filter((one) => isAdmin || !one.adminOnly);
  return (
    <TabRow
      label="Sections"
      tabs={shown.map(({ section, label }) => {
        const to = paths.section(project.id, section);
        const isCreate = section === "containers" && pathname === paths.create(project.id);
        return { to, label, active: pathname.startsWith(to) || isCreate };
      })}
    />
  );
}
