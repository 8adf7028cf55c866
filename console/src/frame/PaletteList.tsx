import { Modal, TextInput, UnstyledButton } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";

import type { Target } from "./found";
import classes from "./Frame.module.css";

/** As the key beside K is called here. */
const SHORTCUT = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";

interface PaletteDialogProps {
  /** Whether what had the focus has it again when this closes. */
  returnFocus?: boolean;
  children: (close: () => void) => ReactNode;
}

/** ⌘K, or the button in the bar. */
export function PaletteDialog({ returnFocus = true, children }: PaletteDialogProps) {
  const [opened, setOpened] = useState(false);
  useHotkeys([["mod+K", () => setOpened(true)]], []);
  const close = () => setOpened(false);
  return (
    <>
      <UnstyledButton className={classes.search} onClick={() => setOpened(true)} aria-label={`Search or jump to… ${SHORTCUT}`}>
        <Search size={16} strokeWidth={1.5} aria-hidden />
        <span>Search or jump to…</span>{" "}
        <kbd>{SHORTCUT}</kbd>
      </UnstyledButton>
      <Modal
        opened={opened}
        onClose={close}
        withCloseButton={false}
        returnFocus={returnFocus}
        yOffset="12vh"
        centered={false}
        title="Search or jump to"
        classNames={{ header: "visually-hidden", body: classes.paletteBody }}
      >
        {children(close)}
      </Modal>
    </>
  );
}

interface PaletteListProps {
  label: string;
  placeholder: string;
  text: string;
  setText: (text: string) => void;
  shown: Target[];
  /** What is not known yet, or could not be found out; else that nothing has that name. */
  note?: string | undefined;
  close: () => void;
  act?: (action: { act: string; containerId?: string }) => void;
}

/** What was found, by keyboard as well. */
export function PaletteList({ label, placeholder, text, setText, shown, note, close, act }: PaletteListProps) {
  const [selected, setSelected] = useState(0);
  const navigate = useNavigate();
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector("[data-selected]")?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  const open = (target: Target | undefined) => {
    if (!target) return;
    close();
    if ("to" in target.open) void navigate({ to: target.open.to });
    else if ("href" in target.open) window.open(target.open.href, "_blank", "noopener");
    else act?.(target.open);
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
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setSelected(0);
        }}
        leftSection={<Search size={16} strokeWidth={1.5} />}
      />
      <div ref={list} className={classes.paletteList} role="listbox" aria-label="Found">
        {shown.map((target, index) => (
          <UnstyledButton
            key={JSON.stringify([target.open, target.label])}
            className={classes.paletteItem}
            role="option"
            aria-selected={index === selected}
            data-selected={index === selected || undefined}
            onClick={() => open(target)}
          >
            <span className={classes.paletteName}>{target.label}</span>
            <small>{target.kind}</small>
          </UnstyledButton>
        ))}
        {note || shown.length === 0 ? (
          <p className={classes.paletteItem} role="status">
            {note ?? "Nothing has that name."}
          </p>
        ) : null}
      </div>
    </div>
  );
}
