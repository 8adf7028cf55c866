import type { Billing } from "@/api/queries";
import { Figures } from "@/components/Figures";
import { Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { runOut } from "@/components/runOut";
import { dayAndTime, duration } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Billing.module.css";

/** Three figures: what is there, what it is spent on, when it ends. */
export function Credit({ billing }: { billing: Billing }) {
  const now = useNow(30_000);
  const end = billing.runs_out_at ? new Date(billing.runs_out_at) : null;
  const most = billing.burn_maximum_per_hour_microusd;
  return (
    <Card label="Credit">
      <Figures
        figures={[
          {
            name: "Balance",
            value: <Money microusd={billing.balance_microusd} />,
            note:
              billing.held_microusd > 0 ? (
                <>
                  <Money microusd={billing.held_microusd} /> of it on hold for starts
                </>
              ) : (
                "nothing on hold"
              ),
          },
          {
            name: "Spending now",
            value: (
              <>
                <Money microusd={billing.burn_per_hour_microusd} />
                <small>/h</small>
              </>
            ),
            note:
              most > billing.burn_per_hour_microusd ? (
                <>
                  up to <Money microusd={most} per="h" /> at full scale
                </>
              ) : (
                "for what runs"
              ),
          },
          {
            name: "Runs out",
            value: end ? dayAndTime(end, now) : "Not while nothing runs",
            tone: runOut(billing, now)?.tone,
            note: end ? `in ${duration(end.getTime() - now.getTime())} at this rate` : "nothing is spent now",
          },
        ]}
      />
      {billing.initial_credit ? <p className={classes.begin}>{billing.initial_credit}</p> : null}
      {billing.suspended ? <p className={classes.suspended}>Suspended by the operator: nothing starts until it is lifted.</p> : null}
    </Card>
  );
}
