/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * acme.answer(x...) {how, times = OPS}: the attribute `how` says what its infer does; "right" is the type of x, and
 * "half" its first half, over a symbol or not. */
static const MortiseAttribute answer_times = {
    .struct_size = sizeof answer_times, .name = "times", .kind = MORTISE_ATTRIBUTE_I64, .i64 = OPS};
static const MortiseAttributeDeclaration answer_attributes[] = {
    {.struct_size = sizeof(MortiseAttributeDeclaration), .name = "how", .kind = MORTISE_ATTRIBUTE_STRING},
    {.struct_size = sizeof(MortiseAttributeDeclaration),
     .name = "times",
     .kind = MORTISE_ATTRIBUTE_I64,
     .fallback = &answer_times}};
static const MortiseAttributeDeclaration *const answer_list[] = {&answer_attributes[0], &answer_attributes[1]};
static const MortiseOpDeclaration answer = {.struct_size = sizeof answer,
                                            .name = "acme.answer",
                                            .summary = "x, if its plugin says so",
                                            .operands_min = 1,
                                            .operands_max = 2,
                                            .attributes = answer_list,
                                            .attribute_count = 2};
static const MortiseOpDeclaration *const own_ops[] = {&answer};

static MortiseStatus *infer(MortiseInferArgs *args) {
  static const int64_t extents[2] = {2, MORTISE_DYNAMIC};
  static const MortiseExpr garbage[2] = {{NOWHERE, 1}, {NOWHERE, 1}};
  const char *how = args->attributes[0]->string;
  MortiseType type = *args->operands[0];
  if (strcmp(how, "refuse") == 0)
    return invalid("expected a question of another kind");
  if (strcmp(how, "nothing") == 0)
    return NULL;
  if (strcmp(how, "abort") == 0)
    abort();
  for (volatile int forever = strcmp(how, "loop") == 0; forever;)
    ;
  if (strcmp(how, "half") == 0) {
    static int64_t halves[1];
    static MortiseExprStep steps[3] = {
        {MORTISE_EXPR_SYMBOL, 0, 0}, {MORTISE_EXPR_CONST, 0, 2}, {MORTISE_EXPR_FLOORDIV, 0, 0}};
    static const MortiseExpr half = {steps, 3};
    const int symbolic = type.dims[0] == MORTISE_DYNAMIC;
    halves[0] = symbolic ? MORTISE_DYNAMIC : type.dims[0] / 2;
    type.rank = 1;
    type.dims = halves;
    type.dim_exprs = symbolic ? &half : NULL;
  }
  for (int i = 0; strcmp(how, "many") == 0 && i < 17; ++i)
    args->add(args->sink, &type);
  if (strcmp(how, "address") == 0) {
    args->add(args->sink, NOWHERE);
    return NULL;
  }
  if (strcmp(how, "rank") == 0)
    type.rank = 99;
  if (strcmp(how, "extents") == 0) {
    type.rank = 3;
    type.dims = NOWHERE;
  }
  if (strcmp(how, "strides") == 0)
    type.strides = type.dims;
  if (strcmp(how, "program") == 0) {
    type.rank = 2;
    type.dims = extents;
    type.dim_exprs = garbage;
  }
  args->add(args->sink, &type);
  return NULL;
}
