// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stand-in for HIP notices what a caller does wrong.
#include "session.hpp"

#include "../../plugins/rocm/hip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mortise::test {
namespace {

using rocm::hip::Functions;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The stand-in's functions, called as the plugin does.
class Hip : public Functions {
public:
  explicit Hip(const Session &session) {
#define MORTISE_HIP_FIND(member, arguments, name)                                                                      \
  member = session.symbol<std::remove_pointer_t<decltype(member)>>(name);
    MORTISE_HIP_FUNCTIONS(MORTISE_HIP_FIND)
    MORTISE_HIP_OPTIONAL_FUNCTIONS(MORTISE_HIP_FIND)
#undef MORTISE_HIP_FIND
  }
  rocm::hip::Stream stream() const {
    rocm::hip::Stream made = nullptr;
    EXPECT_EQ(streamCreate(&made, 1), rocm::hip::Success);
    return made;
  }
  char *memory(size_t bytes) const {
    void *made = nullptr;
    EXPECT_EQ(malloc(&made, bytes), rocm::hip::Success);
    return static_cast<char *>(made);
  }
};

TEST(HipStandIn, MemoryIsFreedOnce) {
  const Session session;
  const Hip hip(session);
  char *memory = hip.memory(64);
  EXPECT_EQ(hip.free(memory), rocm::hip::Success);
  EXPECT_THAT(session.problems(), IsEmpty());
  EXPECT_NE(hip.free(memory), rocm::hip::Success);
  EXPECT_THAT(session.problems(), Contains(HasSubstr("freed twice")));
}

TEST(HipStandIn, QueuedCopiesStayInMemoryThatIsThere) {
  const Session session("order=lazy");
  const Hip hip(session);
  char *a = hip.memory(64), *b = hip.memory(64);
  const rocm::hip::Stream stream = hip.stream();
  EXPECT_EQ(hip.memcpyDtoDAsync(b, a, 64, stream), rocm::hip::Success);
  EXPECT_THAT(session.problems(), IsEmpty());
  EXPECT_EQ(hip.memcpyDtoDAsync(b, a, 65, stream), rocm::hip::Success);
  EXPECT_THAT(session.problems(), Contains(HasSubstr("not all in memory of a device")));
  session.configure("");
  char *early = nullptr;
  const rocm::hip::Stream other = hip.stream();
  EXPECT_EQ(hip.mallocAsync(reinterpret_cast<void **>(&early), 64, stream), rocm::hip::Success);
  EXPECT_EQ(hip.memcpyDtoDAsync(early, a, 64, other), rocm::hip::Success); // nothing orders the two
  EXPECT_EQ(hip.streamSynchronize(other), rocm::hip::Success);
  EXPECT_THAT(session.problems(), Contains(HasSubstr("before the work that allocates it")));
  session.configure("");
  EXPECT_EQ(hip.freeAsync(early, stream), rocm::hip::Success);
  EXPECT_EQ(hip.memcpyDtoDAsync(early, a, 64, stream), rocm::hip::Success);
  EXPECT_THAT(session.problems(), Contains(HasSubstr("not all in memory of a device")));
  for (char *each : {a, b})
    EXPECT_EQ(hip.free(each), rocm::hip::Success);
  for (const rocm::hip::Stream each : {stream, other})
    EXPECT_EQ(hip.streamDestroy(each), rocm::hip::Success);
}

TEST(HipStandIn, WritesPastMemoryAndAfterItsEndAreSeen) {
  const Session session;
  const Hip hip(session);
  char *memory = hip.memory(64);
  memory[64] = 1;
  EXPECT_THAT(session.problems(), Contains(HasSubstr("memory behind an allocation of 64 bytes was written")));
  memory[64] = static_cast<char>(0xa5);
  memory[-1] = 1;
  EXPECT_THAT(session.problems(), Contains(HasSubstr("memory in front of an allocation")));
  memory[-1] = static_cast<char>(0xa5);
  session.configure("");
  EXPECT_EQ(hip.free(memory), rocm::hip::Success);
  memory[3] = 1;
  EXPECT_THAT(session.problems(), Contains(HasSubstr("was written after it was freed")));
}

TEST(HipStandIn, HandlesEndOnce) {
  const Session session;
  const Hip hip(session);
  rocm::hip::Event event = nullptr;
  EXPECT_EQ(hip.eventCreate(&event, 0), rocm::hip::Success);
  EXPECT_EQ(hip.eventDestroy(event), rocm::hip::Success);
  EXPECT_THAT(session.problems(), IsEmpty());
  EXPECT_NE(hip.eventDestroy(event), rocm::hip::Success);
  const rocm::hip::Stream stream = hip.stream();
  EXPECT_EQ(hip.streamDestroy(stream), rocm::hip::Success);
  EXPECT_NE(hip.streamDestroy(stream), rocm::hip::Success);
  EXPECT_THAT(session.problems(), ElementsAre(HasSubstr("an event is destroyed"), HasSubstr("a stream is used")));
}

// Without an event between them the work of two streams happens in the wrong order.
TEST(HipStandIn, StreamsThatNothingOrdersAreNotInOrder) {
  const Session session("order=lazy");
  MortiseDevice *device = session.devices[0];
  MortiseStream *first = makeStream(device), *second = makeStream(device);
  const MortiseAddress a = makeMemory(device, smallBytes), b = makeMemory(device, smallBytes);
  const std::vector<float> zeros(64 * 128, 0.0F);
  std::vector<float> got(64 * 128);
  {
    const Region compiled(device, smallGraph());
    upload(device, first, a, zeros.data(), smallBytes);
    ASSERT_TRUE(compiled.enqueue(first, {a}, {b}));
    download(device, second, got.data(), b, smallBytes); // before the kernel
    EXPECT_THAT(got, Each(Not(1.0F)));
    download(device, first, got.data(), b, smallBytes);
    EXPECT_THAT(got, Each(1.0F));
  }
  for (MortiseStream *stream : {first, second})
    destroyStream(stream);
  for (const MortiseAddress address : {a, b})
    freeMemory(device, address, smallBytes);
}

TEST(HipStandIn, CodeStaysWhileItsKernelsAreQueued) {
  const Session session("order=lazy");
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  const MortiseAddress a = makeMemory(device, smallBytes), b = makeMemory(device, smallBytes);
  {
    const Region compiled(device, smallGraph());
    ASSERT_TRUE(compiled.enqueue(stream, {a}, {b}));
  } // the ABI wants the work to have happened
  EXPECT_THAT(session.problems(), ElementsAre(HasSubstr("unloaded while its kernels are queued")));
  destroyStream(stream);
  for (const MortiseAddress address : {a, b})
    freeMemory(device, address, smallBytes);
}

TEST(HipStandIn, WhatIsNoCodeObjectIsRefused) {
  const Session session;
  const Hip hip(session);
  const char noCode[64] = "no ELF file";
  rocm::hip::Module module = nullptr;
  EXPECT_EQ(hip.moduleLoadData(&module, noCode), rocm::hip::InvalidImage);
  EXPECT_THAT(session.problems(), ElementsAre(HasSubstr("no ELF file")));
}

} // namespace
} // namespace mortise::test
