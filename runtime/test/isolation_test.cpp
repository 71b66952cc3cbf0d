// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins in a process of their own: right results, and what their ends leave behind. And the protocol, with a worker
// that lies.
#include "fixtures.hpp"
#include "isolation/message.hpp"

#include <gmock/gmock.h>

#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace mortise::runtime::isolation {
namespace {

using testing::HasSubstr;

Proposed someAnswer() {
  return {{{"acme.mul", {1, 2, 3}, 1.5, 2.5, 3.5, {0, 4}}, {"", {}, 0, 0, 0, {}}}, {{7, 3, "no such rank"}}};
}

TEST(Messages, AreReadAsTheyWereWritten) {
  const auto read = decode<Proposed>(encode(someAnswer()));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->candidates.size(), 2u);
  EXPECT_EQ(read->candidates[0].lowering, "acme.mul");
  EXPECT_EQ(read->candidates[0].nodes, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(read->candidates[0].inPlace, (std::vector<uint32_t>{0, 4}));
  EXPECT_EQ(read->refusals.at(0).detail, "no such rank");
}

TEST(Messages, EveryCutIsAnError) {
  const std::string whole = encode(someAnswer());
  for (size_t count = 0; count < whole.size(); ++count)
    EXPECT_FALSE(decode<Proposed>(std::string_view(whole).substr(0, count))) << count;
  EXPECT_FALSE(decode<Proposed>(whole + "x"));
}

TEST(Messages, WildCountsAllocateNothing) {
  const std::string wild(16, '\xff');
  EXPECT_FALSE(decode<Proposed>(wild));
  EXPECT_FALSE(decode<Informed>(wild));
  EXPECT_FALSE(decode<Answer>(wild));
  EXPECT_FALSE(decode<Loaded>(wild));
}

TEST(Messages, RandomBytesAreReadOrRefused) {
  std::mt19937 random(1);
  const std::string whole = encode(someAnswer());
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 3; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    refused += !decode<Proposed>(bytes);
    decode<Loaded>(bytes) ? void() : void(++refused);
  }
  EXPECT_GT(refused, 20000u);
}

struct Pair {
  int ends[2];
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); }
  ~Pair() {
    shut();
    close(ends[0]);
  }
  void shut() {
    if (ends[1] >= 0)
      close(std::exchange(ends[1], -1));
  }
  void write(const std::string &bytes) {
    EXPECT_EQ(::write(ends[1], bytes.data(), bytes.size()), ssize_t(bytes.size()));
  }
};

TEST(Messages, CrossASocketInParts) {
  Pair pair;
  const std::string large(5 << 20, 'x');
  std::thread other([&] { EXPECT_TRUE(sendMessage(pair.ends[1], large, 10)); });
  const auto received = receiveMessage(pair.ends[0], 10);
  other.join();
  ASSERT_TRUE(received);
  EXPECT_TRUE(*received == large);
}

TEST(Messages, ASilentSideIsLeftBehind) {
  Pair pair;
  pair.write("abc");
  const auto received = receiveMessage(pair.ends[0], 0.05);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, MORTISE_CANCELLED);
}

TEST(Messages, AGoneSideIsSeen) {
  Pair pair;
  pair.write(encode(uint64_t(100)) + "only this");
  pair.shut();
  const auto received = receiveMessage(pair.ends[0], 10);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, MORTISE_DEVICE_LOST);
  EXPECT_FALSE(sendMessage(pair.ends[0], "more", 1));
}

TEST(Messages, AWildSizeIsNotAllocated) {
  Pair pair;
  pair.write(std::string(8, '\xff'));
  const auto received = receiveMessage(pair.ends[0], 10);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, MORTISE_CORRUPT);
}

} // namespace
} // namespace mortise::runtime::isolation
