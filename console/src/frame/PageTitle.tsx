import { useQuery } from "@tanstack/react-query";
import { useLocation } from "@tanstack/react-router";
import { useEffect } from "react";

import { pageName, titleOf } from "@/addresses/titles";
import { containerQuery, projectQuery } from "@/api/queries";

/** Names the browser's tab after the page. It asks for nothing by itself: the page does, and its names are taken over. */
export function PageTitle() {
  const { page, projectId, containerId } = pageName(useLocation().pathname);
  const container = useQuery({ ...containerQuery(containerId ?? ""), enabled: false }).data;
  const project = useQuery({ ...projectQuery(projectId ?? ""), enabled: false }).data;
  const title = titleOf(page, containerId ? container?.name : null, projectId ? project?.name : null);
  useEffect(() => {
    document.title = title;
  }, [title]);
  return null;
}
