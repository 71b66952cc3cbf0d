// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in the memory of devices, on the plugin `strict` (sdk/examples/strict), which faults when the host touches
// them.
#include "../../dlpack.hpp"
#include "helpers.hpp"

namespace mortise::api {
namespace {

Session strict(const std::string &device = "strict") {
  return session({{"device", device}, {"plugin_path", ":" STRICT_PLUGIN}});
}

using Floats = std::vector<float>;

Tensor onHost(Floats &values) { return Tensor(values.data(), MORTISE_F32, {static_cast<int64_t>(values.size())}); }

// Eight floats in the memory of a device.
struct Eight {
  Memory memory;
  Tensor tensor;
  explicit Eight(Device device)
      : memory(get(Memory::allocate(device, 32))), tensor(memory.data(), MORTISE_F32, {8}, device) {}
  Eight(Device device, Floats values) : Eight(device) { expectOk(copy(tensor, onHost(values))); }
  Floats read() const {
    Floats values(8);
    expectOk(copy(onHost(values), tensor));
    return values;
  }
};

// y = (x + state) * w, written to y; state + x, written to the state.
struct Decoder {
  Program program;
  Decoder(Session &s, Device home, bool outputToo) : program(make(s, home, outputToo)) {}

  static Program make(Session &s, Device home, bool outputToo) {
    Builder graph = builder(s);
    const uint32_t x = get(graph.input("x", MORTISE_F32, {8})),
                   state = get(graph.input("state", MORTISE_F32, {8}, MORTISE_VALUE_STATE)),
                   w = get(graph.input("w", MORTISE_F32, {8}, MORTISE_VALUE_CONSTANT));
    const uint32_t sum = get(graph.op("mortise.add", {x, state}));
    expectOk(graph.output(get(graph.op("mortise.mul", {sum, w}))));
    expectOk(graph.output(sum, 1));
    expectOk(graph.inputDevice(1, home));
    if (outputToo) {
      expectOk(graph.inputDevice(0, home));
      expectOk(graph.outputDevice(0, home));
    }
    return get(s.compile(graph));
  }
};

TEST(ApiDevices, StateStaysWhereItLies) {
  Session s = strict();
  const Device device = get(s.device("strict:0"));
  Decoder decoder(s, device, false);
  Eight state(device, Floats(8, 0)), w(device, Floats(8, 10));
  Floats x(8), y(8);
  const Tensor hostX = onHost(x), hostY = onHost(y);
  const MortiseTensor vx = hostX.view(), vy = hostY.view(), vs = state.tensor.view(), vw = w.tensor.view();
  const MortiseTensor *inputs[] = {&vx, &vs, &vw}, *outputs[] = {&vy, nullptr};
  expectOk(decoder.program.bind(inputs));
  for (int call = 1; call <= 3; ++call) {
    std::fill(x.begin(), x.end(), static_cast<float>(call));
    expectOk(decoder.program.run(inputs, outputs));
    EXPECT_EQ(y, Floats(8, 10.f * static_cast<float>(call * (call + 1) / 2)));
  }
  EXPECT_EQ(state.read(), Floats(8, 6));
}

// A decoder whose tensors all lie on the device: x is 2, the weights are 10, the state is 0.
struct QueuedDecoder {
  Session session = strict();
  Device device = get(session.device("strict:0"));
  Decoder decoder{session, device, true};
  Eight x{device, Floats(8, 2)}, y{device}, state{device, Floats(8, 0)}, w{device, Floats(8, 10)};
  MortiseTensor vx = x.tensor.view(), vy = y.tensor.view(), vs = state.tensor.view(), vw = w.tensor.view();
  const MortiseTensor *inputs[3] = {&vx, &vs, &vw}, *outputs[2] = {&vy, nullptr};

