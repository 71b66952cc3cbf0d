// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How fast a kernel is, beside how fast its device copies as many bytes and multiplies matrices (the level perf).
#include "probe.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

namespace mortise::conformance {
namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr size_t mostOfBatch = 64;              // runs that are queued before the host waits
constexpr double ofKernel = 0.1, ofRoof = 0.04; // seconds that are clocked

struct Times {
  double median = 0, fastest = INFINITY; // seconds of a run
  uint64_t runs = 0;
};

// How long a run takes about, to see how many are a batch. A kernel that takes seconds runs once.
double roughly(const ProbeTask &task, const std::function<void(size_t)> &batch) {
  constexpr double slow = 0.25;
  double once = INFINITY;
  for (int i = 0; i < 2 && (i == 0 || once < slow); ++i) {
    const auto begin = Clock::now();
    batch(1);
    once = std::min(once, secondsSince(begin));
  }
  task.stillThere();
  return once;
}

// Runs batches for `least` seconds, and until others come close to the fastest, which was undisturbed then, or it takes
// too long. A batch is short, because a longer one is hardly ever left alone on a machine that has other things to do.
Times clocked(const ProbeTask &task, double least, const std::function<void(size_t)> &batch) {
  constexpr double ofBatch = 0.0005, most = 1, close = 1.1;
  constexpr ptrdiff_t leastBatches = 5, leastClose = 3;
  const double once = roughly(task, batch);
  const auto count = static_cast<size_t>(std::clamp(ofBatch / once, 1.0, static_cast<double>(mostOfBatch)));
  std::vector<double> seconds;
  double total = 0, fastest = INFINITY;
  const auto isEnough = [&] {
    return total >= least && std::ssize(seconds) >= leastBatches &&
           std::ranges::count_if(seconds, [&](double took) { return took <= close * fastest; }) >= leastClose;
  };
  while (seconds.empty() || (total < most && !isEnough())) {
    const auto begin = Clock::now();
    batch(count);
    const double took = secondsSince(begin);
    total += took;
    seconds.push_back(took / static_cast<double>(count));
    fastest = std::min(fastest, seconds.back());
  }
  task.stillThere();
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return {*middle, fastest, seconds.size() * count};
}

// Calls of one kernel with one set of tensors, as a host makes them that runs it again and again: in frames that it
// keeps, one for each call in flight.
class Calls {
public:
  Calls(ProbeRun &run, Launch &launch) : run(run), launch(launch), given(must(launch.operands())) {
    const size_t count = run.hasStreams() ? mostOfBatch : 1;
    for (size_t i = 0; i < count; ++i)
      frames.push_back({must(launch.makeFrame())});
    launch.fill(args, given);
    const size_t addresses = given.inputs.size() + given.outputs.size() + 1;
    same.resize(launch.wordsOfUnchanged());
    for (size_t i = 0; i < addresses; ++i)
      same[i / 64] |= uint64_t(1) << i % 64;
  }

  void batch(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Frame &frame = frames[i % frames.size()];
      must(launch.enqueueIn(frame.frame, frame.isUsed ? std::span<const uint64_t>(same) : std::span<const uint64_t>(),
                            args, run.device.stream()));
      frame.isUsed = true;
    }
    must(run.device.wait());
  }
  ProbeRun &run;
  Launch &launch;
  Operands given;

private:
  struct Frame {
    MortiseFrame *frame = nullptr;
    bool isUsed = false;
  };
  std::vector<Frame> frames;
  tool::Call args;
  std::vector<uint64_t> same;
};

// ---- What the device can do

struct Piece {
  std::byte *target;
  const std::byte *source;
};

// Copies as kernels do: with all threads of the host's pool, or by one where that is faster.
double hostSecondsOf(ProbeRun &run, std::byte *target, const std::byte *source, size_t bytes) {
  constexpr int64_t grain = 1 << 15;
  Piece piece{target, source};
  const auto copies = [](void *context, int64_t begin, int64_t end) {
    const auto *of = static_cast<const Piece *>(context);
    std::memcpy(of->target + begin, of->source + begin, static_cast<size_t>(end - begin));
  };
  double fastest = INFINITY;
  for (const int64_t least : {grain, static_cast<int64_t>(bytes)}) {
    const auto batch = [&](size_t count) {
      for (size_t i = 0; i < count; ++i)
        runtime::host().parallel_for(static_cast<int64_t>(bytes), least, copies, &piece);
    };
    fastest = std::min(fastest, clocked(run.task, ofRoof, batch).fastest);
  }
  return fastest;
}

