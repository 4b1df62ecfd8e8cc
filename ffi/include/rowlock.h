/* Rowlock's native interface: batched forward and vectorized row sampling over mlx-c.
 *
 * Every function returns RL_OK (0) or a negative RL_ERR_* code and leaves its text for rl_last_error.
 * Handles belong to the thread that made the model: calls from another thread are refused.
 * All integers are native-endian; all arrays are owned by the caller and only read or written during the call.
 */
#ifndef ROWLOCK_H
#define ROWLOCK_H

#include <stdint.h>

#if defined(_WIN32)
#define RL_API __declspec(dllexport)
#else
#define RL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by one whenever a symbol, a struct or the random stream changes. */
#define RL_ABI_VERSION 7

enum {
  RL_OK = 0,
  RL_ERR_ARGUMENT = -1, /* an argument is outside its domain */
  RL_ERR_THREAD = -2,   /* called from a thread that does not own the handle */
  RL_ERR_MODEL = -3,    /* the checkpoint is missing something or does not fit its config */
  RL_ERR_MLX = -4,      /* MLX reported an error */
  RL_ERR_MEMORY = -5,   /* memory could not be had */
};

typedef struct rl_model rl_model;   /* weights of one checkpoint */
typedef struct rl_cache rl_cache;   /* KV (and recurrent) state of all slots of one model */
typedef struct rl_page rl_page;     /* a copy of some tokens of one slot */
typedef struct rl_output rl_output; /* what one forward or draft leaves: logits rows, features for drafters; reused from step to step */
typedef struct rl_drafter rl_drafter; /* weights that propose tokens for one model; shares the model's embedding and output head */

/* RL_ABI_VERSION of the library that was opened. */
RL_API int32_t rl_abi_version(void);

/* Copies the calling thread's last error text, NUL-terminated and cut to `capacity` bytes; returns its full length. */
RL_API int32_t rl_last_error(char* text, int32_t capacity);

/* Writes `key=value` lines (abi, mlx, mlxc, device, isa, blas, kernels, compiler); returns the full length like rl_last_error. */
RL_API int32_t rl_build_info(char* text, int32_t capacity);

/* out[0..3] = bytes active, bytes peak, bytes in MLX's buffer cache, the cache's limit in bytes. */
RL_API int32_t rl_memory(uint64_t* out);

/* Limits MLX's buffer cache to `cache_bytes`; buffers above it go back to the system. */
RL_API int32_t rl_memory_limit(uint64_t cache_bytes);

/* *out = bytes that the control groups of this process (Linux, versions 1 and 2) still allow; UINT64_MAX where there is no limit. */
RL_API int32_t rl_cgroup_memory(uint64_t* out);

/* Process-wide. On: a row's logits are the same bits whatever shares its steps and however its prompt is cut into chunks (some products
 * are slower). Off: so it is where the library's own kernels compute, all but long prompts of recurrent layers; what MLX's compute may differ
 * in the last bits of its prefill. Only on a CPU device; refused on a GPU. */
RL_API int32_t rl_batch_invariant(int32_t is_on);

/* ---- model ---------------------------------------------------------------------------------------------------------------- */

/* Loads a checkpoint. `config` is `key=value` lines (model_type, hidden_size, …, dtype). `tensors` has a line for each tensor:
 * name<TAB>type<TAB>file<TAB>offset<TAB>bytes<TAB>dim,dim,…  where the name is the one that Hugging Face's checkpoint of this model_type uses,
 * the type is a safetensors (F32, F16, BF16, U32, …) or ggml (Q4_0, Q8_0, …) type, and offset and bytes say where the data lies in the file.
 * Files are memory-mapped; the table is checked against their sizes. Blocks until all weights are in memory. */
RL_API int32_t rl_model_load(const char* config, const char* tensors, rl_model** out);

/* Frees a model; caches and drafters made with it must be gone. */
RL_API int32_t rl_model_free(rl_model* model);