  QueuedDecoder() { expectOk(decoder.program.bind(inputs)); }
  void enqueue(const Queue &queue) { expectOk(decoder.program.enqueue(queue, inputs, outputs)); }
};

TEST(ApiDevices, CallsAreQueued) {
  QueuedDecoder calls;
  Queue queue = get(Queue::create(calls.device));
  for (int call = 0; call < 5; ++call)
    calls.enqueue(queue);
  expectOk(queue.wait());
  EXPECT_EQ(calls.y.read(), Floats(8, 100));
  EXPECT_EQ(calls.state.read(), Floats(8, 10));
}

// x and y lie on two devices: z = relu(x) + y on the second, w = relu(x) * 2 on the first.
TEST(ApiDevices, ACallIsQueuedAcrossDevices) {
  Session s = strict();
  const Device first = get(s.device("strict:0")), second = get(s.device("strict:1"));
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {8})), y = get(graph.input("y", MORTISE_F32, {8}));
  const uint32_t positive = get(graph.op("mortise.relu", {x}));
  expectOk(graph.output(get(graph.op("mortise.add", {positive, y}))));
  expectOk(graph.output(get(graph.op("mortise.add", {positive, positive}))));
  expectOk(graph.inputDevice(0, first));
  expectOk(graph.inputDevice(1, second));
  expectOk(graph.outputDevice(0, second));
  expectOk(graph.outputDevice(1, first));
  Program program = get(s.compile(graph));
  Eight tx(first, Floats(8, 3)), ty(second, Floats(8, 4)), tz(second), tw(first);
  const MortiseTensor vx = tx.tensor.view(), vy = ty.tensor.view(), vz = tz.tensor.view(), vw = tw.tensor.view();
  const MortiseTensor *inputs[] = {&vx, &vy}, *outputs[] = {&vz, &vw};
  Queue one = get(Queue::create(first)), other = get(Queue::create(second)), another = get(Queue::create(second));
  for (const std::vector<MortiseQueue *> &queues :
       {std::vector{one.get(), other.get()}, {other.get(), one.get()}, {another.get()}, {one.get()}}) {
    Floats zeros(8, 0);
    expectOk(copy(tz.tensor, onHost(zeros)));
    expectOk(copy(tw.tensor, onHost(zeros)));
    expectOk(program.enqueueAcross(queues, inputs, outputs));
    for (MortiseQueue *queue : queues)
      expectOk(take(mortise_queue_wait(queue)));
    EXPECT_EQ(tz.read(), Floats(8, 7));
    EXPECT_EQ(tw.read(), Floats(8, 6));
  }
  MortiseQueue *twice[] = {other.get(), one.get(), another.get()}, *missing[] = {nullptr};
  for (const auto &[queues, why] : {std::pair(std::span<MortiseQueue *const>(twice), "several of device 'strict:1'"),
                                    std::pair(std::span<MortiseQueue *const>(missing), "queue"),
                                    std::pair(std::span<MortiseQueue *const>(), "found none")}) {
    const Result<void> done = program.enqueueAcross(queues, inputs, outputs);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, MORTISE_INVALID_ARGUMENT);
    EXPECT_NE(done.error().message.find(why), std::string::npos) << done.error().message;
  }
}

TEST(ApiDevices, AQueueIsImportedAgainByItsNativeStream) {
  QueuedDecoder calls;
  Queue queue = get(Queue::create(calls.device)), same = get(Queue::import(calls.device, get(queue.native())));
  calls.enqueue(queue);
  expectOk(same.wait());
  EXPECT_EQ(calls.y.read(), Floats(8, 20));
}

TEST(ApiDevices, AKindMeansTheDeviceOnWhichTheTensorsLie) {
  for (const char *kinds : {"strict", "strict,cpu", "strict:0,cpu"}) {
    Session s = strict(kinds);
    const bool named = std::string(kinds).find(':') != std::string::npos;
    const Device device = get(s.device("strict:1"));
    Decoder decoder(s, device, true);
    const std::string report = get(decoder.program.report());
    EXPECT_EQ(report.find("\"device\":\"strict:1\"") != std::string::npos, !named) << kinds << ": " << report;
    EXPECT_EQ(report.find("\"device\":\"strict:0\"") != std::string::npos, named) << kinds << ": " << report;
  }
}

