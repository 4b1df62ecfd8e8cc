import config from "../../deno.json" with { type: "json" };

/** The version that this is, as `deno.json` has it. */
export const VERSION: string = config.version;