/* out[0..8] = weight bytes in memory, vocabulary, hidden size, layers, KV bytes of one token of one slot, recurrent bytes of one slot, compute type
 * (0 float32, 1 float16, 2 bfloat16), and as 1 or 0: its caches are sparse (tokens that were written take memory, not slots and capacity);
 * rl_sample_start and rl_forward_drawn work. */
RL_API int32_t rl_model_info(const rl_model* model, int64_t* out);

/* ---- cache ---------------------------------------------------------------------------------------------------------------- */

/* Makes an empty cache of 0 slots. */
RL_API int32_t rl_cache_new(rl_model* model, rl_cache** out);
RL_API int32_t rl_cache_free(rl_cache* cache);

/* Tells how far the cache may grow, before its first resize. A sparse cache takes address space for so many slots of so many tokens, and no memory,
 * so that growing within that copies nothing; where there is no such address space, and in other caches, it changes nothing. */
RL_API int32_t rl_cache_reserve(rl_cache* cache, int32_t slots, int32_t capacity);

/* Gives every layer room for `slots` slots of `capacity` tokens; keeps what still fits. (0, 0) gives all memory back.
 * After an error the slots and tokens that were there, and that the new size has room for, are as they were. */
RL_API int32_t rl_cache_resize(rl_cache* cache, int32_t slots, int32_t capacity);

/* Moves the first `length` tokens of slot `from` over slot `to` (a row moves into a hole); what `from` holds then is not defined. A recurrent
 * state is copied as it is: it stands for all tokens of the row, so `length` must be all of them there. */
RL_API int32_t rl_cache_move(rl_cache* cache, int32_t from, int32_t to, int32_t length);

/* Fills slot `slot` with zeros: what a row left there must not reach the next one (NaN times a masked 0 is NaN). */
RL_API int32_t rl_cache_clear(rl_cache* cache, int32_t slot);

/* The row of slot `slot` has left: what it wrote is not defined from now on. A sparse cache gives its memory back to the system at once, others
 * do nothing. Recurrent states stay as they are. */
RL_API int32_t rl_cache_release(rl_cache* cache, int32_t slot);

/* Undoes verified tokens in recurrent states: slot slots[i] goes back to its state after the first kept[i] (>= 1) of the tokens that the last
 * rl_forward gave it with RL_ROW_VERIFY; verified slots that are not named keep all. Call it at most once after a verification, before any
 * other call on the cache. Keys and values need no undoing, there the row's next offset says it: a cache without recurrent states accepts
 * the call and does nothing. Does not wait. */
RL_API int32_t rl_cache_keep(rl_cache* cache, const int32_t* slots, const int32_t* kept, int32_t num_rows);

/* out[0..2] = slots, capacity in tokens, bytes held (without the states that a verification keeps until the next call): of a sparse cache those
 * of the tokens that were written and not released. */
RL_API int32_t rl_cache_info(const rl_cache* cache, int64_t* out);

/* ---- pages ---------------------------------------------------------------------------------------------------------------- */

enum { RL_PAGE_STATE = 1 };

/* Copies the KV of a slot's tokens [start, start + length), in all layers, into a page of its own. Waits for it. The page belongs to the thread
 * of the cache's model (or drafter) and has to be freed before that; the cache may be resized or freed meanwhile.
 * flags: 0, or RL_PAGE_STATE to copy the recurrent layers' states too. They stand for all tokens of the row, so that makes sense only while
 * the slot's state is exactly that after token start + length - 1; without recurrent layers the flag changes nothing. */
RL_API int32_t rl_page_save(rl_cache* cache, int32_t slot, int32_t start, int32_t length, int32_t flags, rl_page** out);

/* Writes a page's KV to tokens [start, start + its length) of a slot, in place, and its recurrent states, if it has them, to the slot: then
 * the row may go on behind the page. Keys have their positions in them, so `start` is where the page was saved from. Waits for it. */
RL_API int32_t rl_page_load(rl_cache* cache, const rl_page* page, int32_t slot, int32_t start);