TEST(ApiDevices, RulesSayWhereOpsRun) {
  const auto run = [](const std::string &rules, const std::string &devices) -> Result<std::string> {
    Session s = session({{"device", devices}, {"place", rules}, {"plugin_path", ":" STRICT_PLUGIN}});
    Builder graph = builder(s);
    const uint32_t x = get(graph.input("x", MORTISE_F32, {8}));
    const uint32_t negative = get(graph.op("mortise.neg", {x}));
    expectOk(graph.output(get(graph.op("mortise.abs", {negative}))));
    Result<Program> program = s.compile(graph);
    if (!program)
      return program.error();
    Floats in(8, -3), out(8);
    const Tensor from = onHost(in), to = onHost(out);
    const MortiseTensor vFrom = from.view(), vTo = to.view();
    const MortiseTensor *inputs[] = {&vFrom}, *outputs[] = {&vTo};
    expectOk(program->run(inputs, outputs));
    EXPECT_EQ(out, Floats(8, 3)) << rules;
    std::string placed;
    const auto report = Json::parse(get(program->report()));
    for (const auto &region : report["placement"])
      placed += region["device"].get<std::string>() + (region["ops"].contains("mortise.abs") ? " abs;" : ";");
    return placed;
  };
  EXPECT_EQ(get(run("", "strict,cpu")), "strict:0 abs;");
  EXPECT_EQ(get(run("op=abs device=cpu", "strict,cpu")), "strict:0;cpu abs;");
  EXPECT_EQ(get(run("op=* not_device=strict", "strict,cpu")), "cpu abs;");
  const auto closed = run("op=abs not_device=strict", "strict");
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, MORTISE_UNSUPPORTED);
  EXPECT_NE(closed.error().message.find("the place rule 'op=abs not_device=strict'"), std::string::npos)
      << closed.error().message;
  const auto unknown = run("op=abs device=stirct", "strict,cpu");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("the nearest is 'strict"), std::string::npos) << unknown.error().message;
}

TEST(ApiDevices, TensorsElsewhereThanThePlanSaysAreRefused) {
  Session s = strict(), other = strict();
  const Device device = get(s.device("strict:0")), second = get(s.device("strict:1"));
  Decoder decoder(s, device, true);
  Eight x(device, Floats(8, 1)), y(device), state(device, Floats(8, 0)), w(device, Floats(8, 1)), far(second);
  Eight foreign(get(other.device("strict:0")));
  Floats values(8);
  const Tensor host = onHost(values);
  const MortiseTensor vx = x.tensor.view(), vy = y.tensor.view(), vs = state.tensor.view(), vw = w.tensor.view(),
                      vh = host.view(), vf = far.tensor.view(), vo = foreign.tensor.view();
  const MortiseTensor *good[] = {&vx, &vs, &vw}, *outputs[] = {&vy, nullptr};
  expectOk(decoder.program.bind(good));
  for (const auto &[wrong, why] :
       {std::pair(&vh, "expected a tensor in the memory of device 'strict:0', found one in host memory"),
        std::pair(&vf,
                  "expected a tensor in the memory of device 'strict:0', found one in the memory of device 'strict:1'"),
        std::pair(&vo, "expected a device of the program's session")}) {
    const MortiseTensor *inputs[] = {wrong, &vs, &vw};
    const Result<void> done = decoder.program.run(inputs, outputs);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find(why), std::string::npos) << done.error().message;
  }
  Queue elsewhere = get(Queue::create(get(other.device("strict:0"))));
  const Result<void> queued = decoder.program.enqueue(elsewhere, good, outputs);
  ASSERT_FALSE(queued);
  EXPECT_NE(queued.error().message.find("another session's"), std::string::npos) << queued.error().message;
}

TEST(ApiDevices, DevicesInHostMemoryTakeHostTensors) {
  Session s = session({{"device", "reference"}});
  const Device device = get(s.device("reference"));
  Decoder decoder(s, device, true);
  Eight x(device, Floats(8, 2)), state(device, Floats(8, 1));
  Floats w(8, 10), y(8);
  const Tensor hostW = onHost(w), hostY = onHost(y);
  const MortiseTensor vx = x.tensor.view(), vs = state.tensor.view(), vw = hostW.view(), vy = hostY.view();
  const MortiseTensor *inputs[] = {&vx, &vs, &vw}, *outputs[] = {&vy, nullptr};
  expectOk(decoder.program.bind(inputs));
  expectOk(decoder.program.run(inputs, outputs));
  EXPECT_EQ(y, Floats(8, 30));
  const Result<Queue> queue = Queue::create(device);
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().code, MORTISE_UNSUPPORTED);
  EXPECT_NE(queue.error().message.find("no streams"), std::string::npos);
}

