import { Link } from "@tanstack/react-router";
import { type ComponentPropsWithoutRef, forwardRef } from "react";

type LinkToProps = Omit<ComponentPropsWithoutRef<"a">, "href"> & {
  /** From `paths`. */
  to: string;
};

/** A link to an address that `paths` made; Mantine takes it as `component={LinkTo}`. */
export const LinkTo = forwardRef<HTMLAnchorElement, LinkToProps>(function LinkTo({ to, ...rest }, ref) {
  return <Link ref={ref} to={to} {...rest} />;
});
