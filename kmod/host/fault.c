// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fault.h"

#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include "dev.h"

static struct dentry *snic_fault_dir;

static bool snic_fault_inject(const char *name)
{
	struct snic_host *host;
	bool found = false;

	rcu_read_lock();
	list_for_each_entry_rcu(host, &snic_hosts, node) {
		if (strcmp(host->ndev->name, name))
			continue;
		snic_dev_fault(host->dev);
		found = true;
	}
	rcu_read_unlock();
	return found;
}

static ssize_t snic_fault_write(struct file *file, const char __user *from, size_t size,
				loff_t *pos)
{
	char name[IFNAMSIZ + 1] = {};

	if (size >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, size))
		return -EFAULT;
	return snic_fault_inject(strim(name)) ? size : -ENODEV;
}

static const struct file_operations snic_fault_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = snic_fault_write,
};

void snic_fault_init(void)
{
	snic_fault_dir = debugfs_create_dir("sirdma_nic", NULL);
	debugfs_create_file("fault", 0200, snic_fault_dir, NULL, &snic_fault_fops);
}

void snic_fault_exit(void)
{
	debugfs_remove_recursive(snic_fault_dir);
}
