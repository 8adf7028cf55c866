import { Button } from "@mantine/core";

import { paths } from "@/addresses/paths";
import { LinkTo } from "@/components/LinkTo";

import classes from "./NotFound.module.css";

export function NotFound() {
  return (
    <main className={classes.page}>
      <h1 className={classes.title}>There is nothing at this address.</h1>
      <p className={classes.text}>It may have been deleted, or it belongs to a project that you have not joined.</p>
      <Button component={LinkTo} to={paths.home()}>
        Go to your containers
      </Button>
    </main>
  );
}
