import { Modal, TextInput, UnstyledButton } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { sections } from "@/addresses/sections";
import { useProject } from "@/addresses/useProject";
import { containersQuery, projectsQuery } from "@/api/queries";

import classes from "./Frame.module.css";

interface Target {
  label: string;
  kind: string;
  to: string;
}

const MOST = 50;

/** As the key beside K is called here. */
const SHORTCUT = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";

/** ⌘K: anything of this project by a few letters of its name. */
export function Palette() {
  const [opened, setOpened] = useState(false);
  useHotkeys([["mod+K", () => setOpened(true)]], []);
  return (
    <>
      <UnstyledButton className={classes.search} onClick={() => setOpened(true)} aria-label={`Search or jump to ${SHORTCUT}`}>
        <Search size={16} strokeWidth={1.5} aria-hidden />
        <span>Search or jump to</span>{" "}
        <kbd>{SHORTCUT}</kbd>
      </UnstyledButton>
      <Modal
        opened={opened}
        onClose={() => setOpened(false)}
        withCloseButton={false}
        yOffset="12vh"
        centered={false}
        title="Search or jump to"
        classNames={{ header: "visually-hidden", body: classes.paletteBody }}
      >
        <PaletteBody close={() => setOpened(false)} />
      </Modal>
    </>
  );
}

function PaletteBody({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [selected, setSelected] = useState(0);
  const navigate = useNavigate();
  const found = [...requestNamed(text), ...useTargets().filter((one) => one.label.toLowerCase().includes(text.trim().toLowerCase()))];
  const shown = found.slice(0, MOST);
  const open = (target: Target | undefined) => {
    if (!target) return;
    close();
    void navigate({ to: target.to });
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setSelected((selected + step + shown.length) % Math.max(shown.length, 1));
    } else if (event.key === "Enter") {
      open(shown[selected]);
    }
  };
  return (
    <div onKeyDown={onKeyDown}>
      <TextInput
        className={classes.paletteInput}
        data-autofocus
        aria-label="Name of a container, project or page, or a request's id"
        placeholder="Name of a container, project or page, or a request's id"
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setSelected(0);
        }}
        leftSection={<Search size={16} strokeWidth={1.5} />}
      />
      <div className={classes.paletteList} role="listbox" aria-label="Found">
        {shown.map((target, index) => (
          <UnstyledButton
            key={target.to}
            className={classes.paletteItem}
            role="option"
            aria-selected={index === selected}
            data-selected={index === selected || undefined}
            onClick={() => open(target)}
          >
            {target.label}
            <small>{target.kind}</small>
          </UnstyledButton>
        ))}
        {shown.length === 0 ? <p className={classes.paletteItem}>Nothing has that name.</p> : null}
      </div>
    </div>
  );
}

/** A request is not searched for: who has its id goes to its receipt. */
function requestNamed(text: string): Target[] {
  const id = /^\s*(req_[0-9A-Za-z-]+)\s*$/.exec(text)?.[1];
  return id ? [{ label: id, kind: "Request", to: paths.request(id) }] : [];
}

function useTargets(): Target[] {
  const { project, isAdmin } = useProject();
  const containers = useQuery(containersQuery(project.id)).data ?? [];
  const { data: projects } = useSuspenseQuery(projectsQuery(project.organization_id));
  return [
    ...containers.map((one) => ({ label: one.name, kind: "Container", to: paths.container(project.id, one.id) })),
    { label: "Create a container", kind: "Action", to: paths.create(project.id) },
    ...sections
      .filter((one) => isAdmin || !one.adminOnly)
      .map((one) => ({ label: one.label, kind: "Page", to: paths.section(project.id, one.section) })),
    ...projects
      .filter((one) => one.id !== project.id)
      .map((one) => ({ label: one.name, kind: "Project", to: paths.service(one.id) })),
  ];
}
