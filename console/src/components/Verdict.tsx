import { ArrowRight } from "lucide-react";
import type { ReactNode } from "react";

import { StateIcon } from "./StateIcon";
import classes from "./Verdict.module.css";

interface VerdictProps {
  /** The server's sentence: what is wrong, and after it what to do. */
  message: string;
  reason: string | null;
  /** The change of one setting that would likely fix it. */
  fix?: { from: string | number; to: string | number } | null;
  /** What that change is, in words. */
  change?: string;
  actions?: ReactNode;
  label?: string;
}

/** Why a container is not running: the exact sentence as the title, seen against expected where it says both. */
export function Verdict({ message, reason, fix, change, actions, label = "Why it is not running" }: VerdictProps) {
  const { title, advice } = split(message);
  const seen = /^Listens on ([^;]+); expected (\S+)$/.exec(title);
  const answered = /^GET (\S+) answered (\d+); expected 200$/.exec(title);
  return (
    <section className={classes.verdict} aria-label={label}>
      <header className={classes.head}>
        <StateIcon state="FAILED" size={20} />
        <div>
          <h2 className={classes.title}>{title}</h2>
          {WHY[reason ?? ""] ? <p className={classes.why}>{WHY[reason ?? ""]}</p> : null}
        </div>
      </header>
      <div className={classes.body}>
        {seen ? <Comparison seen={seen[1] ?? ""} expected={seen[2] ?? ""} what="Seen inside the container" /> : null}
        {answered ? <Comparison seen={answered[2] ?? ""} expected="200" what={`GET ${answered[1]} answered`} /> : null}
        <div>
          <h3 className={classes.subtitle}>
            What to do{fix && change ? `: ${change}` : ""}
          </h3>
          {fix ? (
            <pre className={classes.diff} tabIndex={0} aria-label="The change">
              <span data-change="from">- {fix.from}</span>
              <span data-change="to">+ {fix.to}</span>
            </pre>
          ) : (
            <p className={classes.advice}>{advice || "Fix the settings and start it again."}</p>
          )}
          {actions ? <div className={classes.actions}>{actions}</div> : null}
        </div>
      </div>
    </section>
  );
}

function Comparison({ seen, expected, what }: { seen: string; expected: string; what: string }) {
  return (
    <div>
      <h3 className={classes.subtitle}>What we saw</h3>
      <div className={classes.comparison}>
        <div className={classes.seen}>
          <span>{what}</span>
          <code>{seen}</code>
        </div>
        <ArrowRight size={16} strokeWidth={1.5} aria-hidden />
        <div className={classes.expected}>
          <span>Expected</span>
          <code>{expected}</code>
        </div>
      </div>
    </div>
  );
}

/** The first sentence names the fact, the rest says what to do. A dot inside an address ends no sentence. */
function split(message: string): { title: string; advice: string } {
  const end = /[.!?]\s+(?=[A-Z])/.exec(message);
  if (!end) return { title: message.replace(/\.$/, ""), advice: "" };
  return { title: message.slice(0, end.index), advice: message.slice(end.index + end[0].length) };
}

const WHY: Record<string, string> = {
  listens_on_loopback_only:
    "Your server runs, but an address of 127.0.0.1 can be reached only from inside its own container, so no request arrives.",
  listens_on_other_port: "Your server runs, but not on the port that requests are sent to.",
  port_not_listening: "The process runs, but nothing accepted a connection before the time was up.",
  health_check_status: "Your server answers, but not with 200, so it never counted as ready.",
  health_check_timeout: "Your server accepted the connection and then did not answer in time.",
  image_not_found: "The registry was reached and has no such image.",
  registry_auth_failed: "The registry was reached and refused these credentials.",
  exited: "The process ended before it was ready. Its last lines are below.",
  out_of_memory: "The kernel ended the process because it used more memory than it has.",
};