TEST(ApiDevices, WrongArgumentsAreRefused) {
  Session s = strict(), other = strict();
  const Device device = get(s.device("strict:0"));
  Builder graph = builder(s);
  get(graph.input("x", MORTISE_F32, {8}));
  Eight eight(device);
  Floats four(4), values(8);
  const Tensor hostFour = onHost(four), host = onHost(values);
  const int64_t dims[] = {8}, strides[] = {2};
  MortiseTensor strided{sizeof(MortiseTensor), values.data(), MORTISE_F32, 1, dims, strides, nullptr},
      empty{sizeof(MortiseTensor), nullptr, MORTISE_F32, 1, dims, nullptr, nullptr},
      tiny{8, values.data(), MORTISE_F32, 1, dims, nullptr, nullptr};
  const MortiseTensor target = eight.tensor.view(), vFour = hostFour.view(), vHost = host.view();
  const MortiseSessionDevice *found = nullptr;
  MortiseQueue *queue = nullptr;
  uint64_t native = 0;
  void *data = nullptr;
  int local = 0;
  const std::pair<MortiseStatus *, const char *> cases[] = {
      {mortise_session_device(nullptr, "strict", &found), "session"},
      {mortise_session_device(s.get(), nullptr, &found), "name"},
      {mortise_session_device(s.get(), "strict", nullptr), "place"},
      {mortise_memory_allocate(nullptr, 8, &data), "device"},
      {mortise_memory_allocate(device.get(), 8, nullptr), "place"},
      {mortise_memory_free(nullptr, &local), "device"},
      {mortise_memory_free(device.get(), &local), "found another address"},
      {mortise_tensor_copy(nullptr, &vHost), "target"},
      {mortise_tensor_copy(&target, nullptr), "source"},
      {mortise_tensor_copy(&target, &vFour), "f32[4]"},
      {mortise_tensor_copy(&target, &strided), "strides"},
      {mortise_tensor_copy(&target, &empty), "found NULL"},
      {mortise_tensor_copy(&target, &tiny), "struct_size"},
      {mortise_queue_create(nullptr, &queue), "device"},
      {mortise_queue_create(device.get(), nullptr), "place"},
      {mortise_queue_import(nullptr, 0, &queue), "device"},
      {mortise_session_dlpack_device(nullptr, 12, 0, &found), "session"},
      {mortise_session_dlpack_device(s.get(), 12, 0, nullptr), "place"},
      {mortise_queue_wait(nullptr), "queue"},
      {mortise_queue_export(nullptr, &native), "queue"},
      {mortise_builder_input_device(nullptr, 0, device.get()), "builder"},
      {mortise_builder_input_device(graph.get(), 1, device.get()), "no input 1"},
      {mortise_builder_output_device(graph.get(), 0, device.get()), "no output 0"},
      {mortise_builder_input_device(graph.get(), 0, get(other.device("strict")).get()), "another session's"},
      {mortise_program_enqueue(nullptr, nullptr, nullptr, 0, nullptr, 0), "program"},
  };
  for (const auto &[status, why] : cases) {
    EXPECT_EQ(mortise_status_code(status), MORTISE_INVALID_ARGUMENT) << why;
    EXPECT_NE(std::string(mortise_status_message(status)).find(why), std::string::npos)
        << mortise_status_message(status) << " / " << why;
    mortise_status_destroy(status);
  }
  const Result<Device> unknown = s.device("strickt");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("strict"), std::string::npos) << unknown.error().message;
  expectOk(take(mortise_memory_free(device.get(), nullptr)));
  mortise_queue_destroy(nullptr);
}

TEST(ApiDevices, DlpackGoesOutAndComesIn) {
  Session s = strict();
  for (const char *name : {"strict:1", "reference"}) {
    const Device device = get(s.device(name));
    DLManagedTensorVersioned *managed = get(get(Memory::allocate(device, 32)).toDlpack(MORTISE_F32, {2, 4}));
    auto &seen = *reinterpret_cast<dlpack::ManagedTensor *>(managed);
    EXPECT_EQ(seen.version.major, 1u);
    EXPECT_EQ(seen.tensor.device.type, name == std::string("reference") ? 1 : 12);
    EXPECT_EQ(seen.tensor.dtype.code, 2);
    EXPECT_EQ(seen.tensor.dtype.bits, 32);
    EXPECT_EQ(seen.tensor.strides[0], 4);
    MortiseTensor tensor = get(s.fromDlpack(managed, true));
    EXPECT_EQ(tensor.dtype, MORTISE_F32);
    EXPECT_EQ(tensor.device != nullptr, name == std::string("strict:1"));
    Floats values = {1, 2, 3, 4, 5, 6, 7, 8}, back(8);
    const Tensor from(values.data(), MORTISE_F32, {2, 4}), to(back.data(), MORTISE_F32, {2, 4});
    const MortiseTensor vFrom = from.view(), vTo = to.view();
    expectOk(take(mortise_tensor_copy(&tensor, &vFrom)));
    expectOk(take(mortise_tensor_copy(&vTo, &tensor)));
    EXPECT_EQ(back, values);
    seen.tensor.byteOffset = 16;
    seen.tensor.dims[0] = 1;
    tensor = get(s.fromDlpack(managed, true));
    const Tensor half(back.data(), MORTISE_F32, {1, 4});
    const MortiseTensor vHalf = half.view();
    expectOk(take(mortise_tensor_copy(&vHalf, &tensor)));
    EXPECT_EQ(Floats(back.begin(), back.begin() + 4), (Floats{5, 6, 7, 8}));
    seen.deleter(&seen);
  }
}

