import { assertEquals } from "@std/assert";
import { formatReference, isRevision, parseModelReference } from "../../src/hub/model_reference.ts";

Deno.test("a repository is named with an optional revision and an optional pattern", () => {
  const cases: [string, string, string, string | null][] = [
    ["org/name", "org/name", "main", null],
    ["Qwen/Qwen2.5-0.5B_x", "Qwen/Qwen2.5-0.5B_x", "main", null],
    ["org/name@v1.0", "org/name", "v1.0", null],
    ["org/name@refs/pr/3", "org/name", "refs/pr/3", null],
    ["org/name:Q4_K_M", "org/name", "main", "Q4_K_M"],
    ["org/name@dev:sub/*.gguf", "org/name", "dev", "sub/*.gguf"],
  ];
  for (const [text, repository, revision, filePattern] of cases) {
    const reference = parseModelReference(text);
    assertEquals(reference, { type: "hub", repository, revision, filePattern });
    if (reference.type === "hub") assertEquals(formatReference(reference), text);
  }
});

Deno.test("everything else is a path, also what only looks like a repository", async () => {
  const paths = [
    "model.gguf",
    "models/tiny.gguf",
    "./org/name",
    "../name",
    "/a/b",
    "a/b/c",
    "name",
    "org/..",
    "org/na--me",
    "org/.git",
    "~/x",
    "org/",
  ];
  for (const path of [...paths, "org/name@../x", "org/name@", "org/name:", "a\\b/c", "org/name.git"]) {
    assertEquals(parseModelReference(path), { type: "path", path });
  }
  const folder = await Deno.makeTempDir({ dir: ".", prefix: "scratch" });
  try {
    await Deno.mkdir(`${folder}/name`);
    const path = `${folder.replace("./", "")}/name`;
    assertEquals(parseModelReference(path).type, "path");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a revision cannot lead out of the folder of refs", () => {
  for (const revision of ["main", "v1.2+x", "feature/x"]) assertEquals(isRevision(revision), true);
  for (const revision of ["..", "a/../b", "/a", "a//b", ".hidden", "a/.b", "", "a b", "a..b"]) assertEquals(isRevision(revision), false);
});
