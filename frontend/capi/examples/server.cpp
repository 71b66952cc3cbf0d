// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Serves a saved program over TCP, on the runtime alone: libmortise-runtime.so and a plugin, no compiler and no Python.
//
//   mortise compile model.mrtg -o model.mrtp --device cpu
//   server model.mrtp weights.bin 127.0.0.1 8080
//
// weights.bin: the constants, dense, in the order of the program's inputs. A request is the bytes of all other inputs
// but states, dense, one after the other; the answer is the bytes of all outputs but those that are states. A
// connection takes any number of requests, has states of its own, which begin as zeros, and is served by a thread of
// its own.
#include <mortise/graph.hpp>
#include <mortise/mortise.hpp>

#include <boost/asio.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

namespace {
using namespace mortise;
using boost::asio::ip::tcp;
using Buffer = std::vector<std::byte>;

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

Result<size_t> bytesOf(const MortiseType &type, const std::string &what) {
  if (!isStatic(type))
    return invalid(what + ": expected a program without symbols; compile it with --symbols");
  return byteSize(type);
}

class Server {
public:
  static Result<std::unique_ptr<Server>> open(const char *program, const char *weights) {
    auto session = api::Session::create();
    if (!session)
      return session.error();
    auto loaded = session->load(program);
    if (!loaded)
      return loaded.error();
    std::unique_ptr<Server> server(new Server(std::move(*session), std::move(*loaded)));
    if (auto done = server->measure(); !done)
      return done.error();
    if (auto done = server->bind(weights); !done)
      return done.error();
    return server;
  }

  // Serves one connection until its other end closes it.
  void serve(tcp::socket socket) {
    std::vector<Buffer> inputs, outputs;
    std::vector<const void *> in;
    std::vector<void *> out;
    std::vector<boost::asio::mutable_buffer> request;
    std::vector<boost::asio::const_buffer> answer;
    for (size_t i = 0; i < inputBytes.size(); ++i) {
      Buffer &buffer = inputs.emplace_back(isConstant(i) ? 0 : inputBytes[i]);
      in.push_back(isConstant(i) ? nullptr : buffer.data());
      if (signature.input_flags[i] == 0 || signature.input_flags[i] == MORTISE_VALUE_DONATED)
        request.push_back(boost::asio::buffer(buffer));
    }
    for (size_t i = 0; i < outputBytes.size(); ++i) {
      const int64_t alias = signature.output_aliases[i];
      Buffer &buffer = outputs.emplace_back(alias < 0 ? outputBytes[i] : 0);
      out.push_back(alias < 0 ? buffer.data() : inputs[static_cast<size_t>(alias)].data());
      if (alias < 0)
        answer.push_back(boost::asio::buffer(buffer));
    }
    socket.set_option(tcp::no_delay(true));
    for (boost::system::error_code error;;) {
      boost::asio::read(socket, request, error);
      if (error)
        return;
      if (auto done = program.runPointers(in.data(), out.data()); !done) {
        std::fprintf(stderr, "server: %s\n", done.error().message.c_str());
        return; // the client sees that the connection is closed
      }
      boost::asio::write(socket, answer, error);
      if (error)
        return;
    }
  }

private:
  Server(api::Session session, api::Program program)
      : session(std::move(session)), program(std::move(program)), signature(this->program.signature()) {}

  bool isConstant(size_t input) const { return signature.input_flags[input] & MORTISE_VALUE_CONSTANT; }

  Result<void> measure() {
    for (size_t i = 0; i < signature.input_count + signature.output_count; ++i) {
      const bool isInput = i < signature.input_count;
      const size_t number = isInput ? i : i - signature.input_count;
      auto bytes = bytesOf(isInput ? *signature.input_types[number] : *signature.output_types[number],
                           (isInput ? "input " : "output ") + std::to_string(number));
      if (!bytes)
        return bytes.error();
      (isInput ? inputBytes : outputBytes).push_back(*bytes);
    }
    return {};
  }

  Result<void> bind(const char *path) {
    size_t expected = 0;
    for (size_t i = 0; i < inputBytes.size(); ++i)
      expected += isConstant(i) ? inputBytes[i] : 0;
    std::error_code error;
    const uint64_t found = std::filesystem::file_size(path, error);
    if (error || found != expected)
      return invalid(std::string(path) + ": expected " + std::to_string(expected) + " bytes of constants, found " +
                     (error ? error.message() : std::to_string(found)));
    weights.resize(expected);
    std::ifstream file(path, std::ios::binary);
    if (!file.read(reinterpret_cast<char *>(weights.data()), static_cast<std::streamsize>(expected)))
      return invalid(std::string(path) + ": cannot be read");
    std::vector<MortiseTensor> tensors(inputBytes.size());
    std::vector<const MortiseTensor *> list(inputBytes.size());
    size_t at = 0;
    for (size_t i = 0; i < inputBytes.size(); ++i)
      if (isConstant(i)) {
        const MortiseType &type = *signature.input_types[i];
        tensors[i] = {sizeof(MortiseTensor), weights.data() + at, type.dtype, type.rank, type.dims, nullptr, nullptr};
        list[i] = &tensors[i];
        at += inputBytes[i];
      }
    return program.bind(list);
  }

  api::Session session;
  api::Program program;
  const MortiseSignature &signature;
  std::vector<size_t> inputBytes, outputBytes;
  Buffer weights;
};

int listen(Server &server, const char *address, const char *port) {
  boost::asio::io_context context;
  tcp::resolver resolver(context);
  const tcp::endpoint endpoint = *resolver.resolve(address, port).begin();
  tcp::acceptor acceptor(context, endpoint);
  std::printf("listening on %s:%d\n", address, acceptor.local_endpoint().port());
  std::fflush(stdout);
  for (;;)
    std::thread([&server, socket = acceptor.accept()]() mutable {
      try {
        server.serve(std::move(socket));
      } catch (const std::exception &error) { // of the socket: this connection ends, the others go on
        std::fprintf(stderr, "server: %s\n", error.what());
      }
    }).detach();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: server PROGRAM.mrtp WEIGHTS.bin ADDRESS PORT (0: any port)\n");
    return 2;
  }
  auto server = Server::open(argv[1], argv[2]);
  if (!server) {
    std::fprintf(stderr, "server: %s\n", server.error().message.c_str());
    return 1;
  }
  try {
    return listen(**server, argv[3], argv[4]);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "server: %s:%s: %s\n", argv[3], argv[4], error.what());
    return 1;
  }
}
