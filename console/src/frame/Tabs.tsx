import { useSuspenseQuery } from "@tanstack/react-query";
import { useLocation } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { sectionsFor } from "@/addresses/sections";
import { useProject } from "@/addresses/useProject";
import { meQuery } from "@/api/queries";

import { TabRow } from "./TabRow";

export function Tabs() {
  const { project, isAdmin } = useProject();
  const { pathname } = useLocation();
  const shown = sectionsFor(isAdmin, useSuspenseQuery(meQuery).data.community_machines);
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
