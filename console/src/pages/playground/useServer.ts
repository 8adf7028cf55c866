import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

import type { Container } from "@/api/queries";
import { believedOf, type Served, servedKey, useServed } from "@/containers/served";

import { askServer } from "./askServer";

/** What the container serves, and `find`, which asks it: once somebody is about to, and not because the page was opened. */
export function useServer(container: Container, obtainKey: () => Promise<string>) {
  const queries = useQueryClient();
  const served = useServed(container);
  const find = useCallback(async (): Promise<Served> => {
    const known = queries.getQueryData<Served>(servedKey(container.id));
    const believed = believedOf(container);
    if (known || container.asleep) return known ?? believed;
    const found = await askServer(container, await obtainKey()).catch(() => null);
    if (found) queries.setQueryData(servedKey(container.id), found);
    return found ?? believed;
  }, [queries, container, obtainKey]);
  return { served, find };
}
