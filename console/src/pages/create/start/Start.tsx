import { Button, TextInput } from "@mantine/core";
import { type ReactNode, useEffect, useId, useRef } from "react";

import { providerOf } from "@/containers/form/BaseFields";
import { EXAMPLE } from "@/containers/form/draft";

import { Gallery } from "./Gallery";
import { ModelPanel } from "./ModelPanel";
import { ANEW, type Origin } from "./origin";
import type { StartProps } from "./props";
import classes from "./Start.module.css";

/** The first step: from a model, from a template, or an image of one's own. */
export function Start(props: StartProps) {
  const { origin, changeOrigin } = props;
  const choose = (kind: Origin["kind"]) => changeOrigin({ kind });
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // Where fingers point, a field with the focus brings a keyboard that covers half of the page.
    if (window.matchMedia("(pointer: fine)").matches) input.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div className={classes.ways} role="group" aria-label="What should run">
      <Way kind="model" title="From a model" text="We read its size, choose the server and work out the memory." {...{ origin, choose }}>
        {origin.kind === "model" ? <ModelPanel {...props} input={input} /> : null}
      </Way>
      <Way kind="template" title="From a template" text="A ready-made server; you choose the model." {...{ origin, choose }}>
        <Gallery
          template={origin.kind === "template" ? origin.template : null}
          choose={({ name, example }) => changeOrigin({ ...ANEW, kind: "template", template: name, model: example })}
        />
        {origin.kind === "template" && origin.template ? <ModelPanel {...props} input={input} /> : null}
        {origin.kind === "template" && !origin.template && props.errors["model"] ? (
          <p className={classes.error}>{props.errors["model"]}</p>
        ) : null}
      </Way>
      <Way kind="image" title="Your own image" {...{ origin, choose }}>
        <OwnImage {...props} />
      </Way>
    </div>
  );
}

interface WayProps {
  kind: Origin["kind"];
  title: string;
  text?: string;
  origin: Origin;
  choose: (kind: Origin["kind"]) => void;
  children: ReactNode;
}

function Way({ kind, title, text, origin, choose, children }: WayProps) {
  const id = useId();
  const checked = origin.kind === kind;
  return (
    <section className={classes.way} data-kind={kind} data-checked={checked || undefined} aria-label={title}>
      <div className={classes.wayHead}>
        <input id={id} type="radio" name="way" checked={checked} onChange={() => choose(kind)} />
        <h3>
          <label htmlFor={id}>{title}</label>
        </h3>
        {text ? <span>{text}</span> : null}
      </div>
      {children}
    </section>
  );
}

function OwnImage({ origin, changeOrigin, draft, change, errors }: StartProps) {
  const isOwn = origin.kind === "image";
  return (
    <div className={classes.own}>
      <p>Any registry, public or private. You set the port, the command and the health check.</p>
      <TextInput
        label="Image"
        placeholder="ghcr.io/you/server:1.0"
        value={isOwn ? draft.image : ""}
        error={isOwn ? errors["image"] : undefined}
        onChange={(event) => {
          const image = event.currentTarget.value;
          changeOrigin({ kind: "image" }, { image, provider: providerOf(image.trim()) ?? draft.provider });
        }}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12 } }}
        autoComplete="off"
        spellCheck={false}
      />
      {isOwn && !draft.image ? (
        <Button variant="default" onClick={() => change(EXAMPLE)}>
          Use the example
        </Button>
      ) : null}
    </div>
  );
}
