# 'cmake --install': the library, its headers, the applications, and a package that
# find_package(duet) finds; it defines duet::duet.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/duet)

install(TARGETS duet EXPORT duetTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT duetTargets NAMESPACE duet:: DESTINATION ${package_dir})
# Of compare/ what the Python package calls.
install(FILES framework/compare/arms_options.h framework/compare/bench.h framework/compare/bench_problems.h
  framework/compare/compare.h framework/compare/results.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/duet/compare)
# Headers that speak JSON are the library's own: its users need none of the libraries behind it.
install(DIRECTORY framework/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/duet
  FILES_MATCHING PATTERN *.h PATTERN *.cuh
  PATTERN compare EXCLUDE PATTERN net/table.h EXCLUDE PATTERN net/json_file.h EXCLUDE PATTERN train/profile.h EXCLUDE
  PATTERN train/profiler.h EXCLUDE PATTERN train/trace.h EXCLUDE PATTERN train/run_folder.h EXCLUDE
  PATTERN train/training_run.h EXCLUDE PATTERN train/class_report.h EXCLUDE
  PATTERN train/goal.h EXCLUDE PATTERN train/training_events.h EXCLUDE)

if(TARGET duet_recorder)
  install(TARGETS duet_recorder LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/duet)  # of `trainer explain`
endif()

get_property(applications DIRECTORY apps PROPERTY BUILDSYSTEM_TARGETS)
foreach(application IN LISTS applications)
  get_target_property(type ${application} TYPE)
  if(type STREQUAL "EXECUTABLE")
    install(TARGETS ${application} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

configure_package_config_file(cmake/duetConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/duetConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/duetConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/duetConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/duetConfigVersion.cmake cmake/FindCUDNN.cmake
  DESTINATION ${package_dir})
