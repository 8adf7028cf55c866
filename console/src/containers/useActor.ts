import { useQuery } from "@tanstack/react-query";

import { useProject } from "@/addresses/useProject";
import { membersQuery, meQuery } from "@/api/queries";

/** Who did it, by a name that the reader knows: only admins may know the others'. An id where there is none. */
export function useActor(): (actor: string) => string {
  const { project, isAdmin } = useProject();
  const me = useQuery(meQuery).data?.user?.id;
  const members = useQuery({ ...membersQuery(project.organization_id), enabled: isAdmin }).data ?? [];
  return (actor) => {
    if (actor === "system") return "Moorage";
    if (actor === me) return "you";
    return members.find((one) => one.user_id === actor)?.email ?? actor;
  };
}
