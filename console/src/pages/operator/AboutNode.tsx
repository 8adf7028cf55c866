import { Copy } from "@/components/Copy";
import { Card } from "@/components/Page";
import { gpuName } from "@/containers/resources";

import { unusable } from "./machineList";
import classes from "./Operator.module.css";
import type { Node } from "./queries";

/** How its GPUs get into containers, and what is wrong with it: each with the command that helps. */
export function AboutNode({ node }: { node: Node }) {
  const broken = unusable(node);
  if (!node.message && node.findings.length === 0 && broken.length === 0) return null;
  const worstFirst = [...node.findings].sort((one, other) => Number(other.broken) - Number(one.broken));
  return (
    <Card title={node.name}>
      {node.message ? <p className={classes.quiet}>{node.message}</p> : null}
      {broken.map((gpu) => (
        <p key={gpu.device_id} className={classes.quiet}>
          <span data-tone="bad">{`${gpuName(gpu.model)} ${gpu.device_id}: ${gpu.unusable_because}.`}</span>
        </p>
      ))}
      <ul className={classes.findings}>
        {worstFirst.map((finding) => (
          <li key={finding.code + finding.message}>
            <span data-tone={finding.broken ? "bad" : "warn"}>{finding.broken ? "Broken" : "At risk"}</span>
            <span>{finding.message}</span>
            <code>{finding.command}</code>
            <Copy text={finding.command} label="Copy the command" />
          </li>
        ))}
      </ul>
    </Card>
  );
}
