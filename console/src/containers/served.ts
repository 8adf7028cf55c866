import { skipToken, useQuery } from "@tanstack/react-query";

import type { Container } from "@/api/queries";

import { servedName } from "./servedName";

export interface Served {
  /** Where its API begins, below the endpoint's URL. */
  base: Container["api_path"];
  /** By its own list, or by its settings where it has none or was not asked yet; empty where neither says any. */
  models: string[];
}

export const servedKey = (containerId: string) => ["containers", containerId, "served"];

/** What the container's server was found to serve, once somebody asked it. Nobody asks for this alone: the question would wake a
 * container that sleeps, and is a request like any other. */
export function useServed(container: Container): Served {
  const found = useQuery<Served>({ queryKey: servedKey(container.id), queryFn: skipToken, staleTime: Infinity }).data;
  return found ?? believedOf(container);
}

/** What its settings say of it. */
export function believedOf(container: Pick<Container, "api_path" | "start_command">): Served {
  const name = servedName(container);
  return { base: container.api_path, models: name === null ? [] : [name] };
}
