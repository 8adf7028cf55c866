/** What we use of it; the package brings no types. */
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  interface Options {
    url: string;
    dom_id: string;
    validatorUrl: string | null;
    supportedSubmitMethods: string[];
    plugins: (() => { wrapComponents: Record<string, () => () => null> })[];
    docExpansion: "list" | "full" | "none";
    defaultModelsExpandDepth: number;
    deepLinking: boolean;
    filter: boolean;
  }
  export default function SwaggerUI(options: Options): unknown;
}
