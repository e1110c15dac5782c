//go:build !linux

package integration

import (
	"os/exec"
	"strconv"
	"strings"
)

// survivors finds the processes with a variable in their environment, as far as
// ps shows it.
func survivors(variable string) []survivor {
	list, err := exec.Command("ps", "-axEww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil
	}
	var found []survivor
	for line := range strings.Lines(string(list)) {
		number, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pid, err := strconv.Atoi(number); err == nil && strings.Contains(command+" ", " "+variable+" ") {
			found = append(found, survivor{pid, command})
		}
	}
	return found
}

// reapable tells whether a process has ended so far that its parent can see it.
func reapable(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(string(state), "Z")
}

// suspended tells whether a process is stopped by a signal.
func suspended(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(string(state), "T")
}
