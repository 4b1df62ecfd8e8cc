/** Running a program with no network but loopback. */
import { tryCommand } from "../../src/hub/command.ts";

export interface Isolated {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Nothing listens on the discard port, so that whoever honours these variables reaches nothing. */
const DEAD_PROXY = "http://127.0.0.1:9";

/**
 * The command in a network of its own where that is allowed (Linux, as root), else with proxies that lead nowhere. `ROWLOCK_TEST_NETWORK` tells
 * the program which of the two it is: `loopback` or `proxies`.
 */
export async function withoutNetwork(command: readonly string[]): Promise<Isolated> {
  const script = 'ip link set lo up && exec "$0" "$@"';
  const wrapped = ["unshare", "--net", "sh", "-c", script];
  if (Deno.build.os === "linux" && (await tryCommand([...wrapped, "true"])).code === 0) {
    return { command: [...wrapped, ...command], env: { ROWLOCK_TEST_NETWORK: "loopback" } };
  }
  const proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [[name, DEAD_PROXY], [name.toLowerCase(), DEAD_PROXY]]);
  const exceptions = { NO_PROXY: "127.0.0.1,localhost", no_proxy: "127.0.0.1,localhost" };
  return { command, env: { ...Object.fromEntries(proxies), ...exceptions, ROWLOCK_TEST_NETWORK: "proxies" } };
}
