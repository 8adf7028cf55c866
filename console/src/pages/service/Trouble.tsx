import { TriangleAlert } from "lucide-react";

import type { Container } from "@/api/queries";

import classes from "./ContainerDetail.module.css";

/** It serves, and not as it should: with fewer replicas, failing checks, or the settings from before. */
export function Trouble({ container }: { container: Container }) {
  if (container.state !== "RUNNING" || !container.message) return null;
  return (
    <p className={classes.trouble} role="status" aria-label="Trouble">
      <TriangleAlert size={16} strokeWidth={1.5} aria-hidden /> {container.message}
    </p>
  );
}
