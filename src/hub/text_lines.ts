/** Text in, lines out. A carriage return ends a line too, as progress bars use it. */
export class TextLineStream extends TransformStream<string, string> {
  constructor() {
    let rest = "";
    super({
      transform(chunk, controller): void {
        const lines = (rest + chunk).split(/[\r\n]+/);
        rest = lines.pop() ?? "";
        for (const line of lines) if (line !== "") controller.enqueue(line);
      },
      flush(controller): void {
        if (rest !== "") controller.enqueue(rest);
      },
    });
  }
}
