import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { GitHubMark, GoogleMark } from "./marks";
import { providersQuery } from "./queries";
import classes from "./SignIn.module.css";

const MARKS: Record<string, () => React.ReactNode> = { google: GoogleMark, github: GitHubMark };

/** The other ways in, where the operator has set them up; otherwise nothing. */
export function Providers({ next }: { next: string | undefined }) {
  const providers = useQuery(providersQuery).data?.items;
  if (!providers || providers.length === 0) return null;
  const back = next ? `?return_to=${encodeURIComponent(next)}` : "";
  return (
    <div className={classes.providers}>
      <p className={classes.or}>or</p>
      {providers.map((one) => {
        const Mark = MARKS[one.name];
        return (
          <Button
            key={one.name}
            component="a"
            href={`${one.login_url}${back}`}
            variant="default"
            size="lg"
            fullWidth
            leftSection={Mark ? <Mark /> : null}
          >
            Continue with {one.title}
          </Button>
        );
      })}
    </div>
  );
}