TEST(ApiDevices, DlpackNumbersNameDevices) {
  Session s = strict();
  const MortiseSessionDevice *found = nullptr;
  expectOk(take(mortise_session_dlpack_device(s.get(), 12, 1, &found)));
  EXPECT_EQ(found, get(s.device("strict:1")).get());
  expectOk(take(mortise_session_dlpack_device(s.get(), dlpack::hostDevice, 0, &found)));
  EXPECT_EQ(found, nullptr);
  const Result<void> none = take(mortise_session_dlpack_device(s.get(), 2, 0, &found));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, MORTISE_UNSUPPORTED);
  EXPECT_NE(none.error().message.find("no installed device has the memory of DLPack's device 2:0"), std::string::npos)
      << none.error().message;
}

TEST(ApiDevices, DlpackThatWeCannotTakeIsRefused) {
  Session s = strict();
  const Device device = get(s.device("strict:0"));
  DLManagedTensorVersioned *managed = get(get(Memory::allocate(device, 32)).toDlpack(MORTISE_F32, {8}));
  auto &given = *reinterpret_cast<dlpack::ManagedTensor *>(managed);
  const dlpack::ManagedTensor good = given;
  const auto refused = [&](MortiseCode code, const char *why) {
    const Result<MortiseTensor> tensor = s.fromDlpack(managed, true);
    ASSERT_FALSE(tensor) << why;
    EXPECT_EQ(tensor.error().code, code);
    EXPECT_NE(tensor.error().message.find(why), std::string::npos) << tensor.error().message;
    given = good;
  };
  given.version.major = 2;
  refused(MORTISE_VERSION_MISMATCH, "version 2.0");
  given.tensor.dtype.lanes = 4;
  refused(MORTISE_UNSUPPORTED, "4 lanes");
  given.tensor.dtype.code = 5; // complex
  refused(MORTISE_UNSUPPORTED, "code 5");
  given.tensor.device = {2, 0};
  refused(MORTISE_UNSUPPORTED, "device 2:0");
  given.tensor.rank = 65;
  refused(MORTISE_INVALID_ARGUMENT, "rank");
  given.flags = dlpack::readOnly;
  EXPECT_TRUE(s.fromDlpack(managed, false));
  refused(MORTISE_INVALID_ARGUMENT, "read-only");
  given.deleter(&given);

  // What is too small, or of no DLPack type, stays the caller's.
  Memory memory = get(Memory::allocate(device, 32));
  EXPECT_FALSE(std::move(memory).toDlpack(MORTISE_F32, {9}));
  EXPECT_FALSE(std::move(memory).toDlpack(12345, {1}));
  const Tensor still(memory.data(), MORTISE_F32, {8}, device);
  Floats values(8, 3);
  expectOk(copy(still, onHost(values)));
}

TEST(ApiDevices, MemoryThatTheDeviceDoesNotHave) {
  Session s = strict();
  const Result<Memory> memory = Memory::allocate(get(s.device("strict:0")), uint64_t{1} << 40);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, MORTISE_OUT_OF_MEMORY);
  EXPECT_NE(memory.error().message.find("strict:0"), std::string::npos) << memory.error().message;
}

