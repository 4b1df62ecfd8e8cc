import { UsageError } from "./flags.ts";

/** As browsers write the origin of a page: scheme and host in small letters, a port that is not the scheme's own, nothing behind it. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9._~-]+|\[[0-9a-f:]+\])(?::\d{1,5})?$/;

/** Anything else would never equal what a browser sends. @throws {UsageError} with the origin that was meant, where that can be told. */
export function checkOrigin(value: string, flag: string): void {
  const meant = /^https?:/i.test(value) && URL.canParse(value) ? new URL(value).origin : value;
  if (value === "*" || (ORIGIN.test(value) && meant === value)) return;
  const expected = meant === value ? "* or an origin such as http://localhost:3000" : meant;
  throw new UsageError(`${flag} is "${value}", expected ${expected}`);
}

/** @throws {UsageError} for what no Host header can hold. */
export function checkHostName(value: string, flag: string): void {
  if (value === "*" || /^(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])$/.test(value)) return;
  throw new UsageError(`${flag} is "${value}", expected * or a name such as rowlock.example, without scheme and port`);
}
