package sqlstore

import (
	"os"
	"testing"

	"shardid/scripts/check"
)

func TestFileSystem(t *testing.T) {
	for magic, want := range map[uint32]string{
		0x6969: "network (NFS)", 0xff534d42: "network (SMB)", 0x01021994: "tmpfs", 0xef53: "disk", 0x65735546: "",
	} {
		check.Equal(t, kindOfFS(magic), want, magic)
	}
	check.Equal(t, fileSystem("/nowhere/at/all"), "", "the file system of no folder")
	if _, err := os.Stat("/dev/shm"); err == nil {
		check.Equal(t, fileSystem("/dev/shm"), "tmpfs", "/dev/shm")
	}
}
