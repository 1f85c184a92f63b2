/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The target that the tests' precompiled headers belong to. */
int main()
{
	return 0;
}
