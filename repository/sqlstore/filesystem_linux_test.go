package sqlstore

import (
	"os"
	"testing"
)

func TestFileSystem(t *testing.T) {
	for magic, want := range map[uint32]string{
		0x6969: "network (NFS)", 0xff534d42: "network (SMB)", 0x01021994: "tmpfs", 0xef53: "disk", 0x65735546: "",
	} {
		if got := kindOfFS(magic); got != want {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
	if got := fileSystem("/nowhere/at/all"); got != "" {
		t.Errorf("a folder that is none is on %q", got)
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		if got := fileSystem("/dev/shm"); got != "tmpfs" {
			t.Errorf("/dev/shm is %q", got)
		}
	}
}
