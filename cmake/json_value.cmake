# Prints the value at KEYS of a JSON text, or nothing where the text has no such value; fails if the text is not JSON.
# usage: TEXT=... cmake -D "KEYS=datasets;mnist" -P json_value.cmake
string(JSON type ERROR_VARIABLE error TYPE "$ENV{TEXT}")
if(error)
  message(FATAL_ERROR "not JSON (${error}): $ENV{TEXT}")
endif()
string(JSON value ERROR_VARIABLE error GET "$ENV{TEXT}" ${KEYS})
if(NOT error)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${value}")
endif()