// Gives out parts of a block of the device's memory, one behind the other.
struct Slab {
  Memory block;
  uint64_t taken = 0, freed = 0, step = 256;
  std::vector<uint64_t> sizes;
  bool empty = false;
  explicit Slab(Device device) : block(get(Memory::allocate(device, 1 << 20))) {}
  MortiseDeviceAllocator allocator() {
    return {sizeof(MortiseDeviceAllocator), this,
            [](void *slab, uint64_t bytes, uint64_t) { return static_cast<Slab *>(slab)->allocate(bytes); },
            [](void *slab, uint64_t, uint64_t) { ++static_cast<Slab *>(slab)->freed; }};
  }
  uint64_t allocate(uint64_t bytes) {
    if (empty)
      return 0;
    sizes.push_back(bytes);
    const uint64_t start = reinterpret_cast<uintptr_t>(block.data()) + taken;
    taken += (bytes + step - 1) / step * step;
    return start;
  }
};

TEST(ApiDevices, MemoryComesFromTheApplicationsAllocator) {
  Session s = strict();
  const Device device = get(s.device("strict:0"));
  Slab slab(device);
  const MortiseDeviceAllocator allocator = slab.allocator();
  expectOk(device.setAllocator(&allocator));
  {
    QueuedDecoder calls; // in a session of its own: the allocator is the process's
    Queue queue = get(Queue::create(calls.device));
    calls.enqueue(queue);
    expectOk(queue.wait());
    EXPECT_EQ(calls.y.read(), Floats(8, 20));
    // What the plugin asks for itself (strict keeps 64 bytes for a frame) comes from there, too.
    EXPECT_NE(std::find(slab.sizes.begin(), slab.sizes.end(), 64u), slab.sizes.end());
    EXPECT_GT(slab.sizes.size(), 4u);
    expectOk(device.setAllocator(nullptr)); // the memory above goes back to where it came from
  }
  EXPECT_EQ(slab.freed, slab.sizes.size());
  Eight after(device, Floats(8, 1));
  EXPECT_EQ(slab.freed, slab.sizes.size());
}

TEST(ApiDevices, AllocatorsThatAreWrongAreErrors) {
  Session s = strict();
  const Device device = get(s.device("strict:0"));
  Slab slab(device);
  MortiseDeviceAllocator allocator = slab.allocator();
  const auto failure = [&] {
    expectOk(device.setAllocator(&allocator));
    const Result<Memory> memory = Memory::allocate(device, 32);
    expectOk(device.setAllocator(nullptr));
    return memory ? Error{MORTISE_OK, ""} : memory.error();
  };
  slab.empty = true;
  EXPECT_EQ(failure().code, MORTISE_OUT_OF_MEMORY);
  EXPECT_NE(failure().message.find("device 'strict:0': the application's allocator has no 32 bytes"),
            std::string::npos);
  slab.empty = false;
  slab.taken = 8;
  EXPECT_NE(failure().message.find("a multiple of 256"), std::string::npos) << failure().message;
  EXPECT_EQ(slab.freed, slab.sizes.size());
  allocator.free = nullptr;
  EXPECT_EQ(device.setAllocator(&allocator).error().code, MORTISE_INVALID_ARGUMENT);
  allocator.struct_size = 4;
  EXPECT_EQ(device.setAllocator(&allocator).error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(get(s.device("cpu")).setAllocator(nullptr).error().code, MORTISE_UNSUPPORTED);
}

TEST(ApiDevices, LimitsOfDevicesThatAreNotThereAreErrors) {
  Session s = session({{"device", "cpu"}, {"plugin_path", ":" STRICT_PLUGIN}, {"memory_limit", "stirct=64"}});
  Builder graph = builder(s);
  expectOk(graph.output(get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {8}))}))));
  const auto program = s.compile(graph);
  ASSERT_FALSE(program);
  EXPECT_NE(program.error().message.find("memory_limit: there is no device 'stirct'"), std::string::npos)
      << program.error().message;
}

TEST(ApiDevices, HostMemoryIsRegistered) {
  Session s = strict();
  const Device device = get(s.device("strict:0")), cpu = get(s.device("cpu"));
  Floats request(8, 2);
  {
    const RegisteredMemory registered = get(RegisteredMemory::make(device, request.data(), 32));
    Eight there(device, request);
    EXPECT_EQ(there.read(), request);
    const auto twice = RegisteredMemory::make(device, request.data(), 32);
    ASSERT_FALSE(twice);
    EXPECT_EQ(twice.error().code, MORTISE_INVALID_ARGUMENT);
  }
  get(RegisteredMemory::make(device, request.data(), 32)); // again, now that it has ended
  get(RegisteredMemory::make(cpu, request.data(), 32));
  const auto unknown = take(mortise_memory_unregister(device.get(), request.data()));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_FALSE(RegisteredMemory::make(device, request.data(), 0));
}