/* *out = bytes that the page holds. */
RL_API int32_t rl_page_bytes(const rl_page* page, int64_t* out);

/* Copies what the page holds, rl_page_bytes of it, to `bytes`; `capacity` counts bytes. In the machine's own byte order, and of use only to this
 * same library with the same model. */
RL_API int32_t rl_page_export(const rl_page* page, uint8_t* bytes, int64_t capacity);

/* A page of `length` tokens for the cache's model (or drafter) from exported bytes, which are copied. flags as they were when the page was saved.
 * The number of bytes has to be exactly that of such a page; what they say is not looked at. */
RL_API int32_t rl_page_import(const rl_cache* cache, int32_t length, int32_t flags, const uint8_t* bytes, int64_t num_bytes, rl_page** out);

RL_API int32_t rl_page_free(rl_page* page);

/* ---- forward -------------------------------------------------------------------------------------------------------------- */

RL_API int32_t rl_output_new(rl_output** out);
RL_API int32_t rl_output_free(rl_output* output);
/* Gives back the memory of what the output holds. */
RL_API int32_t rl_output_clear(rl_output* output);

enum { RL_ROW_VERIFY = 1 };

/* One row of a step. Its `count` tokens are the next ones in the packed token array. A row at offset 0 starts from an empty recurrent state,
 * whatever its slot held; at any other offset it must be the continuation of what the slot holds. 20 bytes. */
typedef struct rl_row {
  int32_t slot;    /* cache slot */
  int32_t offset;  /* tokens of this row that the cache holds already: the first new token's position */
  int32_t count;   /* new tokens, >= 1 */
  int32_t outputs; /* trailing positions whose logits are wanted, 0 … count */
  int32_t flags;   /* RL_ROW_VERIFY: rl_cache_keep may undo some of the tokens, count is at most 64 */
} rl_row;

/* Runs `num_tokens` packed tokens of `num_rows` ragged rows, writes their KV, and launches the evaluation of the wanted logits:
 * [sum of outputs, vocabulary], row after row, in `output`. Does not wait. Rows of equal count in neighbouring slots run fastest. */
RL_API int32_t rl_forward(rl_model* model, rl_cache* cache, rl_output* output, const int32_t* tokens, int32_t num_tokens,
                          const rl_row* rows, int32_t num_rows);

/* A forward with one token of each row: what logits row i of `drawn`, another output, draws by rl_sample_start, done or not; else token 0. */
RL_API int32_t rl_forward_drawn(rl_model* model, rl_cache* cache, rl_output* output, rl_output* drawn, const rl_row* rows, int32_t num_rows);

/* Copies all logits as float32 [rows, vocabulary]; `capacity` counts floats. Waits for the evaluation. */
RL_API int32_t rl_output_read(rl_output* output, float* logits, int64_t capacity);

/* Puts logits of the caller into `output`, as if a forward had made them (tests and benchmarks).
 * dtype 0 float32, 1 float16, 2 bfloat16; `logits` is [rows, vocabulary] of that type. */
RL_API int32_t rl_output_write(rl_output* output, const void* logits, int32_t rows, int32_t vocabulary, int32_t dtype);

/* ---- speculation ---------------------------------------------------------------------------------------------------------- */

enum {
  RL_CAPTURE_NONE = 0,
  RL_CAPTURE_FINAL = 1,  /* hidden states after the final norm: for mtp drafters */
  RL_CAPTURE_LAYERS = 2, /* outputs of decoder layers, concatenated: for eagle3 and dflash drafters */
};

/* From now on every rl_forward of the model also leaves the features [num_tokens, width] of all its tokens in its output. `layers` counts
 * from 0, in the order of the concatenation; NULL and 0 unless `kind` is RL_CAPTURE_LAYERS. */
RL_API int32_t rl_model_capture(rl_model* model, int32_t kind, const int32_t* layers, int32_t num_layers);

/* Copies all features as float32 [tokens, width]; `capacity` counts floats. Waits for the evaluation. For tests. */
RL_API int32_t rl_output_read_features(rl_output* output, float* features, int64_t capacity);

