import { UnstyledButton } from "@mantine/core";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";
import { isDeploying } from "@/components/state";
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
        <span>Endpoint</span>
        <code>
          <bdi>{container.endpoint_url}</bdi>
        </code>
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
          <span className={classes.hint}>
            {isDeploying(container.state) ? "It answers once a replica is ready. " : ""}Needs an API key of this project.{" "}
            <LinkTo to={paths.section(container.project_id, "api-keys")}>Create one</LinkTo>
          </span>
          <Copy text={text} label="Copy code" />
        </div>
        <Code text={text} />
      </div>
    </section>
  );
}
