import {
  ActionIcon,
  Autocomplete,
  Button,
  createTheme,
  type CSSVariablesResolver,
  Input,
  Menu,
  Modal,
  NumberInput,
  PasswordInput,
  Select,
  SegmentedControl,
  Switch,
  Textarea,
  TextInput,
  Tooltip,
} from "@mantine/core";

import { cssVariables } from "./tokens";

const BUTTON_HEIGHTS: Record<string, string> = { xs: "28px", sm: "32px", lg: "40px" };

export const theme = createTheme({
  primaryColor: "harbour",
  primaryShade: { light: 6, dark: 5 },
  colors: {
    harbour: [
      "#EAF1FE", "#D3E2FC", "#A9C6F9", "#82AEFF", "#5B93FF", "#2C69E4", "#1B5BD6", "#1650C0", "#123F97", "#0F3478",
    ],
  },
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "'JetBrains Mono Variable', ui-monospace, monospace",
  fontSizes: { xs: "12px", sm: "13px", md: "14px", lg: "16px", xl: "20px" },
  lineHeights: { xs: "16px", sm: "20px", md: "20px", lg: "24px", xl: "28px" },
  headings: { fontWeight: "600" },
  spacing: { xs: "4px", sm: "8px", md: "12px", lg: "16px", xl: "24px" },
  defaultRadius: "6px",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Button: Button.extend({
      defaultProps: { size: "sm" },
      vars: (_, props) => ({
        root: {
          "--button-height": BUTTON_HEIGHTS[props.size ?? "sm"] ?? "32px",
          "--button-padding-x": "12px",
          "--button-fz": "13px",
        },
      }),
    }),
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: "subtle", color: "var(--m-ink-2)", size: 28 } }),
    Input: Input.extend({
      vars: (_, props) => ({
        wrapper: {
          "--input-height": props.size === "lg" ? "40px" : "32px",
          "--input-fz": props.size === "lg" ? "14px" : "13px",
        },
      }),
    }),
    TextInput: TextInput.extend({ defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] } }),
    Autocomplete: Autocomplete.extend({
      defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] },
    }),
    PasswordInput: PasswordInput.extend({
      defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] },
    }),
    NumberInput: NumberInput.extend({
      defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"], allowDecimal: false },
    }),
    Textarea: Textarea.extend({ defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] } }),
    Select: Select.extend({
      defaultProps: {
        inputWrapperOrder: ["label", "input", "description", "error"],
        allowDeselect: false,
        checkIconPosition: "right",
      },
    }),
    SegmentedControl: SegmentedControl.extend({ defaultProps: { size: "sm" } }),
    Menu: Menu.extend({ defaultProps: { shadow: "md", position: "bottom-end", transitionProps: { duration: 120 } } }),
    Modal: Modal.extend({ defaultProps: { radius: 12, centered: true, transitionProps: { duration: 120 } } }),
    Switch: Switch.extend({ defaultProps: { size: "sm", withThumbIndicator: false } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 300, transitionProps: { duration: 120 } } }),
  },
  shadows: { md: "0 8px 24px rgba(19, 24, 32, 0.12)" },
});

export const resolver: CSSVariablesResolver = () => ({
  variables: {
    "--m-radius-card": "8px",
    "--m-shadow": "0 8px 24px rgba(19, 24, 32, 0.12)",
  },
  light: { ...cssVariables("light"), ...mantineColors },
  dark: { ...cssVariables("dark"), ...mantineColors },
});

/** Mantine's own names, said in our tokens. */
const mantineColors = {
  "--mantine-color-body": "var(--m-canvas)",
  "--mantine-color-text": "var(--m-ink)",
  "--mantine-color-default": "var(--m-surface)",
  "--mantine-color-default-hover": "var(--m-sunken)",
  "--mantine-color-default-border": "var(--m-line-2)",
  "--mantine-color-dimmed": "var(--m-ink-3)",
  "--mantine-color-placeholder": "var(--m-ink-3)",
  "--mantine-color-anchor": "var(--m-accent-text)",
  "--mantine-color-error": "var(--m-bad)",
  "--mantine-color-disabled": "var(--m-sunken)",
  "--mantine-color-disabled-color": "var(--m-ink-3)",
  "--mantine-color-disabled-border": "var(--m-line)",
};
