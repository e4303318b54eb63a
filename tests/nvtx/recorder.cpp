// Stands in for NVIDIA's tools: NVTX loads this library if NVTX_INJECTION64_PATH names it. Writes
// "push NAME" and "pop" to the file that NVTX_RECORDER_FILE names, a line each.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

std::FILE* file() {
  static std::FILE* const file = std::fopen(std::getenv("NVTX_RECORDER_FILE"), "w");
  return file;
}

int NVTX_API push(const char* name) {
  std::fprintf(file(), "push %s\n", name);
  return 0;
}

int NVTX_API pop() {
  std::fprintf(file(), "pop\n");
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const auto* table =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (!file() || !table || !table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) ||
      size <= NVTX_CBID_CORE_RangePop) {
    return 0;
  }
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
