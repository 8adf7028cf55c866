import { useQuery } from "@tanstack/react-query";

import { Sentence } from "@/components/Sentence";

import classes from "./Machines.module.css";
import { tunnelQuery } from "./queries";

/** While the installation's end of the tunnel is not open, no machine can join or answer: says why. */
export function TunnelNotice() {
  const tunnel = useQuery(tunnelQuery).data;
  if (!tunnel || (tunnel.state !== "failing" && tunnel.state !== "opening")) return null;
  return (
    <p className={classes.notice} data-state={tunnel.state} role="status">
      <Sentence text={tunnel.message} />
    </p>
  );
}
