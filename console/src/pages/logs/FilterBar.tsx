import { Button, Kbd, Select, Switch, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { CircleMinus, Download, Search, SlidersHorizontal } from "lucide-react";
import { useRef, useState } from "react";

import type { Container } from "@/api/queries";
import { lineTime } from "@/components/times";
import { replicasQuery } from "@/containers/queries";
import { shortId } from "@/containers/resources";

import { address, type Filter, healthCheckText, howManyFolded, MOST_TEXT, type Range, RANGES } from "./filter";
import classes from "./Logs.module.css";

/** Of the time ranges: the one that somebody came with. */
const ENDED = "ended";

interface FilterBarProps {
  container: Container;
  filter: Filter;
  change: (changes: Partial<Filter>) => void;
  live: boolean;
  setLive: (live: boolean) => void;
}

/** On a phone only the text and Live are there at once; the rest comes with one button. */
export function FilterBar({ container, filter, change, live, setLive }: FilterBarProps) {
  const replicas = useQuery(replicasQuery(container.id)).data ?? [];
  // One that a request leads to may have ended long ago.
  const instances = [...new Set([...replicas.map((one) => one.id), ...(filter.instance ? [filter.instance] : [])])];
  const text = useRef<HTMLInputElement>(null);
  const healthChecks = healthCheckText(container.health_check.path);
  const [unfolded, setUnfolded] = useState(false);
  const folded = howManyFolded(filter);
  useHotkeys([["/", () => text.current?.focus()]]);
  return (
    <div className={classes.filters} data-unfolded={unfolded || undefined}>
      <TextInput
        ref={text}
        className={classes.text}
        aria-label="Text in the line"
        placeholder="Text in the line"
        leftSection={<Search size={16} strokeWidth={1.5} />}
        rightSection={filter.text ? null : <Kbd className={classes.slash}>/</Kbd>}
        value={filter.text}
        maxLength={MOST_TEXT}
        onChange={(event) => change({ text: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Escape" && change({ text: "" })}
      />
      <Button
        className={classes.unfold}
        variant="default"
        aria-expanded={unfolded}
        leftSection={<SlidersHorizontal size={16} strokeWidth={1.5} />}
        onClick={() => setUnfolded(!unfolded)}
      >
        Filters{folded > 0 ? ` ${folded}` : ""}
      </Button>
      <TextInput
        className={`${classes.exclude} ${classes.folds}`}
        aria-label="Leave out lines with"
        placeholder="Leave out, e.g. /health"
        leftSection={<CircleMinus size={16} strokeWidth={1.5} />}
        value={filter.exclude}
        maxLength={MOST_TEXT}
        onChange={(event) => change({ exclude: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Escape" && change({ exclude: "" })}
      />
      <Select
        className={`${classes.select} ${classes.folds}`}
        aria-label="Time range"
        data={[
          ...(filter.ended ? [{ value: ENDED, label: `Until ${lineTime(new Date(filter.chosenAt).toISOString())}` }] : []),
          ...Object.entries(RANGES).map(([value, { label }]) => ({ value, label })),
        ]}
        value={filter.ended ? ENDED : filter.range}
        onChange={(value) => value && value !== ENDED && change({ range: value as Range, ended: false })}
      />
      <Select
        className={`${classes.select} ${classes.folds}`}
        aria-label="Instance"
        data={[
          { value: "", label: replicas.length > 1 ? `All ${replicas.length} instances` : "All instances" },
          ...instances.map((id) => ({ value: id, label: shortId(id) })),
        ]}
        value={filter.instance}
        onChange={(value) => change({ instance: value ?? "" })}
      />
      <Select
        className={`${classes.narrow} ${classes.folds}`}
        aria-label="Stream"
        data={[
          { value: "", label: "All streams" },
          { value: "stdout", label: "out" },
          { value: "stderr", label: "err" },
          { value: "moorage", label: "Moorage" },
        ]}
        value={filter.stream}
        onChange={(value) => change({ stream: (value ?? "") as Filter["stream"] })}
      />
      {healthChecks ? (
        <Switch
          className={classes.folds}
          label="Hide health checks"
          checked={filter.exclude === healthChecks}
          onChange={(event) => change({ exclude: event.currentTarget.checked ? healthChecks : "" })}
        />
      ) : null}
      <Switch
        className={classes.live}
        label="Live"
        checked={live}
        onChange={(event) => {
          // Again from now, so that no line between the pause and here is missing.
          if (event.currentTarget.checked) change({ ended: false });
          setLive(event.currentTarget.checked);
        }}
      />
      <Button
        component="a"
        className={classes.folds}
        href={address(container.id, "download", filter)}
        download
        variant="default"
        leftSection={<Download size={16} strokeWidth={1.5} />}
      >
        Download
      </Button>
    </div>
  );
}
