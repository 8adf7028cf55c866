import { useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";

import { containerQuery } from "@/api/queries";

/** The container in the address, as it is now. */
export function useContainer() {
  const { containerId } = useParams({ strict: false }) as { containerId: string };
  return useSuspenseQuery(containerQuery(containerId)).data;
}
