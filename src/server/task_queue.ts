/** Runs tasks one after the other, in the order in which they come. */
export class TaskQueue {
  #last: Promise<unknown> = Promise.resolve();

  /** What `task` gives, or throws, once all earlier ones have ended. A task that fails stops no other. */
  run<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    return result;
  }
}
