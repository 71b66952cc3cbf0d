// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "try_offers.hpp"

#include "buffer.hpp"
#include "check.hpp"
#include "kernel.hpp"
#include "try_queues.hpp"

#include <algorithm>
#include <cstdio>

namespace mortise::tool {
namespace {

constexpr size_t none = SIZE_MAX;

// A region at one set of symbol values: a static graph with its operands and results.
Result<Point> regionPoint(const passes::Offer &offer, const Point &whole) {
  Point made{whole.symbols, offer.region.graph, {}, {}};
  const Result<Tensors> values = allValues(whole.graph->view(), whole.inputs);
  if (!values)
    return values.error();
  if (offer.region.graph->view().symbol_count) {
    auto numbered = specialise(offer.region.graph->view(), whole.symbols);
    if (!numbered)
      return numbered.error();
    made.graph = std::move(*numbered);
  }
  for (const uint32_t value : offer.region.inputs)
    made.inputs.push_back((*values)[value]);
  for (const uint32_t value : offer.region.outputs)
    made.expected.push_back((*values)[value]);
  return made;
}

// A kernel at a point, for tests of queues.
class QueuedPoint : public QueuedKernel {
public:
  QueuedPoint(const Kernel &kernel, Launch &launch, const Point &point)
      : kernel(kernel), launch(launch), point(point) {}
  const runtime::Device &device() const override { return kernel.device; }
  const MortiseGraph &graph() const override { return point.graph->view(); }
  const Tensors &inputs() const override { return point.inputs; }
  Result<Tensors> resultsOf(const Tensors &inputs) const override { return interpreted(graph(), inputs); }
  std::string differences(const Tensors &found) const override { return tool::differences(point, found); }
  uint64_t workspaceBytes() const override { return launch.workspaceBytes(); }
  Result<void> enqueue(Call &call, MortiseStream *stream) override { return launch.enqueue(call, stream); }

private:
  const Kernel &kernel;
  Launch &launch;
  const Point &point;
};

// One run: which input's memory each output has, or none.
using Homes = std::vector<size_t>;

class Run {
public:
  Run(const Kernel &kernel, const Point &point, const Homes &homes) : kernel(kernel), point(point), homes(homes) {}

  // "" when the outputs are right, and nothing else has been written.
  std::string operator()(Launch &launch, Buffer &workspace, const Stream &stream, Edge edge) {
    auto done = place(edge);
    if (done)
      done = call(launch, workspace, stream);
    if (!done)
      return done.error().message;
    auto wrong = judge(workspace);
    return wrong ? *wrong : wrong.error().message;
  }

private:
  Result<void> place(Edge edge) {
    const MortiseGraph &view = point.graph->view();
    for (size_t i = 0; i < view.input_count; ++i) {
      auto made = Buffer::make(kernel.device, point.inputs[i], elementAlignment(*view.inputs[i]->type), edge);
      if (!made)
        return made.error();
      inputs.push_back(std::move(*made));
    }
    for (size_t i = 0; i < view.output_count; ++i) {
      const size_t bytes = homes[i] == none ? byteSize(*view.outputs[i]->type) : 0;
      auto made = Buffer::poisoned(kernel.device, bytes, elementAlignment(*view.outputs[i]->type), edge);
      if (!made)
        return made.error();
      outputs.push_back(std::move(*made));
    }
    return {};
  }

  const Buffer &memoryOf(size_t output) const {
    return homes[output] == none ? outputs[output] : inputs[homes[output]];
  }

  Result<void> call(Launch &launch, Buffer &workspace, const Stream &stream) {
    Call call;
    for (const Buffer &input : inputs)
      call.inputs.push_back(input.address());
    for (size_t i = 0; i < outputs.size(); ++i)
      call.outputs.push_back(memoryOf(i).address());
    call.workspace = workspace.size() ? workspace.address() : 0;
    auto queued = launch.enqueue(call, stream.get());
    const auto waited = stream.wait(); // also after an error: the memory ends with this run
    return queued ? waited : queued;
  }

  Result<std::string> judge(const Buffer &workspace) const {
    if (workspace.size()) {
      const auto read = workspace.read();
      if (!read)
        return read.error();
      if (!read->isIntact)
        return "it writes beyond its workspace of " + std::to_string(workspace.size()) + " bytes";
    }
    Tensors ins, outs;
    for (const auto &[list, into] : {std::pair(&inputs, &ins), std::pair(&outputs, &outs)})
      for (const Buffer &buffer : *list) {
        auto read = buffer.read();
        if (!read)
          return read.error();
        if (!read->isIntact)
          return std::string("it writes beside a tensor");
        into->push_back(std::move(read->bytes));
      }
    for (size_t i = 0; i < ins.size(); ++i)
      if (std::ranges::find(homes, i) == homes.end() && ins[i] != point.inputs[i])
        return "it writes to input " + std::to_string(i) + ", which is only to be read";
    for (size_t i = 0; i < outs.size(); ++i)
      if (homes[i] != none)
        outs[i] = ins[homes[i]];
    return differences(point, outs);
  }

