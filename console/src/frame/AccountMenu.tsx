import { Menu, SegmentedControl, UnstyledButton, useMantineColorScheme } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { BookOpen, LogOut, ShieldCheck, UserRound } from "lucide-react";

import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { meQuery } from "@/api/queries";

import classes from "./Frame.module.css";
import { signOut } from "./signOut";

export function AccountMenu() {
  const { data: me } = useSuspenseQuery(meQuery);
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const navigate = useNavigate();
  const email = me.user?.email ?? "";
  return (
    <Menu width={256} closeOnItemClick={false}>
      <Menu.Target>
        <UnstyledButton
          className={classes.avatar}
          data-initial={email.slice(0, 2).toUpperCase()}
          aria-label={`Account of ${email}`}
        />
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{email}</Menu.Label>
        <SegmentedControl
          fullWidth
          m={4}
          aria-label="Theme"
          value={colorScheme}
          onChange={(value) => setColorScheme(value as "light" | "dark" | "auto")}
          data={[
            { value: "light", label: "Light" },
            { value: "dark", label: "Dark" },
            { value: "auto", label: "System" },
          ]}
        />
        <Menu.Divider />
        <Menu.Item
          closeMenuOnClick
          leftSection={<UserRound size={16} strokeWidth={1.5} />}
          onClick={() => navigate({ to: paths.account() })}
        >
          Account
        </Menu.Item>
        {me.user?.is_operator ? (
          <Menu.Item
            closeMenuOnClick
            leftSection={<ShieldCheck size={16} strokeWidth={1.5} />}
            onClick={() => navigate({ to: paths.operator() })}
          >
            Operator area
          </Menu.Item>
        ) : null}
        <Menu.Item
          component="a"
          href={handbook.home}
          target="_blank"
          rel="noopener"
          closeMenuOnClick
          leftSection={<BookOpen size={16} strokeWidth={1.5} />}
        >
          Handbook
        </Menu.Item>
        <Menu.Item leftSection={<LogOut size={16} strokeWidth={1.5} />} onClick={() => signOut()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
