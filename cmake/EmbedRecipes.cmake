# lockstep_embed_recipes(OUTPUT FILES): a C++ file with builtin_recipes() that holds the given TOML files.
function(lockstep_embed_recipes output)
  set(entries "")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND entries "      {\"${name}\", R\"recipe(${text})recipe\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT [[
// Made from recipes/*.toml by cmake/EmbedRecipes.cmake.
#include "train/recipe.h"

namespace lockstep {

std::span<const BuiltinRecipe> builtin_recipes() {
  static const std::vector<BuiltinRecipe> recipes = {
@entries@  };
  return recipes;
}

}  // namespace lockstep
]])
endfunction()
