/** Files of a test, removed afterwards. */
export class TemporaryFolder implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "rowlock-test-" });

  write(name: string, content: Uint8Array | string): string {
    const path = `${this.path}/${name}`;
    if (typeof content === "string") Deno.writeTextFileSync(path, content);
    else Deno.writeFileSync(path, content);
    return path;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}
