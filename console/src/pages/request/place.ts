import type { Receipt } from "@/containers/requests/queries";

/** The container among whose pages it stands; none where that is gone, or never was. */
export function placeOf({ container }: Receipt): string | null {
  return container && !container.deleted ? container.id : null;
}
