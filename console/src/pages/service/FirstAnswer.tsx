import { Navigate, useSearch } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { isDeploying } from "@/components/state";

import classes from "./ContainerDetail.module.css";

/** Whoever deployed it to see an answer is led to where one is asked for, as soon as one can be given. */
export function ThenPlayground({ container }: { container: Container }) {
  const { then } = useSearch({ strict: false }) as { then?: "playground" };
  if (then !== "playground") return null;
  if (container.state === "RUNNING") {
    return <Navigate to={paths.dashboard(container.project_id, container.id, "playground")} replace />;
  }
  if (!isDeploying(container.state)) return null;
  return <p className={classes.then}>The playground opens as soon as it answers.</p>;
}
