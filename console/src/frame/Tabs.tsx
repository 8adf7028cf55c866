import { useLocation } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { sections } from "@/addresses/sections";
import { useProject } from "@/addresses/useProject";

import { TabRow } from "./TabRow";

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
