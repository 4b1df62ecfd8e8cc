import { assertEquals, assertThrows } from "@std/assert";
import { ChatTemplateError } from "../../src/tokenizer/chat_template.ts";
import { JinjaTemplate, type JinjaTemplateOptions } from "../../src/tokenizer/jinja_template.ts";

const messages = [{ role: "user", content: "Hi" }];

function render(source: string, options: JinjaTemplateOptions = {}, kwargs: Record<string, unknown> = {}): string {
  return new JinjaTemplate(source, options).render(messages, { addGenerationPrompt: true, kwargs });
}

Deno.test("A template sees messages, special tokens, extra variables and whether a turn is opened", () => {
  const source =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}>{% endif %}{{ mood }}";
  assertEquals(render(source, { specialTokens: { bos_token: "<s>" } }, { mood: "!" }), "<s>user:Hi;>!");
});

Deno.test("Tools are none when there are none, and printed as JSON with tojson", () => {
  const template = new JinjaTemplate("{% if tools is none %}none{% else %}{{ tools | tojson }}{% endif %}");
  assertEquals(template.render(messages, { addGenerationPrompt: false }), "none");
  assertEquals(template.render(messages, { addGenerationPrompt: false, tools: [] }), "none");
  assertEquals(
    template.render(messages, { addGenerationPrompt: false, tools: [{ name: "f", n: [1, null] }] }),
    '[{"name": "f", "n": [1, null]}]',
  );
});

Deno.test("strftime_now is the clock in English", () => {
  assertEquals(render("{{ strftime_now('%d %b %Y') }}", { now: () => new Date(2026, 10, 29) }), "29 Nov 2026");
});

Deno.test("raise_exception gives the template's own words", () => {
  const error = assertThrows(() => render("{{ raise_exception('Roles must alternate') }}"), ChatTemplateError);
  assertEquals(error.message, "Roles must alternate");
});

Deno.test("A broken template and a failing one are template errors", () => {
  assertThrows(() => new JinjaTemplate("{% if %}"), ChatTemplateError, "Cannot read the chat template");
  assertThrows(() => render("{{ messages.nothing.at.all() }}"), ChatTemplateError, "The chat template refuses the messages");
});

Deno.test("A count that would take the machine's memory is refused", () => {
  assertThrows(() => render("{% for i in range(1000000000) %}{% endfor %}"), ChatTemplateError, "range(1000000000) has more than 65536");
  assertEquals(render("{% for i in range(2, 9, 3) %}{{ i }} {% endfor %}{% for i in range(2, 0, -1) %}{{ i }} {% endfor %}"), "2 5 8 2 1 ");
});

Deno.test("Extra variables cannot stand in for the template's own inputs", () => {
  for (const name of ["messages", "tools", "bos_token", "add_generation_prompt", "raise_exception", "true"]) {
    assertThrows(() => render("x", {}, { [name]: "y" }), ChatTemplateError, `Cannot set the template variable ${name}`);
  }
});

Deno.test("Template code in messages is data", () => {
  const template = new JinjaTemplate("{{ messages[0].content }}");
  const content = "{{ 7 * 7 }}{% raw %}{# x #}";
  assertEquals(template.render([{ role: "user", content }], { addGenerationPrompt: false }), content);
});