TEST(ApiDevices, LimitsOfMemory) {
  Session s =
      session({{"device", "strict"}, {"plugin_path", ":" STRICT_PLUGIN}, {"memory_limit", "strict=64,strict:1=96"}});
  const Device device = get(s.device("strict:0"));
  {
    Eight first(device), second(device);
    const Result<Memory> third = Memory::allocate(device, 32);
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().code, MORTISE_OUT_OF_MEMORY);
    EXPECT_NE(third.error().message.find("64 bytes of the setting memory_limit, found 64 in use and 32 more wanted"),
              std::string::npos)
        << third.error().message;
  }
  Eight again(device);
  get(Memory::allocate(get(s.device("strict:1")), 96)); // the limit of an ordinal is stronger
  get(Memory::allocate(get(s.device("aloof")), 4096));
}

// y = x + w1 + w2 + ..., where not all weights have room on the device.
TEST(ApiDevices, WhatHasNoRoomOnADeviceRunsElsewhere) {
  const std::string plugins = ":" STRICT_PLUGIN;
  for (const auto &[limit, onStrict, onCpu] :
       {std::tuple("strict=4096", true, false), std::tuple("strict=1100", true, true),
        std::tuple("strict=64", false, true)}) {
    Session s = session({{"device", "strict:0,cpu"}, {"plugin_path", plugins.c_str()}, {"memory_limit", limit}});
    Builder graph = builder(s);
    uint32_t value = get(graph.input("x", MORTISE_F32, {64}));
    std::vector<Floats> data = {Floats(64, 1)};
    for (int layer = 0; layer < 6; ++layer) {
      const uint32_t w = get(graph.input("w", MORTISE_F32, {64}, MORTISE_VALUE_CONSTANT));
      value = get(graph.op("mortise.add", {value, w}));
      data.push_back(Floats(64, static_cast<float>(layer)));
    }
    expectOk(graph.output(value));
    Program program = get(s.compile(graph));
    std::vector<Tensor> tensors;
    std::vector<MortiseTensor> views;
    for (Floats &values : data)
      tensors.push_back(onHost(values));
    for (const Tensor &tensor : tensors)
      views.push_back(tensor.view());
    std::vector<const MortiseTensor *> inputs;
    for (const MortiseTensor &view : views)
      inputs.push_back(&view);
    Floats y(64);
    const Tensor result = onHost(y);
    const MortiseTensor vy = result.view(), *outputs[] = {&vy};
    expectOk(program.bind(inputs));
    expectOk(program.run(inputs, outputs));
    EXPECT_EQ(y, Floats(64, 16)) << limit;
    const auto report = Json::parse(get(program.report()));
    std::set<std::string> devices, refusals;
    for (const auto &region : report["placement"])
      devices.insert(region["device"]);
    for (const auto &refusal : report["refusals"])
      refusals.insert(refusal["reason"]);
    EXPECT_EQ(devices.contains("strict:0"), onStrict) << limit;
    EXPECT_EQ(devices.contains("cpu"), onCpu) << limit;
    EXPECT_EQ(refusals.contains("memory"), onCpu) << report;
  }
}

// What copies cost, as far as the user says so, and otherwise as devices state.
TEST(ApiDevices, TheReportPricesCopies) {
  Session s = session({{"device", "strict:0"}, {"plugin_path", ":" STRICT_PLUGIN}});
  Builder graph = builder(s);
  expectOk(graph.output(get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {256}))}))));
  Program program = get(s.compile(graph, {{"transfer", "host->strict:0=5:1e12"}}));
  const auto copies = Json::parse(get(program.report()))["copies"];
  ASSERT_EQ(copies.size(), 2u) << copies;
  EXPECT_EQ(copies[0], (Json{{"from", "host"},
                             {"to", "strict:0"},
                             {"bytes", 1024.0},
                             {"predicted_ns", 5 + 1.024},
                             {"latency_ns", 5.0},
                             {"latency_source", "set"},
                             {"bytes_per_second", 1e12},
                             {"bandwidth_source", "set"},
                             {"over_host", false}}));
  EXPECT_EQ(copies[1]["from"], "strict:0");
  EXPECT_EQ(copies[1]["latency_source"], "stated");
}

} // namespace
} // namespace mortise::api
