# Most of the time of a compiler goes into headers and templates (JSON, spdlog, GoogleTest). Where several files are
# compiled as one, they must not use the same name in their unnamed namespaces.

# usage: duet_group_by_folder(TARGET WHETHER): the target's files of each folder are compiled as one, but for
# those that have options of their own.
function(duet_group_by_folder target whether)
  if(NOT whether)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
