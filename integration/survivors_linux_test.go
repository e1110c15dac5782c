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
