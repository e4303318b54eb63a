#include "torch_calls.h"

#include <algorithm>
#include <string>
#include <utility>

namespace nb = nanobind;
using namespace nb::literals;

namespace duet::python {
namespace {

// A module that is called with ever other sizes is no faster by remembering them.
constexpr size_t kMostEntries = 16;

// torch's own functions, and names of attributes. They live as long as the process.
struct Torch {
  nb::object tensor, parameter;                    // classes
  nb::object any_autocast, transforms, gradients;  // is there any? in force?
  nb::object empty_like, empty_strided, uint8, gpu,
      stream;         // stream: None where torch has no such function
  nb::object dtypes;  // by name
  nb::object requires_grad = name("requires_grad"), is_contiguous = name("is_contiguous"),
             is_neg = name("is_neg"), dtype = name("dtype"), device = name("device"),
             shape = name("shape"), data_ptr = name("data_ptr");
  nb::object keywords = nb::make_tuple("dtype", "device");

  static nb::object name(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }
};
Torch* torch = nullptr;
uint64_t generation = 0;

nb::object checked(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}
nb::object get(nb::handle object, const nb::object& name) {
  return checked(PyObject_GetAttr(object.ptr(), name.ptr()));
}
nb::object call_of(nb::handle function) { return checked(PyObject_CallNoArgs(function.ptr())); }
nb::object call_of(nb::handle object, const nb::object& method) {
  return checked(PyObject_CallMethodNoArgs(object.ptr(), method.ptr()));
}
bool is_true(const nb::object& value) {
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}
bool same(const nb::object& a, const nb::object& b) {
  const int equal = PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ);
  if (equal < 0) throw nb::python_error();
  return equal != 0;
}

bool is_plain(nb::handle tensor) {
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(tensor.ptr()));
  return type == torch->tensor.ptr() || type == torch->parameter.ptr();
}

// Its memory holds its values one behind the other, and not those that torch has yet to negate.
bool is_as_it_lies(nb::handle tensor) {
  return is_true(call_of(tensor, torch->is_contiguous)) && !is_true(call_of(tensor, torch->is_neg));
}

uintptr_t address_of(nb::handle tensor) {
  const nb::object number = call_of(tensor, torch->data_ptr);
  const size_t address = PyLong_AsSize_t(number.ptr());
  if (PyErr_Occurred()) throw nb::python_error();
  return address;
}

// torch.empty_strided(shape, strides, dtype=dtype, device=device), which torch reads faster than empty().
nb::object empty(const nb::object& shape, const nb::object& strides, const nb::object& dtype,
                 const nb::object& device) {
  PyObject* const arguments[] = {shape.ptr(), strides.ptr(), dtype.ptr(), device.ptr()};
  return checked(
      PyObject_Vectorcall(torch->empty_strided.ptr(), arguments, 2, torch->keywords.ptr()));
}
nb::object empty_like(nb::handle x) {
  return checked(PyObject_CallOneArg(torch->empty_like.ptr(), x.ptr()));
}
nb::object bytes(size_t count, const nb::object& device) {
  return empty(nb::make_tuple(count), nb::make_tuple(1), torch->uint8, device);
}

// GPU `index` is CUDA's current one.
bool is_current(long index) { return nb::cast<long>(call_of(torch->gpu)) == index; }

// Sizes and strides of a row-major tensor.
std::pair<nb::object, nb::object> sizes_of(const Shape& shape) {
  nb::list sizes, strides;
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    sizes.insert(0, shape[axis]);
    strides.insert(0, stride);
    stride *= std::max<int64_t>(shape[axis], 1);
  }
  return {nb::tuple(sizes), nb::tuple(strides)};
}

}  // namespace

const TorchCalls::Entry* TorchCalls::find(nb::handle x, bool training) const {
  const nb::object dtype = get(x, torch->dtype), shape = get(x, torch->shape);
  nb::object device;
  for (const Entry& entry : entries_) {
    if (entry.training != training || entry.generation != generation) continue;
    if (entry.dtype.ptr() != dtype.ptr() || !same(entry.shape, shape)) continue;
    if (!device) device = get(x, torch->device);
    if (same(entry.device, device)) return &entry;
  }
  return nullptr;
}

bool TorchCalls::fit(const Entry& entry, nb::handle w, bool gradients) {
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(w.ptr()));
  if (count != entry.parameters.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    const nb::handle tensor = PyTuple_GET_ITEM(w.ptr(), static_cast<Py_ssize_t>(i));
    if (!is_plain(tensor)) return false;
    const Parameter& wanted = entry.parameters[i];
    if (get(tensor, torch->dtype).ptr() != wanted.dtype.ptr()) return false;
    if (!same(get(tensor, torch->shape), wanted.shape)) return false;
    if (!same(get(tensor, torch->device), entry.device)) return false;
    if (!is_as_it_lies(tensor)) return false;
    if (gradients && is_true(get(tensor, torch->requires_grad))) return false;
  }
  return true;
}

