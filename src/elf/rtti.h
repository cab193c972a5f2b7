// Names of types in a library without symbols. C++ keeps the name of every class that has virtual functions or is thrown,
// because programs may ask for it: a typeinfo object holds a pointer to a table of the run-time library and one to the
// mangled name, and each table of virtual functions points to it. Lambdas given to std::function leave theirs, too, and
// their names tell the function that they were written in. The pointers are all in the relocations.
//
// Source: Itanium C++ ABI, "RTTI Layout" and "Mangling"; a leading * marks a type that is local to its file.
#pragma once

#include "elf/program.h"

namespace npu::elf {

struct TypeName {
    std::uint64_t address = 0;          // of the typeinfo object
    std::string mangled;                // as in the file, with its *
    std::string name;                   // as C++ writes it
    std::string enclosing;              // of a lambda or local class: the function that it is written in
    std::vector<std::uint64_t> tables;  // places of virtual tables that point to it
};

// By name.
std::vector<TypeName> find_types(const Program& program);

// A mangled type or function as C++ writes it; empty when it is none.
std::string demangle(std::string_view mangled);

}  // namespace npu::elf