/* Loads a drafter for `model`, whose embedding and output head it uses. Arguments as in rl_model_load; the config's `drafter_kind` is
 * mtp      (Qwen3.5's own head: tensors `mtp.*` of the model's checkpoint with zero-centred norms, or the same without the prefix and with
 *          effective norms), eagle3 (tensors as in Speculators' or SGLang's checkpoints, `layers.0.*` or `midlayer.*`), or dflash.
 * With `dense_bits` 4 or 8 in the config, matrices of float types are rounded to as many bits where the CPU's own kernels multiply them and
 * their rows are whole blocks of 32; elsewhere they stay as they are.
 * Belongs to the model's thread, and has to be freed before the model. */
RL_API int32_t rl_drafter_load(const char* config, const char* tensors, rl_model* model, rl_drafter** out);
RL_API int32_t rl_drafter_free(rl_drafter* drafter);

/* out[0..5] = weight bytes in memory, width of the model's features that it takes, width of the features that it makes itself,
 * KV bytes of one token of one slot, RL_CAPTURE_* that it needs, 1 when its caches are sparse. */
RL_API int32_t rl_drafter_info(const rl_drafter* drafter, int64_t* out);

/* Makes an empty cache of 0 slots for the drafter's own history; sized, moved and cleared like any cache, with the model's slot numbers. */
RL_API int32_t rl_drafter_cache_new(rl_drafter* drafter, rl_cache** out);

/* One row of rl_draft. 20 bytes. */
typedef struct rl_draft_row {
  int32_t slot;
  int32_t offset;       /* history entries of this row that the drafter's cache holds already; to forget entries, give a smaller offset */
  int32_t count;        /* tokens of this row in the packed token array, >= 1 */
  int32_t outputs;      /* trailing tokens whose logits are wanted, 0 … count */
  int32_t num_features; /* feature rows of this row in the packed source_rows */
} rl_draft_row;

/* Runs a drafter over packed tokens of ragged rows. `source_rows` (packed like the tokens, num_features for each row) are indices of
 * feature rows in `source`: the output of an rl_forward of the drafter's model, or of an rl_draft of the same drafter (may be `output` itself).
 * Leaves logits over the model's whole vocabulary (-inf where a draft vocabulary has no entry) and its own features
 * [num_tokens, width] in `output`, as rl_forward does; a call without any outputs only writes the history and leaves neither. Does not wait.
 *
 * mtp, eagle3: num_features = count. History entry i pairs token i + 1 with the features of token i (a row's tokens counted from 0), so the
 *   history of n tokens with known features has n entries, the last of them with the newest token, and its logits are the first draft.
 *   Draft j + 1 comes from draft j with this drafter's own features of the entry before. Entries are appended at `offset`.
 *   After a verification with `a` drafts accepted: mtp keeps the first min(a, appended) entries that drafting appended, eagle3 none; then the
 *   accepted drafts without an entry and the newest token are appended with the model's features of the token before each.
 * dflash: the tokens are a block: the newest token, then mask tokens. The features are those of committed tokens that are not in the history yet
 *   (all but the newest token); they join it at `offset`, the block follows right after them and leaves nothing in the history. The logits
 *   of the block's tokens 1 … count-1 are all drafts at once (outputs = count - 1). The cache must have room for the block.
 */
RL_API int32_t rl_draft(rl_drafter* drafter, rl_cache* cache, rl_output* output, const int32_t* tokens, int32_t num_tokens,
                        const rl_draft_row* rows, int32_t num_rows, rl_output* source, const int32_t* source_rows, int32_t num_source_rows);

/* ---- sampling ------------------------------------------------------------------------------------------------------------- */

enum { RL_P_LESS = 1, RL_TEMPERATURE_LAST = 2 };

