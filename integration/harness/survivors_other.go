//go:build !linux

package harness

import (
	"os/exec"
	"strconv"
	"strings"
)

// Survivors finds the processes with a variable in their environment, as far as
// ps shows it.
func Survivors(variable string) []Survivor {
	list, err := exec.Command("ps", "-axEww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil
	}
	var found []Survivor
	for line := range strings.Lines(string(list)) {
		number, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pid, err := strconv.Atoi(number); err == nil && strings.Contains(command+" ", " "+variable+" ") {
			found = append(found, Survivor{pid, command})
		}
	}
	return found
}

// Reapable tells whether a process has ended so far that its parent can see it.
func Reapable(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(string(state), "Z")
}

// Suspended tells whether a process is stopped by a signal.
func Suspended(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(string(state), "T")
}
