import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import type { Container } from "@/api/queries";
import { type Draft, type Errors, fromContainer, mistakes, STEPS, toPatch } from "@/containers/form/draft";

import { forgetEdits, keepEdits, withKeptEdits } from "./keptEdits";

/** What the form holds, what is wrong with it, and what it would change. */
export function useSettings(container: Container, begin: Draft = fromContainer(container)) {
  const [draft, setDraft] = useState(() => withKeptEdits(container.id, begin));
  const [errors, setErrors] = useState<Errors>({});
  const patch = toPatch(draft, container);
  return {
    draft,
    errors,
    patch,
    isChanged: Object.keys(patch).length > 0,
    /** Other settings than those that are edited here: saved, or thrown away. */
    put: (settings: Draft) => {
      setDraft(settings);
      setErrors({});
      forgetEdits(container.id);
    },
    change: (changes: Partial<Draft>) => {
      const next = { ...draft, ...changes };
      setDraft(next);
      setErrors({});
      keepEdits(container.id, begin, next);
    },
    /** Whether it can be sent; if not, the fields say why. */
    isRight: () => {
      const found = STEPS.reduce<Errors>((all, step) => ({ ...all, ...mistakes(draft, step) }), {});
      setErrors(found);
      return Object.keys(found).length === 0;
    },
    refused: (error: unknown) => {
      const fields = error instanceof Problem ? error.fields() : {};
      if (error instanceof Problem && error.code === "name_taken") setErrors({ name: error.message });
      else setErrors(Object.keys(fields).length > 0 ? fields : { "": messageOf(error) });
    },
  };
}
