//go:build !linux

package filecache

import (
	"errors"
	"os"
	"syscall"
)

func cloneFile(*os.File, *os.File) error { return errors.ErrUnsupported }

func bootID() string { return "unknown" }

func syncDisk(string) error {
	syscall.Sync()
	return nil
}