double deviceSecondsOf(ProbeRun &run, MortiseAddress target, MortiseAddress source, size_t bytes) {
  const runtime::Device &owner = run.device.info().owner();
  const bool isOwn = &owner == &run.device.info(); // otherwise the copy has no stream, and returns when it is done
  const auto batch = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      MortiseCopyArgs args{.struct_size = sizeof args,
                           .device = owner.info.device,
                           .stream = isOwn ? run.device.stream() : nullptr,
                           .target_device = owner.info.device,
                           .source_device = owner.info.device,
                           .target = target,
                           .source = source,
                           .bytes = bytes};
      if (auto done = run.device.call("copy", owner.plugin->table->copy, args); !done)
        refuse("no-copy", "the device does not copy within its memory: " + done.error().message);
    }
    must(run.device.wait());
  };
  return clocked(run.task, ofRoof, batch).fastest;
}

// Bytes per second of a copy that reads and writes `bytes` together. The fastest, because it is to be a bound.
double bandwidthOf(ProbeRun &run, double bytes) {
  constexpr double least = 4096;
  const auto half = static_cast<size_t>(std::max(bytes, least) / 2);
  Buffer source = must(Buffer::make(run.device, 0, half, 64, tool::Edge::Begin));
  Buffer target = must(Buffer::make(run.device, 0, half, 64, tool::Edge::Begin));
  for (Buffer *buffer : {&source, &target})
    must(buffer->write(std::vector<std::byte>(half, std::byte{0x3c})));
  run.task.stillThere();
  const double seconds = run.device.info().inHostMemory()
                             ? hostSecondsOf(run, reinterpret_cast<std::byte *>(target.address()),
                                             reinterpret_cast<const std::byte *>(source.address()), half)
                             : deviceSecondsOf(run, target.address(), source.address(), half);
  return 2 * static_cast<double>(half) / seconds;
}

// A product of two square matrices; its results are only made, the cases of the op judge them.
Case squareProduct(int32_t dtype, int64_t side) {
  ViewBuilder builder;
  const auto *lhs = builder.input(dtype, {side, side}), *rhs = builder.input(dtype, {side, side});
  builder.output(builder.op("dot", {lhs, rhs}, dtype, {side, side},
                            {test::integers("lhs_batch", {}), test::integers("lhs_contract", {1}),
                             test::integers("rhs_batch", {}), test::integers("rhs_contract", {0})}));
  MortiseGraph view = builder.view();
  view.opset = MORTISE_OPSET;
  view.name = "peak";
  Case made;
  made.graph = made.plain = must(Graph::copy(view));
  std::mt19937_64 random(1);
  for (int i = 0; i < 2; ++i)
    made.inputs.push_back(filled(*lhs->type, plain, Values::Random, Combines::Sums, random));
  made.expected.emplace_back(made.inputs[0].size());
  return made;
}

// Operations per second; 0 where the plugin does not take the product.
double productsPerSecond(ProbeRun &run, int32_t dtype) {
  constexpr double tooShort = 0.005; // for the device to be busy
  constexpr int64_t most = 4096;
  double best = 0;
  for (int64_t side = 256; side <= most; side *= 2) {
    run.task.stillThere();
    const Case product = squareProduct(dtype, side);
    Refused refused;
    const auto kernel = run.compiled(product, refused);
    if (!kernel)
      return best;
    const auto launch = run.launch(*kernel, product);
    Calls calls(run, *launch);
    const double fastest = clocked(run.task, ofRoof, [&](size_t count) { calls.batch(count); }).fastest;
    best = std::max(best, 2 * std::pow(static_cast<double>(side), 3) / fastest);
    if (fastest > tooShort)
      break;
  }
  return best;
}

