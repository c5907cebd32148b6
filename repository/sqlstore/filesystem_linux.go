package sqlstore

import "syscall"

// fileSystem names the kind of file system a folder is on, as far as it
// matters: "network (…)", "tmpfs", "overlay", "disk", or "" when it cannot be
// told.
func fileSystem(folder string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return ""
	}
	return kindOfFS(uint32(stat.Type)) // the magic numbers have 32 bits
}

// kindOfFS knows the numbers of /usr/include/linux/magic.h and statfs(2).
func kindOfFS(magic uint32) string {
	switch magic {
	case 0x6969:
		return "network (NFS)"
	case 0x517b, 0xff534d42, 0xfe534d42:
		return "network (SMB)"
	case 0x00c36400:
		return "network (Ceph)"
	case 0x5346414f, 0x6b414653:
		return "network (AFS)"
	case 0x01021994, 0x858458f6:
		return "tmpfs"
	case 0x794c7630:
		return "overlay"
	case 0x65735546, 0x01021997: // FUSE, 9P: of any kind, folders of a host among them
		return ""
	}
	return "disk"
}
