/** A model file or folder that is missing, damaged, or of a kind that is not supported. The message names the file and what was found. */
export class ModelFileError extends Error {
  override name = "ModelFileError";
}
