package filecache

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// cloneFile lets a file share the blocks of another one, where the file system can.
func cloneFile(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }

// bootID names the time since the machine was started.
var bootID = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown" // then what was written is trusted
	}
	return strings.TrimSpace(string(text))
})

// syncDisk waits until all that was written to a file system is on its disk.
func syncDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
