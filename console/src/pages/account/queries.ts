import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { done, failed } from "@/components/toasts";

export type Session = Schemas["Session"];

export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: async () => (await body(api.GET("/api/v1/me/sessions"))).items,
});

export const identitiesQuery = queryOptions({
  queryKey: ["identities"],
  queryFn: async () => (await body(api.GET("/api/v1/me/identities"))).items,
});

export function useEndSession(session: Session) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () =>
      body(api.DELETE("/api/v1/me/sessions/{session_id}", { params: { path: { session_id: session.id } } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["sessions"] });
      done("Signed out there.");
    },
    onError: failed,
  });
}

export function useEndOtherSessions(after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.DELETE("/api/v1/me/sessions")),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["sessions"] });
      done("Signed out everywhere but here.");
      after();
    },
    onError: failed,
  });
}
