import type { RefObject } from "react";

import { Waiting } from "@/components/Patterns";

import { Choices } from "./Choices";
import { Examples } from "./Examples";
import { Fits } from "./Fits";
import { Load } from "./Load";
import { ModelFacts } from "./ModelFacts";
import { ModelField } from "./ModelField";
import { chosenFit } from "./origin";
import type { StartProps } from "./props";
import classes from "./Start.module.css";

/** A model: what the hub says of it, where it fits, and what that fills in. */
export function ModelPanel({ input, ...props }: StartProps & { input: RefObject<HTMLInputElement | null> }) {
  const { origin, changeOrigin, draft, change, asked, token, setToken, errors, goOn } = props;
  const { plan } = asked;
  const settings = plan ? chosenFit(plan, origin, draft.infrastructure)?.settings : null;
  return (
    <>
      <div className={classes.panel}>
        <div className={classes.wish}>
          <ModelField {...{ origin, asked, token, setToken, input, goOn }} change={changeOrigin} error={errors["model"]} />
          {plan ? <ModelFacts plan={plan} /> : null}
          {plan ? <Load plan={plan} origin={origin} change={changeOrigin} /> : null}
        </div>
        {plan ? (
          <div>
            <Fits
              plan={plan}
              origin={origin}
              change={changeOrigin}
              infrastructure={draft.infrastructure}
              isAsking={asked.isAsking}
              error={errors["resources.instance_type"]}
            />
            <Choices {...{ plan, origin, changeOrigin, draft, change, errors }} />
          </div>
        ) : asked.isAsking ? (
          <div className={classes.fits}>
            <Waiting rows={7} height={20} />
          </div>
        ) : (
          <Examples
            origin={origin}
            choose={(model) => {
              // The examples go; whoever pressed one stays where it now stands.
              input.current?.focus();
              changeOrigin({ model });
            }}
          />
        )}
      </div>
      {settings ? (
        <p className={classes.fills}>
          <span>Fills in</span>
          <code>{settings.image}</code>
          <span>
            port <code>{settings.port}</code>
          </span>
          <code>GET {settings.health_path}</code>
          <span>
            API path <code>{settings.api_path}</code>
          </span>
          {plan?.cache ? (
            <span>
              cache <code>{plan.cache.size_gib} GiB</code>
            </span>
          ) : null}
          <span className={classes.fillsNote}>Shown again in the next steps.</span>
        </p>
      ) : null}
    </>
  );
}
