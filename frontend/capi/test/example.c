/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The embedding API from C: y = relu(x + w) on the device that MORTISE_DEVICE or the first argument names. */
#include <mortise/mortise.h>

#include <stdio.h>

static int failed(MortiseStatus *status) {
  if (!status)
    return 0;
  fprintf(stderr, "error %d: %s\n", (int)mortise_status_code(status), mortise_status_message(status));
  mortise_status_destroy(status);
  return 1;
}

int main(int argc, char **argv) {
  const MortiseOption option = {"device", argc > 1 ? argv[1] : "auto"};
  MortiseSession *session = NULL;
  MortiseBuilder *builder = NULL;
  MortiseProgram *program = NULL;
  int code = 1;

  const int64_t dims[] = {4};
  const MortiseType type = {sizeof type, NULL, MORTISE_F32, 1, dims, NULL, NULL};
  float x[] = {-3, -1, 1, 3}, w[] = {1, 2, 3, 4}, y[4];
  const MortiseTensor tx = {sizeof tx, x, MORTISE_F32, 1, dims, NULL};
  const MortiseTensor tw = {sizeof tw, w, MORTISE_F32, 1, dims, NULL};
  const MortiseTensor ty = {sizeof ty, y, MORTISE_F32, 1, dims, NULL};
  const MortiseTensor *inputs[] = {&tx, &tw}, *outputs[] = {&ty};
  uint32_t operands[2], sum, result;

  if (failed(mortise_session_create(&option, 1, &session)) ||
      failed(mortise_builder_create(session, "example", &builder)) ||
      failed(mortise_builder_input(builder, "x", &type, 0, &operands[0])) ||
      failed(mortise_builder_input(builder, "w", &type, MORTISE_VALUE_CONSTANT, &operands[1])) ||
      failed(mortise_builder_op(builder, "mortise.add", operands, 2, NULL, 0, "example.c:32", &sum, 1, NULL)) ||
      failed(mortise_builder_op(builder, "mortise.relu", &sum, 1, NULL, 0, "example.c:33", &result, 1, NULL)) ||
      failed(mortise_builder_output(builder, result, -1)) ||
      failed(mortise_compile(session, builder, NULL, 0, &program)) ||
      failed(mortise_program_bind(program, inputs, 2)) || failed(mortise_program_run(program, inputs, 2, outputs, 1)))
    goto done;
  printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
  code = y[0] == 0 && y[1] == 1 && y[2] == 4 && y[3] == 7 ? 0 : 1;
done:
  mortise_program_destroy(program);
  mortise_builder_destroy(builder);
  mortise_session_destroy(session);
  return code;
}
