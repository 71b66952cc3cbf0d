/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* old_host PLUGIN REVISION MEMBERS: a host that negotiated REVISION and whose table ends before the member MEMBERS
 * ("all": after the last), with a page behind it that nobody may read. Initializes the plugin, and has it add two
 * tensors. Ends with 0 and "right", or with 1 and the plugin's status. For bench/abi_matrix.py. */
#define _DEFAULT_SOURCE
#include <mortise/plugin.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct MortiseStatus {
  int32_t code;
  char message[256];
};

static MortiseStatus *status_create(int32_t code, const char *message) {
  MortiseStatus *status = calloc(1, sizeof *status);
  if (!status)
    abort();
  status->code = code;
  snprintf(status->message, sizeof status->message, "%s", message);
  return status;
}

static void parallel_for(int64_t count, int64_t grain, MortiseTask task, void *context) {
  (void)grain;
  task(context, 0, count);
}

static int32_t cancelled(void) { return 0; }

static void expect(const char *slot, MortiseStatus *status) {
  if (!status)
    return;
  printf("%s: status %d: %s\n", slot, status->code, status->message);
  exit(1);
}

/* A table of `size` bytes that ends where readable memory ends. */
static const MortiseHost *host_of(uint32_t revision, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
    abort();
  const MortiseHost whole = {.struct_size = size,
                             .abi_revision = revision,
                             .opset = MORTISE_OPSET,
                             .status_create = status_create,
                             .parallel_for = parallel_for,
                             .cancelled = cancelled};
  return memcpy(pages + page - size, &whole, size);
}

static size_t size_of(const char *members) {
  if (strcmp(members, "parallel_for") == 0)
    return offsetof(MortiseHost, parallel_for);
  if (strcmp(members, "graph_bytes") == 0)
    return offsetof(MortiseHost, graph_bytes);
  if (strcmp(members, "all") == 0)
    return sizeof(MortiseHost);
  fprintf(stderr, "expected parallel_for, graph_bytes or all, found %s\n", members);
  exit(2);
}

int main(int count, char **words) {
  if (count != 4)
    return fprintf(stderr, "usage: old_host PLUGIN REVISION MEMBERS\n"), 2;
  void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fprintf(stderr, "%s\n", dlerror()), 2;
  MortisePluginFn function;
  *(void **)&function = dlsym(library, MORTISE_PLUGIN_SYMBOL);
  if (!function)
    return fprintf(stderr, "expected the function " MORTISE_PLUGIN_SYMBOL ", found none\n"), 2;
  const MortisePlugin *plugin = function();
  MortiseInitializeArgs start = {.struct_size = sizeof start,
                                 .host = host_of((uint32_t)atoi(words[2]), size_of(words[3])),
                                 .plugin_path = words[1]};
  expect("initialize", plugin->initialize(&start));

  const int64_t dims[] = {3};
  const MortiseType type = {.struct_size = sizeof type, .dtype = MORTISE_F32, .rank = 1, .dims = dims};
  MortiseNode node = {.struct_size = sizeof node,
                      .since = 1,
                      .op = "mortise.add",
                      .operand_count = 2,
                      .result_count = 1,
                      .location = ""};
  const MortiseValue a = {.struct_size = sizeof a, .type = &type, .use_count = 1, .name = ""};
  const MortiseValue b = {
      .struct_size = sizeof b, .type = &type, .index = 1, .result_index = 1, .use_count = 1, .name = ""};
  const MortiseValue sum = {
      .struct_size = sizeof sum, .type = &type, .producer = &node, .index = 2, .use_count = 1, .name = ""};
  const MortiseValue *const values[] = {&a, &b, &sum};
  node.operands = values;
  node.results = values + 2;
  const MortiseNode *const nodes[] = {&node};
  const MortiseGraph graph = {.struct_size = sizeof graph,
                              .name = "",
                              .opset = 1,
                              .nodes = nodes,
                              .node_count = 1,
                              .values = values,
                              .value_count = 3,
                              .inputs = values,
                              .input_count = 2,
                              .outputs = values + 2,
                              .output_count = 1};
  MortiseCompileArgs compile = {.struct_size = sizeof compile, .region = &graph};
  expect("kernel_compile", plugin->kernel_compile(&compile));

  const float x[] = {1, 2, 3}, y[] = {10, 20, 30};
  float out[3] = {0};
  const MortiseAddress inputs[] = {(MortiseAddress)(uintptr_t)x, (MortiseAddress)(uintptr_t)y};
  const MortiseAddress outputs[] = {(MortiseAddress)(uintptr_t)out};
  MortiseEnqueueArgs call = {
      .struct_size = sizeof call, .kernel = compile.kernel, .inputs = inputs, .outputs = outputs};
  expect("enqueue", plugin->enqueue(&call));
  if (out[0] != 11 || out[1] != 22 || out[2] != 33)
    return printf("expected 11 22 33, found %g %g %g\n", out[0], out[1], out[2]), 1;
  puts("right");
  return 0;
}
