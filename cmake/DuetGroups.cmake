# Most of the time of a compiler goes into headers and templates (JSON, spdlog, GoogleTest). Where several files are
# compiled as one, they must not use the same name in their unnamed namespaces.

# usage: duet_group_by_folder(TARGET WHETHER MOST): the target's files of each folder are compiled as one, or as
# several if there are more than about MOST, but for those that have options of their own.
function(duet_group_by_folder target whether most)
  if(NOT whether)
    return()
  endif()
  set(folders "")
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    list(APPEND folders ${folder})
    list(APPEND files_of_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    list(LENGTH files_of_${folder} count)
    math(EXPR groups "(${count} + ${most} - 1) / ${most}")
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
