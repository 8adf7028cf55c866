import { Button, NumberInput, Select } from "@mantine/core";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import type { Container } from "@/api/queries";
import { Card } from "@/components/Page";
import { PriceRange } from "@/components/PriceRange";

import classes from "./Autoscaling.module.css";
import { BACK, type Policy, useReplay, useScale } from "./queries";
import { ReplayResult } from "./ReplayResult";

/** What a container of one replica is offered first. */
const FIRST: Policy = { min_replicas: 1, max_replicas: 2, target_concurrency: 4, scale_down_delay_s: 300 };

const FIELDS: { name: keyof Policy; label: string; description: string; least: number; suffix?: string }[] = [
  { name: "min_replicas", label: "Minimum", description: "always ready", least: 1 },
  { name: "max_replicas", label: "Maximum", description: "above 30 asks the operator", least: 1 },
  { name: "target_concurrency", label: "Target in flight", description: "requests per replica", least: 1 },
  { name: "scale_down_delay_s", label: "Scale down after", description: "of lower demand", least: 0, suffix: " s" },
];

/** A policy can be tried on what was asked of the container before it is applied. */
export function PolicyCard({ container, policy }: { container: Container; policy: Policy | null }) {
  const [changes, setChanges] = useState<Partial<Policy>>({});
  const [hours, setHours] = useState("24");
  const replay = useReplay(container);
  const scale = useScale(container);
  const wanted = { ...(policy ?? FIRST), ...changes };
  const isChanged = policy === null || FIELDS.some(({ name }) => wanted[name] !== policy[name]);
  const error = scale.error ?? replay.error;
  const wrong = error instanceof Problem ? error.fields() : {};
  const elsewhere = error && Object.keys(wrong).length === 0 ? messageOf(error) : null;
  return (
    <div className={classes.policy}>
      <Card title="Policy" hint={isChanged && policy ? "Not applied yet" : undefined}>
        <form
          className={classes.form}
          onSubmit={(event) => {
            event.preventDefault();
            scale.mutate(wanted, { onSuccess: () => setChanges({}) });
          }}
        >
          <div className={classes.fields}>
            {FIELDS.map(({ name, label, description, least, suffix }) => (
              <NumberInput
                key={name}
                label={label}
                description={description}
                min={least}
                suffix={suffix}
                value={wanted[name]}
                error={wrong[name]}
                onChange={(value) => {
                  scale.reset();
                  replay.reset();
                  if (typeof value === "number") setChanges({ ...changes, [name]: value });
                }}
              />
            ))}
          </div>
          <p className={classes.price}>
            <PriceRange
              microusd={container.price_per_hour_microusd}
              min={wanted.min_replicas}
              max={Math.max(wanted.max_replicas, wanted.min_replicas)}
            />{" "}
            for {wanted.min_replicas === wanted.max_replicas ? wanted.min_replicas : `${wanted.min_replicas} to ${wanted.max_replicas}`} replicas
          </p>
          {elsewhere ? (
            <p className={classes.problem} role="alert">
              {elsewhere}
            </p>
          ) : null}
          <div className={classes.actions}>
            {isChanged && policy ? (
              <Button variant="subtle" color="var(--m-ink-2)" onClick={() => setChanges({})}>
                Discard
              </Button>
            ) : null}
            <Button type="submit" disabled={!isChanged} loading={scale.isPending}>
              {policy ? "Apply" : "Let it scale"}
            </Button>
          </div>
        </form>
      </Card>
      <Card
        title="What if"
        hint="The policy, tried on past demand."
        action={
          <>
            <Select aria-label="How far back" w={152} data={BACK} value={hours} onChange={(value) => value && setHours(value)} />
            <Button
              variant="default"
              loading={replay.isPending}
              onClick={() => replay.mutate({ policy: wanted, hours: Number(hours) })}
            >
              Replay
            </Button>
          </>
        }
        flush
      >
        <ReplayResult replay={replay.data} />
      </Card>
    </div>
  );
}
