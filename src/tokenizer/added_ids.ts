/** The ids that a tokenizer puts around every text: usually a BOS before it. */
import type { TokenizerComponent, TokenizerConfig } from "./tokenizer_json.ts";

export interface AddedIds {
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
}

/** tokenizer_config.json's `add_bos_token` and `add_eos_token` decide where they are given, as in transformers; else the post-processor does. */
export function readAddedIds(
  postProcessor: TokenizerComponent | null,
  config: Pick<TokenizerConfig, "add_bos_token" | "add_eos_token">,
  bosId: number | null,
  eosId: number | null,
): AddedIds {
  const template = postProcessor === null ? { prefix: [], suffix: [] } : readPostProcessor(postProcessor);
  return {
    prefix: decide(config.add_bos_token, bosId, template.prefix),
    suffix: decide(config.add_eos_token, eosId, template.suffix),
  };
}

function decide(isAdded: boolean | null | undefined, id: number | null, otherwise: readonly number[]): readonly number[] {
  if (isAdded === null || isAdded === undefined) return otherwise;
  return isAdded && id !== null ? [id] : [];
}

interface TemplateItem {
  readonly SpecialToken?: { readonly id: string };
  readonly Sequence?: unknown;
}

function readPostProcessor(node: TokenizerComponent): AddedIds {
  switch (node.type) {
    case "Sequence": {
      const added = ((node["processors"] ?? []) as TokenizerComponent[]).map(readPostProcessor);
      return { prefix: added.flatMap((ids) => ids.prefix), suffix: added.flatMap((ids) => ids.suffix) };
    }
    case "TemplateProcessing": {
      const items = (node["single"] ?? []) as TemplateItem[];
      const idsOf = (node["special_tokens"] ?? {}) as Record<string, { ids: number[] } | undefined>;
      const text = items.findIndex((item) => item.Sequence !== undefined);
      const collect = (part: TemplateItem[]): number[] => part.flatMap((item) => idsOf[item.SpecialToken?.id ?? ""]?.ids ?? []);
      return { prefix: collect(items.slice(0, text)), suffix: collect(items.slice(text + 1)) };
    }
    case "BertProcessing":
    case "RobertaProcessing":
      return { prefix: [(node["cls"] as [string, number])[1]], suffix: [(node["sep"] as [string, number])[1]] };
    default:
      return { prefix: [], suffix: [] };
  }
}
