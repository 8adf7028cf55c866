import { Card } from "@/components/Page";
import { Table } from "@/components/Table";
import { clockTime } from "@/components/times";

import classes from "./Capsules.module.css";
import type { Capsule } from "./queries";
import { outcomeInWords } from "./words";

/** How its health checks went: runs of equal outcomes, as wide as they were many. */
export function Probes({ capsule }: { capsule: Capsule }) {
  const { probes } = capsule;
  const total = probes.reduce((sum, run) => sum + run.count, 0);
  const answered = probes.filter((run) => run.outcome === "ok").reduce((sum, run) => sum + run.count, 0);
  const hint = total === 0 ? undefined : `${total === 1 ? "1 probe" : `${total} probes`}, ${answered === 0 ? "none" : answered} answered`;
  return (
    <Card title="Probe history" hint={hint} flush>
      {total === 0 ? (
        <p className={classes.none}>It ended before the first health check.</p>
      ) : (
        <>
          <div className={classes.runs} aria-hidden>
            {probes.map((run) => (
              <i key={run.first_at} data-outcome={run.outcome === "ok" ? "ok" : "bad"} style={{ flexGrow: run.count }} />
            ))}
          </div>
          <Table
            rows={probes}
            rowKey={(run) => run.first_at}
            empty=""
            columns={[
              { head: "From", cell: (run) => clockTime(run.first_at) },
              { head: "To", cell: (run) => clockTime(run.last_at) },
              {
                head: "Outcome",
                cell: (run) => <span data-tone={run.outcome === "ok" ? "ok" : "bad"}>{outcomeInWords(run)}</span>,
              },
              { head: "Seen by", wide: true, cell: (run) => run.by },
              { head: "Probes", right: true, cell: (run) => run.count },
            ]}
          />
        </>
      )}
    </Card>
  );
}
