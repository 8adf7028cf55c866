import { useQuery } from "@tanstack/react-query";

import { LinkTo } from "@/components/LinkTo";
import { requestsQuery } from "@/containers/requests/queries";
import { askedFor, took } from "@/containers/requests/words";
import { paths } from "@/addresses/paths";

import classes from "./Logs.module.css";
import type { Line } from "./queries";

/** As gateways make them; a container gets its request's in X-Request-ID. */
const REQUEST_ID = /\breq_[0-9A-Za-z]+(?:-[0-9A-F]{16})?/;
const MOST = 3;

/** The request that a line names, else those that its instance was at when it was printed. */
export function LineRequests({ line, projectId }: { line: Line; projectId: string }) {
  const named = REQUEST_ID.exec(line.text)?.[0];
  const meanwhile = useQuery({
    ...requestsQuery(line.container_id, { at: line.time, instance: line.instance_id, limit: MOST + 1 }),
    enabled: !named && line.stream !== "moorage",
    staleTime: 10_000,
  }).data?.items;
  if (named) {
    return (
      <span>
        Request <LinkTo to={paths.receipt(projectId, line.container_id, named)}>{named}</LinkTo>
      </span>
    );
  }
  if (!meanwhile || meanwhile.length === 0) return null;
  return (
    <span className={classes.requests}>
      {meanwhile.length === 1 ? "Request at that time" : "Requests at that time"}
      {meanwhile.slice(0, MOST).map((one) => (
        <LinkTo key={one.request_id} to={paths.receipt(projectId, line.container_id, one.request_id)} title={one.request_id}>
          {askedFor(one) ?? one.request_id} {one.status ?? "no answer"}, {took(one.total_ms)}
        </LinkTo>
      ))}
      {meanwhile.length > MOST ? "and more" : null}
    </span>
  );
}
