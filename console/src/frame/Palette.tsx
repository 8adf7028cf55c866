import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { containersQuery } from "@/api/queries";
import { useAnyAction } from "@/containers/queries";
import { useUnderTraffic } from "@/containers/useUnderTraffic";

import { CreateProject } from "./CreateProject";
import { found, type Target } from "./found";
import { PaletteDialog, PaletteList } from "./PaletteList";
import { usePaletteTargets } from "./usePaletteTargets";

/** ⌘K: anything of this project by a few letters of its name, and what can be done with it. */
export function Palette() {
  const { project } = useProject();
  const [creating, setCreating] = useState(false);
  const disruptive = useUnderTraffic();
  const queries = useQueryClient();
  const start = useAnyAction(() => undefined);
  const act = ({ act: action, containerId }: { act: string; containerId?: string }) => {
    const container = queries.getQueryData(containersQuery(project.id).queryKey)?.find((one) => one.id === containerId);
    if (action === "new project") setCreating(true);
    else if (container && (action === "stop" || action === "restart")) void disruptive.ask(container, action);
    else if (container) start.mutate({ containerId: container.id, action: "start" });
  };
  return (
    <>
      {/* A dialog that it opened has the focus. */}
      <PaletteDialog returnFocus={!creating}>{(close) => <PaletteBody close={close} act={act} />}</PaletteDialog>
      <CreateProject organizationId={project.organization_id} opened={creating} close={() => setCreating(false)} />
      {disruptive.dialog}
    </>
  );
}

interface PaletteBodyProps {
  close: () => void;
  act: (action: { act: string; containerId?: string }) => void;
}

function PaletteBody({ close, act }: PaletteBodyProps) {
  const [text, setText] = useState("");
  const shown = [...requestNamed(text), ...found(usePaletteTargets(), text)];
  return (
    <PaletteList
      label="Name of a container, project, page or action, or a request's id"
      placeholder="A container, a page, “logs”, “stop”, or a request's id"
      text={text}
      setText={setText}
      shown={shown}
      close={close}
      act={act}
    />
  );
}

/** A request is not searched for: who has its id goes to its receipt. */
function requestNamed(text: string): Target[] {
  const id = /^\s*(req_[0-9A-Za-z-]+)\s*$/.exec(text)?.[1];
  return id ? [{ label: id, kind: "Request", open: { to: paths.request(id) } }] : [];
}
