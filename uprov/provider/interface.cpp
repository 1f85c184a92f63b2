/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "interface.hpp"

#include <dlfcn.h>
#include <iterator>

namespace sirdma
{

namespace
{

/* An unknown interface is named in the error message if its number is not larger than this. */
constexpr unsigned number_max = 999;

const Interface &oldest = *std::begin(interfaces);
const Interface &newest = *std::prev(std::end(interfaces));

std::string symbol_version(unsigned number)
{
	return "IBVERBS_PRIVATE_" + std::to_string(number);
}

bool is_of(void *library, const Interface &interface)
{
	const std::string version = symbol_version(interface.number);

	return dlvsym(library, "verbs_set_ops", version.c_str()) &&
	       (!interface.distinguishing_symbol ||
		dlsym(library, interface.distinguishing_symbol));
}

/*
 * The number of the interface, which is a part of the name verbs_register_driver_<number>; 0: not
 * found.
 */
unsigned number_of(void *library)
{
	for (unsigned number = 1; number <= number_max; ++number) {
		const std::string name = "verbs_register_driver_" + std::to_string(number);

		if (dlsym(library, name.c_str()))
			return number;
	}
	return 0;
}

} // namespace

std::string describe(const Interface &interface)
{
	std::string releases = std::to_string(interface.first_release);

	if (interface.last_release != interface.first_release)
		releases += " to " + std::to_string(interface.last_release);
	return symbol_version(interface.number) + " (rdma-core " + releases + ")";
}

const Interface *find_interface(void *library, std::string &why)
{
	const Interface *found = nullptr;

	/*
	 * Use the last match: of two interfaces with the same number, the later one has the
	 * distinguishing symbol.
	 */
	for (const Interface &known : interfaces)
		if (is_of(library, known))
			found = &known;
	if (found)
		return found;

	const unsigned number = number_of(library);

	why = number ? symbol_version(number) : "no provider interface";
	why += number > newest.number ? ", newer than sirdma knows" :
					", which sirdma does not know";
	why += ": it knows rdma-core " + std::to_string(oldest.first_release) + " to " +
	       std::to_string(newest.last_release);
	return nullptr;
}

} // namespace sirdma
