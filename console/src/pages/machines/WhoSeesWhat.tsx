import { Eye, Lock, UserRound } from "lucide-react";

import { Card } from "@/components/Page";

import classes from "./Machines.module.css";

const ICON = { size: 16, strokeWidth: 1.5, "aria-hidden": true };

/** What owners and tenants see of each other, without flattery: root reads memory. */
export function WhoSeesWhat() {
  return (
    <Card label="What owners and tenants see of each other">
      <div className={classes.sees}>
        <section>
          <h3>
            <Eye {...ICON} /> What you can see of tenants
          </h3>
          <ul>
            <li>How many replicas run here, and what they use.</li>
            <li>
              <strong>With root you can read their memory</strong>: prompts, weights, secrets. Each tenant is told so, and
              agrees first.
            </li>
          </ul>
        </section>
        <section>
          <h3>
            <Lock {...ICON} /> What you never get
          </h3>
          <ul>
            <li>Registry passwords, and names of tenants.</li>
            <li>A way to other machines or to the installation.</li>
            <li>Money for hours that no gateway saw served.</li>
          </ul>
        </section>
        <section>
          <h3>
            <UserRound {...ICON} /> What tenants can see of you
          </h3>
          <ul>
            <li>GPU, tier and reliability. Not your name.</li>
            <li>
              <strong>Their code goes out through your public IP</strong>, so they can learn it.
            </li>
            <li>
              It cannot reach your network or SMTP. It runs in a sandbox; a GPU outside of it only where the operator allows
              that, and then the command says so first.
            </li>
          </ul>
        </section>
      </div>
    </Card>
  );
}