/* How one row of logits is sampled. 64 bytes, little-endian when written by the host. */
typedef struct rl_sampling {
  uint64_t seed;
  uint32_t position;        /* index of the token among the row's generated tokens: the draw is a function of (seed, position) */
  uint32_t flags;           /* RL_P_LESS | RL_TEMPERATURE_LAST */
  float temperature;        /* below 1e-5: argmax, lowest id first */
  float top_p;              /* 1 off, 0 keeps the best token */
  int32_t top_k;            /* 0 off */
  float min_p;              /* 0 off */
  float top_n_sigma;        /* 0 off */
  float typical_p;          /* 1 off */
  float xtc_probability;    /* 0 off */
  float xtc_threshold;      /* above 0.5 off */
  int32_t num_top_logprobs; /* -1 no logprobs, 0 the chosen token's only, up to 20 alternatives */
  int32_t edits_begin;      /* this row's range in the edits array */
  int32_t edits_end;
  int32_t mask;             /* this row's index in the masks array, -1 none */
} rl_sampling;

/* A change of one logit: z' = repeat(z + bias) - subtract, repeat(z) = z < 0 ? z * repetition : z / repetition. 16 bytes. */
typedef struct rl_edit {
  int32_t token;
  float bias;       /* -INFINITY bans the token */
  float repetition; /* 1 off */
  float subtract;   /* presence, frequency and DRY penalties together */
} rl_edit;

enum { RL_TOP_LOGPROBS_MAX = 20, RL_ROW_BROKEN = 1 };

/* What a row drew. 16 bytes. */
typedef struct rl_sampled {
  int32_t token;     /* -1 when broken */
  float logprob;     /* of the processed logits, before temperature and filters; 0 when not asked for */
  uint32_t flags;    /* RL_ROW_BROKEN: no logit of the row is a number above -inf */
  int32_t num_kept;  /* tokens that the filters left to draw from; 1 for greedy rows */
} rl_sampled;

/* Samples every logits row of `output` with its own configuration, in one pass; waits for the evaluation.
 * `edits` may be NULL when no row has any; `masks` is uint32 [num_masks, ceil(vocabulary / 32)], bit set = allowed, may be NULL.
 * `top_tokens` and `top_logprobs` are [num_rows, RL_TOP_LOGPROBS_MAX] or NULL when no row asks for alternatives; most likely first, equal
 * ones by lower id; entries that are not asked for or do not exist have token -1 and logprob 0. All is checked before any is written. */
RL_API int32_t rl_sample(rl_output* output, const rl_sampling* rows, int32_t num_rows, const rl_edit* edits, int32_t num_edits,
                         const uint32_t* masks, int32_t num_masks, rl_sampled* sampled, int32_t* top_tokens, float* top_logprobs);

/* The first half of rl_sample: the rows are drawn on the device's stream as soon as the logits are there. Does not wait; rl_forward_drawn goes on
 * with what they draw. Only where rl_model_info says so. */
RL_API int32_t rl_sample_start(rl_output* output, const rl_sampling* rows, int32_t num_rows, const rl_edit* edits, int32_t num_edits,
                               const uint32_t* masks, int32_t num_masks);

/* The second half: waits for these draws. */
RL_API int32_t rl_sample_finish(rl_output* output, rl_sampled* sampled, int32_t num_rows, int32_t* top_tokens, float* top_logprobs);

/* For tests: the filters' survivors of one logits row. `kept` is uint8 [vocabulary], 1 = may be drawn; `probabilities` is float
 * [vocabulary], the law of the draw (0 where not kept). Either may be NULL. XTC's coin is that of the row's seed and position; a broken row
 * has no survivors. */
RL_API int32_t rl_sample_distribution(rl_output* output, int32_t row, const rl_sampling* sampling, const rl_edit* edits, int32_t num_edits,
                                      const uint32_t* masks, int32_t num_masks, uint8_t* kept, float* probabilities);

/* For tests: the draw's 32-bit words for tokens 0 … count-1 at (seed, position). A change to them is a breaking change. */
RL_API int32_t rl_random_words(uint64_t seed, uint32_t position, uint32_t* words, int32_t count);

#ifdef __cplusplus
}
#endif
#endif
