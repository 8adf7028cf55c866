/** What can be said about a machine that joined. */
import { api, body } from "@/api/client";

import type { Machine } from "./machine";

/** By the operator about all of them, by an organization about those that it lends. */
export const words = {
  newCommand: (machine: { id: string }) => body(api.POST("/api/v1/machines/{machine_id}/command", { params: its(machine) })),
  pause: (machine: Machine, until: string | null = null) =>
    body(api.POST("/api/v1/machines/{machine_id}/pause", { params: its(machine), body: { until } })),
  resume: (machine: Machine) => body(api.POST("/api/v1/machines/{machine_id}/resume", { params: its(machine) })),
  drain: (machine: Machine) => body(api.POST("/api/v1/machines/{machine_id}/drain", { params: its(machine) })),
  reclaim: (machine: Machine) => body(api.POST("/api/v1/machines/{machine_id}/reclaim", { params: its(machine) })),
  remove: (machine: Machine, force: boolean) =>
    body(api.DELETE("/api/v1/machines/{machine_id}", { params: { ...its(machine), query: { force } } })),
};

function its(machine: { id: string }) {
  return { path: { machine_id: machine.id } };
}
