/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* sirdma show on made-up sysfs trees. */
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "environment.hpp"
#include "show.hpp"

namespace
{

namespace fs = std::filesystem;
using namespace sirdma;
using Json = nlohmann::json;

constexpr char mapped[] = "0000:0000:0000:0000:0000:ffff:0a4d:0102";
constexpr char local[] = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
constexpr char zero[] = "0000:0000:0000:0000:0000:0000:0000:0000";

class ShowTest : public ::testing::Test {
protected:
	ShowTest()
	{
		char path[] = "/tmp/sirdma-show-XXXXXX";

		root_ = mkdtemp(path);
	}

	~ShowTest() override { fs::remove_all(root_); }

	void file(const std::string &name, const std::string &text)
	{
		const fs::path path = fs::path(root_) / name;

		fs::create_directories(path.parent_path());
		std::ofstream(path) << text << '\n';
	}

	void device(const std::string &name, const std::string &node_type)
	{
		file("class/infiniband/" + name + "/node_type", node_type);
		file("class/infiniband/" + name + "/node_guid", "5054:00ff:fe12:3456");
	}

	std::string port(const std::string &name, unsigned number, const std::string &state,
			 const std::string &layer)
	{
		const std::string at =
			"class/infiniband/" + name + "/ports/" + std::to_string(number) + "/";

		file(at + "state", state);
		file(at + "phys_state", "5: LinkUp");
		file(at + "link_layer", layer);
		file(at + "rate", "100 Gb/sec (4X EDR)");
		return at;
	}

	void gid(const std::string &at, unsigned index, const std::string &gid,
		 const std::string &type, const std::string &netdev)
	{
		file(at + "gids/" + std::to_string(index), gid);
		if (!type.empty())
			file(at + "gid_attrs/types/" + std::to_string(index), type);
		if (!netdev.empty())
			file(at + "gid_attrs/ndevs/" + std::to_string(index), netdev);
	}

	void netdev(const std::string &name, const std::string &operstate,
		    const std::string &flags = "0x1003")
	{
		file("class/net/" + name + "/operstate", operstate);
		file("class/net/" + name + "/flags", flags);
	}

	/* A RoCE port with a VLAN's GID, one without a netdev, a PCI function's port, InfiniBand. */
	void make_machine()
	{
		std::string at;

		device("sir0", "1: CA");
		at = port("sir0", 1, "4: ACTIVE", "Ethernet");
		gid(at, 0, local, "IB/RoCE v1", "eth0");
		gid(at, 1, zero, "", "");
		gid(at, 2, local, "RoCE v2", "eth0");
		gid(at, 10, mapped, "RoCE v2", "eth0.7");
		netdev("eth0", "up");
		device("mlx5_10", "1: CA");
		port("mlx5_10", 1, "1: DOWN", "Ethernet");
		file("class/infiniband/mlx5_10/device/net/a-long-name/dev_port", "0");
		netdev("a-long-name", "down");
		device("mlx5_2", "1: CA");
		at = port("mlx5_2", 1, "4: ACTIVE", "InfiniBand");
		gid(at, 0, local, "IB/RoCE v1", "");
	}

	template <typename Print> std::string printed(Print print)
	{
		std::ostringstream out;

		print(out, cli::sysfs_devices(root_));
		return out.str();
	}

