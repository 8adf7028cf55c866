import { Button, Kbd, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Plus, Search } from "lucide-react";
import { useRef, useState } from "react";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { type Container, containersQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Empty, ErrorNotice, Waiting } from "@/components/Patterns";

import { ContainerRow, ROW_HEIGHT } from "./ContainerRow";
import { Kinds } from "./Kinds";
import classes from "./Service.module.css";

const NAMES_TO_FILTER = 2;

export function ContainerList({ selected }: { selected: string | undefined }) {
  const { project } = useProject();
  const { data: containers, error, refetch } = useQuery(containersQuery(project.id));
  const [text, setText] = useState("");
  const filter = useRef<HTMLInputElement>(null);
  useHotkeys([["/", () => filter.current?.focus()]]);
  const shown = (containers ?? []).filter((one) => one.name.toLowerCase().includes(text.trim().toLowerCase()));
  return (
    <section className={classes.list} aria-label="Containers">
      {selected ? null : <h1 className="visually-hidden">Containers</h1>}
      <div className={classes.listHead}>
        <Kinds />
        <div className={classes.filterRow}>
          <TextInput
            ref={filter}
            className={classes.filter}
            aria-label="Filter containers"
            placeholder={filterHint(containers?.length)}
            leftSection={<Search size={16} strokeWidth={1.5} />}
            rightSection={text ? null : <Kbd className={classes.slash}>/</Kbd>}
            value={text}
            disabled={(containers?.length ?? 0) < NAMES_TO_FILTER && !text}
            onChange={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Escape" && setText("")}
          />
          <Button component={LinkTo} to={paths.create(project.id)} leftSection={<Plus size={16} strokeWidth={1.5} />}>
            Create
          </Button>
        </div>
      </div>
      {error && !containers ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!containers && !error ? <Waiting rows={5} height={44} /> : null}
      {containers?.length === 0 ? (
        <Empty command="moor deploy -f examples/chat/container.toml">
          Nothing runs here yet. Deploy the example in a minute.
        </Empty>
      ) : null}
      {containers && containers.length > 0 && shown.length === 0 ? <Empty>No container has that name.</Empty> : null}
      {shown.length > 0 ? <Rows containers={shown} selected={selected} projectId={project.id} /> : null}
    </section>
  );
}

function Rows(props: { containers: Container[]; selected: string | undefined; projectId: string }) {
  const scroller = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
   
  const rows = useVirtualizer({
    count: props.containers.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  const onKeyDown = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = props.containers.findIndex((one) => one.id === props.selected);
    const next = props.containers[Math.min(Math.max(at + step, 0), props.containers.length - 1)];
    if (!next) return;
    rows.scrollToIndex(props.containers.indexOf(next));
    void navigate({ to: paths.container(props.projectId, next.id) });
  };
  return (
    <div ref={scroller} className={classes.rows} onKeyDown={onKeyDown}>
      <ul style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((row) => {
          const container = props.containers[row.index]!;
          return (
            <li key={container.id} className={classes.rowPlace} style={{ transform: `translateY(${row.start}px)` }}>
              <ContainerRow container={container} selected={container.id === props.selected} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function filterHint(count: number | undefined): string {
  if (count === undefined) return "Filter";
  return count === 1 ? "1 container" : `Filter ${count} containers`;
}
