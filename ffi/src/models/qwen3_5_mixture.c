#include "qwen3_5_mixture.h"

#include <stdio.h>

/* Gate and up are one tensor in Hugging Face's layout, two in others. */
static linear load_gate_up(weights* w, const char* module, int num_experts, int hidden, int width) {
  char name[160];
  projection fused = {.module = "gate_up_proj", .rows = 2 * width};
  projection apart[] = {{.module = "gate_proj", .rows = width}, {.module = "up_proj", .rows = width}};
  snprintf(name, sizeof name, "%s.switch_mlp.gate_up_proj.weight", module);
  if (weights_has(w, name)) return weights_experts(w, module, &fused, 1, num_experts, hidden);
  return weights_experts(w, module, apart, 2, num_experts, hidden);
}

mixture mixture_load(weights* w, const char* module, int hidden) {
  config* c = w->config;
  int num_experts = config_int(c, "num_experts", 1, 1 << 16), width = config_int(c, "moe_intermediate_size", 1, 1 << 22);
  int shared_width = config_int(c, "shared_expert_intermediate_size", 1, 1 << 22);
  mixture m = {.num_chosen = config_int(c, "num_experts_per_tok", 1, num_experts)};
  if (c->status != RL_OK || w->status != RL_OK) return m;
  projection router = projection_of(module, "gate", num_experts), down = {.module = "down_proj", .rows = hidden};
  projection shared[] = {projection_of(module, "shared_expert.gate_proj", shared_width),
                         projection_of(module, "shared_expert.up_proj", shared_width)};
  projection shared_down = projection_of(module, "shared_expert.down_proj", hidden);
  projection shared_gate = projection_of(module, "shared_expert_gate", 1);
  m.router = weights_linear(w, &router, 1, hidden, false);
  m.gate_up = load_gate_up(w, module, num_experts, hidden, width);
  m.down = weights_experts(w, module, &down, 1, num_experts, width);
  m.shared_gate_up = weights_linear(w, shared, 2, hidden, false);
  m.shared_down = weights_linear(w, &shared_down, 1, shared_width, false);
  m.shared_gate = weights_linear(w, &shared_gate, 1, hidden, false);
  return m;
}

void mixture_free(mixture* m) {
  linear* linears[] = {&m->router, &m->gate_up, &m->down, &m->shared_gate_up, &m->shared_down, &m->shared_gate};
  for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) linear_free(linears[i]);
}

mlx_array mixture_apply(forward* f, const mixture* m, mlx_array x) {
  scope* s = f->s;
  mlx_array probabilities = op_softmax(s, linear_apply(s, &m->router, x)); /* [tokens, experts] */
  mlx_array experts = op_largest(s, probabilities, m->num_chosen);
  mlx_array shares = op_take_along(s, probabilities, experts);
  shares = op_divide(s, shares, op_sum(s, shares, -1, true));
  mlx_array outputs = experts_apply(f, &m->down, swiglu(s, experts_apply(f, &m->gate_up, op_expand(s, x, 1), experts)), experts);
  mlx_array routed = op_sum(s, op_multiply(s, outputs, op_expand(s, shares, -1)), 1, false);
  mlx_array shared = linear_apply(s, &m->shared_down, swiglu(s, linear_apply(s, &m->shared_gate_up, x)));
  return op_add(s, routed, op_multiply(s, shared, op_sigmoid(s, linear_apply(s, &m->shared_gate, x))));
}
