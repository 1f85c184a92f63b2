/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sysfs_view.hpp"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "environment.hpp"
#include "sysfs_tree.hpp"

namespace sirdma::cli
{

namespace
{

/*
 * The size is a limit. A file of the tree takes a page: 64 devices, the most that there may be, take 13.3
 * MiB (df /sys/class in the view).
 */
constexpr char tmpfs_options[] = "mode=755,size=32m";
/*
 * The device node that the uverbs files are bound to: every user may open it, and a command
 * that libibverbs writes to it fails.
 */
constexpr char device_node[] = "/dev/full";

struct CloseDir {
	void operator()(DIR *dir) const { closedir(dir); }
};

using Dir = std::unique_ptr<DIR, CloseDir>;

/* The steps of one attempt. A step that fails returns false and sets @why. */
class Setup {
public:
	explicit Setup(std::string &why) : why_(why) {}

	bool enter_namespace();
	/* Make an empty folder @name in @parent that only this mount namespace sees. */
	bool make_folder(const std::string &parent, const char *name);
	bool bind(const std::string &from, const std::string &to);
	bool fail(const std::string &what, int err);

private:
	bool map_self(const char *file, unsigned id);
	bool join_users_namespace();
	bool write_file(const char *path, const std::string &text);
	bool cover(const std::string &folder);
	bool copy_entry(const std::string &from, const std::string &to, const dirent &entry);

	std::string &why_;
	std::string covered_; /* the folder that was covered last */
};

bool Setup::fail(const std::string &what, int err)
{
	why_ = what + ": " + strerror(err);
	return false;
}

bool Setup::write_file(const char *path, const std::string &text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	const bool ok = fd >= 0 &&
			write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
	const int err = errno;

	if (fd >= 0)
		close(fd);
	return ok || fail(path, err);
}

bool Setup::map_self(const char *file, unsigned id)
{
	const std::string same = std::to_string(id);

	return write_file(file, same + " " + same + " 1");
}

/* Does process @pid belong to this user, and is it in the sysfs view of another sirdma run? */
bool is_in_view(const std::string &pid)
{
	const std::string variable = std::string(twin::env_view) + '=' + twin::view_sysfs + '\0';
	std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
	const std::string all((std::istreambuf_iterator<char>(file)), {});

	return ('\0' + all).find('\0' + variable) != std::string::npos;
}

/*
 * A process may read another's memory only in its own user namespace, so the runs of a
 * user share one, which maps this user and group alone. The user who created a user
 * namespace may enter it.
 */
bool Setup::join_users_namespace()
{
	const Dir processes(opendir("/proc"));
	struct stat st;

	while (const dirent *entry = processes ? readdir(processes.get()) : nullptr) {
		const std::string pid = entry->d_name, folder = "/proc/" + pid;

		if (!isdigit(pid[0]) || stat(folder.c_str(), &st) || st.st_uid != geteuid() ||
		    st.st_gid != getegid() || !is_in_view(pid))
			continue;

		const int fd = open((folder + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC);
		const bool joined = fd >= 0 && !setns(fd, CLONE_NEWUSER);

		if (fd >= 0)
			close(fd);
		if (joined && !unshare(CLONE_NEWNS))
			return true;
		if (joined)
			return false;
	}
	return false;
}

bool Setup::enter_namespace()
{
	const unsigned uid = geteuid(), gid = getegid();

	if (unshare(CLONE_NEWNS) && !join_users_namespace()) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
			return fail("unshare", errno);
		/* Without privilege, a process may map only its own user: here to itself. */
		if (!map_self("/proc/self/uid_map", uid) ||
		    !write_file("/proc/self/setgroups", "deny") ||
		    !map_self("/proc/self/gid_map", gid))
			return false;
	}
	/* Later mounts of the parent namespace appear here too, but ours not there. */
	if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr))
		return fail("mount /", errno);
	return true;
}

bool Setup::bind(const std::string &from, const std::string &to)
{
	if (mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr))
		return fail("bind " + to, errno);
	return true;
}

/*
 * Make @to like @entry of a covered folder: a link becomes a link, all other entries are
 * bind-mounted.
 */
