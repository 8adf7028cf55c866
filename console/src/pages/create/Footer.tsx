import { Button } from "@mantine/core";
import { ArrowRight, Zap } from "lucide-react";

import { dollars } from "@/components/Money";
import type { Draft } from "@/containers/form/draft";

import classes from "./Create.module.css";
import { usePrice } from "./PricePanel";
import { CREATE_STEPS, type CreateStep, STEP_TITLES } from "./steps";

interface FooterProps {
  step: CreateStep;
  go: (step: CreateStep) => void;
  /** For an answer that the next step needs. */
  isWaiting: boolean;
  draft: Draft;
  deploy: () => void;
  deploying: boolean;
}

export function Footer({ step, go, isWaiting, draft, deploy, deploying }: FooterProps) {
  const price = usePrice(draft);
  const at = CREATE_STEPS.indexOf(step);
  const [before, after] = [CREATE_STEPS[at - 1], CREATE_STEPS[at + 1]];
  return (
    <footer className={classes.footer}>
      <span>Nothing is deployed or billed before you press Deploy.</span>
      {price ? (
        <span className={classes.footerPrice}>
          <strong>{price.first}</strong>/h{price.max > price.min ? `, up to ${dollars(price.each * price.max)}/h` : ""}
        </span>
      ) : null}
      {before ? (
        <Button variant="default" onClick={() => go(before)}>
          Back
        </Button>
      ) : (
        <Button variant="default" onClick={() => go("review")} disabled={isWaiting}>
          Skip to Review
        </Button>
      )}
      {after ? (
        <Button onClick={() => go(after)} loading={isWaiting} rightSection={<ArrowRight size={16} strokeWidth={1.5} />}>
          Next: {STEP_TITLES[after]}
        </Button>
      ) : (
        <Button onClick={deploy} loading={deploying} leftSection={<Zap size={16} strokeWidth={1.5} />}>
          Deploy{price ? ` for ${price.first}/h` : ""}
        </Button>
      )}
    </footer>
  );
}
