/** Models of the hub for people who wait for them: silence is said, with what it is that keeps silent and for how long that may go on. */
import { fetchModel, type FetchOptions } from "../hub/fetch_model.ts";
import { HubClient } from "../hub/hub_client.ts";
import { hubSettings } from "../hub/hub_settings.ts";
import { formatReference, type HubReference } from "../hub/model_reference.ts";
import type { Progress } from "../hub/progress.ts";

/** When silence is said for the first time, and how often again. */
const WAITS = { firstMs: 3_000, againMs: 30_000 };

/** As `fetchModel`; what `progress` is told besides comes from here. @throws {HubError} */
export async function fetchFromHub(
  reference: HubReference,
  { progress, isUpdate = false }: Required<Pick<FetchOptions, "progress">> & Pick<FetchOptions, "isUpdate">,
  waits: typeof WAITS = WAITS,
): Promise<string> {
  const settings = hubSettings();
  const { numAttempts, retryDelayMs, stallTimeoutMs } = new HubClient(settings).options;
  const mostMs = numAttempts * stallTimeoutMs + retryDelayMs * (2 ** (numAttempts - 1) - 1);
  const say = (silentMs: number): void =>
    progress.note(
      `Nothing has come from the hub at ${new URL(settings.endpoint).host} for ${seconds(silentMs)}; waiting for ${
        formatReference(reference)
      }. ` +
        `The hub is asked ${numAttempts} times and given up after at most ${seconds(mostMs)} of silence`,
    );
  const silence = new Silence(say, waits);
  const heard: Progress = {
    advance(...step): void {
      silence.restart();
      progress.advance(...step);
    },
    note(text): void {
      // Another process is waited for, which may take its time.
      silence.stop();
      progress.note(text);
    },
  };
  silence.restart();
  try {
    return await fetchModel(reference, { settings, progress: heard, isUpdate });
  } finally {
    silence.stop();
  }
}

class Silence {
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly say: (silentMs: number) => void, readonly waits: typeof WAITS) {}

  restart(): void {
    this.stop();
    this.#wait(performance.now(), this.waits.firstMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #wait(sinceMs: number, delayMs: number): void {
    this.#timer = setTimeout(() => {
      this.say(performance.now() - sinceMs);
      this.#wait(sinceMs, this.waits.againMs);
    }, delayMs);
  }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
