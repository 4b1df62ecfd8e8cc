/** All tensors of a checkpoint folder, from one file, from shards with an index, or from shards alone. */
import type { TensorEntry } from "../native/model_spec.ts";
import { ModelFileError } from "./model_file_error.ts";
import { readSafetensors } from "./safetensors.ts";
import { readJsonFile } from "./text_file.ts";

const INDEX = "model.safetensors.index.json";
const INDEX_MEGABYTES = 64;

/** @throws {ModelFileError} */
export function readFolderTensors(folder: string): Map<string, TensorEntry> {
  const index = readJsonFile(`${folder}/${INDEX}`, INDEX_MEGABYTES);
  return index === null ? readUnindexed(folder) : readIndexed(folder, index);
}

function readUnindexed(folder: string): Map<string, TensorEntry> {
  const names = [...Deno.readDirSync(folder)].map((entry) => entry.name).filter((name) => /^model.*\.safetensors$/.test(name)).sort();
  if (names.length === 0) throw new ModelFileError(`Cannot use ${folder}: it has no model*.safetensors`);
  const tensors = new Map<string, TensorEntry>();
  for (const name of names.includes("model.safetensors") ? ["model.safetensors"] : names) {
    for (const tensor of readSafetensors(`${folder}/${name}`)) {
      if (tensors.has(tensor.name)) {
        throw new ModelFileError(`Cannot use ${folder}: tensor ${tensor.name} is in ${name} and in another file`);
      }
      tensors.set(tensor.name, tensor);
    }
  }
  return tensors;
}

function readIndexed(folder: string, index: Record<string, unknown>): Map<string, TensorEntry> {
  const path = `${folder}/${INDEX}`;
  const weightMap = index["weight_map"];
  if (typeof weightMap !== "object" || weightMap === null) throw new ModelFileError(`Cannot read ${path}: it has no weight_map`);
  const shards = new Map<string, Map<string, TensorEntry>>();
  const tensors = new Map<string, TensorEntry>();
  for (const [name, shard] of Object.entries(weightMap)) {
    // A shard's name that leads out of the folder would open any file of the machine.
    if (typeof shard !== "string" || !/^[\w][\w.-]*\.safetensors$/.test(shard)) {
      throw new ModelFileError(
        `Cannot read ${path}: ${name} is said to be in ${JSON.stringify(shard)?.slice(0, 80)}, which is no file name`,
      );
    }
    let entries = shards.get(shard);
    if (entries === undefined) {
      shards.set(shard, entries = new Map(readSafetensors(`${folder}/${shard}`).map((tensor) => [tensor.name, tensor])));
    }
    const tensor = entries.get(name);
    if (tensor === undefined) {
      throw new ModelFileError(`Cannot use ${folder}: tensor ${name} is not in ${shard}, where the index says it is`);
    }
    tensors.set(name, tensor);
  }
  return tensors;
}
