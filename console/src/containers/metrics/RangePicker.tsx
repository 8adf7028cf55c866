import { Button, Popover, SegmentedControl, Stack, Switch, TextInput } from "@mantine/core";
import { ChevronDown, Clock } from "lucide-react";
import { useState } from "react";

import { useNow } from "@/components/useNow";

import classes from "./Metrics.module.css";
import { RANGES, type Span, spanText } from "./range";

interface RangePickerProps {
  span: Span;
  change: (span: Span) => void;
}

/** The last minutes, hours or days, going on while Live is on; or any time from and to. */
export function RangePicker({ span, change }: RangePickerProps) {
  return (
    <>
      <Switch
        label="Live"
        checked={span.until === null}
        onChange={(event) => change({ ...span, until: event.currentTarget.checked ? null : Date.now() })}
      />
      <SegmentedControl
        aria-label="Range"
        value={String(span.seconds)}
        onChange={(value) => change({ seconds: Number(value), until: null })}
        data={RANGES.map(({ label, seconds }) => ({ value: String(seconds), label }))}
      />
      <Between span={span} change={change} />
    </>
  );
}

function Between({ span, change }: RangePickerProps) {
  const now = useNow(10_000).getTime();
  const [opened, setOpened] = useState(false);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" shadow="md" trapFocus>
      <Popover.Target>
        <Button
          variant="default"
          className={classes.between}
          leftSection={<Clock size={16} strokeWidth={1.5} />}
          rightSection={<ChevronDown size={14} strokeWidth={1.5} />}
          onClick={() => setOpened(!opened)}
        >
          {spanText(span, now)}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        {opened ? (
          <BetweenForm
            span={span}
            choose={(chosen) => {
              change(chosen);
              setOpened(false);
            }}
          />
        ) : null}
      </Popover.Dropdown>
    </Popover>
  );
}

function BetweenForm({ span, choose }: { span: Span; choose: (span: Span) => void }) {
  const [until] = useState(() => span.until ?? Date.now());
  const [from, setFrom] = useState(() => localTime(until - span.seconds * 1000));
  const [to, setTo] = useState(() => localTime(until));
  const seconds = (Date.parse(to) - Date.parse(from)) / 1000;
  const isRange = seconds >= 60;
  return (
    <form
      className={classes.betweenForm}
      onSubmit={(event) => {
        event.preventDefault();
        if (isRange) choose({ seconds, until: Date.parse(to) });
      }}
    >
      <Stack gap={12}>
        <TextInput type="datetime-local" label="From" value={from} onChange={(event) => setFrom(event.currentTarget.value)} />
        <TextInput
          type="datetime-local"
          label="To"
          value={to}
          error={isRange ? null : "Choose a time at least a minute after From."}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
        <Button type="submit">Show</Button>
      </Stack>
    </form>
  );
}

/** As the field wants it: in the reader's zone, to the minute. */
function localTime(time: number): string {
  const zoned = new Date(time - new Date(time).getTimezoneOffset() * 60_000);
  return zoned.toISOString().slice(0, 16);
}
