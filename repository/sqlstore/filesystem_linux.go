package sqlstore

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// fileSystems are the kinds that a file of SQLite must not be on, by their numbers in statfs(2) and
// /usr/include/linux/magic.h. "" cannot be told: FUSE and 9P may be any, folders of a host among them.
var fileSystems = map[uint32]string{
	0x6969: "network", 0x517b: "network", 0xff534d42: "network", 0xfe534d42: "network", // NFS, SMB
	0x00c36400: "network", 0x5346414f: "network", 0x6b414653: "network", // Ceph, AFS
	0x01021994: "tmpfs", 0x858458f6: "tmpfs", 0x794c7630: "overlay",
	0x65735546: "", 0x01021997: "",
}

// fileSystem names the kind of file system a folder is on: "network", "tmpfs", "overlay", "disk", or ""
// when it cannot be told.
func fileSystem(folder string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return ""
	}
	kind, known := fileSystems[uint32(stat.Type)] // the numbers have 32 bits
	if !known {
		return "disk"
	}
	return kind
}

// isMountPoint says whether a file is mounted alone. Kernels before 5.8 cannot tell.
func isMountPoint(file string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, file, 0, 0, &stat)
	return err == nil && stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
