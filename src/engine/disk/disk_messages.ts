/** What the engine's thread and the worker that reads and writes pages say to each other. */
import type { PageImage } from "../backend.ts";
import type { PrefixDiskOptions } from "../messages.ts";
import type { IdentityParts } from "./model_identity.ts";

export interface DiskOptions extends PrefixDiskOptions {
  readonly identity: IdentityParts;
}

export type ToDisk =
  /** The first message. */
  | { readonly type: "open"; readonly options: DiskOptions }
  | { readonly type: "read"; readonly id: number; readonly key: string }
  | { readonly type: "write"; readonly key: string; readonly image: PageImage }
  | { readonly type: "remove"; readonly key: string }
  | { readonly type: "touch"; readonly keys: readonly string[] };

export interface DiskState {
  readonly numDamaged: number;
  readonly heldBytes: number;
}

/** One for each message, but for `remove` and `touch`; `counted` comes by itself. */
export type FromDisk =
  | { readonly type: "opened"; readonly state: DiskState }
  | { readonly type: "page"; readonly id: number; readonly image: PageImage | null; readonly state: DiskState }
  /** Others have changed the folder. */
  | { readonly type: "counted"; readonly state: DiskState }
  /** `numBytes` is 0 when the page was there already, null when it could not be written. */
  | { readonly type: "written"; readonly numBytes: number | null; readonly state: DiskState };