	std::string root_;
};

TEST_F(ShowTest, PortsAreAlignedAndInTheOrderOfTheirNumbers)
{
	make_machine();
	EXPECT_EQ(printed(cli::print_ports), "mlx5_2  port 1 ==> -           (Unknown)\n"
					     "mlx5_10 port 1 ==> a-long-name (Down)\n"
					     "sir0    port 1 ==> eth0        (Up)\n");
}

TEST_F(ShowTest, GidsAreAlignedWithoutTheEmptyOnes)
{
	make_machine();
	EXPECT_EQ(printed(cli::print_gids), "DEV     PORT  INDEX  GID                              "
					    "        IPv4       VER  NETDEV\n"
					    "---     ----  -----  ---                              "
					    "        ----       ---  ------\n"
					    "mlx5_2  1     0      "
					    "fe80:0000:0000:0000:5054:00ff:fe12:3456             "
					    "IB   -\n"
					    "sir0    1     0      "
					    "fe80:0000:0000:0000:5054:00ff:fe12:3456             "
					    "v1   eth0\n"
					    "sir0    1     2      "
					    "fe80:0000:0000:0000:5054:00ff:fe12:3456             "
					    "v2   eth0\n"
					    "sir0    1     10     "
					    "0000:0000:0000:0000:0000:ffff:0a4d:0102  10.77.1.2  "
					    "v2   eth0.7\n"
					    "n_gids_found=4\n");
}

TEST_F(ShowTest, JsonOfPortsSaysNullWhereNothingIsKnown)
{
	make_machine();

	const Json list = Json::parse(printed(cli::print_ports_json));

	ASSERT_EQ(list.size(), 3u);
	EXPECT_EQ(list[0]["device"], "mlx5_2");
	EXPECT_TRUE(list[0]["netdev"].is_null());
	EXPECT_TRUE(list[0]["netdev_up"].is_null());
	EXPECT_EQ(list[0]["link_layer"], "InfiniBand");
	EXPECT_EQ(list[1]["netdev"], "a-long-name");
	EXPECT_EQ(list[1]["netdev_up"], false);
	EXPECT_EQ(list[1]["state"], "DOWN");
	EXPECT_EQ(list[2]["netdev"], "eth0");
	EXPECT_EQ(list[2]["netdev_up"], true);
	EXPECT_EQ(list[2]["state"], "ACTIVE");
	EXPECT_EQ(list[2]["phys_state"], "LinkUp");
	EXPECT_EQ(list[2]["rate"], "100 Gb/sec (4X EDR)");
	EXPECT_EQ(list[2]["port"], 1);
	EXPECT_EQ(list[2]["node_guid"], "5054:00ff:fe12:3456");
}

TEST_F(ShowTest, JsonOfGids)
{
	make_machine();

	const Json list = Json::parse(printed(cli::print_gids_json));

	ASSERT_EQ(list.size(), 4u);
	EXPECT_EQ(list[3], Json({{"device", "sir0"},
				 {"port", 1},
				 {"index", 10},
				 {"gid", mapped},
				 {"ipv4", "10.77.1.2"},
				 {"version", "v2"},
				 {"type", "RoCE v2"},
				 {"netdev", "eth0.7"}}));
	EXPECT_TRUE(list[0]["ipv4"].is_null());
	EXPECT_TRUE(list[0]["netdev"].is_null());
}

TEST_F(ShowTest, AFunctionWithTwoPortsTellsItsInterfacesApart)
{
	device("mlx4_0", "1: CA");
	port("mlx4_0", 1, "4: ACTIVE", "Ethernet");
	port("mlx4_0", 2, "4: ACTIVE", "Ethernet");
	file("class/infiniband/mlx4_0/device/net/ens1/dev_port", "0");
	file("class/infiniband/mlx4_0/device/net/ens1d1/dev_port", "1");
	netdev("ens1", "up");
	netdev("ens1d1", "up");
	EXPECT_EQ(printed(cli::print_ports), "mlx4_0 port 1 ==> ens1   (Up)\n"
					     "mlx4_0 port 2 ==> ens1d1 (Up)\n");
}

/* The interface of the other port may be in another network namespace. */
TEST_F(ShowTest, TheOnlyInterfaceOfAFunctionWithTwoPortsIsThatOfItsPort)
{
	device("mlx4_0", "1: CA");
	port("mlx4_0", 1, "4: ACTIVE", "Ethernet");
	port("mlx4_0", 2, "4: ACTIVE", "Ethernet");
	file("class/infiniband/mlx4_0/device/net/enp1d1/dev_port", "1");
	netdev("enp1d1", "up");
	EXPECT_EQ(printed(cli::print_ports), "mlx4_0 port 1 ==> -      (Unknown)\n"
					     "mlx4_0 port 2 ==> enp1d1 (Up)\n");
}

TEST_F(ShowTest, AnInterfaceCannotControlTheTerminal)
{
	const std::string name = "e\x1b[2J\xc2\x9b\x7f";

	device("sir0", "1: CA");
	gid(port("sir0", 1, "4: ACTIVE", "Ethernet"), 0, local, "RoCE v2", name);
	netdev(name, "up");
	EXPECT_EQ(printed(cli::print_ports), "sir0 port 1 ==> e\\x1b[2J\\xc2\\x9b\\x7f (Up)\n");
	EXPECT_NE(printed(cli::print_gids).find("v2   e\\x1b[2J\\xc2\\x9b\\x7f\n"),
		  std::string::npos);
}

/* The kernel has no type for an entry that was removed while the table was read. */
TEST_F(ShowTest, AGidWithoutATypeIsNotSaidToBeOfV1)
{
	device("sir0", "1: CA");
	gid(port("sir0", 1, "4: ACTIVE", "Ethernet"), 0, local, "", "eth0");
	EXPECT_NE(printed(cli::print_gids).find("  -    eth0\n"), std::string::npos)
		<< printed(cli::print_gids);
	EXPECT_TRUE(Json::parse(printed(cli::print_gids_json))[0]["version"].is_null());
}

TEST_F(ShowTest, ALoopbackInterfaceIsUpWhenItsAdministratorSaysSo)
{
	device("sir0", "1: CA");
	gid(port("sir0", 1, "4: ACTIVE", "Ethernet"), 0, local, "RoCE v2", "lo");
	netdev("lo", "unknown", "0x9");
	EXPECT_EQ(printed(cli::print_ports), "sir0 port 1 ==> lo (Up)\n");
	netdev("lo", "unknown", "0x8");
	EXPECT_EQ(printed(cli::print_ports), "sir0 port 1 ==> lo (Down)\n");
}

TEST_F(ShowTest, AnInterfaceOfAnotherNamespaceIsNamedButNotKnown)
{
	device("sir0", "1: CA");
	gid(port("sir0", 1, "4: ACTIVE", "Ethernet"), 0, local, "RoCE v2", "eth9");
	EXPECT_EQ(printed(cli::print_ports), "sir0 port 1 ==> eth9 (Unknown)\n");
}

TEST_F(ShowTest, AnIwarpDeviceSaysSo)
{
	device("siw0", "4: RNIC");
	gid(port("siw0", 1, "4: ACTIVE", "Ethernet"), 0, local, "IB/RoCE v1", "eth0");
	EXPECT_NE(printed(cli::print_gids).find(" iWARP  eth0\n"), std::string::npos);
}

TEST_F(ShowTest, NoDevicesIsAnEmptyList)
{
	EXPECT_EQ(printed(cli::print_ports), "");
	EXPECT_EQ(printed(cli::print_ports_json), "[]\n");
	EXPECT_EQ(printed(cli::print_gids_json), "[]\n");
	EXPECT_NE(printed(cli::print_gids).find("n_gids_found=0\n"), std::string::npos);
}

TEST_F(ShowTest, SelectsADeviceOrAPort)
{
	make_machine();

	const std::vector<cli::RdmaDevice> all = cli::sysfs_devices(root_);
	std::vector<cli::RdmaDevice> some = all;

	EXPECT_TRUE(cli::select_devices(some, "sir0"));
	ASSERT_EQ(some.size(), 1u);
	EXPECT_EQ(some[0].name, "sir0");
	EXPECT_TRUE(cli::select_devices(some, "sir0/1"));
	EXPECT_FALSE(cli::select_devices(some, "sir0/2"));
	some = all;
	EXPECT_FALSE(cli::select_devices(some, "sir"));
	some = all;
	EXPECT_FALSE(cli::select_devices(some, "sir0/"));
}

TEST(ShowPreloadView, ListsTheTwinsDevices)
{
	setenv(twin::env_view, twin::view_preload, 1);
	setenv(twin::env_devices, "2", 1);
	setenv(twin::env_addr, "127.64.1.2,::1", 1);

	std::ostringstream out;
	const std::vector<cli::RdmaDevice> devices = cli::visible_devices();

	unsetenv(twin::env_view);
	unsetenv(twin::env_devices);
	unsetenv(twin::env_addr);
	cli::print_gids_json(out, devices);

	const Json list = Json::parse(out.str());

	ASSERT_EQ(list.size(), 2u);
	EXPECT_EQ(list[0]["device"], "sirdma0");
	EXPECT_EQ(list[0]["ipv4"], "127.64.1.2");
	EXPECT_EQ(list[0]["netdev"], "lo");
	EXPECT_EQ(list[1]["device"], "sirdma1");
	EXPECT_EQ(list[1]["gid"], "0000:0000:0000:0000:0000:0000:0000:0001");
}

} // namespace
