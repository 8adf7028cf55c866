import { useConnection } from "@/api/connection";
import { clockTime } from "@/components/times";

import classes from "./Frame.module.css";

/** Below everything while the service does not answer: what is on the page is from then. */
export function ConnectionBar() {
  const { lost, answeredAt } = useConnection();
  if (!lost) return null;
  return (
    <div role="alert" className={classes.connectionLost}>
      Connection lost. Showing {clockTime(new Date(answeredAt).toISOString())}. Trying again.
    </div>
  );
}
