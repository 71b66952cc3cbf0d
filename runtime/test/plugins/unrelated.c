/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
int unrelated(void) { return 1; }
#ifdef TABLE_AS_DATA
__attribute__((visibility("default"))) const int mortise_plugin[64] = {1};
#endif
