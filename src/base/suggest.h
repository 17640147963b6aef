// "Did you mean": the candidate nearest to a mistyped word.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The candidate with the smallest Damerau-Levenshtein distance (optimal string alignment) to `word`, if that
/// is at most a third of the longer length, at least 1; else "". Ties: the first. '-' and '_' count as
/// equal, and so do a letter's two cases.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

}  // namespace lockstep
