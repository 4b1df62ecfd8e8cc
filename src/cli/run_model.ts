/** The command `run`: a conversation with a model at the terminal, with an engine in this same process. */
import { createApp } from "../server/app.ts";
import { allowedMemory } from "./allowed_memory.ts";
import { SERVE_FLAGS } from "./arguments.ts";
import { environmentWarnings } from "./check_environment.ts";
import { checkDraftFlags, checkOwnDrafter } from "./choose_drafter.ts";
import { checkComputeFlags, chooseComputeType } from "./compute_type.ts";
import { askApp } from "./chat/chat_client.ts";
import { ChatLoop } from "./chat/chat_loop.ts";
import { firstSettings } from "./chat/chat_settings.ts";
import { ProcessTerminal } from "./chat/chat_terminal.ts";
import type { SettingsOf } from "./command.ts";
import { text } from "./flags.ts";
import { libraryPath } from "./library_path.ts";
import { checkMemory } from "./least_memory.ts";
import { lookAtMachine } from "./machine.ts";
import { checkModelName, findModel, readModel } from "./model_source.ts";
import { checkPrefixDiskFlags, makePrefixDisk } from "./prefix_disk.ts";
import { contextNote, DEFAULT_MAX_CONTEXT, startEngine } from "./start_engine.ts";
import { TerminalProgress } from "./terminal_progress.ts";

const { memory, dtype, kvBits, maxContext, prefillChunk, prefixCacheMb, prefixCacheDisk, prefixCacheDiskMb, batchInvariant } = SERVE_FLAGS;
const { noSpeculation, draftModel, draftKind, draftTokens } = SERVE_FLAGS;

export const RUN_FLAGS = {
  system: text({ placeholder: "TEXT", default: null, help: "Instructions for the model, before the conversation" }),
  memory,
  dtype,
  kvBits,
  maxContext,
  prefillChunk,
  prefixCacheMb,
  prefixCacheDisk,
  prefixCacheDiskMb,
  batchInvariant,
  noSpeculation,
  draftModel,
  draftKind,
  draftTokens,
} as const;

/** One conversation at a time. */
const ONE_ROW = { maxBatch: 1, maxQueue: 1 };

/**
 * Talks until the person ends it.
 * @param name as for `--model`; null for the default model.
 * @throws {Error} when the model cannot be had, or cannot chat.
 */
export async function runModel(name: string | null, settings: SettingsOf<typeof RUN_FLAGS>): Promise<void> {
  checkModelName(name);
  checkComputeFlags(settings);
  checkDraftFlags(settings);
  checkPrefixDiskFlags(settings);
  const progress = new TerminalProgress();
  for (const warning of environmentWarnings()) progress.note(`rowlock: ${warning}`);
  const nativeLibrary = await libraryPath();
  const { freeBytes, isGpu } = lookAtMachine(nativeLibrary);
  const { modelBytes: memoryBytes } = allowedMemory(settings.memory, freeBytes);
  const typing = { dtype: settings.dtype, kvBits: settings.kvBits, isGpu, memoryBytes };
  const found = await findModel(name, progress);
  checkOwnDrafter(found.path, settings);
  const { model, weightBytes } = chooseComputeType(readModel(found), typing);
  if (model.chatTemplate === null || model.tokenizer === null) {
    throw new Error(
      `${model.id} has no ${model.tokenizer === null ? "tokenizer" : "chat template"}: it cannot chat; serve it for completions`,
    );
  }
  const numStepTokens = settings.prefillChunk + ONE_ROW.maxBatch;
  checkMemory(model, { weightBytes, numStepTokens, memoryBytes, hasDisk: settings.prefixCacheDisk !== null });
  const prefixDisk = await makePrefixDisk(settings);
  const engine = await startEngine(model, { ...settings, ...ONE_ROW, libraryPath: nativeLibrary, memoryBytes, prefixDisk }, () => {});
  const note = contextNote(model, settings);
  if (note !== null) progress.note(note);
  const app = createApp({
    models: [{ model, engine }],
    options: { ...ONE_ROW, maxContext: settings.maxContext ?? DEFAULT_MAX_CONTEXT, writeLog: null },
  });
  const terminal = new ProcessTerminal();
  try {
    if (terminal.isInteractive) terminal.write(`${model.id}. Type a message, or /help\n`);
    await new ChatLoop(terminal, askApp(app), { system: settings.system, settings: firstSettings(model.generationDefaults) }).run();
  } finally {
    terminal.close();
    await app.close();
  }
}
