// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults that show beside the memory of outputs, or that damage memory.
#include "host.hpp"

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace mortise::test {
namespace {

const Make negated = one("neg", {vector(f32, {1, 2, 3, 4, 5})}, {{f32, {5}}});

// neg of 5 floats in a page that nobody may touch before its begin, or behind its end.
int negateAtEdge(const std::string &fault, bool atEnd) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto *pages = static_cast<uint8_t *>(mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(mprotect(pages + page, page, PROT_READ | PROT_WRITE), 0);
  Graph graph(negated);
  uint8_t *data = pages + page + (atEnd ? page - graph.inputs[0].size() : 0);
  std::memcpy(data, graph.inputs[0].data(), graph.inputs[0].size());
  plant(fault);
  const int signal = signalOf([&] {
    const Kernel kernel(InHost, graph.view());
    const Memory output(InHost, 20), workspace(InHost, kernel.workspaceBytes());
    Call run(kernel, {addressOf(data)}, {output.address()}, workspace.address());
    (void)run.enqueue();
  });
  munmap(pages, 3 * page);
  return signal;
}

FAULT_TEST(ReadPastEnd, "read-past-end") {
  EXPECT_EQ(negateAtEdge("none", true), 0);
  EXPECT_NE(negateAtEdge("read-past-end", true), 0);
}
FAULT_TEST(ReadBeforeBegin, "read-before-begin") {
  EXPECT_EQ(negateAtEdge("none", false), 0);
  EXPECT_NE(negateAtEdge("read-before-begin", false), 0);
}

// What stands behind the 20 bytes of the output.
FAULT_TEST(WritePastEnd, "write-past-end") {
  for (const char *fault : {"none", "write-past-end"}) {
    plant(fault);
    Graph graph(negated);
    const Kernel kernel(InHost, graph.view());
    const Memory output(InHost, 32), input(InHost, 20), workspace(InHost, kernel.workspaceBytes());
    input.write(graph.inputs[0]);
    output.write(Bytes(32, 0x77));
    Call run(kernel, {input.address()}, {output.address()}, workspace.address());
    EXPECT_EQ(run.enqueue(), "");
    const Bytes found = output.read();
    EXPECT_EQ(std::count(found.begin() + 20, found.end(), 0x77), fault == std::string("none") ? 12 : 0);
  }
}

FAULT_TEST(InputWritten, "input-written") {
  for (const char *fault : {"none", "input-written"}) {
    plant(fault);
    Graph graph(one("softmax", {vector(f32, {1, 2, 3})}, {{f32, {3}}}, {integer("axis", 0)}));
    const Kernel kernel(InHost, graph.view());
    const Memory output(InHost, 12), input(InHost, 12), workspace(InHost, kernel.workspaceBytes());
    input.write(graph.inputs[0]);
    Call run(kernel, {input.address()}, {output.address()}, workspace.address());
    EXPECT_EQ(run.enqueue(), "");
    EXPECT_EQ(input.read() == graph.inputs[0], fault == std::string("none"));
  }
}

// exp(neg(x)) * x, with two values in the workspace.
std::vector<Data> chain(ViewBuilder &b) {
  const MortiseType *type = b.type(f32, {256});
  MortiseValue *x = b.input(type);
  b.output(b.op("mul", {b.op("exp", {b.op("neg", {x}, type)}, type), x}, type));
  return {noise(f32, {256})};
}

FAULT_TEST(WorkspaceUnderstated, "workspace-understated") {
  for (const char *fault : {"none", "workspace-understated"}) {
    plant(fault);
    Graph graph(chain);
    const Kernel kernel(InHost, graph.view());
    const size_t stated = kernel.workspaceBytes(), behind = 1 << 14;
    ASSERT_GT(stated, 0u);
    const Memory output(InHost, 1024), input(InHost, 1024), workspace(InHost, stated + behind);
    input.write(graph.inputs[0]);
    workspace.write(Bytes(stated + behind, 0x77));
    Call run(kernel, {input.address()}, {output.address()}, workspace.address());
    EXPECT_EQ(run.enqueue(), "");
    const Bytes found = workspace.read();
    const auto touched =
        behind - static_cast<size_t>(std::count(found.begin() + static_cast<ptrdiff_t>(stated), found.end(), 0x77));
    EXPECT_EQ(touched == 0, fault == std::string("none")) << touched;
    EXPECT_EQ(difference(graph, {output.read()}), "");
  }
}

// Where pairs are promised, one address is right for both.
FAULT_TEST(InPlacePromised, "in-place-promised") {
  Graph graph(one("reverse", {counting(f32, {8})}, {{f32, {8}}}, {integers("axes", {0})}));
  plant("none");
  EXPECT_EQ(propose(graph.view()).inPlace.size(), 0u);
  plant("in-place-promised");
  const auto pairs = propose(graph.view()).inPlace;
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].input, graph.view().inputs[0]->index);
  EXPECT_EQ(pairs[0].output, graph.view().outputs[0]->index);
  const Kernel kernel(InHost, graph.view());
  const Memory both(InHost, 32), workspace(InHost, kernel.workspaceBytes());
  both.write(graph.inputs[0]);
  Call run(kernel, {both.address()}, {both.address()}, workspace.address());
  EXPECT_EQ(run.enqueue(), "");
  EXPECT_NE(difference(graph, {both.read()}), "");
}

FAULT_TEST(AlignmentAssumed, "alignment-assumed") {
  for (const char *fault : {"none", "alignment-assumed"}) {
    plant(fault);
    Graph graph(negated);
    const Kernel kernel(InHost, graph.view());
    const Memory output(InHost, 20), input(InHost, 24), workspace(InHost, kernel.workspaceBytes());
    Bytes shifted(24);
    std::ranges::copy(graph.inputs[0], shifted.begin() + 4);
    input.write(shifted);
    Call run(kernel, {input.address() + 4}, {output.address()}, workspace.address());
    EXPECT_EQ(run.enqueue(), "");
    EXPECT_EQ(difference(graph, {output.read()}).empty(), fault == std::string("none"));
  }
}

FAULT_TEST(ClockOverrun, "clock-overrun") {
  for (const char *fault : {"none", "clock-overrun"}) {
    plant(fault);
    Graph graph(negated);
    const Kernel kernel(InHost, graph.view());
    ASSERT_EQ(kernel.info().step_count, 1u);
    const Memory output(InHost, 20), input(InHost, 20), workspace(InHost, kernel.workspaceBytes());
    input.write(graph.inputs[0]);
    uint64_t ns[2] = {0, 77};
    Call run(kernel, {input.address()}, {output.address()}, workspace.address());
    run.args.step_ns = ns;
    EXPECT_EQ(run.enqueue(), "");
    EXPECT_EQ(ns[1] == 77, fault == std::string("none"));
  }
}

} // namespace
} // namespace mortise::test