nb::object TorchCalls::call(nb::handle x, nb::handle w, bool training) {
  if (entries_.empty() || !is_plain(x) || !PyTuple_CheckExact(w.ptr())) return nb::none();
  if (is_true(call_of(torch->any_autocast)) || !call_of(torch->transforms).is_none()) {
    return nb::none();
  }
  const bool gradients = is_true(call_of(torch->gradients));
  if (gradients && is_true(get(x, torch->requires_grad))) return nb::none();
  if (!is_as_it_lies(x)) return nb::none();
  const Entry* const entry = find(x, training);
  if (!entry || !fit(*entry, w, gradients)) return nb::none();

  CallOptions options = {.training = training};
  if (entry->gpu) {
    if (!is_current(entry->index)) return nb::none();
    const nb::object stream = torch->stream(entry->index);
    options.stream = nb::cast<uintptr_t>(stream);
  }
  LayerAddresses addresses;
  addresses.x = {address_of(x)};
  for (size_t i = 0; i < entry->parameters.size(); ++i) {
    addresses.w.push_back(address_of(PyTuple_GET_ITEM(w.ptr(), static_cast<Py_ssize_t>(i))));
  }
  nb::list made;
  for (const Output& output : entry->outputs) {
    const nb::object y = output.like_input
                             ? empty_like(x)
                             : empty(output.shape, output.strides, output.dtype, entry->device);
    addresses.y.push_back(address_of(y));
    made.append(y);
  }
  nb::object state, workspace;
  if (const size_t count = entry->layer->state_bytes()) {
    state = bytes(count, entry->device);
    addresses.state = address_of(state);
  }
  if (entry->workspace) {
    workspace = bytes(entry->workspace, entry->device);
    addresses.workspace = address_of(workspace);
  }
  // The entry may go while other threads run, and the layer with it.
  const nb::object kept = entry->keeps_layer;
  PreparedLayer* const layer = entry->layer;
  {
    const nb::gil_scoped_release release;
    layer->run(Pass::kForward, addresses, options);
  }
  return made;
}

void TorchCalls::add(nb::object layer, nb::handle x, nb::handle w, bool training) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.generation != generation; });
  if (find(x, training)) return;
  if (entries_.size() == kMostEntries) entries_.erase(entries_.begin());
  Entry entry = {.keeps_layer = layer,
                 .dtype = get(x, torch->dtype),
                 .device = get(x, torch->device),
                 .shape = get(x, torch->shape),
                 .layer = nb::cast<PreparedLayer*>(layer),
                 .training = training,
                 .generation = generation};
  entry.gpu = entry.layer->device() == Device::kGpu;
  if (entry.gpu) {
    if (torch->stream.is_none()) return;
    entry.index = nb::cast<long>(entry.device.attr("index"));
  }
  entry.workspace = entry.layer->workspace_bytes(Pass::kForward);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w.ptr()); ++i) {
    const nb::handle tensor = PyTuple_GET_ITEM(w.ptr(), i);
    entry.parameters.push_back({get(tensor, torch->dtype), get(tensor, torch->shape)});
  }
  for (const TensorDesc& desc : entry.layer->layer().outputs()) {
    const std::string name(to_string(desc.dtype));
    const auto [shape, strides] = sizes_of(desc.shape);
    entry.outputs.push_back(
        {shape, strides, torch->dtypes[name.c_str()], desc == entry.layer->layer().inputs()[0]});
  }
  entries_.push_back(std::move(entry));
}

void define_torch_calls(nb::module_& m) {
  nb::class_<TorchCalls>(m, "TorchCalls", "The layers that a module of duet.torch was called with.")
      .def(nb::init<>())
      .def("__call__", &TorchCalls::call, "x"_a, "w"_a, "training"_a)
      .def("add", &TorchCalls::add, "layer"_a, "x"_a, "w"_a, "training"_a)
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(self.ptr()))),
                              nb::make_tuple());
      });
  m.def(
      "use_torch",
      [](nb::dict functions) {
        torch = new Torch{.tensor = functions["tensor"],
                          .parameter = functions["parameter"],
                          .any_autocast = functions["any_autocast"],
                          .transforms = functions["transforms"],
                          .gradients = functions["gradients"],
                          .empty_like = functions["empty_like"],
                          .empty_strided = functions["empty_strided"],
                          .uint8 = functions["uint8"],
                          .gpu = functions["gpu"],
                          .stream = functions["stream"],
                          .dtypes = functions["dtypes"]};
      },
      "functions"_a, "What TorchCalls call of torch. Called once, before any of them is.");
  m.def(
      "forget_torch_calls", [] { ++generation; }, "All TorchCalls are empty from now on.");
}

}  // namespace duet::python
