/** The hub, or what it sent, cannot be used; the message says why and what to do. */
export class HubError extends Error {
  override name = "HubError";

  /** @param isUnreachable the hub gave no usable answer at all: what is in the cache may be used in its place. */
  constructor(message: string, readonly isUnreachable = false) {
    super(message);
  }
}