  const Kernel &kernel;
  const Point &point;
  const Homes &homes;
  std::vector<Buffer> inputs, outputs;
};

// Apart, each pair alone, and as many pairs as there can be at once. A state is always written in place.
std::vector<std::pair<std::string, Homes>> placements(const passes::Offer &offer) {
  const MortiseGraph &view = offer.region.graph->view();
  Homes apart(view.output_count, none);
  for (size_t i = 0; i < view.alias_count; ++i)
    apart[view.aliases[i]->output] = view.aliases[i]->input;
  std::vector<std::pair<std::string, Homes>> all{{"", apart}};
  Homes together = apart;
  size_t pairs = 0;
  for (const MortiseInPlace &pair : offer.inPlace) {
    const auto input = static_cast<size_t>(
        std::find(view.inputs, view.inputs + view.input_count, view.values[pair.input]) - view.inputs);
    for (size_t output = 0; output < view.output_count; ++output) {
      if (view.outputs[output] != view.values[pair.output] || apart[output] != none)
        continue;
      Homes alone = apart;
      alone[output] = input;
      all.emplace_back("with output " + std::to_string(output) + " in the memory of input " + std::to_string(input) +
                           ", as its pairs in place allow: ",
                       alone);
      if (together[output] == none && std::ranges::find(together, input) == together.end()) {
        together[output] = input;
        ++pairs;
      }
    }
  }
  if (pairs > 1)
    all.emplace_back("with all of its outputs in place: ", together);
  return all;
}

class Offered {
public:
  Offered(const passes::Offer &offer, const MortiseCompileOptions &asked, std::set<std::string> &queued)
      : offer(offer), asked(asked), queued(queued) {}

  bool ran = false;

  std::string run(const std::vector<Point> &points) {
    auto stream = Stream::create(*offer.device);
    if (!stream)
      return stream.error().message;
    std::unique_ptr<Kernel> kernel; // one for all values, unless it is compiled for each set
    for (const Point &whole : points) {
      const Result<Point> point = regionPoint(offer, whole);
      if (!point)
        continue; // no reference: the interpreter has said so of the whole graph too
      const bool symbolic = offer.specialised.empty() && !whole.symbols.empty();
      if (!kernel || !symbolic) {
        auto made = Kernel::compile(offer, symbolic ? offer.region.graph : point->graph, asked);
        if (!made && made.error().code == MORTISE_UNSUPPORTED)
          continue; // withdrawn, or only for these values
        if (!made)
          return made.error().message;
        kernel = std::move(*made);
      }
      const std::string wrong = runAt(*kernel, *point, symbolic, *stream);
      if (!wrong.empty())
        return symbolsText(offer.region.graph->view(), whole.symbols) + wrong;
    }
    return "";
  }

private:
  std::string runAt(const Kernel &kernel, const Point &point, bool symbolic, const Stream &stream) {
    auto launch = Launch::make(kernel, symbolic ? point.symbols : std::vector<int64_t>());
    if (!launch)
      return launch.error().message;
    auto workspace = Buffer::poisoned(kernel.device, (*launch)->workspaceBytes(), kernel.device.home().alignment);
    if (!workspace)
      return workspace.error().message;
    const std::string about = aboutWorkspace(*workspace);
    const runtime::AboutScope scope(about.c_str()); // a crash says where the workspace was
    ran = true;
    const char *poison = workspace->size() ? "with a workspace full of NaN: " : "";
    for (const auto &[how, homes] : placements(offer))
      for (const Edge edge : {Edge::End, Edge::Begin}) {
        if (edge == Edge::Begin && !kernel.device.inHostMemory() && workspace->size() == 0)
          continue; // there are no pages beside its memory, and no workspace to meet again
        const std::string wrong = Run(kernel, point, homes)(**launch, *workspace, stream, edge);
        if (!wrong.empty())
          return how + poison + wrong;
        poison = workspace->size() ? "with a workspace as the run before has left it: " : "";
      }
    if (kernel.device.plugin->hasStreams() && queued.insert(offer.lowering).second) {
      QueuedPoint queuedPoint(kernel, **launch, point);
      return tryQueues(queuedPoint);
    }
    return "";
  }

  std::string aboutWorkspace(const Buffer &workspace) const {
    std::string text = offer.lowering + " on " + offer.device->name();
    if (workspace.size() && offer.device->inHostMemory()) {
      char range[96];
      std::snprintf(range, sizeof range, ", whose workspace of %zu bytes ends at 0x%llx", workspace.size(),
                    static_cast<unsigned long long>(workspace.address() + workspace.size()));
      text += range;
    }
    return text;
  }

  const passes::Offer &offer;
  const MortiseCompileOptions &asked;
  std::set<std::string> &queued;
};

bool isForRuntime(const passes::Offer &offer) {
  const MortiseGraph &view = offer.region.graph->view();
  return !offer.forms.empty() || view.output_count == 0 ||
         std::any_of(view.inputs, view.inputs + view.input_count,
                     [](const MortiseValue *input) { return (input->flags & MORTISE_VALUE_CONSTANT) != 0; });
}

} // namespace

OffersTried tryOffers(const MortiseGraph &graph, const std::vector<Point> &points, const Host &host,
                      std::set<std::string> &queued) {
  OffersTried tried;
  const auto found = passes::offersOf(graph, *host.registry, host.config);
  if (!found) {
    tried.wrong = found.error().message;
    return tried;
  }
  if (!found->ignored.empty()) {
    tried.wrong = found->ignored.front();
    return tried;
  }
  const MortiseCompileOptions asked = host.config.compileOptions();
  for (const passes::Offer &offer : found->offers) {
    if (isForRuntime(offer))
      continue;
    Offered each(offer, asked, queued);
    const std::string wrong = each.run(points);
    tried.offers += each.ran;
    const size_t nodes = offer.region.graph->view().node_count;
    tried.fused += each.ran && nodes > 1;
    if (!wrong.empty()) {
      tried.wrong =
          "candidate " + offer.lowering + (nodes > 1 ? " of " + std::to_string(nodes) + " nodes" : "") + ": " + wrong;
      return tried;
    }
  }
  return tried;
}

} // namespace mortise::tool
