import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { api, body } from "@/api/client";

import type { Notification } from "./notifications";

const SHOWN = 20;

const notificationsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["notifications", organizationId],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/organizations/{organization_id}/notifications", {
            params: { path: { organization_id: organizationId }, query: { limit: SHOWN } },
          }),
        )
      ).items,
    refetchInterval: 15_000,
  });

/** The newest, and which of them are new to the reader: those stay marked for as long as they are looked at. */
export function useNotifications(organizationId: string, areShown: boolean) {
  const { data: items, error } = useQuery(notificationsQuery(organizationId));
  const unread = useMemo(() => (items ?? []).filter((one) => one.unread), [items]);
  const [fresh, setFresh] = useState<ReadonlySet<string>>(new Set());
  const { mutate: markRead } = useMarkRead(organizationId);
  useEffect(() => {
    if (!areShown) setFresh(new Set());
    else if (unread.length > 0) {
      setFresh((before) => new Set([...before, ...unread.map((one) => one.id)]));
      markRead(unread);
    }
  }, [areShown, unread, markRead]);
  return { items, error, fresh, unread: unread.length };
}

/** What could not be marked stays unread, which the bell shows; it is tried again when they are next looked at. */
function useMarkRead(organizationId: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ([newest]: Notification[]) =>
      body(
        api.PUT("/api/v1/organizations/{organization_id}/notifications/read", {
          params: { path: { organization_id: organizationId } },
          body: { until: newest!.at },
        }),
      ),
    onSuccess: (_, read) => {
      const ids = new Set(read.map((one) => one.id));
      queries.setQueryData(notificationsQuery(organizationId).queryKey, (all) =>
        all?.map((one) => (ids.has(one.id) ? { ...one, unread: false } : one)),
      );
    },
  });
}
