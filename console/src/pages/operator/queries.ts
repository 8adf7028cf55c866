/** What the operator reads and decides. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { allPages, type InstanceType, page } from "@/api/queries";
import { done } from "@/components/toasts";
import { isExpected, type JoinCommand, type Machine } from "@/machines/machine";

export type OrganizationSummary = Schemas["OrganizationSummary"];
export type OrganizationDetail = Schemas["OrganizationDetail"];
/** What can be decided about one needs no more of it. */
export type NamedOrganization = Pick<OrganizationSummary, "id" | "name" | "suspended_at" | "deleted_at">;
export type SetupStep = Schemas["StepRead"];
export type UserSummary = Schemas["UserSummary"];
export type Transfer = Schemas["TopUp"];
/** A card's payment can fail; a transfer arrives or does not. */
export type TransferState = Exclude<Transfer["state"], "failed">;
export type Part = Schemas["PartRead"];
/** A machine as its engine describes it: what it has, what is promised there. */
export type Node = Schemas["NodeRead"];
export type Payout = Schemas["OperatorPayout"];
export type Intake = Schemas["NodeIntake"]["intake"];
export type LimitRequest = Schemas["OperatorReplicaLimitRequest"];

const LIVE_MS = 10_000;
/** Somebody sits there and waits for it. */
const EXPECTED_MS = 2_000;

export const allOrganizationsQuery = queryOptions({
  queryKey: ["operator", "organizations"],
  queryFn: () => allPages((cursor) => body(api.GET("/api/v1/operator/organizations", { params: { query: page(cursor) } }))),
});

export const organizationQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["operator", "organizations", organizationId],
    queryFn: () => body(api.GET("/api/v1/operator/organizations/{organization_id}", { params: at(organizationId) })),
    refetchInterval: LIVE_MS,
  });

export const containersOfQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["operator", "organizations", organizationId, "containers"],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/operator/organizations/{organization_id}/containers", {
            params: { ...at(organizationId), query: page(cursor) },
          }),
        ),
      ),
    refetchInterval: LIVE_MS,
  });

export const peopleOfQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["operator", "organizations", organizationId, "people"],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/operator/organizations/{organization_id}/members", {
            params: { ...at(organizationId), query: page(cursor) },
          }),
        ),
      ),
  });

export const setupQuery = queryOptions({
  queryKey: ["operator", "setup"],
  queryFn: () => body(api.GET("/api/v1/operator/setup")),
  refetchInterval: LIVE_MS,
});

/** What was changed of the installation last. */
export const latestChangesQuery = (count: number) =>
  queryOptions({
    queryKey: ["operator", "audit", "latest", count],
    queryFn: async () => (await body(api.GET("/api/v1/operator/audit", { params: { query: { limit: count } } }))).items,
    refetchInterval: LIVE_MS,
  });

export const usersQuery = queryOptions({
  queryKey: ["operator", "users"],
  queryFn: () => allPages((cursor) => body(api.GET("/api/v1/operator/users", { params: { query: page(cursor) } }))),
});

export const transfersQuery = (state: TransferState) =>
  queryOptions({
    queryKey: ["operator", "transfers", state],
    queryFn: () =>
      allPages((cursor) =>
        body(api.GET("/api/v1/operator/bank-transfers", { params: { query: { ...page(cursor), state } } })),
      ),
    refetchInterval: LIVE_MS,
  });

export const limitRequestsQuery = (state: LimitRequest["state"]) =>
  queryOptions({
    queryKey: ["operator", "limit-requests", state],
    queryFn: () =>
      allPages((cursor) =>
        body(api.GET("/api/v1/operator/replica-limit-requests", { params: { query: { ...page(cursor), state } } })),
      ),
    refetchInterval: LIVE_MS,
  });

export const nodesQuery = queryOptions({
  queryKey: ["operator", "nodes"],
  queryFn: async () => (await body(api.GET("/api/v1/operator/nodes"))).items,
  refetchInterval: LIVE_MS,
});

export const machinesQuery = queryOptions({
  queryKey: ["operator", "machines"],
  queryFn: () => allPages((cursor) => body(api.GET("/api/v1/operator/machines", { params: { query: page(cursor) } }))),
  refetchInterval: (query) => (query.state.data?.some(isExpected) ? EXPECTED_MS : LIVE_MS),
});

export const payoutsQuery = (state: Payout["state"]) =>
  queryOptions({
    queryKey: ["operator", "payouts", state],
    queryFn: () =>
      allPages((cursor) => body(api.GET("/api/v1/operator/payouts", { params: { query: { ...page(cursor), state } } }))),
    refetchInterval: LIVE_MS,
  });

export const tunnelQuery = queryOptions({
  queryKey: ["operator", "tunnel"],
  queryFn: () => body(api.GET("/api/v1/operator/tunnel")),
  refetchInterval: LIVE_MS,
});

export const catalogueQuery = queryOptions({
  queryKey: ["operator", "instance-types"],
  queryFn: async () => (await body(api.GET("/api/v1/operator/instance-types"))).items,
  refetchInterval: LIVE_MS,
});

export const proposalsQuery = queryOptions({
  queryKey: ["operator", "instance-type-proposals"],
  queryFn: async () => (await body(api.GET("/api/v1/operator/instance-types/proposals"))).items,
  refetchInterval: LIVE_MS,
});

