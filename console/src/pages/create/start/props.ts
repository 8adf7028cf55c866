import type { FieldsProps } from "@/containers/form/draft";

import type { Origin } from "./origin";
import type { Asked } from "./useModelPlan";

/** What each part of the first step reads and changes. */
export interface StartProps extends FieldsProps {
  origin: Origin;
  changeOrigin: (changes: Partial<Origin>) => void;
  asked: Asked;
  token: string;
  setToken: (token: string) => void;
}
