#include <algorithm>
#include <cassert>

#include "axera/flatbuffer.h"

namespace npu::axera {

template <typename T>
void FlatWriter::append(T value) {
    std::uint8_t bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    buffer_.insert(buffer_.end(), bytes, bytes + sizeof(T));
}

void FlatWriter::align(std::size_t unit, std::size_t remainder) {
    while (buffer_.size() % unit != remainder) {
        buffer_.push_back(0);
    }
}

FlatLinks FlatWriter::table(std::initializer_list<FlatField> fields) {
    std::vector<FlatField> present;
    unsigned count = 0;
    for (const FlatField& field : fields) {
        assert(field.number < 16);
        if (field.bytes == 0 || field.value != 0) {
            present.push_back(field);
            count = std::max(count, field.number + 1);
        }
    }
    const auto size_of = [](const FlatField& field) { return field.bytes == 0 ? 4U : field.bytes; };
    std::stable_sort(present.begin(), present.end(),
                     [&](const FlatField& a, const FlatField& b) { return size_of(a) > size_of(b); });

    // The vtable first, then the table, whose body behind the first word starts at a multiple of 8: the largest fields
    // come first, so all of them lie where they should.
    const std::size_t vtable_bytes = 4 + std::size_t{2} * count;
    align(2);
    while ((buffer_.size() + vtable_bytes) % 8 != 4) {
        buffer_.push_back(0);
        buffer_.push_back(0);
    }
    const std::size_t vtable = buffer_.size();
    buffer_.resize(vtable + vtable_bytes);
    FlatLinks links;
    links.table = buffer_.size();
    append(static_cast<std::int32_t>(links.table - vtable));
    for (const FlatField& field : present) {
        const std::size_t place = buffer_.size();
        const auto in_table = static_cast<std::uint16_t>(place - links.table);
        std::memcpy(buffer_.data() + vtable + 4 + std::size_t{2} * field.number, &in_table, 2);
        if (field.bytes == 0) {
            links.field[field.number] = place;
        }
        buffer_.resize(place + size_of(field));
        std::memcpy(buffer_.data() + place, &field.value, size_of(field));
    }
    const std::uint16_t sizes[2] = {static_cast<std::uint16_t>(vtable_bytes),
                                    static_cast<std::uint16_t>(buffer_.size() - links.table)};
    std::memcpy(buffer_.data() + vtable, sizes, 4);
    if (load<std::uint32_t>(buffer_, 0) == 0) {
        link(0, links.table);
    }
    return links;
}

void FlatWriter::link(std::size_t place, std::size_t target) {
    const auto distance = static_cast<std::uint32_t>(target - place);
    std::memcpy(buffer_.data() + place, &distance, 4);
}

void FlatWriter::vector(std::size_t place, Bytes elements, unsigned element_bytes) {
    align(4);
    if (element_bytes == 8) {
        align(8, 4);  // so that the elements, behind the count, lie at multiples of 8
    }
    link(place, buffer_.size());
    append(static_cast<std::uint32_t>(elements.size() / element_bytes));
    buffer_.insert(buffer_.end(), elements.begin(), elements.end());
}

void FlatWriter::text(std::size_t place, std::string_view value) {
    vector(place, bytes_of(value), 1);
    buffer_.push_back(0);
}

std::size_t FlatWriter::distances(std::size_t place, std::size_t count) {
    align(4);
    link(place, buffer_.size());
    append(static_cast<std::uint32_t>(count));
    const std::size_t first = buffer_.size();
    buffer_.resize(first + 4 * count);
    return first;
}

Buffer FlatWriter::take() {
    align(8);
    return std::move(buffer_);
}

}  // namespace npu::axera