export const healthQuery = queryOptions({
  queryKey: ["operator", "health"],
  queryFn: () => body(api.GET("/api/v1/operator/health")),
  refetchInterval: LIVE_MS,
});

/** Both days inclusive, in UTC. */
export const revenueQuery = (from: string, to: string) =>
  queryOptions({
    queryKey: ["operator", "revenue", from, to],
    queryFn: () => body(api.GET("/api/v1/operator/revenue", { params: { query: { from, to } } })),
    refetchInterval: 60_000,
  });

export const outboxQuery = queryOptions({
  queryKey: ["operator", "outbox"],
  queryFn: async () => (await body(api.GET("/api/v1/operator/outbox", { params: { query: { limit: 50 } } }))).items,
  refetchInterval: LIVE_MS,
});

/** One change by the operator: says that it is done, and everything that the operator sees is read again. */
export function useDecision<Wanted>(decide: (wanted: Wanted) => Promise<unknown>, sentence: string, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: decide,
    onSuccess: async () => {
      await Promise.all([
        queries.invalidateQueries({ queryKey: ["operator"] }),
        queries.invalidateQueries({ queryKey: ["instance-types"] }),
      ]);
      done(sentence);
      after();
    },
  });
}

/** Asks for the line that lets one machine in. */
export function useJoinCommand(ask: () => Promise<JoinCommand>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ask,
    onSuccess: () => queries.invalidateQueries({ queryKey: ["operator"] }),
  });
}

export const decisions = {
  suspend: (organization: NamedOrganization, reason: string) =>
    body(api.POST("/api/v1/operator/organizations/{organization_id}/suspend", { params: at(organization.id), body: { reason } })),
  resume: (organization: NamedOrganization) =>
    body(api.POST("/api/v1/operator/organizations/{organization_id}/resume", { params: at(organization.id) })),
  signOut: (user: UserSummary) =>
    body(api.POST("/api/v1/operator/users/{user_id}/sign-out", { params: { path: { user_id: user.id } } })),
  giveCredit: (credit: Schemas["CreditCreate"]) => body(api.POST("/api/v1/operator/credits", { body: credit })),
  confirm: (transfer: Transfer, receivedMicrousd: number) =>
    body(
      api.POST("/api/v1/operator/bank-transfers/{transfer_id}/confirm", {
        params: { path: { transfer_id: transfer.id } },
        body: { received_microusd: receivedMicrousd },
      }),
    ),
  expire: (transfer: Transfer) =>
    body(
      api.POST("/api/v1/operator/bank-transfers/{transfer_id}/expire", {
        params: { path: { transfer_id: transfer.id } },
      }),
    ),
  approve: (request: LimitRequest, answer: string | null) =>
    body(
      api.POST("/api/v1/operator/replica-limit-requests/{approval_id}/approve", {
        params: { path: { approval_id: request.id } },
        body: { answer },
      }),
    ),
  refuse: (request: LimitRequest, answer: string | null) =>
    body(
      api.POST("/api/v1/operator/replica-limit-requests/{approval_id}/refuse", {
        params: { path: { approval_id: request.id } },
        body: { answer },
      }),
    ),
  addMachine: (name: string | null) =>
    body(api.POST("/api/v1/operator/machines", { body: { infrastructure: "operator", name } })),
  ban: (machine: Machine, reason: string | null) =>
    body(api.POST("/api/v1/operator/machines/{machine_id}/ban", { params: its(machine), body: { reason } })),
  unban: (machine: Machine) => body(api.POST("/api/v1/operator/machines/{machine_id}/unban", { params: its(machine) })),
  voidEarnings: (machine: Machine, reason: string) =>
    body(api.POST("/api/v1/operator/machines/{machine_id}/void-earnings", { params: its(machine), body: { reason } })),
  confirmPayout: (payout: Payout, reference: string, sent: boolean) =>
    body(
      api.POST("/api/v1/operator/payouts/{payout_id}/confirm", {
        params: { path: { payout_id: payout.id } },
        body: { reference, sent },
      }),
    ),
  refusePayout: (payout: Payout, reason: string) =>
    body(
      api.POST("/api/v1/operator/payouts/{payout_id}/refuse", {
        params: { path: { payout_id: payout.id } },
        body: { reason },
      }),
    ),
  setIntake: (node: Node, intake: Intake) =>
    body(api.PUT("/api/v1/operator/nodes/{node}/intake", { params: { path: { node: node.name } }, body: { intake } })),
  addType: (wanted: Schemas["InstanceTypeWrite"]) =>
    body(api.POST("/api/v1/operator/instance-types", { body: wanted })),
  changeType: (type: InstanceType, change: Schemas["InstanceTypePatch"]) =>
    body(api.PATCH("/api/v1/operator/instance-types/{instance_type}", { params: named(type), body: change })),
  removeType: (type: InstanceType) =>
    body(api.DELETE("/api/v1/operator/instance-types/{instance_type}", { params: named(type) })),
};

function named(type: InstanceType) {
  return { path: { instance_type: type.name } };
}

function its(machine: { id: string }) {
  return { path: { machine_id: machine.id } };
}

function at(organizationId: string) {
  return { path: { organization_id: organizationId } };
}
