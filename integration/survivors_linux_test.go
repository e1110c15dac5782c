package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// survivors finds the processes with a variable in their environment.
func survivors(variable string) []survivor {
	var found []survivor
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, folder := range folders {
		environ, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil || !slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(v []byte) bool { return string(v) == variable }) {
			continue // gone, or somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		found = append(found, survivor{pid, strings.ReplaceAll(string(command), "\x00", " ")})
	}
	return found
}

// reapable tells whether a process has ended so far that its parent can see it:
// it loses its environment a moment before that.
func reapable(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true // it was reaped already
	}
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, '(')+1:], []byte(") "))
	return bytes.HasPrefix(rest, []byte("Z"))
}

// suspended tells whether a process is stopped by a signal.
func suspended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, '(')+1:], []byte(") "))
	return bytes.HasPrefix(rest, []byte("T"))
}