bool Setup::copy_entry(const std::string &from, const std::string &to, const dirent &entry)
{
	struct stat st;

	if (lstat(from.c_str(), &st))
		return errno == ENOENT || fail(entry.d_name, errno);
	if (S_ISLNK(st.st_mode)) {
		char target[4096];
		const ssize_t n = readlink(from.c_str(), target, sizeof(target) - 1);

		if (n < 0)
			return fail(entry.d_name, errno);
		target[n] = 0;
		return !symlink(target, to.c_str()) || fail(to, errno);
	}
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(to.c_str(), 0755))
			return fail(to, errno);
		return bind(from, to);
	}

	const int fd = open(to.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	if (fd < 0)
		return fail(to, errno);
	close(fd);
	return bind(from, to);
}

/* Mount a tmpfs with the same entries over @folder, so that entries can be added to it. */
bool Setup::cover(const std::string &folder)
{
	const Dir old(opendir(folder.c_str()));

	if (!old)
		return fail(folder, errno);
	if (mount("sirdma", folder.c_str(), "tmpfs", MS_NOSUID, tmpfs_options))
		return fail("mount " + folder, errno);

	/* The covered folder's own entries, by its descriptor. */
	const std::string covered = "/proc/self/fd/" + std::to_string(dirfd(old.get())) + "/";

	while (const dirent *entry = readdir(old.get())) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!copy_entry(covered + entry->d_name, folder + "/" + entry->d_name, *entry))
			return false;
	}
	return true;
}

bool Setup::make_folder(const std::string &parent, const char *name)
{
	const std::string folder = parent + "/" + name;
	struct stat st;

	if (stat(folder.c_str(), &st)) {
		/* Do not do this in @parent itself, which other mount namespaces see. */
		if (parent != covered_ && !cover(parent))
			return false;
		covered_ = parent;
		return !mkdir(folder.c_str(), 0755) || fail(folder, errno);
	}
	if (mount("sirdma", folder.c_str(), "tmpfs", MS_NOSUID, tmpfs_options))
		return fail("mount " + folder, errno);
	return true;
}

bool set_up(const std::vector<TreeDevice> &devices, std::string &why)
{
	const std::string classes = "/sys/class", nodes = "/dev";
	Setup setup(why);
	struct stat node;

	if (!setup.enter_namespace() || !setup.make_folder(classes, "infiniband") ||
	    !setup.make_folder(classes, "infiniband_verbs") ||
	    !setup.make_folder(classes, "infiniband_mad") ||
	    !setup.make_folder(nodes, "infiniband"))
		return false;
	if (stat(device_node, &node))
		return setup.fail(device_node, errno);
	for (size_t i = 0; i < devices.size(); ++i) {
		const std::string path = nodes + "/infiniband/uverbs" + std::to_string(i);
		const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

		if (fd < 0)
			return setup.fail(path, errno);
		close(fd);
		if (!setup.bind(device_node, path))
			return false;
	}
	if (const int err = write_sysfs_tree(classes, devices, node.st_rdev))
		return setup.fail(classes, err);
	return true;
}

/* Try this in a child first: an attempt that fails half-way then leaves this process as it was. */
bool set_up_in_child(const std::vector<TreeDevice> &devices, std::string &why)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC)) {
		why = strerror(errno);
		return false;
	}

	const pid_t child = fork();

	if (child == 0) {
		std::string reason;

		if (!set_up(devices, reason) && write(ends[1], reason.data(), reason.size()) < 0)
			_exit(2);
		_exit(reason.empty() ? 0 : 1);
	}
	close(ends[1]);

	char text[512];
	const ssize_t n = child < 0 ? -1 : read(ends[0], text, sizeof(text));
	int status = 1;

	close(ends[0]);
	if (child > 0)
		waitpid(child, &status, 0);
	why.assign(text, n > 0 ? static_cast<size_t>(n) : 0);
	return status == 0;
}

} // namespace

bool enter_sysfs_view(const std::vector<TreeDevice> &devices, std::string &why)
{
	return set_up_in_child(devices, why) && set_up(devices, why);
}

} // namespace sirdma::cli
