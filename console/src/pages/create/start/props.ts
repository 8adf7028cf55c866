import type { Draft, FieldsProps } from "@/containers/form/draft";

import type { Origin } from "./origin";
import type { Asked } from "./useModelPlan";

/** What each part of the first step reads and changes. */
export interface StartProps extends FieldsProps {
  origin: Origin;
  /** `settings` are what changes with it in the draft. */
  changeOrigin: (changes: Partial<Origin>, settings?: Partial<Draft>) => void;
  asked: Asked;
  token: string;
  setToken: (token: string) => void;
  /** To the next step, if nothing is missing here. */
  goOn: () => void;
}
