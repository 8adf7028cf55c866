import { useQuery } from "@tanstack/react-query";
import { Outlet, useParams } from "@tanstack/react-router";
import { Suspense } from "react";

import { containersQuery } from "@/api/queries";
import { Waiting } from "@/components/Patterns";

import { ContainerList } from "./ContainerList";
import classes from "./Service.module.css";

/** List left, detail right; each scrolls alone. On a phone they are two pages. */
export function Service() {
  const { projectId, containerId } = useParams({ strict: false }) as { projectId: string; containerId?: string };
  const isEmpty = useQuery(containersQuery(projectId)).data?.length === 0;
  return (
    <div className={classes.service} data-open={containerId !== undefined || undefined} data-empty={isEmpty || undefined}>
      <ContainerList selected={containerId} />
      <main className={classes.detail} aria-label="Container">
        <Suspense fallback={<Waiting rows={6} height={32} />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  );
}
