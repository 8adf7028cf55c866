import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { allPages, page } from "@/api/queries";
import { done, failed } from "@/components/toasts";

export type Member = Schemas["Member"];
export type Invitation = Schemas["Invitation"];

export const invitationsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["invitations", organizationId],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/invitations", {
            params: { path: { organization_id: organizationId }, query: page(cursor) },
          }),
        ),
      ),
  });

export function useInvite(organizationId: string, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (wanted: Schemas["InvitationCreate"]) =>
      body(
        api.POST("/api/v1/organizations/{organization_id}/invitations", {
          params: { path: { organization_id: organizationId } },
          body: wanted,
        }),
      ),
    onSuccess: async (made) => {
      await queries.invalidateQueries({ queryKey: ["invitations"] });
      done(`The invitation goes to ${made.email}.`);
      after();
    },
  });
}

export function useInvitationAction(organizationId: string, invitation: Invitation) {
  const queries = useQueryClient();
  const params = { path: { organization_id: organizationId, invitation_id: invitation.id } };
  return useMutation({
    mutationFn: async (action: "resend" | "withdraw") => {
      if (action === "resend")
        await api.POST("/api/v1/organizations/{organization_id}/invitations/{invitation_id}/resend", { params });
      else await api.DELETE("/api/v1/organizations/{organization_id}/invitations/{invitation_id}", { params });
    },
    onSuccess: async (_, action) => {
      await queries.invalidateQueries({ queryKey: ["invitations"] });
      done(
        action === "resend"
          ? `A new link goes to ${invitation.email}; the one before stopped working.`
          : `The invitation of ${invitation.email} is withdrawn.`,
      );
    },
    onError: failed,
  });
}

export function useChangeRole(organizationId: string, member: Member) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (role: Member["role"]) =>
      body(
        api.PATCH("/api/v1/organizations/{organization_id}/members/{user_id}", {
          params: { path: { organization_id: organizationId, user_id: member.user_id } },
          body: { role, revoke_keys: true },
        }),
      ),
    onSuccess: async (changed) => {
      await Promise.all([
        queries.invalidateQueries({ queryKey: ["members"] }),
        queries.invalidateQueries({ queryKey: ["organizations"] }),
      ]);
      done(`${changed.email} is ${changed.role === "admin" ? "an admin" : "a user"} now.`);
    },
    onError: failed,
  });
}

export function useRemoveMember(organizationId: string, member: Member, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (revokeKeys: boolean) =>
      body(
        api.DELETE("/api/v1/organizations/{organization_id}/members/{user_id}", {
          params: {
            path: { organization_id: organizationId, user_id: member.user_id },
            query: { revoke_keys: revokeKeys },
          },
        }),
      ),
    onSuccess: async ({ revoked_key_ids: revoked }) => {
      await queries.invalidateQueries({ queryKey: ["members"] });
      await queries.invalidateQueries({ queryKey: ["api-keys"] });
      const keys = revoked.length === 1 ? "1 key was" : `${revoked.length} keys were`;
      done(revoked.length > 0 ? `${member.email} is removed; ${keys} revoked.` : `${member.email} is removed.`);
      after();
    },
    onError: failed,
  });
}
