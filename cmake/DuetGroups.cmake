# Most of the time of a compiler goes into headers and templates (the standard library's, JSON, spdlog, GoogleTest). So
# headers are read once, in a precompiled form, and several files are compiled as one. Files that are compiled as one
# must not use the same name in their unnamed namespaces, nor give a type of a header a member whose type is in an
# unnamed namespace.

# The headers that are read once.
set(duet_standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstdio> <cstdlib> <cstring> <deque>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream>
  <stdexcept> <string> <string_view> <thread> <tuple> <utility> <variant> <vector>)
set(duet_text_headers ${duet_standard_headers} <nlohmann/json.hpp>)

# usage: duet_precompile(TARGET HEADER...)
function(duet_precompile target)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()

# usage: duet_precompile_for_programs(TARGET LIBRARIES HEADER...): a target whose precompiled headers programs share, by
# REUSE_FROM; they have the options that it has. LIBRARIES is a list.
function(duet_precompile_for_programs target libraries)
  set(empty ${CMAKE_BINARY_DIR}/${target}.cpp)
  file(CONFIGURE OUTPUT ${empty} CONTENT "")
  add_library(${target} OBJECT ${empty})
  target_link_libraries(${target} PRIVATE ${libraries})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
  duet_precompile(${target} ${ARGN})
endfunction()

# usage: duet_group_by_folder(TARGET): about DUET_GROUP_SIZE of the target's files of a folder are compiled as one, but for
# those that have options of their own, and those that call CUDA's libraries.
function(duet_group_by_folder target)
  if(DUET_GROUP_SIZE LESS 2)
    return()
  endif()
  set(folders "")
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_cuda|_cudnn|_cublas|_cufft|cudnn_graph)\\.cpp$")
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(REGEX REPLACE "^([^/]+/[^/]+)/.*" "\\1" folder ${folder})
    list(APPEND folders ${folder})
    list(APPEND files_of_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    list(LENGTH files_of_${folder} count)
    math(EXPR groups "(${count} + ${DUET_GROUP_SIZE} - 1) / ${DUET_GROUP_SIZE}")
    foreach(source IN LISTS files_of_${folder})
      # Names decide, so that a new file leaves the other groups as they are.
      get_filename_component(name ${source} NAME)
      string(MD5 hash ${name})
      string(SUBSTRING ${hash} 0 4 hash)
      math(EXPR number "0x${hash} % ${groups} + 1")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${number})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
