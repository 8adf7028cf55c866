import { UnstyledButton } from "@mantine/core";
import { useState } from "react";

import type { Container } from "@/api/queries";
import { Copy } from "@/components/Copy";
import { useServed } from "@/containers/served";

import { Code } from "./Code";
import classes from "./ContainerDetail.module.css";
import { type Language, LANGUAGES, snippet } from "./snippets";

/** The endpoint first: it is what a container is for. */
export function Endpoint({ container }: { container: Container }) {
  const [language, setLanguage] = useState<Language>("curl");
  const text = snippet(language, container.endpoint_url, useServed(container));
  return (
    <section className={classes.endpoint} aria-label="Endpoint">
      <div className={classes.url}>
        Endpoint
        <code>{container.endpoint_url}</code>
        <Copy text={container.endpoint_url} label="Copy URL" withLabel />
      </div>
      <div className={classes.snippet}>
        <div className={classes.snippetHead}>
          <div className={classes.languages} role="tablist" aria-label="Language">
            {LANGUAGES.map((one) => (
              <UnstyledButton
                key={one}
                role="tab"
                aria-selected={one === language}
                className={classes.language}
                onClick={() => setLanguage(one)}
              >
                {one}
              </UnstyledButton>
            ))}
          </div>
          <span className={classes.hint}>Needs an API key of this project.</span>
          <Copy text={text} label="Copy code" />
        </div>
        <Code text={text} />
      </div>
    </section>
  );
}