// The highest peak of the case's element types. A float of fewer bits than f32 can be computed in f32, so that a slow
// product in it is no bound.
double peakOf(ProbeRun &run, bool isProduct) {
  static std::map<int32_t, double> known; // a worker has one device
  std::set<int32_t> dtypes = {run.point.dtype};
  const MortiseGraph &view = run.a.plain->view();
  if (isProduct)
    for (const MortiseValue *input : std::span(view.inputs, view.input_count))
      if (input->type->rank >= 2) // a factor: no scale, and no offsets
        dtypes.insert(input->type->dtype);
  if (std::ranges::any_of(dtypes, isNarrowFloat))
    dtypes.insert(MORTISE_F32);
  double best = 0;
  for (const int32_t dtype : dtypes) {
    if (!(infoOf(Op::Dot)->operands[0].dtypes >> dtype & 1))
      continue;
    const auto [at, isNew] = known.try_emplace(dtype);
    if (isNew)
      at->second = productsPerSecond(run, dtype);
    best = std::max(best, at->second);
  }
  return best;
}

// ---- One case

double compileSeconds(ProbeRun &run, std::unique_ptr<Kernel> &kernel) {
  run.task.stillThere();
  Refused refused;
  const auto begin = Clock::now();
  kernel = run.compiled(run.a, refused);
  const double seconds = secondsSince(begin);
  if (!kernel)
    refuse(reasonName(refused.reason), refused.why);
  return seconds;
}

std::string shortText(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.3g", value);
  return text;
}

// No kernel moves its bytes much faster than a copy does. A bandwidth that has been measured too low is measured again
// before that is said of one. Products are different: on a busy machine the fastest of few that take long may be slow,
// so a case that is faster, and right, is the peak itself.
void checkRoofs(ProbeRun &run, Speed &speed) {
  constexpr double most = 4; // a kernel that only reads, in a cache, is about twice as fast as a copy
  constexpr int tries = 5;
  const Work &work = speed.work;
  const auto isTooFast = [&] { return work.bytes / speed.bandwidth > most * speed.runSeconds; };
  for (int i = 0; i < tries && isTooFast(); ++i)
    speed.bandwidth = std::max(speed.bandwidth, bandwidthOf(run, work.bytes));
  if (isTooFast())
    fail("speed", "a run takes " + shortText(speed.runSeconds * 1e6) + " us, where the device needs " +
                      shortText(work.bytes / speed.bandwidth * 1e6) + " us to copy as many bytes (" +
                      shortText(work.bytes) + "): the kernel does not do its work, or the wait ends before it is done");
  if (work.ofProducts && speed.peak > 0)
    speed.peak = std::max(speed.peak, work.flops / speed.runSeconds);
}

} // namespace

void trySpeed(ProbeRun &run) {
  auto made = makeCase(run.point, run.task.seed);
  if (!made)
    fail("kit", made.error().message);
  run.a = std::move(*made);
  Speed speed;
  speed.work = workOf(run.a);
  speed.peak =
      peakOf(run, speed.work.ofProducts); // first, so that what a plugin does once is not in the time of a compilation
  speed.coldSeconds = compileSeconds(run, run.kernel);
  std::unique_ptr<Kernel> again;
  speed.warmSeconds = compileSeconds(run, again);
  again.reset();

  const auto launch = run.launch(*run.kernel, run.a);
  Calls calls(run, *launch);
  CaseJudge judge(run.a);
  const auto check = [&](const char *when) {
    run.task.stillThere();
    const Tensors found = must(launch->read(calls.given));
    for (size_t i = 0; i < found.size(); ++i)
      if (const std::string wrong = must(judge.compare(i, found[i])); !wrong.empty())
        fail("result", std::string(when) + ": output " + std::to_string(i) + ": " + wrong);
    run.task.stillThere();
  };
  calls.batch(1);
  check("in the first run");
  speed.bandwidth = bandwidthOf(run, speed.work.bytes);
  const Times times = clocked(run.task, ofKernel, [&](size_t count) { calls.batch(count); });
  speed.bandwidth = std::max(speed.bandwidth, bandwidthOf(run, speed.work.bytes)); // the machine's load changes
  speed.runSeconds = times.fastest;
  speed.medianSeconds = times.median;
  speed.runs = times.runs;
  must(launch->spoil(calls.given));
  calls.batch(1);
  check("in the run behind those that were clocked");
  checkRoofs(run, speed);
  run.speed = speed;
}

} // namespace mortise::conformance
